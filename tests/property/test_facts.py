"""Shared facts under many writers at once, on a real Redis: nothing is lost, and all see one order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from shared.entries import FactSet
from shared.errors import StateConflict
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.config import script_config
from shared.state.scripting import Scripts
from shared.state.session import Fact, SessionState
from tests.support.redis import TestRedis, redis_server
from tests.support.state import Rig, with_rig

pytestmark = [pytest.mark.property, pytest.mark.integration]

NAMES = st.sampled_from(["count", "a b", "ñ:v", '"}'])
SCRIPT = "set_fact"


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server(durability="relaxed") as running:
        yield running


class Lossy(SessionState):
    """A client whose answers are lost now and then, so that it sends the same again."""

    def __init__(self, rig: Rig, losses: list[bool]) -> None:
        super().__init__(rig.pipe, rig.limits)
        self._losses = losses
        self._honest = self._scripts.call
        self._scripts.call = self._call  # type: ignore[method-assign]  # a loss on the way back

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        first = await self._honest(name, *args, **options)
        if name != SCRIPT or not self._losses or not self._losses.pop():
            return first
        return await self._honest(name, *args, **options)


def items(fact: Fact) -> list[JsonValue]:
    """What has been added to a list that several write."""
    assert isinstance(fact.value, list)
    return fact.value


async def add(state: SessionState, name: str, writer: str, value: int, pauses: list[int]) -> int:
    """Adds a value to a list that several write, by compare-and-set; returns the version that it made."""
    while True:
        fact = (await state.facts("s")).get(name)
        for _ in range(pauses.pop() if pauses else 0):
            await asyncio.sleep(0)
        old = items(fact) if fact else []
        try:
            return await state.set_fact("s", name, [*old, [writer, value]], fact.version if fact else 0, writer)
        except StateConflict:
            continue


@settings(max_examples=25, deadline=None)
@given(
    work=st.lists(st.lists(NAMES, max_size=4), min_size=1, max_size=5),
    losses=st.lists(st.booleans(), max_size=12),
    pauses=st.lists(st.integers(0, 5), max_size=30),
)
def test_no_update_is_lost(server: TestRedis, work: list[list[str]], losses: list[bool], pauses: list[int]) -> None:
    async def test(rig: Rig) -> None:
        made: dict[str, list[int]] = {}

        async def writer(number: int, names: list[str]) -> None:
            state, seen = Lossy(rig, losses), dict.fromkeys(names, 0)
            for value, name in enumerate(names):
                version = await add(state, name, f"w{number}", value, pauses)
                assert version > seen[name], "who writes sees versions grow"
                seen[name] = version
                made.setdefault(name, []).append(version)

        async def reader(stop: asyncio.Event) -> None:
            state = SessionState(rig.pipe, rig.limits)
            before: dict[str, Fact] = {}
            while not stop.is_set():
                facts = await state.facts("s")
                assert before.keys() <= facts.keys()
                for name, fact in before.items():
                    now = facts[name]
                    assert now.version >= fact.version, "who reads never goes back"
                    assert items(now)[: len(items(fact))] == items(fact)
                before = facts

        stop = asyncio.Event()
        reading = asyncio.create_task(reader(stop))
        await asyncio.gather(*(writer(number, names) for number, names in enumerate(work)))
        stop.set()
        await reading

        wanted = [(name, [f"w{w}", v]) for w, names in enumerate(work) for v, name in enumerate(names)]
        facts = await SessionState(rig.pipe, rig.limits).facts("s")
        found = [(name, row) for name, fact in facts.items() for row in items(fact)]
        assert sorted(map(str, found)) == sorted(map(str, wanted))
        for name, versions in made.items():
            assert sorted(versions) == list(range(1, facts[name].version + 1)), "versions are dense"
        logged: dict[str, list[FactSet]] = {}
        for entry in await rig.c1.log("s"):
            assert isinstance(entry.value, FactSet)
            logged.setdefault(entry.value.name, []).append(entry.value)
        for name, entries in logged.items():
            assert [e.version for e in entries] == list(range(1, facts[name].version + 1)), "the log is in their order"
            assert entries[-1].row == {"value": facts[name].value, "by": facts[name].by}
        assert logged.keys() == facts.keys()
        assert (await rig.events()).count("fact.set") == len(wanted)

    asyncio.run(with_rig(server.url, test))


def test_what_is_repeated_after_others_wrote_is_no_conflict_and_no_step_back(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        scripts, config = Scripts(rig.pipe), script_config(rig.limits)

        async def write(operation: str, value: int, expected: str) -> int:
            row = f'{{"value":{value},"by":"w"}}'
            return int(await scripts.call(SCRIPT, "s", "n", row, expected, "w", config, operation))

        assert await write("first", 1, "0") == 1
        for n in range(2, 301):
            assert await write(f"op{n}", n, "") == n
            assert await write(f"op{n - 1}" if n > 2 else "first", 0, "") == n - 1
        assert (await SessionState(rig.pipe, rig.limits).facts("s"))["n"].value == 300
        assert await rig.redis.xlen(keys.log("s")) == 300
        kept: Any = await rig.redis.hget(keys.facts("s"), "n:o")
        assert len(kept) <= 2000

    asyncio.run(with_rig(server.url, test))


def test_without_an_expected_version_the_last_one_wins(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        state = SessionState(rig.pipe, LimitSettings())
        versions = await asyncio.gather(*(state.set_fact("s", "n", n, None, "w") for n in range(20)))
        assert sorted(versions) == list(range(1, 21))
        assert (await state.facts("s"))["n"].value == versions.index(20)
        with pytest.raises(StateConflict):
            await state.set_fact("s", "n", 0, 0, "w")
        with pytest.raises(StateConflict):
            await state.set_fact("s", "n", 0, 21, "w")
        assert await rig.redis.xlen(keys.log("s")) == 20

    asyncio.run(with_rig(server.url, test))
