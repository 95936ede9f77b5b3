"""One firing a slot: many clocks over a change of the time with a real Redis and archive, and real beats that die."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from ops.supervisor import plan
from shared.client import Client
from shared.contract import Catalogue, StepSpec, WorkflowSpec
from shared.entries import RunEnded, UserMessage
from shared.schedules import Schedule, started
from shared.settings import Settings
from shared.sql import Database, schedules
from shared.state import keys
from shared.timing import Missed, Timing
from tests.support.model_server import ModelServer
from tests.support.processes import Proc, System
from tests.support.redis import TestRedis, redis_server
from workers.context import Services, StateView
from workers.schedule import tick

pytestmark = pytest.mark.integration

MADRID, NEW_YORK = "Europe/Madrid", "America/New_York"
BEATS, WORKERS = 2, 3
STEP = timedelta(minutes=30)


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server(durability="relaxed") as running:
        yield running


@dataclass
class _Offered:
    """The session state of a worker, as far as a tick looks at it."""

    now: Catalogue

    async def catalogue(self) -> Catalogue:
        return self.now


def _workflow(name: str, line: str, zone: str) -> WorkflowSpec:
    return WorkflowSpec(
        name=name, title=name, steps=(StepSpec(id="a", kind="code"),), result="a", cron=line, timezone=zone
    )


class Fleet:
    """Several workers, each with a connection of its own to one archive, that are told to look by several beats."""

    def __init__(self, server: TestRedis, folder: Path, zone: str) -> None:
        self._url = f"sqlite:///{folder / 'archive.db'}"
        self.server = server
        self.databases = [Database(self._url) for _ in range(WORKERS)]
        self.databases[0].migrate()
        self.settings = Settings.model_validate({"redis": {"url": server.url}, "workflows": {"timezone": zone}})
        self.catalogue = Catalogue(
            workflows=(
                _workflow("brief", "0 7 * * *", zone),
                _workflow("night", "30 2 * * *", zone),
                _workflow("quarter", "every 6h", zone),
            )
        )
        self._pool = ThreadPoolExecutor(BEATS * WORKERS)
        with server.client() as client:
            client.delete(keys.inbox())

    def look(self, now: datetime) -> None:
        """Every beat has every worker look at once: more than one beat that lost its lock could do."""

        def one(number: int) -> None:
            state = cast("StateView", _Offered(self.catalogue))
            nothing: Any = None
            services = Services(self.databases[number % WORKERS], nothing, state, nothing, now=now.timestamp)
            asyncio.run(tick(services, self.settings, _always, f"w{number}@{now.isoformat()}"))

        list(self._pool.map(one, range(BEATS * WORKERS)))

    def sent(self) -> list[dict[str, str]]:
        with self.server.client() as client:
            entries: Any = client.xrange(keys.inbox())
        return [fields for _, fields in entries]

    def close(self) -> None:
        self._pool.shutdown()
        for one in self.databases:
            one.close()


async def _always(workflow: str) -> bool:
    return True


def _local(ids: Counter[str], prefix: str, zone: str) -> list[str]:
    """The slots of ids that begin with `prefix`, on the wall clock of a zone."""
    found = []
    for one in ids:
        name, _, stamp = one.rpartition("@")
        if name == prefix:
            at = datetime.fromisoformat(stamp.replace("Z", "+00:00")).astimezone(ZoneInfo(zone))
            found.append(f"{at:%d %H:%M %z}")
    return sorted(found)


@pytest.mark.parametrize(
    ("zone", "day", "brief", "night"),
    [
        (
            MADRID, "2027-03-27",  # the hour from 02:00 does not exist on the 28th
            ["27 07:00 +0100", "28 07:00 +0200"], ["27 02:30 +0100", "28 03:00 +0200"],
        ),
        (
            MADRID, "2027-10-30",  # it exists twice on the 31st
            ["30 07:00 +0200", "31 07:00 +0100"], ["30 02:30 +0200", "31 02:30 +0200"],
        ),
        (
            NEW_YORK, "2027-03-13",
            ["13 07:00 -0500", "14 07:00 -0400"], ["13 02:30 -0500", "14 03:00 -0400"],
        ),
        (
            NEW_YORK, "2027-11-06",
            ["06 07:00 -0400", "07 07:00 -0500"], ["06 02:30 -0400", "07 02:30 -0500"],
        ),
    ],
    ids=["madrid-spring", "madrid-autumn", "new-york-spring", "new-york-autumn"],
)  # fmt: skip
def test_one_firing_a_slot_over_a_change_of_the_clock(
    server: TestRedis, tmp_path: Path, zone: str, day: str, brief: list[str], night: list[str]
) -> None:
    fleet = Fleet(server, tmp_path, zone)
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    begin_ms = int(begin.timestamp() * 1000)
    timing = Timing(zone, begin_ms, cron="0 9 * * *")
    mine = Schedule("mine", "owner", "mine", timing, "s", begin_ms, prompt="look", tools=("notes",))
    fleet.databases[0].run_sync(lambda conn: schedules.add(conn, started(mine, begin_ms)))
    try:
        for number in range(int(timedelta(hours=36) / STEP)):
            fleet.look(begin + number * STEP)
        ids = Counter(fields["id"] for fields in fleet.sent())
        assert set(ids.values()) == {1}
        assert _local(ids, "brief", zone) == brief
        assert _local(ids, "night", zone) == night
        assert _local(ids, "schedule-mine", zone) == [one.replace(" 07:", " 09:") for one in brief]
        quarters = sorted(one.partition("@")[2] for one in ids if one.startswith("quarter@"))
        moments = [datetime.fromisoformat(one.replace("Z", "+00:00")) for one in quarters]
        assert {later - earlier for earlier, later in pairwise(moments)} == {timedelta(hours=6)}
        assert not any("late" in fields.get("text", "") for fields in fleet.sent())
    finally:
        fleet.close()


@pytest.mark.parametrize(
    ("policy", "told"), [(Missed.RUN_ONCE, "2 earlier times were missed"), (Missed.RUN_ALL, "late"), (Missed.SKIP, "")]
)
def test_hours_without_beat_follow_the_policy_of_the_workflow(
    server: TestRedis, tmp_path: Path, policy: Missed, told: str
) -> None:
    fleet = Fleet(server, tmp_path, "UTC")
    fleet.catalogue = Catalogue(workflows=(_workflow("hourly", f"0 * * * * {policy.value}", "UTC"),))
    begin = datetime(2027, 1, 4, 10, 30, tzinfo=UTC)
    try:
        fleet.look(begin)
        fleet.look(begin + timedelta(hours=3))  # 11:00, 12:00 and 13:00 went by
        sent = fleet.sent()
        if policy is Missed.SKIP:
            assert [one["workflow"] for one in sent] == ["notice"]
            assert "missed 3 times, the last of them 2027-01-04 13:00" in sent[0]["params"]
            assert sent[0]["session"] == "daily"
        else:
            hours = ["13"] if policy is Missed.RUN_ONCE else ["11", "12", "13"]
            assert [one["id"] for one in sent] == [f"hourly@2027-01-04T{hour}:00Z" for hour in hours]
            assert told in sent[0]["text"]
        fleet.look(begin + timedelta(hours=3, minutes=31))
        assert fleet.sent()[-1]["id"] == "hourly@2027-01-04T14:00Z"
        assert "text" not in fleet.sent()[-1]
    finally:
        fleet.close()


# --- real processes ------------------------------------------------------------------------------------------------


TICKS = {
    "CAPATAZ_WORKFLOWS__TICK_S": "1",
    "CAPATAZ_WORKFLOWS__CRON": '{"weekly-metrics": "every 2s", "daily-brief": "off"}',
}
TAKEOVER_S = 60.0
LATE_FLOW = '''
from shared.contract import Effect
from workers.workflows.define import step, workflow

@step(effect=Effect.READ)
def hello(ctx, inputs):
    """Says hello."""
    return "hello"

@workflow("late-comer", title="Late", result="hello", cron="every 2s")
def late_comer():
    return [hello]
'''


def _beat(system: System, name: str) -> Proc:
    proc = Proc(name, plan.python("workers.beat"), system.env(), system.folder / f"{name}.log")
    system.others.append(proc)
    return proc


def _slots(client: Client, session: str = "daily", workflow: str = "weekly-metrics") -> list[Any]:
    """The slots that ran, in order."""
    entries = [entry.value for entry in client.history(session) if isinstance(entry.value, UserMessage)]
    return [one.params["slot_ms"] for one in entries if one.workflow == workflow]


def _wait(condition: Callable[[], bool], what: str, seconds: float = TAKEOVER_S) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, what
        time.sleep(0.1)


def test_beats_that_die_stall_or_lose_their_lock(make_system: Callable[..., System], model: ModelServer) -> None:
    system = make_system(env=TICKS)
    client = Client.connect(system.redis_url)
    first = _beat(system, "beat-1")
    _wait(lambda: len(_slots(client)) >= 2, "nothing ran")
    second = _beat(system, "beat-2")

    system.kill(first)  # it holds the lock
    system.others.remove(first)
    before = len(_slots(client))
    _wait(lambda: len(_slots(client)) >= before + 2, "no other beat took over")

    third = _beat(system, "beat-3")
    system.pause(second)
    _wait(lambda: len(_slots(client)) >= before + 3, "no slot after the pause")
    before = len(_slots(client))
    _wait(lambda: len(_slots(client)) >= before + 2, "nobody took over from the beat that stalls")
    system.resume(second)
    assert second.popen.wait(TAKEOVER_S) == 1
    assert "the lock was lost" in second.output()
    system.others.remove(second)

    with system.client() as redis:
        redis.delete("capataz:beat::lock")
    assert third.popen.wait(TAKEOVER_S) == 1  # to be started anew
    third.start()
    before = len(_slots(client))

    # A worker with other schedules starts later: nobody tells beat.
    flows = system.folder / "late_flow.py"
    flows.write_text(LATE_FLOW)
    env = {**system.env(), "CAPATAZ_WORKER__TOOL_MODULES": f'["{flows}"]'}
    argv = plan.python("workers", "--queues", "tools,workflows,playbook-learner,vision", "--name", "worker-late")
    system.workers.append(Proc("worker-late", argv, env, system.folder / "worker-late.log"))
    _wait(lambda: len(_slots(client, workflow="late-comer")) >= 2, "the schedule of the new worker was not noticed")
    _wait(lambda: len(_slots(client)) > before, "the beat that was started anew does not tick")

    for workflow in ("weekly-metrics", "late-comer"):
        slots = _slots(client, workflow=workflow)
        assert slots == sorted(set(slots))
    ended = [entry.value for entry in client.history("daily") if isinstance(entry.value, RunEnded)]
    assert {one.state for one in ended} == {"ended"}
    assert any("earlier time" in one.answer for one in ended), "what was missed during a takeover is told"
    client.close()
