"""Whether a slot of a workflow has anything to do, as its code says it; code that cannot must not stop the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared.errors import ArchiveUnavailable
from shared.keyring import ensure_key
from shared.settings import Settings
from workers import runtime as runtimes
from workers.context import ToolContext
from workers.runtime import Runtime
from workers.workflows.define import Inputs, step, workflow


@step()
def nothing(ctx: ToolContext, inputs: Inputs) -> None:
    """Does nothing."""


def _runtime(tmp_path: Path, when: Callable[[Any], Awaitable[bool]] | None) -> Runtime:
    ensure_key(tmp_path)
    made = Runtime(Settings.model_validate({"data": {"dir": tmp_path}}), ("workflows",))
    made._registry.add(workflow("flow", title="f", result="nothing", when=when)(lambda: [nothing]))
    parts: Any = SimpleNamespace(outside=SimpleNamespace(services="services"))
    made._parts = parts
    return made


async def _no(services: Any) -> bool:
    assert services == "services"
    return False


async def _broken(services: Any) -> bool:
    raise ZeroDivisionError


async def _hangs(services: Any) -> bool:
    await asyncio.Event().wait()
    return False


@pytest.mark.parametrize(("when", "wanted"), [(None, True), (_no, False), (_broken, True), (_hangs, True)])
def test_who_cannot_say_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: Callable[[Any], Awaitable[bool]] | None, wanted: bool
) -> None:
    monkeypatch.setattr(runtimes, "WANTED_S", 0.05)
    assert asyncio.run(_runtime(tmp_path, when)._wanted("flow")) is wanted
    assert asyncio.run(_runtime(tmp_path, when)._wanted("of another worker")) is True


def test_an_archive_that_is_away_makes_the_slot_wait(tmp_path: Path) -> None:
    async def away(services: Any) -> bool:
        raise ArchiveUnavailable("the archive is away")

    with pytest.raises(ArchiveUnavailable):
        asyncio.run(_runtime(tmp_path, away)._wanted("flow"))
