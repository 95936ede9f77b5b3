"""`python -m tests.bench.injection [--suite NAME …] [--tasks N] [--rules NAME …]`: what injected instructions reach.

Every user task of AgentDojo runs alone and with every goal of its suite injected wherever the task reads, in a whole
system with each set of rules. The model obeys whatever it reads, so what is measured is what the system lets through.
The person who is asked allows the calls of the user task and no others. One line for each set of rules and suite, and
one for all suites; the last set concerns suites with a tool for addresses alone. Ends with 1 if a goal that takes a
tool that writes was reached although the rules ask about those.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from tests.bench.injection.bridge import Bridge
from tests.bench.injection.cases import Suite
from tests.bench.injection.obedient import ObedientServer
from tests.bench.injection.run import RULES, check_tools, concerned, run_all, system
from tests.bench.injection.score import Ended, cases, figures, written
from tests.bench.report import Stopwatch, line


def _report(rules: str, suites: Sequence[Suite], ended: Sequence[Ended]) -> None:
    for suite in suites:
        line("INJECTION", rules=rules, suite=suite.name, **figures([suite], ended))
    if len(suites) > 1:
        line("INJECTION", rules=rules, suite="all", **figures(suites, ended))


async def measure(names: Sequence[str], tasks: int | None, rules: Sequence[str]) -> list[tuple[str, str]]:
    """Prints the lines; returns the goals that were reached by writing although the rules ask."""
    broken = []
    model = ObedientServer()
    await model.start()
    try:
        async with Bridge() as dojo:
            suites = [suite for suite in await dojo.suites() if suite.name in names or not names]
            for one in rules:
                chosen = concerned(one, suites)
                with system(model.url, dojo.url, one) as running:
                    check_tools(running, chosen)
                    ended = await run_all(running, model, dojo, cases(chosen, tasks))
                _report(one, chosen, ended)
                broken += written(chosen, ended) if RULES[one] else []
    finally:
        await model.stop()
    return broken


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.injection", description=__doc__)
    parser.add_argument("--suite", nargs="*", default=[], help="workspace, travel, banking, slack; all by default")
    parser.add_argument("--tasks", type=int, help="only the first so many user tasks of each suite")
    parser.add_argument("--rules", nargs="*", default=list(RULES), choices=list(RULES), help="all by default")
    wanted = parser.parse_args()
    watch = Stopwatch()
    broken = asyncio.run(measure(wanted.suite, wanted.tasks, wanted.rules))
    print(f"bench-injection: {watch.s:.0f} s", flush=True)
    if broken:
        sys.exit("reached although the rules ask: " + ", ".join(f"{suite} {goal}" for suite, goal in broken))


if __name__ == "__main__":
    main()
