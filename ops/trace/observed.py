"""What public events tell beyond the log: when streams began, when tokens came, when workers took nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ops.trace.values import Attempt, Mark
from shared.entries import Event

_MARKED = {
    "notice": "notice",
    "approval.requested": "approval",
    "question.asked": "question",
    "subagent.started": "subagent",
    "subagent.finished": "subagent ended",
}
_TELLING = ("text", "question", "title", "message", "tool", "agent", "name", "code")


@dataclass(frozen=True)
class Claim:
    """A worker took a node."""

    ms: int
    worker: str
    number: int


@dataclass
class Observed:
    """Attempts by step, the newest claim of each node, marks. `complete` if the run's first event was there."""

    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    complete: bool = False
    last_ms: int = 0
    _step: int = 0

    @classmethod
    def of(cls, run: str, events: Iterable[Event]) -> Observed:
        """What the events of `run` tell; those of other runs are passed over."""
        seen = cls()
        for event in events:
            if event.run == run:
                seen._take(event)
        return seen

    def _take(self, event: Event) -> None:
        ms, data = moment(event.id), event.data
        self.last_ms = max(self.last_ms, ms)
        match event.type:
            case "run.started":
                self.complete = True
            case "step.started" | "step.restarted":
                self._begin(ms, data)
            case "text.delta" | "thinking.delta":
                self._token(ms, event.type == "text.delta")
            case "usage":
                self._close(ms)
            case "node.started":
                claim = Claim(ms, _text(data.get("worker")), _whole(data.get("attempt"), 1))
                self.claims[_text(data.get("node"))] = claim
            case _ if event.type in _MARKED:
                self._mark(ms, event.type, data)

    def _begin(self, ms: int, data: dict[str, Any]) -> None:
        step = _whole(data.get("step"), 0)
        if step == self._step:
            self._break(ms, "the stream was given up")
        self._close(ms)
        self._step = step
        attempt = Attempt(number=_whole(data.get("attempt"), 1), model=_text(data.get("model")), started_ms=ms)
        self.attempts.setdefault(self._step, []).append(attempt)

    def _token(self, ms: int, visible: bool) -> None:
        if attempt := self._open():
            seen = {"first_ms": attempt.first_ms if attempt.first_ms is not None else ms}
            if visible and attempt.text_ms is None:
                seen["text_ms"] = ms
            self._replace(attempt.model_copy(update=seen))

    def _mark(self, ms: int, kind: str, data: dict[str, Any]) -> None:
        text = next((_text(data[key]) for key in _TELLING if data.get(key)), "")
        if kind == "notice" and "attempt" in data:  # the notice that ends an attempt
            self._break(ms, text or "failed")
        word = _text(data.get("code") or _MARKED[kind]) if kind == "notice" else _MARKED[kind]
        self.marks.append(Mark(ms=ms, kind=word, text=text))

    def _break(self, ms: int, why: str) -> None:
        if attempt := self._open():
            self._replace(attempt.model_copy(update={"ended_ms": ms, "failed": why}))

    def _open(self) -> Attempt | None:
        attempts = self.attempts.get(self._step)
        return attempts[-1] if attempts and attempts[-1].ended_ms is None else None

    def _replace(self, attempt: Attempt) -> None:
        self.attempts[self._step][-1] = attempt

    def _close(self, ms: int) -> None:
        if attempt := self._open():
            self._replace(attempt.model_copy(update={"ended_ms": ms}))


def moment(entry_id: str) -> int:
    """The milliseconds of a stream id."""
    return int(entry_id.partition("-")[0] or 0)


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _text(value: object) -> str:
    """As text that can be encoded: JSON may hold halves of surrogate pairs."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode()
