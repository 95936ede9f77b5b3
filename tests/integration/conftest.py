from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shared.client import Client
from tests.support.model_server import ModelServer
from tests.support.processes import System

PROBES = Path(__file__).parents[1] / "support" / "probe_tools.py"
# The encoder costs seconds of CPU per coordinator; the tests of routing switch it on.
PROBE_ENV = {"CAPATAZ_WORKER__TOOL_MODULES": f'["{PROBES}"]', "CAPATAZ_ROUTING__ENCODER": "off"}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(names=["default"]) as server:
        yield server


@pytest.fixture(scope="module")
def system_env() -> dict[str, str]:
    """The settings of the module's systems; modules with others have a fixture of this name."""
    return PROBE_ENV


@pytest.fixture(scope="module")
def system(model: ModelServer, system_env: dict[str, str]) -> Iterator[System]:
    running = System(model_url=model.url, env=system_env)
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    found = Client.connect(system.redis_url)
    yield found
    found.close()


@pytest.fixture
def make_system(model: ModelServer, system_env: dict[str, str]) -> Iterator[Callable[..., System]]:
    """Starts systems of their own for tests that hurt them."""
    started: list[System] = []

    def make(env: Mapping[str, str] = {}, **options: Any) -> System:
        running = System(model_url=model.url, env={**system_env, **env}, **options)
        started.append(running)
        return running.start()

    yield make
    for running in started:
        running.stop()
