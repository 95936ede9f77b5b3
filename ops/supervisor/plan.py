"""What a local system consists of: its processes, their environment, and the order in which they stop. Pure."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shared.names import QUEUE_TOOLS, QUEUES
from shared.settings import Settings

Profile = Literal["small", "full"]

STOP_ORDER = (("beat", "flower"), ("coordinator",), ("worker",), ("rehearsal",), ("broker", "state"))
"""Roles, stopped stage by stage: what makes work first, what keeps it last."""

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the packages."""

_BASE_ENV = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONUNBUFFERED")


@dataclass(frozen=True)
class ProcessSpec:
    """One process to keep up. `role` decides when it stops, `grace_s` how long it may take over that."""

    name: str
    role: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    grace_s: float = 5.0

    @property
    def module(self) -> tuple[str, ...]:
        """Of a command that `python` made, the module and its arguments; else nothing."""
        *interpreter, _ = python("")
        count = len(interpreter)
        return self.argv[count:] if self.argv[:count] == tuple(interpreter) else ()


@dataclass(frozen=True)
class Endpoints:
    """What the processes of one system need to find each other."""

    redis_url: str
    broker_url: str
    signing_key: str
    flower_password: str = ""
    flower_port: int = 0


def python(module: str, *args: str) -> tuple[str, ...]:
    """The command line of one of our modules. The current folder never shadows our packages (`-P`)."""
    return (sys.executable, "-P", "-m", module, *args)


def child_env(
    base: Mapping[str, str], settings: Settings, endpoints: Endpoints, extra: Mapping[str, str] = {}
) -> dict[str, str]:
    """The environment of coordinator and workers: `base` with what was resolved at start written over it.

    `extra` holds the chosen model. Paths are absolute, because a child may have another current folder.
    """
    return {
        **base,
        **import_path(base),
        "PYTHONUNBUFFERED": "1",
        "REDIS_URL": endpoints.redis_url,
        "CAPATAZ_REDIS__URL": endpoints.redis_url,
        "CAPATAZ_REDIS__BROKER_URL": endpoints.broker_url,
        "CAPATAZ_DATA__DIR": str(settings.data.dir.absolute()),
        "CAPATAZ_SQL__URL": settings.sql.url,
        "CAPATAZ_WORKSPACE__DIR": str(settings.workspace.dir.absolute()),
        "CAPATAZ_COORDINATOR__AGENTS_DIR": str(settings.coordinator.agents_dir.absolute()),
        "CAPATAZ_SIGNING_KEY": endpoints.signing_key,
        **extra,
    }


def import_path(base: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH for children of a source checkout; empty for an installed package, which is found anyway."""
    if not (ROOT / "pyproject.toml").is_file():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), base.get("PYTHONPATH", ""))))}


def plain_env(env: Mapping[str, str]) -> dict[str, str]:
    """What a process needs that neither signs nodes nor calls models: settings, but no key of either."""
    return {
        name: value
        for name, value in env.items()
        if name in _BASE_ENV
        or name == "REDIS_URL"
        or (name.startswith("CAPATAZ_") and name not in ("CAPATAZ_SIGNING_KEY", "CAPATAZ_FLOWER_PASSWORD"))
    }


def fork_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of the fork server: no keys, and what a process reads before it can be told by its order.

    glibc raises the size from which an allocation gets pages of its own to that of the largest one that was freed, so
    what a start needs for a moment would stay in all processes; this keeps the size at its default (mallopt(3)).
    """
    return {"MALLOC_MMAP_THRESHOLD_": "131072", **plain_env(env), **import_path(env), "PYTHONUNBUFFERED": "1"}


def worker_queues(profile: Profile, workers: int | None) -> list[tuple[str, ...]]:
    """The queues of each worker process.

    `small`: one process (or `workers`) for all queues. `full`: two (or `workers`) for tools, one for the rest.
    """
    if profile == "small":
        return [QUEUES] * (1 if workers is None else workers)
    rest = tuple(queue for queue in QUEUES if queue != QUEUE_TOOLS)
    return [(QUEUE_TOOLS,)] * (2 if workers is None else workers) + [rest]


def processes(
    settings: Settings,
    endpoints: Endpoints,
    env: Mapping[str, str],
    *,
    profile: Profile = "small",
    workers: int | None = None,
    beat: bool = True,
    flower: bool = True,
) -> list[ProcessSpec]:
    """The Python processes of a system, given the environment that `child_env` built."""
    grace = settings.coordinator.stop_grace_s
    specs = [ProcessSpec("coordinator-1", "coordinator", python("coordinator"), env, grace + 2.0)]
    for number, queues in enumerate(worker_queues(profile, workers), 1):
        name = f"worker-{number}"
        argv = python("workers", "--queues", ",".join(queues), "--name", name)
        # Longer than a worker lets its running `write` calls take.
        specs.append(ProcessSpec(name, "worker", argv, env, settings.worker.drain_s + 8.0))
    plain = plain_env(env)
    if beat:
        specs.append(ProcessSpec("beat", "beat", python("workers.beat"), plain))
    if flower and settings.flower.enabled:
        private = {
            **plain,
            "CAPATAZ_FLOWER_PASSWORD": endpoints.flower_password,
            "CAPATAZ_FLOWER__PORT": str(endpoints.flower_port),
        }
        specs.append(ProcessSpec("flower", "flower", python("ops.flower"), private))
    return specs


def rehearsal(port: int, ready_file: Path, env: Mapping[str, str], scenarios: Iterable[Path] = ()) -> ProcessSpec:
    """The scripted model's server on a port of 127.0.0.1; it writes `ready_file` when it listens."""
    argv = python("ops.rehearsal", "--host", "127.0.0.1", "--port", str(port), "--ready-file", str(ready_file))
    for scenario in scenarios:
        argv += ("--scenario", str(scenario))
    return ProcessSpec("rehearsal", "rehearsal", argv, {**plain_env(env), **import_path(env)})


def model_env(provider: str, definition: Mapping[str, str], tiers: Mapping[str, str]) -> dict[str, str]:
    """Settings for children: one provider (`preset`, `base_url`, …) and, by tier, the model it serves.

    Without a definition the provider is in the settings already.
    """
    chains = {tier: [f"{provider}/{model}"] for tier, model in tiers.items()}
    env = {"CAPATAZ_MODELS__TIERS": json.dumps(chains)}
    if definition:
        env["CAPATAZ_MODELS__PROVIDERS"] = json.dumps({provider: dict(definition)})
    return env
