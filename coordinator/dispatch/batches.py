"""How nodes of one moment are shared out among Celery messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def split(items: Sequence[T], workers: int, most: int) -> list[list[T]]:
    """`items` in messages: one per live worker, as even as can be, none longer than `most`, order kept.

    Fewer, larger messages are cheaper (a message costs about as much as ten nodes), more of them use more workers.
    """
    if not items:
        return []
    count = max(-(-len(items) // most), min(workers, len(items)), 1)
    size, extra = divmod(len(items), count)
    out, start = [], 0
    for i in range(count):
        end = start + size + (1 if i < extra else 0)
        out.append(list(items[start:end]))
        start = end
    return out
