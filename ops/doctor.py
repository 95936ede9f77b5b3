"""What this installation has, from where, and what it lacks: the report behind `capataz doctor`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import redis.exceptions

from ops import models
from ops.extras import missing_extras
from ops.redis_server import RELAXED_PROMISE, find_server
from ops.supervisor import plan, run_file
from shared import keyring
from shared.client import Client
from shared.contract import Catalogue
from shared.delivery import SESSION, lacking
from shared.errors import CapatazError, ConfigError
from shared.names import LOCAL_PRINCIPAL
from shared.settings import Settings, config_file, load
from shared.signing import key_id
from shared.sql import Database, database_url
from shared.state.connection import connect_sync, mapped
from shared.state.ticks import last_tick

_NEEDS_REDIS = 7
_LATE_TICKS = 10
"""So many ticks without a look are more than a restart of beat takes."""
_SECRET_PART = re.compile(r"(://[^/@:]*):[^/@]*@")


class Verdict(StrEnum):
    """`missing`: it does not work without. `warning`: it works, but look at it."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One line of the report. `source` says where it was found; `hint` what to do."""

    name: str
    verdict: Verdict
    text: str
    source: str = ""
    hint: str = ""


@dataclass(frozen=True)
class SettingRow:
    """A setting that is not at its default, and where its value comes from. Secrets in URLs are masked."""

    key: str
    value: str
    source: str


@dataclass(frozen=True)
class Report:
    """Everything that `capataz doctor` says. `missing_tools` maps names to reasons."""

    checks: tuple[Check, ...]
    settings: tuple[SettingRow, ...] = ()
    missing_tools: Mapping[str, str] | None = None

    @property
    def ok(self) -> bool:
        """True if nothing needed is missing."""
        return all(check.verdict is not Verdict.MISSING for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"ok": self.ok, **asdict(self)}


def examine(environ: Mapping[str, str]) -> Report:
    """Looks at everything; never raises for what is wrong, which becomes a line of the report."""
    python = ".".join(map(str, sys.version_info[:3]))
    checks = [Check("python", Verdict.OK, python, sys.executable)]
    try:
        settings = load()
        file = config_file(dict(environ))
    except ConfigError as error:
        return Report((*checks, Check("settings", Verdict.MISSING, error.message, hint=error.hint)))
    values = tomllib.loads(file.read_text("utf-8")) if file else {}
    rows = tuple(changed_settings(settings, environ, values, str(file)))
    checks.append(Check("settings", Verdict.OK, f"{len(rows)} not at their default", str(file or "no capataz.toml")))
    running = run_file.read(settings.data.dir.absolute())
    url = settings.redis.url or (running.redis_url if running else "")
    checks += [_data_folder(settings), _workspace(settings), _key(settings, environ), _sql(settings), _extras()]
    checks += [_guarded("model", lambda: _model(settings, environ, running)), *_servers(settings, running)]
    checks += _channels(settings, environ)
    missing: Mapping[str, str] | None = None
    if url:
        live, missing = _live(url, settings, environ)
        checks += live
    else:
        checks.append(Check("running", Verdict.OK, "no system runs here", hint="start one with `capataz up`"))
    if missing is None:  # nobody alive says so
        tools, missing = _installed_tools(settings, environ)
        checks += tools
    return Report(tuple(checks), rows, missing)


