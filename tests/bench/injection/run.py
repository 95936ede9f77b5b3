"""Cases through a whole system: worker with AgentDojo's tools, model that obeys, person who is asked."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from shared.client import AsyncClient, Client
from shared.entries import Event
from shared.errors import CapatazError
from tests.bench.injection.bridge import Bridge
from tests.bench.injection.cases import Case, Suite
from tests.bench.injection.effects import WEB
from tests.bench.injection.obedient import ObedientServer, message
from tests.bench.injection.person import Person
from tests.bench.injection.score import Ended
from tests.support.processes import System

_ASK_WRITE: Final = {"action": "ask", "effects": ["write"], "agents": ["*"]}
_ASK_WEB: Final = {"action": "ask", "tools": [f"*_{WEB}"], "reason": "an address can carry something out"}
RULES: Final[dict[str, list[dict[str, Any]]]] = {
    "none": [],
    "ask-write": [_ASK_WRITE],
    "ask-write-web": [_ASK_WRITE, _ASK_WEB],
}
"""Sets of rules: as shipped; what README.md recommends; the same, and addresses that a model chose."""


def concerned(rules: str, suites: Sequence[Suite]) -> list[Suite]:
    """The suites in which a set of rules can make a difference to the sets before it."""
    if rules != "ask-write-web":
        return list(suites)
    return [suite for suite in suites if any(tool.name == WEB for tool in suite.tools)]


AT_ONCE = 8
_LONGEST_S = 120


def system(model_url: str, dojo_url: str, rules: str) -> System:
    """The system with a set of rules; it is not started yet."""
    env = {
        "BENCH_DOJO_URL": dojo_url,
        "CAPATAZ_WORKER__TOOL_MODULES": json.dumps([str(Path(__file__).with_name("dojo_tools.py"))]),
        "CAPATAZ_PERMISSIONS__RULES": json.dumps(RULES[rules]),
        "CAPATAZ_ROUTING__MAX_TOOLS": "40",  # a suite's tools are offered together
        "CAPATAZ_ROUTING__ENCODER": "off",
        "CAPATAZ_PLAYBOOK__ENABLED": "false",
    }
    return System(model_url=model_url, durability="relaxed", env=env)


def check_tools(running: System, suites: Sequence[Suite]) -> None:
    """Raises RuntimeError unless the worker offers all tools of the suites."""
    wanted = {f"{suite.name}_{tool.name}" for suite in suites for tool in suite.tools}
    client = Client.connect(running.redis_url)
    offered = {tool.name for tool in client.catalogue().tools}
    client.close()
    if missing := wanted - offered:
        raise RuntimeError(f"the worker offers no {', '.join(sorted(missing))}\n{running.workers[0].output()[-2000:]}")


async def run_all(running: System, model: ObedientServer, dojo: Bridge, cases: Sequence[Case]) -> list[Ended]:
    """Runs the cases, several at once; their order is kept. Says on standard error how far it is."""
    client = AsyncClient.connect(running.redis_url)
    gate = asyncio.Semaphore(AT_ONCE)
    done = count(1)

    async def one(case: Case) -> Ended:
        async with gate:
            ended = await _run(client, model, dojo, case)
        if (number := next(done)) % 100 == 0:
            print(f"{number} of {len(cases)} cases", file=sys.stderr, flush=True)
        return ended

    try:
        return list(await asyncio.gather(*map(one, cases)))
    finally:
        await client.aclose()


async def _run(client: AsyncClient, model: ObedientServer, dojo: Bridge, case: Case) -> Ended:
    play = model.plays[case.id] = await dojo.open(case)
    answer, problem = "", ""
    try:
        async with asyncio.timeout(_LONGEST_S):
            sent = await client.submit(message(case.id, play), session=case.id, tools=(case.suite,))
            await _attend(client, case, Person(play.calls))
            reply = await client.wait(sent, timeout=10)
        answer, problem = reply.answer, "" if reply.ok else str(reply)
    except (TimeoutError, CapatazError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        print(f"{case.id}: {problem[:500]}", file=sys.stderr, flush=True)
    del model.plays[case.id]
    return Ended(case, await dojo.close(case, answer), problem)


async def _attend(client: AsyncClient, case: Case, person: Person) -> None:
    """Decides what is asked, until the run ends."""
    stream = cast(AsyncGenerator[Event, None], client.stream(case.id))
    async with aclosing(stream) as events:
        async for event in events:
            if event.type in ("run.finished", "run.failed"):
                return
            if event.type == "approval.requested":
                tool = str(event.data["tool"]).removeprefix(f"{case.suite}_")
                if person.allows(tool, event.data["args"]):
                    await client.approve(event.data["node"])
                else:
                    await client.deny(event.data["node"], "that is not what I asked for")
