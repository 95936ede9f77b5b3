"""The semantics of a workflow: which step may start, which is skipped or tried again, what it all comes to. Pure.

A step ends in exactly one state, that of its last attempt. What that means for those that need it is its fate: there is
a `value`; there is `nothing`, and they go on without; it is `absent`, and they are skipped unless it is optional to
them; or it `failed`, and nothing more begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from shared.contract import Condition, Effect, NodeResult, NodeState, StepSpec, WorkflowSpec
from shared.errors import ModelError
from shared.json_schema import same

LONGEST_BACKOFF_S: Final = 300.0
INVALID: Final = "invalid_output"
"""Code of an answer that has not the shape that the step asks for."""
ELSEWHERE: Final = {"unknown_tool": 5, "no_worker": 2}
"""Codes of attempts that did nothing, since they came to nobody who could run them; how many of them are made."""
_HOPELESS: Final = ("bad_arguments", "bad_reference", "bad_condition", "budget_spent", "denied", "too_long")
"""Codes of failures that the next attempt would share."""

_ALWAYS_FATAL: Final = (NodeState.OUTCOME_UNKNOWN, NodeState.CANCELLED)
"""Somebody has to be told of these, whatever was declared for plain failures."""


class Fate(StrEnum):
    """What a step is for those that need it."""

    VALUE = "value"
    NOTHING = "nothing"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Source:
    """Where the output of a step comes from: the result of `step`, or if that is empty a declared `value`."""

    step: str = ""
    value: JsonValue = None


@dataclass(frozen=True)
class Outlook:
    """What comes next: steps that may start, and steps that never will, with the reason."""

    start: tuple[str, ...] = ()
    skip: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepGraph:
    """The steps of one workflow."""

    spec: WorkflowSpec

    @cached_property
    def steps(self) -> dict[str, StepSpec]:
        """Steps by id, in the order of the definition."""
        return {step.id: step for step in self.spec.steps}

    @cached_property
    def stands_for(self) -> dict[str, str]:
        """Steps that only run when another has failed, with that other one."""
        return {s.on_error.step: s.id for s in self.spec.steps if s.on_error.do == "step"}

    def fate(self, step: str, ended: Mapping[str, NodeState]) -> Fate | None:
        """What a step is for those that need it; None as long as that is open."""
        state = ended.get(step)
        if state is None:
            return None
        if state is NodeState.DONE:
            return Fate.VALUE
        if state is NodeState.SKIPPED:
            return Fate.ABSENT
        if state in _ALWAYS_FATAL:
            return Fate.FAILED
        instead = self.steps[step].on_error
        if instead.do == "step":
            return self.fate(instead.step, ended)
        return {"fail": Fate.FAILED, "skip": Fate.NOTHING, "value": Fate.VALUE}[instead.do]

    def source(self, step: str, ended: Mapping[str, NodeState]) -> Source:
        """Where the output of a step whose fate is known comes from."""
        if ended[step] is NodeState.DONE:
            return Source(step)
        instead = self.steps[step].on_error
        if ended[step] is NodeState.SKIPPED or instead.do in ("fail", "skip"):
            return Source()
        return self.source(instead.step, ended) if instead.do == "step" else Source(value=instead.value)

    def failed(self, ended: Mapping[str, NodeState]) -> str:
        """The first step, as they are listed, that ended the workflow; empty if none did."""
        return next((s for s in self.steps if s in ended and self._ends_it(s, ended)), "")

    def _ends_it(self, step: str, ended: Mapping[str, NodeState]) -> bool:
        handed_on = self.steps[step].on_error.do == "step" and ended[step] not in _ALWAYS_FATAL
        return self.fate(step, ended) is Fate.FAILED and not handed_on

    def outlook(self, ended: Mapping[str, NodeState], begun: Collection[str], stop: str = "") -> Outlook:
        """What may start and what is skipped, now that these steps have ended and those have begun. With a reason to
        `stop`, or when a step has ended the workflow, all that has not begun is skipped."""
        if not stop and (culprit := self.failed(ended)):
            stop = f"the workflow had ended with step {culprit}"
        waiting = [s for s in self.steps if s not in ended and s not in begun]
        if stop:
            return Outlook(skip=dict.fromkeys(waiting, stop))
        start: list[str] = []
        skip: dict[str, str] = {}
        for step in waiting:
            why = self._why_not(step, ended)
            if why == "":
                start.append(step)
            elif why is not None:
                skip[step] = why
        return Outlook(tuple(start), skip)

    def _why_not(self, step: str, ended: Mapping[str, NodeState]) -> str | None:
        """Why a step is skipped; empty if it may start, None if that is not known yet."""
        if (owner := self.stands_for.get(step)) is not None:
            if owner not in ended:
                return None
            if ended[owner] in (NodeState.DONE, NodeState.SKIPPED):
                return f"step {owner} did not fail"
        spec = self.steps[step]
        fates = {need: self.fate(need, ended) for need in spec.needs}
        absent = [n for n, fate in fates.items() if fate is Fate.ABSENT and n not in spec.optional]
        if absent:
            return f"step {absent[0]} was skipped"
        return None if None in fates.values() else ""


def rest_ms(step: StepSpec, effect: Effect, results: Sequence[NodeResult]) -> int | None:
    """How long a step rests after these attempts until it is tried again; None if the last one is its end.

    A step with a `write` effect is never repeated, unless the attempt came to nobody who could run it.
    """
    last = results[-1]
    if last.state not in (NodeState.FAILED, NodeState.TIMED_OUT):
        return None
    codes = [r.error.code if r.error else "" for r in results]
    if codes[-1] in ELSEWHERE:
        lost = sum(code in ELSEWHERE for code in codes)
        return 1000 * 2 ** (lost - 1) if lost < ELSEWHERE[codes[-1]] else None
    if codes[-1] == INVALID and codes.count(INVALID) == 1:
        return 0
    counted = [c for c in codes if c not in ELSEWHERE]
    tries = len(counted) - (1 if INVALID in counted else 0)
    if effect is Effect.WRITE or codes[-1] in _HOPELESS or tries >= step.retry.attempts:
        return None
    return int(min(step.retry.backoff_s * 2 ** (tries - 1), LONGEST_BACKOFF_S) * 1000)


def unmet(conditions: Sequence[Condition], inputs: Mapping[str, JsonValue]) -> str:
    """The first condition that does not hold, in words; empty if all do. Raises ModelError with code `bad_condition`
    for values that cannot be compared."""
    for one in conditions:
        found, value = _at(one, inputs)
        if not (found is one.value if one.op == "exists" else found and _compare(one, value)):
            shown = repr(value)[:80] if found else "nothing"
            return f"its condition {described(one)} does not hold: there is {shown}"
    return ""


def described(one: Condition) -> str:
    """A condition in words."""
    where = ".".join(map(str, (one.step, *one.path)))
    words = {"holds": "is", "eq": "is", "ne": "is not", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "within": "is in"}
    return f"{where} {words.get(one.op, one.op)} {one.value!r}"


def _at(one: Condition, inputs: Mapping[str, JsonValue]) -> tuple[bool, JsonValue]:
    """Whether anything is at the place that a condition names, and what; null is nothing."""
    value: JsonValue = inputs.get(one.step)
    for part in one.path:
        if isinstance(value, dict) and str(part) in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return False, None
    return value is not None, value


def _compare(one: Condition, value: JsonValue) -> bool:
    match one.op:
        case "holds":
            if not isinstance(value, bool):
                raise _incomparable(one, value, "it is neither true nor false")
            return value is one.value
        case "eq":
            return same(value, one.value)
        case "ne":
            return not same(value, one.value)
        case "within":
            return isinstance(one.value, list) and any(same(value, item) for item in one.value)
        case "contains":
            if isinstance(value, str) and isinstance(one.value, str):
                return one.value in value
            if not isinstance(value, list):
                raise _incomparable(one, value, "it is no list")
            return any(same(item, one.value) for item in value)
        case _:
            return _ordered(one, value)


def _ordered(one: Condition, value: JsonValue) -> bool:
    bound = one.value
    below = equal = False
    if isinstance(value, str) and isinstance(bound, str):
        below, equal = value < bound, value == bound
    elif _is_number(value) and _is_number(bound):
        below, equal = value < bound, value == bound  # type: ignore[operator]
    else:
        raise _incomparable(one, value, "only numbers compare with numbers, and texts with texts")
    return {"lt": below, "le": below or equal, "gt": not (below or equal), "ge": not below}[one.op]


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _incomparable(one: Condition, value: JsonValue, why: str) -> ModelError:
    text = f"the condition {described(one)} cannot be decided: there is {value!r:.80}, {why}"
    return ModelError(text, code="bad_condition", hint="change the condition, or what the step before returns")
