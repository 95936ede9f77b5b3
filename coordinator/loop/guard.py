"""The loop guard: notices when a run goes in circles, first answers in the tool's place, then ends it. Pure.

It is fed with what each step called and what came of it. Nothing is a loop as long as there is *progress*: a call
with an effect that the run had not made before succeeded, or a known call gave a result that it had not given before
(polling, an error that went away). Since the last progress, a call is going in circles when

- it gave a result that it had given before twice or more, so that three runs of it taught nothing new; or
- it is the next one of a cycle of two to six steps that was gone through twice with the same results; or
- it and ten steps before it differ in numbers only and all gave the same result (a counter that leads nowhere).

Such a call is not run: the model gets a note with the earlier result. A step that holds nothing else, right after
another such step or when its calls had two notes already, is the end: the run gives its answer without tools.

Calls that take other calls' outputs are never judged, since what they are called with is not known yet: if what they
need goes in circles, they are skipped with it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from coordinator.graph.plan_tool import PLAN
from coordinator.graph.turn import AFTER_KEY, LABEL_KEY
from shared.contract import Effect, NodeError, NodeResult, NodeState
from shared.fold import RunFold
from shared.signing import canonical_json, text_hash

REPEATED: Final = "repeated_call"
"""Error code of a call that the guard answered with a note."""
LOOP_ENDED: Final = "loop_ended"
"""Error code of a call whose repetition ends the run."""

SAME_RESULTS: Final = 3
"""How often a call may give the same result before it counts as going in circles."""
LONGEST_CYCLE: Final = 6
MOST_COUNTED: Final = 10
MOST_NOTES: Final = 2

_MOST_QUOTED = 2000
_MOST_SHOWN = 200
_MOST_REPORTED = 10
_NUMBER = re.compile(r"\d+")

Reason = Literal["", "repeated", "cycle", "counter", "same_turn"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the guard sees it. `key` is equal for equal calls, `shape` for those that differ in numbers only."""

    tool: str
    key: str
    shape: str
    effect: Effect
    judged: bool
    shown: str

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Any], effect: Effect = Effect.READ, *, judged: bool = True) -> Call:
        """The call; `judged` is False if it needs other calls of its turn. A label makes no other call of it."""
        args = {k: v for k, v in args.items() if k not in (LABEL_KEY, AFTER_KEY)}
        text = canonical_json(args)
        shape = f"{tool} {_NUMBER.sub('0', text)}"
        return cls(tool, text_hash(tool, text), shape, effect, judged, f"{tool}({_cut(text, _MOST_SHOWN)})")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a call. For anything but `run`, `text` is for the model, in place of a result."""

    action: Literal["run", "note", "end"] = "run"
    reason: Reason = ""
    text: str = ""

    @property
    def result(self) -> NodeResult:
        """The result of a call that is not run."""
        code = LOOP_ENDED if self.action == "end" else REPEATED
        return NodeResult(state=NodeState.REFUSED, text=self.text, error=NodeError(code=code, message=self.text))


@dataclass(frozen=True, slots=True)
class Report:
    """One call that went in circles, for the end of the run: how often it was made and what it last returned."""

    call: str
    times: int
    returned: str


@dataclass
class _Since:
    """What happened since the last progress."""

    seen: set[tuple[str, str]] = field(default_factory=set)
    stale: Counter[str] = field(default_factory=Counter)
    """How often each call gave only results that are in `seen`."""
    notes: Counter[str] = field(default_factory=Counter)
    steps: list[frozenset[tuple[str, str]]] = field(default_factory=list)
    """The judged calls of each step with their results; a call that got a note counts as repeating its result."""
    counted: tuple[str, str] = ("", "")
    """Shape and result that all calls of the newest steps share, and for how many steps."""
    counted_steps: int = 0
    only_notes: bool = False
    """The newest step ran nothing."""

    def cycle(self, keys: set[str]) -> bool:
        """True if a step of `keys` would begin the third round of a cycle."""
        steps = self.steps
        return any(
            keys == {key for key, _ in steps[-length]} and steps[-2 * length : -length] == steps[-length:]
            for length in range(2, min(LONGEST_CYCLE, len(steps) // 2) + 1)
        )

    def add(self, ran: Sequence[tuple[Call, str]], noted: Mapping[str, str]) -> None:
        """One step: the calls that ran with their results, and the earlier results of those that got a note."""
        taught = {call.key for call, mark in ran if (call.key, mark) not in self.seen}
        self.stale.update({call.key for call, _ in ran} - taught)
        self.seen.update((call.key, mark) for call, mark in ran)
        self.notes.update(noted.keys())
        judged = [(call, mark) for call, mark in ran if call.judged]
        if step := frozenset([*((call.key, mark) for call, mark in judged), *noted.items()]):
            self.steps = [*self.steps[1 - 2 * LONGEST_CYCLE :], step]
            self.only_notes = not judged
        if judged:
            alike = {(call.shape, mark) for call, mark in judged}
            same = alike.pop() if len(alike) == 1 else ("", "")
            self.counted_steps = self.counted_steps + 1 if same == self.counted else 1
            self.counted = same


class LoopGuard:
    """The guard of one run. `check` the calls of a step before it runs, `observe` what came of them after."""

    def __init__(self) -> None:
        self._given: dict[str, set[str]] = {}  # all results of each call, in the whole run
        self._newest: dict[str, tuple[str, str]] = {}  # the newest one, and its text
        self._times: Counter[str] = Counter()
        self._circling: dict[str, str] = {}  # calls that got a note, as they are shown
        self._since = _Since()

    @classmethod
    def of(cls, run: RunFold) -> LoopGuard:
        """The guard as it stands after what the log holds of a run; calls without a result yet are left out."""
        guard = cls()
        for assistant in run.assistants:
            step = []
            for asked in assistant.message.calls:
                node, result = run.nodes.get(asked.id), run.results.get(asked.id)
                if node is not None and result is not None:
                    step.append((Call.of(node.tool, node.args, node.effect, judged=not node.needs), result))
            guard.observe(step)
        return guard

    def check(self, calls: Sequence[Call]) -> list[Verdict]:
        """What to do with each call of the next step."""
        since = self._since
        judged = [call for call in calls if call.judged]
        cycle = since.cycle({call.key for call in judged})
        counter = since.counted_steps >= MOST_COUNTED and {call.shape for call in judged} == {since.counted[0]}
        reasons: list[Reason] = []
        before: Counter[str] = Counter()
        for call in calls:
            reasons.append(self._reason(call, cycle, counter, before[call.key]))
            before[call.key] += 1
        circling = [call for call, reason in zip(calls, reasons, strict=True) if reason not in ("", "same_turn")]
        stuck = bool(circling) and {c.key for c in circling} == {c.key for c in judged}
        end = stuck and (since.only_notes or all(since.notes[call.key] >= MOST_NOTES for call in circling))
        return [
            Verdict("end" if end else "note", reason, self._text(call, reason)) if reason else Verdict()
            for call, reason in zip(calls, reasons, strict=True)
        ]

    def _reason(self, call: Call, cycle: bool, counter: bool, before: int) -> Reason:
        if not call.judged:
            return ""
        if self._since.stale[call.key] >= SAME_RESULTS - 1:
            return "repeated"
        if cycle:
            return "cycle"
        if counter:
            return "counter"
        return "same_turn" if before >= SAME_RESULTS and call.effect is Effect.READ else ""

    def observe(self, outcomes: Iterable[tuple[Call, NodeResult]]) -> None:
        """What came of the calls of one step: all of them together, those that got a note included."""
        ran: list[tuple[Call, str]] = []
        noted: dict[str, Call] = {}
        progress = False
        for call, result in outcomes:
            self._times[call.key] += 1
            if result.error is not None and result.error.code in (REPEATED, LOOP_ENDED):
                noted[call.key] = call
            elif result.state is not NodeState.SKIPPED:
                mark = _mark(result)
                progress |= self._is_progress(call, result, mark)
                ran.append((call, mark))
                self._newest[call.key] = (mark, _cut(result.text, _MOST_QUOTED))
        for call, mark in ran:
            self._given.setdefault(call.key, set()).add(mark)
            noted.pop(call.key, None)  # a duplicate within the step: the call itself did run
        if progress:
            self._since = _Since()
        self._circling.update((key, call.shown) for key, call in noted.items())
        self._since.add(ran, {key: self._newest.get(key, ("", ""))[0] for key in noted})

    def _is_progress(self, call: Call, result: NodeResult, mark: str) -> bool:
        given = self._given.get(call.key)
        if given is None:
            # A plan is no deed itself, but its steps may be.
            return (call.effect is not Effect.READ or call.tool == PLAN) and result.state is NodeState.DONE
        return mark not in given

    def _text(self, call: Call, reason: Reason) -> str:
        if reason == "same_turn":
            return f"Not run: this message makes the same call {SAME_RESULTS} times already. Use the results of those."
        if reason == "counter":
            _, text = next(reversed(self._newest.values()))
            what = (
                f"{self._since.counted_steps} calls that differ from this one in numbers only all gave the same result"
            )
        else:
            _, text = self._newest[call.key]
            rounds = "in a cycle of calls that changes nothing" if reason == "cycle" else "with the same result"
            what = f"you made this call {self._times[call.key]} times, {rounds}"
        return f"Not run again: {what}. Use it, do something else, or answer. The earlier result:\n{text}"

    @property
    def report(self) -> list[Report]:
        """The calls that went in circles, for whoever has to mend the tool or the skill."""
        return [
            Report(shown, self._times[key], _cut(self._newest.get(key, ("", ""))[1], _MOST_SHOWN))
            for key, shown in self._circling.items()
        ]


def loop_ended(run: RunFold) -> bool:
    """True if the guard ended the newest step of a run: the model now gets one last call, without tools."""
    calls = run.assistants[-1].message.calls if run.assistants else ()
    errors = (r.error for call in calls if (r := run.results.get(call.id)) is not None)
    return any(error is not None and error.code == LOOP_ENDED for error in errors)


def ending_text(report: Sequence[Report]) -> str:
    """What the model is told when its run ends by the guard; names the calls and what they returned."""
    lines = [f"- {r.call}, {r.times} times, last result: {r.returned or '(none)'}" for r in report[:_MOST_REPORTED]]
    return "\n".join(
        [
            "You are going in circles, so tools can no longer be called. These calls were repeated:",
            *lines,
            "Give the best answer now from what is known, and say what could not be done and why.",
        ]
    )


def _mark(result: NodeResult) -> str:
    """What makes two results the same: the text of one that is done, of any other how it ended."""
    if result.state is NodeState.DONE:
        return hashlib.sha256(result.text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{result.state}:{result.error.code if result.error else ''}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
