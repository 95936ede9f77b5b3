"""A tool's surroundings with a real SQLite archive, and the session state and the model in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from shared.artifacts import SqlArtifacts
from shared.contract import Catalogue
from shared.entries import Stored
from shared.errors import StateConflict
from shared.llm.model import Completion, Finish, Message, Request, TextBlock
from shared.settings import Settings
from shared.sql.engine import Database
from shared.state.session import Fact
from tests.support.values import Fields, fields
from workers.context import Services, ToolContext
from workers.declare import Registry, Tool, ToolOutput

NOW = 1_794_319_200.0  # Tuesday 2026-11-10 15:00 in Madrid


@dataclass
class MemoryState:
    """The session state with the promises of the real one."""

    known: dict[str, Fact] = field(default_factory=dict)
    items: list[dict[str, JsonValue]] = field(default_factory=list)
    entries: list[Stored] = field(default_factory=list)
    offered: Catalogue = field(default_factory=Catalogue)

    async def facts(self, session: str) -> dict[str, Fact]:
        return dict(self.known)

    async def set_fact(self, session: str, name: str, value: JsonValue, expected_version: int | None, by: str) -> int:
        present = self.known[name].version if name in self.known else 0
        if expected_version is not None and expected_version != present:
            raise StateConflict(f"{name} has version {present}")
        self.known[name] = Fact(value, present + 1, by)
        return present + 1

    async def catalogue(self) -> Catalogue:
        return self.offered

    async def todo(self, session: str) -> list[dict[str, JsonValue]]:
        return list(self.items)

    async def set_todo(self, session: str, items: list[dict[str, JsonValue]]) -> None:
        self.items = items

    async def log(self, session: str) -> list[Stored]:
        return self.entries


@dataclass
class ScriptedModel:
    """Answers with `answer` and remembers what it was asked."""

    answer: str = ""
    asked: list[tuple[str, Request]] = field(default_factory=list)

    async def complete(self, tier: str, request: Request) -> Completion:
        self.asked.append((tier, request))
        message = Message(role="assistant", blocks=(TextBlock(text=self.answer),))
        return Completion(message=message, finish=Finish.STOP, model="scripted")


class Bench:
    """Runs tools by name, as a worker would, for any principal."""

    def __init__(self, settings: Settings, services: Services, state: MemoryState, model: ScriptedModel) -> None:
        self.settings, self.services, self.state, self.model = settings, services, state, model
        self.registry = Registry()
        self.registry.load_builtin()

    def ctx(self, principal: str = "ana", node: str = "r1.0.0.0") -> ToolContext:
        deadline_ms = int((NOW + 30) * 1000)
        return ToolContext(principal, "s1", "r1", node, node, deadline_ms, self.settings, self.services)

    def tool(self, name: str) -> Tool:
        tool = self.registry.get(name)
        assert tool is not None, name
        return tool

    async def call(self, name: str, /, principal: str = "ana", node: str = "r1.0.0.0", **args: Any) -> ToolOutput:
        return await self.tool(name).call(self.ctx(principal, node), args)

    def run(self, name: str, /, principal: str = "ana", node: str = "r1.0.0.0", **args: Any) -> ToolOutput:
        return asyncio.run(self.call(name, principal, node, **args))

    def fields(self, name: str, /, principal: str = "ana", node: str = "r1.0.0.0", **args: Any) -> Fields:
        """The value of a tool that returns an object."""
        return fields(self.run(name, principal, node, **args).value)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def make_bench(tmp_path: Path, workspace: Path) -> Iterator[Callable[..., Bench]]:
    database = Database(f"sqlite:///{tmp_path / 'archive.db'}")
    database.migrate()
    pool = ThreadPoolExecutor(4)

    def make(**sections: Any) -> Bench:
        values: dict[str, Any] = {
            "workspace": {"dir": workspace, "max_file_bytes": 100_000},
            "workflows": {"timezone": "Europe/Madrid"},
            **sections,
        }
        state, model = MemoryState(), ScriptedModel()
        artifacts = SqlArtifacts(database, clock=lambda: NOW)
        services = Services(database, artifacts, state, model, now=lambda: NOW, blocking=pool)
        return Bench(Settings(**values), services, state, model)

    yield make
    pool.shutdown()
    database.close()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()
