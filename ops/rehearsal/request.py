"""What a rule can look at: a model request of either dialect, reduced to its current turn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_CONTEXT_OPEN = "<context>"
_CONTEXT_CLOSE = "</context>"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One tool result: the tool's name (empty if the history does not tell) and the text the model sees."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the history in neutral form: what a user said, what a model said and called, or tool results."""

    kind: Literal["user", "assistant", "results"]
    text: str = ""
    image: bool = False
    calls: bool = False
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """The history since the last user message.

    `user` is that message without its context block; `step` counts the assistant messages with calls after it,
    `results` are all tool results after it in order, `latest` those of the last step only.
    """

    user: str = ""
    image: bool = False
    step: int = 0
    results: tuple[ToolResult, ...] = ()
    latest: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A model request as rules see it. `chars` is the length of its body, from which tokens are estimated."""

    model: str
    system: str = ""
    turn: Turn = Turn()
    tools: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = True
    chars: int = 0


def without_context(text: str) -> str:
    """`text` without the `<context>…</context>` blocks at its end, and without the blank space around them."""
    text = text.rstrip()
    while text.endswith(_CONTEXT_CLOSE):
        start = text.rfind(_CONTEXT_OPEN)
        if start < 0:
            break
        text = text[:start].rstrip()
    return text.lstrip()


def last_turn(items: Sequence[Item]) -> Turn:
    """Reduces a history to its last turn.

    A user item with nothing in it but a context block accompanies the turn and does not start a new one.
    """
    user = ""
    image = False
    step = 0
    results: list[ToolResult] = []
    latest: list[ToolResult] = []
    for item in items:
        if item.kind == "user":
            text = without_context(item.text)
            if text or item.image:
                user, image, step, results, latest = text, item.image, 0, [], []
        elif item.kind == "assistant":
            if item.calls:
                step += 1
                latest = []
        else:
            image = image or item.image
            results.extend(item.results)
            latest.extend(item.results)
    return Turn(user=user, image=image, step=step, results=tuple(results), latest=tuple(latest))
