"""A whole system of real processes for tests: two Redis servers, coordinators, workers, and beat on request."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import redis

from ops import models
from ops.redis_server import Durability
from ops.supervisor import plan, shim
from ops.supervisor.heartbeats import Alive, alive
from ops.supervisor.plan import Endpoints
from shared.names import LOCAL_PRINCIPAL, QUEUES, WORKFLOW_LEARN, day_session
from shared.settings import DataSettings, Settings, WorkspaceSettings
from tests.support.redis import TestRedis

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


class Proc:
    """One started process; `log` is its captured output."""

    def __init__(self, name: str, argv: tuple[str, ...], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.argv = argv
        self.env = dict(env)
        self.log = log
        self._popen: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts it, also again after its end; its log goes on."""
        command = list(self.argv)
        if threading.current_thread() is threading.main_thread():
            command = shim.command(command)
        with open(self.log, "ab") as out:
            self._popen = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=plan.ROOT, process_group=0
            )

    @property
    def popen(self) -> subprocess.Popen[bytes]:
        """The process."""
        assert self._popen is not None
        return self._popen

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self.popen.poll() is None

    def output(self) -> str:
        """Everything that it has printed."""
        return self.log.read_text("utf-8", "replace")


class System:
    """Use as a context manager, or `start` and `stop`. Everything lives in `folder`, a short-lived one by default.

    `model_url` is the base URL (`http://…/v1`) of an OpenAI-compatible server whose model is called `rehearsal`.
    `env` goes over the settings of all processes (`{"CAPATAZ_COORDINATOR__WIDTH": "4"}`).
    """

    def __init__(
        self,
        *,
        model_url: str,
        coordinators: int = 1,
        workers: int = 1,
        queues: tuple[str, ...] = QUEUES,
        workspace: Path | None = None,
        folder: Path | None = None,
        durability: Durability = "strict",
        beat: bool = False,
        env: Mapping[str, str] = {},
    ) -> None:
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="cpz-"))
        self.workspace = workspace or self.folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.state = TestRedis(self.folder / "state", durability=durability)
        self.broker = TestRedis(self.folder / "broker", kind="broker")
        self.signing_key = secrets.token_hex(32)
        self._counts = (coordinators, workers)
        self._queues = queues
        self._beat = beat
        self._model_url = model_url
        self._extra = dict(env)
        self.coordinators: list[Proc] = []
        self.workers: list[Proc] = []
        self.others: list[Proc] = []

    @property
    def redis_url(self) -> str:
        """The state Redis, for redis-py."""
        return self.state.url

    def client(self) -> redis.Redis:
        """A sync client of the state Redis."""
        return self.state.client()

    def env(self) -> dict[str, str]:
        """The environment of its processes; nothing of the caller's settings leaks in."""
        base = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        config = self.folder / "capataz.toml"
        config.touch()  # an empty file, so that one in the current folder is not read
        settings = Settings.model_construct(
            data=DataSettings(dir=self.folder / "data"), workspace=WorkspaceSettings(dir=self.workspace)
        )
        endpoints = Endpoints(self.state.url, self.broker.broker_url, self.signing_key)
        definition = {"preset": models.REHEARSAL, "base_url": self._model_url}
        extra = {
            "CAPATAZ_CONFIG": str(config),
            "CAPATAZ_COORDINATOR__CLAIMS_GUARD": "false",  # scripted models say "done" of anything
            **plan.model_env(models.REHEARSAL, definition, dict.fromkeys(models.TIERS, models.REHEARSAL)),
            **self._extra,
        }
        return plan.child_env(base, settings, endpoints, extra)

    def start(self, timeout_s: float = 60.0) -> System:
        """Starts everything and returns when all coordinators and workers have shown their first heartbeat."""
        self.state.start()
        self.broker.start()
        for _ in range(self._counts[0]):
            self.add_coordinator()
        for _ in range(self._counts[1]):
            self.add_worker()
        if self._beat:
            self.others.append(self._proc("beat", plan.python("workers.beat")))
        self.wait_ready(timeout_s)
        return self

    def add_coordinator(self) -> Proc:
        """Starts one more coordinator; does not wait for it."""
        proc = self._proc(f"coordinator-{len(self.coordinators) + 1}", plan.python("coordinator"))
        self.coordinators.append(proc)
        return proc

    def add_worker(self, queues: tuple[str, ...] | None = None) -> Proc:
        """Starts one more worker; does not wait for it."""
        name = f"worker-{len(self.workers) + 1}"
        argv = plan.python("workers", "--queues", ",".join(queues or self._queues), "--name", name)
        proc = self._proc(name, argv)
        self.workers.append(proc)
        return proc

    def alive(self) -> Alive:
        """Whose heartbeats are fresh."""
        with self.client() as client:
            return alive(client)

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Returns when every running process has a heartbeat; fails with the logs when one ends or time is up."""
        give_up = time.monotonic() + timeout_s
        while True:
            for proc in (*self.coordinators, *self.workers, *self.others):
                if not proc.alive:
                    raise AssertionError(f"{proc.name} ended with {proc.popen.returncode}\n{proc.output()[-4000:]}")
            live = self.alive()
            if all(live.has(proc.pid) for proc in (*self.coordinators, *self.workers)):
                return
            if time.monotonic() > give_up:
                tails = "\n".join(f"== {p.name}\n{p.output()[-2000:]}" for p in (*self.coordinators, *self.workers))
                raise AssertionError(f"not ready after {timeout_s} s: {live}\n{tails}")
            time.sleep(0.05)

    def kill(self, proc: Proc) -> None:
        """SIGKILL to its whole process group; returns when it is dead."""
        _signal_group(proc, signal.SIGKILL)
        proc.popen.wait()

    def pause(self, proc: Proc) -> None:
        """SIGSTOP."""
        proc.popen.send_signal(signal.SIGSTOP)

    def resume(self, proc: Proc) -> None:
        """SIGCONT."""
        proc.popen.send_signal(signal.SIGCONT)

    def terminate(self, proc: Proc, timeout_s: float = 30.0) -> int:
        """SIGTERM; returns its exit code."""
        proc.popen.terminate()
        return proc.popen.wait(timeout_s)

    def stop(self) -> None:
        """Ends everything at once and removes the folder if it is ours. Harmless when repeated."""
        for proc in (*self.others, *self.coordinators, *self.workers):
            _signal_group(proc, signal.SIGKILL)
            proc.popen.wait()
        self.broker.kill()
        self.state.kill()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _proc(self, name: str, argv: tuple[str, ...]) -> Proc:
        return Proc(name, argv, self.env(), self.folder / f"{name}.log")

    def __enter__(self) -> System:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.stop()


def lessons() -> str:
    """The session in which what the local owner did today is learned from."""
    return day_session(WORKFLOW_LEARN, int(time.time() * 1000), LOCAL_PRINCIPAL)


def _signal_group(proc: Proc, signum: signal.Signals) -> None:
    try:
        os.killpg(proc.pid, signum)
    except ProcessLookupError:
        pass
