"""The lock that makes a data folder's system unique, and the file by which other commands find it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shared.errors import OperatorError


@dataclass(frozen=True)
class RunInfo:
    """What `run.json` says of a running system. `processes` maps names to pids; URLs carry their passwords."""

    pid: int
    started_ms: int
    redis_url: str
    broker_url: str
    model: str
    flower_url: str = ""
    data_dir: str = ""
    workspace: str = ""
    processes: dict[str, int] = field(default_factory=dict)


def _lock_path(data_dir: Path) -> Path:
    return data_dir / "up.lock"


def _info_path(data_dir: Path) -> Path:
    return data_dir / "run.json"


@contextmanager
def lock(data_dir: Path) -> Iterator[None]:
    """Holds the data folder for this process; refused with the owner's pid. The kernel frees it at death."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(_lock_path(data_dir), "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise OperatorError(
                f"a system is running on {data_dir} already (pid {file.read().strip() or 'unknown'})",
                hint="stop it with `capataz down`, or use another CAPATAZ_DATA__DIR",
                code="already_running",
            ) from error
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            _info_path(data_dir).unlink(missing_ok=True)


def owner(data_dir: Path) -> int | None:
    """The pid of the supervisor that holds the data folder, None when nobody does."""
    try:
        with open(_lock_path(data_dir), encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read().strip() or 0) or None
    except FileNotFoundError:
        pass
    return None


def write(data_dir: Path, info: RunInfo) -> None:
    """Replaces `run.json` (0600) in one step."""
    fresh = data_dir / f".run.{secrets.token_hex(4)}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(info), file, indent=1)
    fresh.replace(_info_path(data_dir))


def read(data_dir: Path) -> RunInfo | None:
    """The running system's file; None when no supervisor holds the folder or it has not got that far."""
    if owner(data_dir) is None:
        return None
    try:
        values = json.loads(_info_path(data_dir).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return RunInfo(**{name: value for name, value in values.items() if name in RunInfo.__dataclass_fields__})
