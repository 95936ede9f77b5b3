"""One round of chaos: load, a schedule, rest, and the checks."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import redis

from shared.contract import NodeState
from shared.entries import NodeEnded, RunEnded
from shared.state import keys
from tests.chaos import check
from tests.chaos.load import Approver, Submitter, Users, plain_client
from tests.chaos.model import RULES
from tests.chaos.monkey import Monkey, schedule
from tests.support.model_server import ModelServer
from tests.support.processes import System

TOOLS = Path(__file__).with_name("tools.py")
ENV = {
    "CAPATAZ_WORKER__TOOL_MODULES": f'["{TOOLS}"]',
    "CAPATAZ_ROUTING__ENCODER": "off",
    "CAPATAZ_PLAYBOOK__ENABLED": "false",  # the learner's runs would only blur the counts
    "CAPATAZ_WORKFLOWS__CRON": '{"daily-brief": ""}',
    "CAPATAZ_COORDINATOR__AGENTS_DIR": str(Path(__file__).with_name("agents")),
    "CAPATAZ_PERMISSIONS__RULES": '[{"action": "ask", "tools": ["chaos_ask"]}]',
    "CAPATAZ_LIMITS__REPLY_TTL_S": "86400",
    "CAPATAZ_LIMITS__EVENTS_KEPT": "1000000",
}
SETTLE_S = 240.0


@dataclass(frozen=True)
class Report:
    """What came of it. `wrong` is what the checks found."""

    counts: dict[str, int]
    wrong: list[str]

    def __str__(self) -> str:
        numbers = " ".join(f"{name.replace(' ', '_')}={count}" for name, count in self.counts.items())
        return "\n".join([f"CHAOS {numbers}", *(f"WRONG {line}" for line in self.wrong)])


def play(seed: int, seconds: float, users: int = 6, logs: Path | None = None) -> Report:
    """Chaos of `seconds` under the load of that many users, on a system of its own; its logs are kept in `logs`."""
    with ModelServer(rules=RULES, keep=20_000) as model:
        system = System(model_url=model.url, coordinators=2, workers=2, beat=True, env=ENV)
        try:
            system.start()
            return _play(system, model, seed, seconds, users)
        finally:
            if logs is not None:
                _keep_logs(system, logs)
            system.stop()


def _play(system: System, model: ModelServer, seed: int, seconds: float, users: int) -> Report:
    submitter = Submitter(lambda: plain_client(system.redis_url))
    load = Users(submitter, seed, users)
    monkey = Monkey(system, schedule(seed, seconds))
    with Approver(submitter, system.redis_url, seed):
        load.start()
        try:
            monkey.play()
        finally:
            load.stop()
        for beat in system.others:  # else it begins a run between two looks at what is left
            system.kill(beat)
        wait_for_rest(system, submitter)
    return judge(system, model, submitter, monkey)


def judge(system: System, model: ModelServer, submitter: Submitter, monkey: Monkey) -> Report:
    """Waits until nothing is left to do, and looks at everything."""
    wait_for_rest(system, submitter)
    with system.client() as client:
        world = check.World.read(client, system.workspace)
        wrong = [
            *check.answers(world, submitter.sent, client),
            *check.effects(world, monkey.hurt),
            *check.histories(world),
            *check.facts(world),
            *check.leftovers(client),
            *check.archived(world, f"sqlite:///{system.folder}/data/capataz.db"),
            *(f"the model refused a request: {r.body}"[:500] for r in model.requests if r.reply is None),
        ]
    return Report(_counts(world, submitter, monkey), wrong)


def wait_for_rest(system: System, submitter: Submitter, timeout_s: float = SETTLE_S) -> None:
    """Returns when everything is answered, ended and archived, or time is up: the checks say then what is missing."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        with system.client() as client:
            if all(submitter.replied(sent) for sent in submitter.sent) and _idle(client):
                return
        time.sleep(0.2)


def _idle(client: redis.Redis) -> bool:
    pipe = client.pipeline(transaction=False)
    pipe.xlen(keys.inbox())
    pipe.scard(keys.ACTIVE)
    for key in (keys.PARKED, keys.RUNNABLE, keys.ARCHIVE):
        pipe.zcard(key)
    return not any(pipe.execute())


def _counts(world: check.World, submitter: Submitter, monkey: Monkey) -> dict[str, int]:
    ends = Counter(e.value.state for log in world.logs.values() for e in log if isinstance(e.value, RunEnded))
    nodes = Counter(e.value.result.state for log in world.logs.values() for e in log if isinstance(e.value, NodeEnded))
    return {
        "sent": len(submitter.sent),
        "doubtful": sum(len(s.doubtful) for s in submitter.sent),
        "runs": len(world.runs),
        "subagents": sum("parent" in row for row in world.runs.values()),
        "decided": sum(s.kind == "decide" for s in submitter.sent),
        **{state: ends[state] for state in ("ended", "failed", "cancelled")},
        "writes": sum(line.kind == "write" for line in world.lines),
        **{f"node {state.value}": nodes[state] for state in NodeState if nodes[state]},
        "taken_over": sum(e.data.get("code") == "taken_over" for es in world.events.values() for e in es),
        **dict(sorted(monkey.done.items())),
        **{f"{target} ended by itself": count for target, count in sorted(monkey.lost.items())},
    }


def _keep_logs(system: System, folder: Path) -> None:
    """Copies what the processes have printed."""
    folder.mkdir(parents=True, exist_ok=True)
    for log in system.folder.glob("*.log"):
        shutil.copy(log, folder / log.name)
