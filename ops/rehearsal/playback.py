"""A reply as the sequence of small pieces in which a streaming model would say it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ops.rehearsal.engine import Reply


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The head of the call at `index`; its arguments follow."""

    index: int
    name: str
    id: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """A fragment of the arguments of the call at `index`."""

    index: int
    text: str


Delta = Thinking | Text | CallStart | Arguments


def deltas(reply: Reply) -> list[Delta]:
    """Thinking, then text, then the calls one after the other, in pieces of `reply.delta_chars` characters."""
    size = reply.delta_chars
    out: list[Delta] = [Thinking(piece) for piece in _pieces(reply.thinking, size)]
    out.extend(Text(piece) for piece in _pieces(reply.text, size))
    for index, call in enumerate(reply.calls):
        out.append(CallStart(index, call.name, call.id))
        out.extend(Arguments(index, piece) for piece in _pieces(call.arguments, size))
    return out


def limited(said: list[Delta], chars: int) -> list[Delta]:
    """The first `chars` characters of `said`; the piece in which the limit falls is shortened."""
    out: list[Delta] = []
    for delta in said:
        if chars <= 0:
            break
        if isinstance(delta, CallStart) or len(delta.text) <= chars:
            out.append(delta)
        elif isinstance(delta, Arguments):
            out.append(Arguments(delta.index, delta.text[:chars]))
        else:
            out.append(type(delta)(delta.text[:chars]))
        chars -= len(delta.text)
    return out


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
