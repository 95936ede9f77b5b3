"""Which bullets of the playbook a run is shown, and where. Pure.

Those that always hold stand in the system prompt, in an order that votes and messages do not change, so that its bytes
stay the same until the playbook is another. Those that hold in certain situations stand in the tail of a message that
seems to be one. What has no room in the system prompt counts as situational.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shared.playbook import Bullet, Importance, display_order
from shared.resemblance import Vector, content, cosine

STANDING_CHARS: Final = 8_000
"""Room in the system prompt."""
TAIL_CHARS: Final = 2_000
TAIL_BULLETS: Final = 8
_UNJUDGED_CHARS: Final = 1_000
"""Room in the tail for what nothing speaks for, while there is no encoder to say that it does not matter."""
_ABOUT_IT: Final = 0.09
"""Cosine from which a bullet may matter for a message. A rule and what it is for lie as low as 0.1, a rule and anything
else at 0.07 in the middle: which are the nearest tells more than how near they are."""
_WORD_OF_WHEN: Final = 0.3
_WORD_OF_TEXT: Final = 0.15


def line(bullet: Bullet) -> str:
    """A bullet as a model sees it."""
    when = f" (when: {bullet.when_to_use})" if bullet.when_to_use else ""
    return f"- [{bullet.importance}] {bullet.text}{when}"


def meanings_of(bullet: Bullet) -> tuple[str, ...]:
    """The texts whose meanings are compared with a message."""
    return (bullet.when_to_use, bullet.text) if bullet.when_to_use else (bullet.text,)


def split(bullets: Sequence[Bullet]) -> tuple[list[Bullet], list[Bullet]]:
    """Those for the system prompt, in display order, and the situational ones."""
    standing: list[Bullet] = []
    situational: list[Bullet] = []
    room = STANDING_CHARS
    for bullet in sorted(bullets, key=display_order):
        always = bullet.pinned or bullet.importance is Importance.HIGH or not bullet.when_to_use
        size = len(line(bullet)) + 1
        if always and size <= room:
            standing.append(bullet)
            room -= size
        else:
            situational.append(bullet)
    return standing, situational


def that_matter(
    situational: Sequence[Bullet],
    message: str,
    groups: Sequence[str],
    vectors: Mapping[str, Vector] | None,
) -> list[Bullet]:
    """The situational bullets to show with a message for which tools of `groups` were chosen, in display order.

    `vectors`: meanings by text, of `message` and of what `meanings_of` says of each; None if there is no encoder.
    """
    asked = content(message) | content(" ".join(groups).replace("_", " "))
    scored = [(_score(bullet, asked, message, vectors), bullet) for bullet in situational]
    scored.sort(key=lambda one: (-one[0], *display_order(one[1])))
    chosen: list[Bullet] = []
    room, unjudged = TAIL_CHARS, _UNJUDGED_CHARS if vectors is None else 0
    for score, bullet in scored[: len(situational)]:
        size = len(line(bullet)) + 1
        limit = room if score > 0 else min(room, unjudged)
        if size > limit or len(chosen) == TAIL_BULLETS:
            continue
        chosen.append(bullet)
        room -= size
        unjudged -= size if score <= 0 else 0
    return sorted(chosen, key=display_order)


def _score(bullet: Bullet, asked: frozenset[str], message: str, vectors: Mapping[str, Vector] | None) -> float:
    """How much speaks for a bullet; 0 if nothing does."""
    when, text = content(bullet.when_to_use), content(bullet.text)
    by_words = _WORD_OF_WHEN * len(asked & when) + _WORD_OF_TEXT * len(asked & (text - when))
    if vectors is None or message not in vectors:
        return by_words
    near = (cosine(vectors[message], vectors[one]) for one in meanings_of(bullet) if one in vectors)
    likeness = max(near, default=0.0)
    return by_words + (likeness if likeness >= _ABOUT_IT else 0.0)
