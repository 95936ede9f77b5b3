from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.chaos.run import ENV
from tests.support.model_server import ModelServer
from tests.support.processes import System


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(rules=[{"then": {"text": "ready"}}]) as server:
        yield server


@pytest.fixture
def system_env() -> dict[str, str]:
    """The settings of the module's systems; modules with others have a fixture of this name."""
    return ENV


@pytest.fixture
def make_system(model: ModelServer, system_env: dict[str, str]) -> Iterator[Callable[..., System]]:
    """Starts systems that end with the test."""
    started: list[System] = []

    def make(env: Mapping[str, str] = {}, **options: Any) -> System:
        system = System(model_url=model.url, env={**system_env, **env}, **options)
        started.append(system)
        return system.start()

    yield make
    for system in started:
        system.stop()
