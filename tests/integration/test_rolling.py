"""Rolling restarts under load: every coordinator and every worker is told to end and started anew, twice."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.client import Client
from shared.contract import NodeState
from shared.entries import RunEnded
from shared.errors import CapatazError
from shared.ids import nonce
from shared.messages import Reply
from tests.chaos import check, probe
from tests.chaos import tools as chaos_tools
from tests.chaos.model import RULES
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(300)]

KINDS = ("mix", "chain", "long")
"""Small graphs with reads, writes and references; calls of half a minute in none of them."""
USERS = 4
ROUNDS = 2


class Load:
    """Users who ask one message after the other until `stop`; `replies` has every answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.replies: list[Reply] = []
        self.failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._user, args=(n,), name=f"user-{n}") for n in range(USERS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _user(self, number: int) -> None:
        client = Client.connect(self._url)
        try:
            for turn in itertools.count():
                if self._stop.is_set():
                    return
                text = f"{KINDS[(turn + number) % len(KINDS)]} {nonce()}"
                reply = client.ask(text, session=f"user{number}-{turn // 8}", timeout=60, tools=("chaos",))
                with self._lock:
                    self.replies.append(reply)
        except (CapatazError, TimeoutError) as error:
            self.failures.append(error)
        finally:
            client.close()

    def await_more(self, count: int) -> None:
        """Returns when so many more messages have been answered."""
        goal = len(self.replies) + count
        probe.until(lambda: len(self.replies) >= goal or self.failures, f"{count} more answers")


@pytest.fixture
def system() -> Iterator[System]:
    env = {
        "CAPATAZ_WORKER__TOOL_MODULES": json.dumps([str(Path(str(chaos_tools.__file__)))]),
        "CAPATAZ_ROUTING__ENCODER": "off",
        "CAPATAZ_PLAYBOOK__ENABLED": "false",
    }
    with (
        ModelServer(rules=RULES) as model,
        System(model_url=model.url, coordinators=2, workers=2, env=env) as running,
    ):
        yield running


def test_rolling_restart_is_not_noticed(system: System) -> None:
    with Load(system.redis_url) as load:
        load.await_more(USERS)
        for proc in (*system.coordinators, *system.workers) * ROUNDS:
            assert system.terminate(proc, timeout_s=60) == 0, proc.output()[-2000:]
            proc.start()
            system.wait_ready()
            load.await_more(2)
    assert load.failures == []
    assert [reply for reply in load.replies if not reply.ok] == []
    with system.client() as raw:
        probe.until(lambda: not check.leftovers(raw), "rest")
        world = check.World.read(raw, system.workspace)
    results = [result for _, result in world.nodes() if result is not None]
    assert {result.state for result in results} == {NodeState.DONE}
    assert check.effects(world, hurt=()) == []
    assert check.histories(world) == []
    ends = [e.value.state for log in world.logs.values() for e in log if isinstance(e.value, RunEnded)]
    assert set(ends) == {"ended"}
    assert len(ends) == len(load.replies)
    codes = [e.data.get("code") for events in world.events.values() for e in events if e.type == "notice"]
    assert "taken_over" in codes, "no coordinator had a run when it was told to end"
    assert "node_requeued" not in codes, "a worker's claim was waited for until its lease ran out"
