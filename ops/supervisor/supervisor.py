"""The supervisor behind `capataz up`: starts a system's processes, keeps them up, stops them in order."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import redis

from ops import models
from ops.redis_server import RELAXED_PROMISE, RedisServer, free_port, secret_file
from ops.supervisor import plan, run_file
from ops.supervisor.child import Child, State
from ops.supervisor.heartbeats import Alive, alive
from ops.supervisor.launch import ForkServer, can_fork, execute
from ops.supervisor.plan import Endpoints, ProcessSpec, Profile
from ops.supervisor.pulses import Pulses
from ops.supervisor.report import Reporter
from shared.errors import OperatorError, StateUnavailable
from shared.keyring import ensure_key
from shared.settings import Settings
from shared.state.connection import connect_sync, mapped

_POLL_S = 0.1
_TICK_S = 1.0


@dataclass(frozen=True)
class Options:
    """How much to start. `workers` None: the profile's number. `scenarios`: files for the rehearsal model."""

    profile: Profile = "small"
    workers: int | None = None
    beat: bool = True
    flower: bool = True
    scenarios: tuple[Path, ...] = ()


class Supervisor:
    """One local system in one data folder. `run` does everything; use each object once."""

    def __init__(
        self, settings: Settings, options: Options, reporter: Reporter, environ: Mapping[str, str] | None = None
    ) -> None:
        self._settings = settings
        self._options = options
        self._report = reporter
        self._environ = dict(os.environ if environ is None else environ)
        self._data = settings.data.dir.absolute()
        self._logs = self._data / "logs"
        self._children: list[Child] = []
        self._stop = asyncio.Event()
        self._started = time.monotonic()
        self._info: run_file.RunInfo | None = None
        self._client: redis.Redis | None = None
        self._ready = asyncio.Event()
        self._pulses = Pulses(settings.supervisor.stuck_s)
        self._replacing: set[asyncio.Task[None]] = set()
        self._migrating: asyncio.subprocess.Process | None = None
        self._forks: ForkServer | None = None
        self.rehearsal = False

    @property
    def children(self) -> tuple[Child, ...]:
        """The processes that it keeps up, as far as they have been started."""
        return tuple(self._children)

    async def ready(self) -> run_file.RunInfo:
        """Waits until coordinator and workers have heartbeats. Cancel it if `run` may end first."""
        await self._ready.wait()
        assert self._info is not None
        return self._info

    async def run(self) -> None:
        """Starts everything, returns after SIGTERM, SIGINT, SIGHUP or `request_stop`, with everything stopped.

        Raises OperatorError when another system has the data folder or a Redis cannot be started or reached.
        """
        with run_file.lock(self._data):
            self._logs.mkdir(exist_ok=True, mode=0o700)
            self._catch_signals()
            try:
                await self._start()
                await self._watch()
            finally:
                await self._stop_all()

    def request_stop(self) -> None:
        """Begins to stop; a second request kills what is left."""
        if self._stop.is_set():
            for child in self._children:
                child.kill()
        self._stop.set()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(signum, self.request_stop)

    async def _start(self) -> None:
        settings = self._settings
        settings.workspace.dir.mkdir(parents=True, exist_ok=True)
        if can_fork():
            self._forks = ForkServer(plan.fork_env(self._environ), self._logs / "forkserver.log")
            await self._forks.start()
        choosing = asyncio.create_task(asyncio.to_thread(models.choose, settings.models, self._environ))
        self._migrating = await self._migrate()
        state, broker = self._redis_servers()
        endpoints = Endpoints(
            redis_url=state.url if state else settings.redis.url,
            broker_url=broker.broker_url if broker else settings.redis.broker_url,
            signing_key=ensure_key(self._data, self._environ).decode(),
            flower_password=self._environ.get("CAPATAZ_FLOWER_PASSWORD")
            or secret_file(self._data / "flower-password", digits=24),
            flower_port=settings.flower.port or free_port(),
        )
        await self._await_redis(state, broker)
        self._client = connect_sync(endpoints.redis_url)
        self._say_durability(state)
        choice = await choosing
        self.rehearsal = choice.rehearsal
        self._say_model(choice)
        env = self._model_environment(choice, endpoints)
        flower = ""
        if self._options.flower and settings.flower.enabled:
            flower = f"http://{settings.flower.host}:{endpoints.flower_port}"
            self._report.say(
                f"flower     {flower}  user {settings.flower.user}, password in {self._data}/flower-password"
            )
        self._info = run_file.RunInfo(
            pid=os.getpid(),
            started_ms=int(time.time() * 1000),
            redis_url=endpoints.redis_url,
            broker_url=endpoints.broker_url,
            model=choice.name,
            flower_url=flower,
            data_dir=str(self._data),
            workspace=str(settings.workspace.dir.absolute()),
        )
        options = self._options
        for spec in plan.processes(
            settings,
            endpoints,
            env,
            profile=options.profile,
            workers=options.workers,
            beat=options.beat,
            flower=options.flower,
        ):
            self._add(spec)
        self._write_info()

    async def _migrate(self) -> asyncio.subprocess.Process:
        """Begins to bring the archive's schema up to date, so that no process that stays has to load the tool for it.

        Nobody waits for it: whoever needs the archive before it is done, or after it failed, does the same.
        What it says is in `logs/archive.log`.
        """
        env = {**plan.plain_env(self._environ), **plan.import_path(self._environ)}
        with (self._logs / "archive.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *plan.python("shared.sql"), env=env, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _redis_servers(self) -> tuple[RedisServer | None, RedisServer | None]:
        """Begins to start the servers that the settings do not name."""
        redis_settings = self._settings.redis
        servers: list[RedisServer | None] = []
        for kind, url in (("state", redis_settings.url), ("broker", redis_settings.broker_url)):
            if url:
                servers.append(None)
                continue
            server = RedisServer(
                "state" if kind == "state" else "broker",
                self._data / f"redis-{kind}",
                redis_settings.durability,
                max_memory_mb=redis_settings.max_memory_mb,
            )
            argv = tuple(server.prepare())
            self._add(ProcessSpec(f"redis-{kind}", kind, argv, plan.plain_env(self._environ), grace_s=10.0))
            self._report.say(f"{kind:<10} redis {server.binary.version} ({server.binary.source}) in {server.folder}")
            if kind == "state":
                self._report.say(f"           {server.cli}")
            servers.append(server)
        return servers[0], servers[1]

    async def _await_redis(self, *servers: RedisServer | None) -> None:
        for server in filter(None, servers):
            while not await asyncio.to_thread(server.answers):
                child = next(child for child in self._children if child.spec.role == server.kind)
                if child.row.state is State.BACKING_OFF:
                    raise OperatorError(
                        f"the {server.kind} Redis {child.row.note}", hint=f"see {child.log_file}", code="redis_failed"
                    )
                if self._stop.is_set():
                    return
                await asyncio.sleep(0.02)
        if not servers[0]:
            with mapped():
                await asyncio.to_thread(self._check_named_redis)

    def _check_named_redis(self) -> None:
        with connect_sync(self._settings.redis.url) as client:
            client.ping()

    def _say_durability(self, state: RedisServer | None) -> None:
        if state is None:
            self._report.say("state      the Redis of REDIS_URL; `capataz doctor` says what it promises")
        elif state.durability == "relaxed":
            self._report.say(f"durability relaxed: {RELAXED_PROMISE}")
        else:
            self._report.say("durability strict: a message is on disk before it is acknowledged")

    def _say_model(self, choice: models.Choice) -> None:
        for notice in choice.notices:
            self._report.say(f"notice     {notice}")
        self._report.say(f"model      {choice.name} ({choice.source})")
        if choice.rehearsal:
            self._report.say(
                "           REHEARSAL: scripted answers. Set an API key (OPENAI_API_KEY, …) for a real model"
            )

    def _model_environment(self, choice: models.Choice, endpoints: Endpoints) -> dict[str, str]:
        """The environment of coordinator and workers; starts the rehearsal server where it is needed."""
        if not choice.rehearsal:
            return plan.child_env(self._environ, self._settings, endpoints, choice.env)
        port = free_port()
        env = plan.child_env(self._environ, self._settings, endpoints, models.rehearsal_env(port))
        self._add(plan.rehearsal(port, self._data / "rehearsal.ready", env, self._options.scenarios))
        return env

    def _add(self, spec: ProcessSpec) -> None:
        child = Child(spec, self._logs, self._changed, self._forks.launch if self._forks else execute)
        self._children.append(child)
        child.start()

    def _changed(self, child: Child) -> None:
        self._report.changed(child.row, [one.row for one in self._children])
        self._write_info()

    def _write_info(self) -> None:
        if self._info is not None and not self._stop.is_set():
            pids = {child.row.name: child.row.pid for child in self._children if child.row.pid}
            run_file.write(self._data, replace(self._info, processes=pids))

    async def _watch(self) -> None:
        """Says when the system is ready, then keeps the table fresh until asked to stop."""
        wanted = [child for child in self._children if child.spec.role in ("coordinator", "worker")]
        while not self._stop.is_set():
            live = await asyncio.to_thread(self._alive)
            self._replace_stuck(wanted, live)
            if not self._ready.is_set():
                if live is not None and all(live.has(child.row.pid) for child in wanted):
                    self._ready.set()
                    seconds = time.monotonic() - self._started
                    self._report.say(f'ready in {seconds:.1f} s: capataz ask "…"  (stop with Ctrl-C or `capataz down`)')
            else:
                for child in self._children:
                    child.trim_log()
            self._report.tick([child.row for child in self._children])
            try:
                async with asyncio.timeout(_TICK_S if self._ready.is_set() else _POLL_S):
                    await self._stop.wait()
            except TimeoutError:
                continue

    def _replace_stuck(self, children: list[Child], live: Alive | None) -> None:
        """Begins to replace those that run without a heartbeat: paused, or stuck."""
        running = {
            child.spec.name: child.row.pid for child in children if child.row.state is State.RUNNING and child.row.pid
        }
        seen = None if live is None else {name: (pid, live.has(pid)) for name, pid in running.items()}
        silent = self._pulses.look(time.monotonic(), seen)
        for child in children:
            if (seconds := silent.get(child.spec.name)) is not None:
                task = asyncio.create_task(child.replace(f"lived without a heartbeat for {seconds:.0f} s"))
                self._replacing.add(task)
                task.add_done_callback(self._replacing.discard)

    def _alive(self) -> Alive | None:
        """Who has a fresh heartbeat; None when the state cannot be asked."""
        if self._client is None:
            return None
        try:
            with mapped():
                return alive(self._client)
        except StateUnavailable:  # being restarted; its row says so
            return None

    async def _stop_all(self) -> None:
        self._stop.set()
        if self._migrating is not None:
            if self._migrating.returncode is None:
                self._migrating.terminate()  # what it has begun is one transaction
            await self._migrating.wait()
        for stage in plan.STOP_ORDER:
            await asyncio.gather(*(child.stop() for child in self._children if child.spec.role in stage))
        if self._forks is not None:
            await self._forks.close()
        if self._client is not None:
            self._client.close()
        self._report.say("stopped")
        self._report.close()
