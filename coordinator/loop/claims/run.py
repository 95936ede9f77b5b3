"""The claims guard over a run's fold: what was done and read in it, and what its answer says that was not. Pure.

Earlier runs of the session speak for an answer that tells of before ("I sent it yesterday"), or that answers a question
about what was done; for all else only this run does. Deeds of a subagent are those that its result names: what it says
was judged when it said it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from coordinator.loop.claims import Claim, Done, deeds, done_by, unsupported
from coordinator.loop.claims.evidence import is_request
from coordinator.loop.own_tools import AGENT
from shared.contract import Effect, NodeState
from shared.fold import RunFold, SessionFold

_NOTHING_READ: Final = frozenset({"find_tools", "ask_user", "wait", "plan"})
_ASKED: Final = re.compile(
    r"\b(?:did|have|has|had|was|were|are|is)\s+(?:you|it|that|the|my|they|those)\b|\b\w{2,20}[ai]ste\b"
    r"|\b(?:has|ha|han|se)\s+\w{2,20}(?:ado|ido|cho|to|ó|aron)\b",
    re.IGNORECASE,
)
_QUOTED: Final = 160
"""Characters of a sentence that are repeated when it is doubted."""

NUDGE_TEXT: Final = (
    'You say that something was done ("{said}"), but no tool did it in this run. If it is to be done, do it now by '
    "calling the tool. If it cannot be, or was not asked for, say plainly that it was not done."
)
_MARKS: Final = {
    "en": "⚠ Not confirmed: no tool did what is said here: “{said}”",
    "es": "⚠ Sin confirmar: ninguna herramienta hizo lo que se dice aquí: «{said}»",
}
_SPANISH: Final = frozenset(
    re.findall(r"\w+", "el la los las de que en un y para con se ha he te lo tu está ya por al no")
)
_ENGLISH: Final = frozenset(
    re.findall(r"\w+", "the a of that in and for with is are has have i you your it to on at not")
)


def effects(run: RunFold) -> tuple[str, ...]:
    """Names of the tools with effects that succeeded in a run, those of its subagents included. A subagent whose
    deeds are not known stands for itself."""
    found: dict[str, None] = {}
    for node in run.nodes.values():
        result = run.results.get(node.node)
        if result is None or result.state is not NodeState.DONE or node.effect is Effect.READ:
            continue
        known = result.deeds if node.tool.startswith(AGENT) else None
        found.update(dict.fromkeys(known if known is not None else (node.tool,)))
    return tuple(found)


def looked_at(run: RunFold) -> frozenset[str]:
    """The domains of what was read in a run; empty text for reading that may have been of anything."""
    read = (n for n in run.nodes.values() if n.effect is Effect.READ and n.tool not in _NOTHING_READ)
    done = (n.tool for n in read if (r := run.results.get(n.node)) is not None and r.state is NodeState.DONE)
    return frozenset(done_by(tool).domain for tool in done)


def earlier(session: SessionFold, run: str) -> Iterator[RunFold]:
    """The runs of a session that had ended before this one, without those of subagents."""
    for other in session.runs.values():
        if other.run != run and other.ended is not None and other.message is not None and not other.message.parent:
            yield other


def unfounded(run: RunFold, answer: str, before: Iterable[RunFold]) -> list[Claim]:
    """What the answer of a run claims and nothing speaks for."""
    wanted = run.message is not None and is_request(run.message.text[:4000])
    found = unsupported(answer, deeds(effects(run)), looked=looked_at(run), asked=wanted)
    if not found:
        return []
    asked = run.message is not None and "?" in run.message.text and _ASKED.search(run.message.text[:4000]) is not None
    told = [claim for claim in found if asked or claim.before]
    if not told:
        return found
    past: tuple[Done, ...] = deeds(tool for other in before for tool in effects(other))
    return [claim for claim in found if claim not in told or not claim.fits(past)]


def nudge_text(claims: list[Claim]) -> str:
    """What the model is told of its claims."""
    return NUDGE_TEXT.format(said=_said(claims).replace('"', "'"))


def marked(answer: str, claims: list[Claim]) -> str:
    """The answer with a line that says, in its language, what of it is not confirmed."""
    words = [w.strip(".,:;!?¡¿") for w in answer.lower().split()[:400]]
    spanish = sum(w in _SPANISH for w in words) > sum(w in _ENGLISH for w in words) or "¡" in answer or "¿" in answer
    return f"{answer.rstrip()}\n\n{_MARKS['es' if spanish else 'en'].format(said=_said(claims))}"


def _said(claims: list[Claim]) -> str:
    text = " ".join(claims[0].text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1].rstrip() + "…"
