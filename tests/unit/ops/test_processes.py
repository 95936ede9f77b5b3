"""The helper that other tests start whole systems with."""

import pytest

from shared.client import Client
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration


def test_a_system_of_two_and_two_answers_also_after_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:9/0")  # the caller's settings must not leak in
    monkeypatch.setenv("CAPATAZ_COORDINATOR__WIDTH", "not a number")
    with ModelServer(names=["default"]) as model, System(model_url=model.url, coordinators=2, workers=2) as system:
        live = system.alive()
        assert (len(live.coordinators), len(live.workers)) == (2, 2)
        client = Client.connect(system.redis_url)
        assert "391" in client.ask("what is 17*23", timeout=60).answer
        victim = system.workers[0]
        system.kill(victim)
        assert not victim.alive
        victim.start()
        system.wait_ready()
        assert "12" in client.ask("what is 3*4", timeout=60).answer
        assert system.terminate(system.coordinators[0]) == 0
        client.close()
        folder, pids = system.folder, [proc.pid for proc in (*system.coordinators, *system.workers)]
        assert len(set(pids)) == 4
    assert not folder.exists()


def test_one_that_cannot_start_shows_its_output() -> None:
    with ModelServer(names=["default"]) as model:
        system = System(model_url=model.url, env={"CAPATAZ_COORDINATOR__WIDTH": "many"})
        with pytest.raises(AssertionError, match=r"coordinator\.width"), system:
            pass
        assert not system.folder.exists()
