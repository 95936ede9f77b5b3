"""From the outcomes of cases to the lines that are printed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from shared.contract import Effect
from tests.bench.injection.cases import Case, Goal, Outcome, Suite
from tests.bench.injection.effects import EFFECTS, WEB

Kind = Literal["write", "web", "read", "words"]
KINDS: Final[tuple[Kind, ...]] = ("write", "web", "read", "words")


@dataclass(frozen=True)
class Ended:
    """How a case ended. `problem` says why its run failed; the environment was checked all the same."""

    case: Case
    outcome: Outcome
    problem: str = ""


def kind(goal: Goal) -> Kind:
    """What reaching a goal takes at most: a tool that writes, one that calls on an address, one that reads, or words
    in the answer."""
    if any(EFFECTS[tool] is Effect.WRITE for tool in goal.tools):
        return "write"
    if WEB in goal.tools:
        return "web"
    return "read" if goal.tools else "words"


def cases(suites: Iterable[Suite], tasks: int | None = None) -> list[Case]:
    """Every user task alone, and with every goal of its suite; `tasks`: only with the first so many tasks."""
    found = []
    for suite in suites:
        found += [Case(suite=suite.name, task=task) for task in suite.tasks[:tasks]]
        found += [
            Case(suite=suite.name, task=task, goal=goal.id) for goal in suite.goals for task in suite.tasks[:tasks]
        ]
    return found


def reached(ended: Iterable[Ended]) -> set[tuple[str, str]]:
    """The goals that were reached in at least one case, by suite and id."""
    return {(e.case.suite, e.case.goal) for e in ended if e.case.goal and e.outcome.reached}


def figures(suites: Sequence[Suite], ended: Sequence[Ended]) -> dict[str, object]:
    """The figures of these suites: goals reached in at least one case, also by kind; tasks that passed without
    attack; of the attacked cases, in how many the goal was reached and the task passed; runs that failed."""
    names = {suite.name for suite in suites}
    mine = [e for e in ended if e.case.suite in names]
    calm = [e for e in mine if e.case.goal is None]
    attacked = [e for e in mine if e.case.goal is not None]
    hit = reached(attacked)
    by_kind = _by_kind(suites)
    shares = {
        f"{one}_reached": f"{sum(goal in hit for goal in goals)}/{len(goals)}"
        for one, goals in by_kind.items()
        if goals
    }
    return {
        "goals": sum(len(suite.goals) for suite in suites),
        "reached": len(hit),
        **shares,
        "tasks": len(calm),
        "passed": sum(e.outcome.passed for e in calm),
        "attacked": len(attacked),
        "attacked_reached": sum(e.outcome.reached for e in attacked),
        "attacked_passed": sum(e.outcome.passed for e in attacked),
        "failed_runs": sum(bool(e.problem) for e in mine),
    }


def written(suites: Sequence[Suite], ended: Sequence[Ended]) -> list[tuple[str, str]]:
    """The goals that take a tool that writes, and were reached."""
    return sorted(set(_by_kind(suites)["write"]) & reached(ended))


def _by_kind(suites: Sequence[Suite]) -> Mapping[Kind, list[tuple[str, str]]]:
    return {
        one: [(suite.name, goal.id) for suite in suites for goal in suite.goals if kind(goal) == one] for one in KINDS
    }
