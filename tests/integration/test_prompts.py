"""`capataz ask` at a terminal: what waits for a person is asked there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator

import pytest

from ops.supervisor import plan
from tests.integration.conftest import PROBE_ENV
from tests.integration.test_messages import call, calls
from tests.integration.test_waits import ASKING, written
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def system(model: ModelServer) -> Iterator[System]:
    with System(model_url=model.url, env={**PROBE_ENV, **ASKING}) as running:
        yield running


def talk(system: System, text: str, answers: dict[str, str]) -> tuple[int, str]:
    """What `capataz ask` prints at a terminal at which a person types an answer where its cue comes up."""
    master, slave = pty.openpty()
    env = {**system.env(), "PYTHONPATH": str(plan.ROOT)}
    command = plan.python("ops.cli.main", "ask", text)
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True) as process:
        os.close(slave)
        shown, left, give_up = "", dict(answers), time.monotonic() + 40
        while time.monotonic() < give_up:
            if not select.select([master], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            shown += piece.decode("utf-8", "replace")
            for cue in [cue for cue in left if cue in shown]:
                os.write(master, f"{left.pop(cue)}\n".encode())
        process.kill() if process.poll() is None and time.monotonic() >= give_up else None
    os.close(master)
    return process.returncode, shown


def test_a_person_says_yes(system: System, model: ModelServer) -> None:
    model.script(calls(call("probe_write", tag="typed")))
    code, shown = talk(system, "go", {"and why": "y"})
    assert code == 0, shown
    assert "approved: probe_write" in shown
    assert "write typed" in written(system)


def test_a_person_says_no_and_answers(system: System, model: ModelServer) -> None:
    model.script(calls(call("probe_write", tag="refused"), call("ask_user", question="what then?", options=["rest"])))
    code, shown = talk(system, "go", {"and why": "no not now", "your answer": "1"})
    assert code == 0, shown
    assert "not now" in shown
    assert "The user answered: rest" in shown
    assert "write refused" not in written(system)
