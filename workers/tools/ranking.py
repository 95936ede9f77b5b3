"""Which tools of a catalogue fit some words: the overlap of folded tokens with what each tool says of itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared.contract import Catalogue, GroupSpec, ToolSpec
from workers.tools.when import fold

_WORD = re.compile(r"[a-z0-9]+")
_STOP = re.compile(
    "(?:a|al|an|and|can|con|de|del|do|el|en|es|for|from|i|in|is|it|la|las|lo|los|me|mi|my|o|of|on|or|para|por|que|se|"
    "the|to|tools?|un|una|with|y|you|herramientas?)"
)
_NAME, _KEYWORD, _DESCRIPTION, _GROUP, _EXAMPLE = 4.0, 3.0, 2.0, 1.5, 1.0


def tokens(text: str) -> frozenset[str]:
    """Folded words without the commonest ones, and crudely without plural endings."""
    words = _WORD.findall(fold(text).replace("_", " "))
    return frozenset(_stem(word) for word in words if not _STOP.fullmatch(word))


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("es"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith(("s", "e")) else word


def _all(words: dict[str, tuple[str, ...]]) -> Iterable[str]:
    return (text for texts in words.values() for text in texts)


def _score(wanted: frozenset[str], spec: ToolSpec, group: GroupSpec | None) -> float:
    fields = [
        (_NAME, tokens(spec.name)),
        (_KEYWORD, tokens(" ".join(_all(spec.keywords)))),
        (_DESCRIPTION, tokens(spec.description)),
        (_EXAMPLE, tokens(" ".join(_all(spec.examples)))),
    ]
    if group is not None:
        # Phrases and hints of routing are full of small words; what is one plain word names the group.
        plain = [word for word in _all(group.keywords) if word.isalpha()]
        fields.append((_GROUP, tokens(" ".join([group.title, *plain]))))
    return sum(max((weight for weight, found in fields if word in found), default=0.0) for word in wanted)


def rank_tools(query: str, catalogue: Catalogue, limit: int = 10) -> tuple[ToolSpec, ...]:
    """The tools that share words with the query, best first; ties in catalogue order."""
    wanted = tokens(query)
    groups = {group.name: group for group in catalogue.groups}
    scored = [(_score(wanted, spec, groups.get(spec.group)), spec) for spec in catalogue.tools]
    scored.sort(key=lambda pair: -pair[0])
    return tuple(spec for score, spec in scored[:limit] if score > 0)
