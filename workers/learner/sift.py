"""New rules against those that there are: what says the same becomes a vote, what takes another's place its new words.

Pure. What the user took away is not learned again, in whatever words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.playbook import Add, Bullet, Merge, Operation, Reword, Vote
from shared.resemblance import Resemblance, Vector, common, content, cosine, resemblance

_MERGEABLE = 0.45
"""Cosine from which a text may stand for a rule that is merged into it."""
_MERGEABLE_WORDS = 0.25


@dataclass
class Sifted:
    """What is left to do, and why other things are not done."""

    operations: list[Operation] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def texts_of(operations: Iterable[Operation], *bullets: Sequence[Bullet]) -> list[str]:
    """The texts whose meanings are compared."""
    new = [one.text for one in operations if isinstance(one, Add | Reword | Merge) and one.text]
    return new + [bullet.text for some in bullets for bullet in some] if new else []


def sift(
    operations: Sequence[Operation],
    active: Sequence[Bullet],
    forgotten: Sequence[Bullet],
    vectors: Mapping[str, Vector] | None,
) -> Sifted:
    """The operations as they may be applied to a playbook with these bullets. One vote for a bullet at most.

    `vectors`: meanings by text, of all `texts_of`; None, or a text without one: words decide.
    """
    done = Sifted()
    texts = {bullet.id: bullet.text for bullet in active}
    whens = {bullet.id: bullet.when_to_use for bullet in active}
    voted: set[str] = set()
    for operation in operations:
        new = operation.text if isinstance(operation, Add | Reword | Merge) else None
        if new and any(_says(gone.text, new, vectors) is Resemblance.SAME for gone in forgotten):
            done.refused.append(f"{operation.kind}: the user took a rule away that says the same")
            continue
        for step in _steps(operation, texts, whens, vectors, done):
            if isinstance(step, Vote):
                if step.id in voted:
                    continue
                voted.add(step.id)
            elif isinstance(step, Merge):
                for id in step.ids[1:]:
                    texts.pop(id, None)
                texts[step.ids[0]] = step.text
            elif isinstance(step, Add | Reword) and step.text:
                texts[step.id] = step.text
            done.operations.append(step)
    return done


def _steps(
    operation: Operation,
    texts: Mapping[str, str],
    whens: Mapping[str, str],
    vectors: Mapping[str, Vector] | None,
    done: Sifted,
) -> list[Operation]:
    match operation:
        case Add():
            return [_added(operation, texts, vectors)]
        case Reword(id=id, text=str(text)):
            others = {other: said for other, said in texts.items() if other != id}
            twin, what = closest(text, others, vectors)
            if what is Resemblance.DISTINCT or id not in texts:
                return [operation]
            return [Merge(ids=(twin, id), text=texts[twin], when_to_use=whens.get(twin, ""))]
        case Merge():
            lost = [id for id in operation.ids if id in texts and not stands_for(operation.text, texts[id], vectors)]
            if lost:
                done.refused.append(f"merge: what {lost[0]} says would be lost")
                return []
    return [operation]


def _added(add: Add, texts: Mapping[str, str], vectors: Mapping[str, Vector] | None) -> Operation:
    twin, what = closest(add.text, texts, vectors)
    if what is Resemblance.SAME:
        return Vote(id=twin, helpful=True)
    if what is Resemblance.REPLACES:
        return Reword(id=twin, text=add.text, when_to_use=add.when_to_use, importance=add.importance)
    return add


def closest(text: str, texts: Mapping[str, str], vectors: Mapping[str, Vector] | None) -> tuple[str, Resemblance]:
    """The one of `texts` (by id) that says the same, else the one whose place `text` takes; the nearest of these."""
    found = [(id, _says(old, text, vectors), _nearness(old, text, vectors)) for id, old in texts.items()]
    same = [one for one in found if one[1] is Resemblance.SAME]
    near = same or [one for one in found if one[1] is Resemblance.REPLACES]
    if not near:
        return "", Resemblance.DISTINCT
    id, what, _ = max(near, key=lambda one: (one[2], one[0]))
    return id, what


def _pair(old: str, new: str, vectors: Mapping[str, Vector] | None) -> tuple[Vector, Vector] | None:
    return (vectors[old], vectors[new]) if vectors and old in vectors and new in vectors else None


def _says(old: str, new: str, vectors: Mapping[str, Vector] | None) -> Resemblance:
    return resemblance(old, new, _pair(old, new, vectors))


def _nearness(old: str, new: str, vectors: Mapping[str, Vector] | None) -> float:
    pair = _pair(old, new, vectors)
    return cosine(*pair) if pair else common(content(old), content(new))


def stands_for(new: str, old: str, vectors: Mapping[str, Vector] | None) -> bool:
    """Whether what `old` says is not lost when `new` takes its place. `vectors`: meanings by text."""
    words = common(content(old), content(new)) >= _MERGEABLE_WORDS or content(old) <= content(new)
    pair = _pair(old, new, vectors)
    return words or (pair is not None and cosine(*pair) >= _MERGEABLE)