def installed(environ: Mapping[str, str], *, whole: bool = False) -> tuple[Catalogue, str]:
    """The catalogue of a worker with these settings, from a process of its own, and what could not be loaded.

    `whole`: also the tools that are not configured. Raises ConfigError when it cannot be read.
    """
    done = subprocess.run(
        [*plan.python("workers.catalogue"), *(["--all"] if whole else [])],
        env={**environ, **plan.import_path(environ)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ConfigError(f"the catalogue of tools cannot be read: {done.stderr.strip()[-500:]}")
    return Catalogue.model_validate_json(done.stdout), done.stderr.strip()


def _extras() -> Check:
    """Optional packages. That some are missing is no fault: who needs what they bring is told here how to get them."""
    lacking = missing_extras()
    if not lacking:
        return Check("extras", Verdict.OK, "all installed")
    named = ", ".join(f"{extra} ({', '.join(names)})" for extra, names in lacking.items())
    hint = f"for what they bring: pip install 'capataz[{','.join(lacking)}]'"
    return Check("extras", Verdict.OK, f"not installed: {named}", hint=hint)


def _installed_tools(settings: Settings, environ: Mapping[str, str]) -> tuple[list[Check], Mapping[str, str] | None]:
    """What a worker that started now would not offer."""
    folder = settings.workspace.dir.absolute()
    there = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        # A start makes the workspace: its lack now is no reason.
        catalogue, problems = installed({**environ, "CAPATAZ_WORKSPACE__DIR": str(there)})
    except ConfigError as error:
        return [Check("tools", Verdict.MISSING, error.message, hint=error.hint)], None
    text = f"{len(catalogue.tools)} to offer, {len(catalogue.missing)} that lack something"
    if not problems:
        return [Check("tools", Verdict.OK, text)], catalogue.missing
    return [Check("tools", Verdict.WARNING, f"{text}; your own could not all be loaded", hint=problems)], (
        catalogue.missing
    )


def changed_settings(
    settings: Settings, environ: Mapping[str, str], file_values: Mapping[str, Any], file_name: str
) -> Iterator[SettingRow]:
    """The settings that differ from the defaults, with their sources: a variable, the file, or both merged."""
    defaults = _flat(Settings.model_construct().model_dump(mode="json"))
    in_file = _flat(file_values)
    names = {name.upper(): name for name in environ}
    for key, value in _flat(settings.model_dump(mode="json")).items():
        if defaults.get(key) == value:
            continue
        variable = "CAPATAZ_" + key.upper().replace(".", "__")
        if variable in names:
            source = names[variable]
        elif key == "redis.url" and "REDIS_URL" in environ:
            source = "REDIS_URL"
        elif any(one == key or one.startswith(f"{key}.") for one in in_file):
            source = file_name
        else:
            source = "environment"
        yield SettingRow(key, mask(value if isinstance(value, str) else json.dumps(value)), source)


def mask(text: str) -> str:
    """`text` with the passwords of URLs replaced."""
    return _SECRET_PART.sub(r"\1:***@", text)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys of a tree of sections. Free-form mappings are values, as they are for the environment."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and not prefix:
            flat |= _flat(value, f"{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except CapatazError as error:
        return Check(name, Verdict.MISSING, error.message, hint=error.hint)


def _data_folder(settings: Settings) -> Check:
    return _folder("data folder", settings.data.dir, "set CAPATAZ_DATA__DIR to a folder that you can write")


def _workspace(settings: Settings) -> Check:
    return _folder("workspace", settings.workspace.dir, "set CAPATAZ_WORKSPACE__DIR to a folder that you can write")


def _folder(name: str, path: Path, hint: str) -> Check:
    path = path.absolute()
    if path.is_dir():
        ok = os.access(path, os.R_OK | os.W_OK | os.X_OK)
        return Check(
            name,
            Verdict.OK if ok else Verdict.MISSING,
            "writable" if ok else "not writable",
            str(path),
            hint * (not ok),
        )
    parent = next(one for one in path.parents if one.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Check(name, Verdict.OK, "will be made at start", str(path))
    return Check(name, Verdict.MISSING, f"cannot be made in {parent}", str(path), hint)


def _key(settings: Settings, environ: Mapping[str, str]) -> Check:
    path = settings.data.dir.absolute() / keyring.FILE
    if not environ.get(keyring.ENV) and not path.exists():
        return Check("signing key", Verdict.OK, "will be made at start", str(path))
    source = keyring.ENV if environ.get(keyring.ENV) else str(path)
    return _guarded(
        "signing key",
        lambda: Check(
            "signing key", Verdict.OK, f"id {key_id(keyring.load_key(settings.data.dir, dict(environ)))}", source
        ),
    )


def _sql(settings: Settings) -> Check:
    source = "CAPATAZ_SQL__URL or sql.url" if settings.sql.url else "default: SQLite in the data folder"

    def reach() -> Check:
        database = Database(database_url(settings))
        try:
            if database.is_sqlite and not Path(database.where).exists():
                return Check("archive", Verdict.OK, f"{database.where} will be made at start", source)
            database.run_sync(lambda conn: conn.exec_driver_sql("SELECT 1").close())
            return Check("archive", Verdict.OK, f"{database.where} answers", source)
        finally:
            database.close()

    return _guarded("archive", reach)


def _model(settings: Settings, environ: Mapping[str, str], running: run_file.RunInfo | None) -> Check:
    if running is not None:
        return Check("model", Verdict.OK, running.model, "the running system")
    choice = models.choose(settings.models, environ)
    hint = "; ".join(choice.notices)
    if choice.rehearsal:
        hint = "; ".join([*choice.notices, "set OPENAI_API_KEY or another key, or run Ollama, for a real model"])
        return Check("model", Verdict.WARNING, "rehearsal: scripted answers, no real model", choice.source, hint)
    return Check("model", Verdict.WARNING if hint else Verdict.OK, choice.name, choice.source, hint)


def _servers(settings: Settings, running: run_file.RunInfo | None) -> Iterator[Check]:
    """The two Redis servers: reached if there is an address, else what would be started."""
    if settings.redis.url or running:
        url = settings.redis.url or (running.redis_url if running else "")
        yield _guarded("state redis", lambda: _state(url))
    else:
        yield _guarded("state redis", lambda: _binary("state redis"))
        promise = "strict: on disk before it is acknowledged"
        relaxed = settings.redis.durability == "relaxed"
        text = f"relaxed: {RELAXED_PROMISE}" if relaxed else promise
        yield Check("durability", Verdict.WARNING if relaxed else Verdict.OK, text, "redis.durability")
    broker = settings.redis.broker_url or (running.broker_url if running else "")
    if broker:
        yield _broker(broker)
    else:
        yield _guarded("broker", lambda: _binary("broker"))


def _binary(name: str) -> Check:
    server = find_server()
    return Check(name, Verdict.OK, f"{server.version} ({server.source}), will be started by `capataz up`", server.path)


def _state(url: str) -> Check:
    with mapped(), connect_sync(url) as client:
        info: Any = client.info("server")
        version = str(info.get("redis_version", "0"))
        try:
            promise, safe = durability(
                {
                    name: str(client.config_get(name).get(name, ""))
                    for name in ("appendonly", "appendfsync", "maxmemory-policy")
                }
            )
        except redis.exceptions.ResponseError:
            promise, safe = "its durability cannot be read: CONFIG GET is refused", True
    if int(version.split(".")[0]) < _NEEDS_REDIS:
        return Check(
            "state redis", Verdict.MISSING, f"version {version}", mask(url), f"use Redis {_NEEDS_REDIS} or newer"
        )
    return Check("state redis", Verdict.OK if safe else Verdict.WARNING, f"{version}, {promise}", mask(url))


def durability(config: Mapping[str, str]) -> tuple[str, bool]:
    """What a Redis with this configuration promises, in words, and whether that is the strict promise."""
    if config.get("maxmemory-policy", "noeviction") != "noeviction":
        return f"maxmemory-policy {config['maxmemory-policy']}: sessions may vanish; use noeviction", False
    if config.get("appendonly") != "yes":
        return "appendonly no: everything since the last snapshot is lost at a crash", False
    if config.get("appendfsync") != "always":
        return f"appendfsync {config.get('appendfsync')}: {RELAXED_PROMISE}", False
    return "strict: on disk before it is acknowledged", True


def _broker(url: str) -> Check:
    from kombu.connection import Connection
    from kombu.exceptions import OperationalError

    try:
        with Connection(url, connect_timeout=3, transport_options={"socket_timeout": 3}) as connection:  # type: ignore[no-untyped-call]
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=3)
    except (OperationalError, OSError) as error:
        return Check(
            "broker", Verdict.MISSING, f"does not answer: {error}", mask(url), "check CAPATAZ_REDIS__BROKER_URL"
        )
    return Check("broker", Verdict.OK, "answers", mask(url))


def _live(url: str, settings: Settings, environ: Mapping[str, str]) -> tuple[list[Check], Mapping[str, str] | None]:
    """Who is alive, whether the signing keys agree, and the tools that are not offered."""
    client = Client.connect(url)
    try:
        coordinators, workers = client.coordinators(), client.workers()
        missing = client.catalogue().missing if workers else None
    except CapatazError:
        return [], None  # the state's own line says why
    finally:
        client.close()
    checks = [
        Check("coordinators", Verdict.OK, f"{len(coordinators)} alive: {', '.join(coordinators)}")
        if coordinators
        else Check("coordinators", Verdict.MISSING, "none alive", hint="messages wait; start one with `capataz up`")
    ]
    now = time.time() * 1000
    for worker in workers:
        up = int((now - worker.started_ms) / 1000)
        checks.append(Check("worker", Verdict.OK, f"{worker.id}: {', '.join(worker.queues)}; up {up} s", worker.host))
    if not workers:
        checks.append(Check("workers", Verdict.MISSING, "none alive", hint="tools cannot run; start one"))
    checks.append(_guarded("beat", lambda: _beat(url, settings, now)))
    ids = {worker.key_id for worker in workers}
    if len(ids) > 1 or (ids and _own_key_id(settings, environ) not in (None, *ids)):
        hint = f"give all processes the same {keyring.ENV}"
        checks.append(Check("signing keys", Verdict.MISSING, "they differ: workers refuse nodes", hint=hint))
    return checks, missing


def _beat(url: str, settings: Settings, now_ms: float) -> Check:
    """Whether what is due is looked at: a sign that beat, broker and a worker work together."""
    with connect_sync(url) as client:
        last = last_tick(client)
    hint = "nothing runs by itself, reminders included; start beat, and a worker for the queue workflows"
    if last is None:
        return Check("beat", Verdict.WARNING, "nobody has looked what is due", hint=hint)
    ago = max(0, int((now_ms - last.at_ms) / 1000))
    text = f"looked what is due {ago} s ago"
    late = ago > _LATE_TICKS * settings.workflows.tick_s
    return Check("beat", Verdict.WARNING if late else Verdict.OK, text, last.worker, hint if late else "")


def _channels(settings: Settings, environ: Mapping[str, str]) -> Iterator[Check]:
    """What is missing for results to be delivered where users want them."""
    named = set(chain.from_iterable(settings.workflows.deliver.values()))
    for user, delivery in settings.delivery.users.items():
        names = dict.fromkeys((*delivery.channels, *(sorted(named) if user == LOCAL_PRINCIPAL else ())))
        for name in names:
            why = None if name == SESSION else lacking(settings, user, name, environ)
            if why:
                yield Check(
                    "delivery", Verdict.WARNING, f"{user}: {why}", hint="results stay in the session until then"
                )


def _own_key_id(settings: Settings, environ: Mapping[str, str]) -> str | None:
    try:
        return key_id(keyring.load_key(settings.data.dir, dict(environ)))
    except ConfigError:
        return None


def render(report: Report) -> str:
    """The report as text."""
    marks = {Verdict.OK: "ok     ", Verdict.WARNING: "warning", Verdict.MISSING: "MISSING"}
    lines = []
    for check in report.checks:
        source = f"  [{check.source}]" if check.source else ""
        lines.append(f"{marks[check.verdict]}  {check.name:<13} {check.text}{source}")
        if check.hint:
            lines.append(f"{'':24}{check.hint}")
    if report.settings:
        lines.append("\nsettings that are not at their default:")
        lines += [f"  {row.key} = {row.value}  [{row.source}]" for row in report.settings]
    if report.missing_tools:
        lines.append("\ntools that are not offered:")
        lacking: dict[str, list[str]] = {}
        for name, why in sorted(report.missing_tools.items()):
            lacking.setdefault(why, []).append(name)
        lines += [f"  {', '.join(names)}: {why}" for why, names in lacking.items()]
    lines.append("\nall that is needed is there" if report.ok else "\nsomething needed is MISSING")
    return "\n".join(lines)
