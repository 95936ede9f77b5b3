"""The whole command line against the real processes."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest

from ops.supervisor import plan

pytestmark = pytest.mark.integration


@dataclass
class Cli:
    """`capataz` in a folder of its own, with none of the caller's settings."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    def env(self) -> dict[str, str]:
        """The environment of its commands."""
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        # Servers that happen to listen on this machine must not be taken for a model.
        return {**inherited, **plan.import_path({}), "CAPATAZ_CONFIG": str(self.folder / "capataz.toml")}

    def argv(self, *args: str) -> tuple[str, ...]:
        """A command line."""
        return (*plan.python("ops.cli.main"), *args)

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            self.argv(*args), cwd=self.folder, env=self.env(), capture_output=True, text=True, timeout=90, check=False
        )

    def processes(self) -> dict[str, int]:
        """Names and pids of the running system."""
        found: dict[str, int] = json.loads((self.folder / ".capataz" / "run.json").read_text())["processes"]
        return found


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """A running system."""
    (tmp_path / "capataz.toml").touch()
    cli = Cli(tmp_path)
    up = subprocess.Popen(
        cli.argv("up"), cwd=tmp_path, env=cli.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert up.stdout is not None
    try:
        for line in up.stdout:
            cli.lines.append(line)
            if line.startswith("ready in"):
                break
        else:
            pytest.fail("".join(cli.lines))
        Thread(target=cli.lines.extend, args=(up.stdout,), daemon=True).start()  # keeps the pipe from filling up
        yield cli
    finally:
        up.terminate()
        try:
            up.wait(60)
        except subprocess.TimeoutExpired:
            up.kill()


def test_a_conversation_a_death_and_an_orderly_end(cli: Cli) -> None:
    asked = cli.run("ask", "what is 17*23", "--json")
    assert asked.returncode == 0, asked.stdout + asked.stderr
    reply = json.loads(asked.stdout)
    assert "391" in reply["answer"]
    assert reply["model"].startswith("rehearsal")

    shown = cli.run("ask", "what is 3*41", "--session", "s1")
    assert "calculate" in shown.stdout
    assert "123" in shown.stdout
    runs = json.loads(cli.run("runs", "--json").stdout)
    assert [run["state"] for run in runs] == ["ended", "ended"]

    before = cli.processes()
    assert {"coordinator-1", "worker-1", "beat", "flower", "rehearsal", "redis-state", "redis-broker"} <= set(before)
    os.kill(before["worker-1"], signal.SIGKILL)
    again = cli.run("ask", "what is 9*9", "--json")
    assert "81" in json.loads(again.stdout)["answer"]
    assert cli.processes()["worker-1"] != before["worker-1"]

    assert cli.run("doctor").returncode == 0
    second = cli.run("up")
    assert second.returncode == 1
    assert "already" in second.stderr
    pids = list(cli.processes().values())
    assert cli.run("down").returncode == 0
    assert [pid for pid in pids if _exists(pid)] == []
    assert cli.run("ask", "hi").returncode == 3


def test_killed_with_sigkill_it_leaves_nobody_behind(cli: Cli) -> None:
    pids = list(cli.processes().values())
    owner = json.loads((cli.folder / ".capataz" / "run.json").read_text())["pid"]
    os.kill(owner, signal.SIGKILL)
    give_up = time.monotonic() + 20
    while left := [pid for pid in pids if _exists(pid)]:
        assert time.monotonic() < give_up, left
        time.sleep(0.05)


def _exists(pid: int) -> bool:
    """True for a process that runs; one that only waits to be collected by init has ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
