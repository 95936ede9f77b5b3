"""A task for a second model: which tier gets it, what it sees, and that its cost is on the bill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from shared.errors import CapatazError, ModelError
from shared.llm.model import TextBlock
from shared.models import PAYER, Payer
from shared.settings import Settings
from shared.sql.costs import Call
from shared.tier_client import TierClient
from tests.support.model_server import ModelServer
from tests.support.values import fields
from tests.unit.tools.conftest import Bench
from workers.declare import Registry, ToolOutput


@pytest.mark.parametrize(
    ("tiers", "tier"),
    [
        ({}, "default"),
        ({"default": ("p/m",)}, "default"),
        ({"default": ("p/m",), "long": ("p/l",)}, "long"),
        ({"default": ("p/m",), "long": ("p/l",), "think": ("p/t",)}, "think"),
    ],
)
def test_the_first_tier_of_its_own_is_asked(
    make_bench: Callable[..., Bench], tiers: dict[str, tuple[str, ...]], tier: str
) -> None:
    bench = make_bench(models={"tiers": tiers})
    bench.model.answer = "  42, because.  "
    output = bench.run("think_hard", task="¿Cuánto es?", context="seis por siete")
    assert output.value == {"answer": "42, because.", "model": "scripted", "complete": True}
    [(asked, request)] = bench.model.asked
    assert asked == tier
    assert request.messages[0].blocks == (
        TextBlock(text="<context>\nseis por siete\n</context>"), TextBlock(text="¿Cuánto es?"),
    )  # fmt: skip
    assert request.tools == ()


def test_no_answer_and_no_task_are_told(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    with pytest.raises(ModelError, match="gave no answer"):
        bench.run("think_hard", task="x")
    with pytest.raises(ModelError, match="task"):
        bench.run("think_hard", task="")
    assert len(bench.model.asked) == 1


def _real(bench: Bench, url: str, calls: list[Call]) -> ToolOutput:
    """What the tool says with a real client, whose bill goes to `calls`."""
    provider = {"base_url": url}
    models = {"providers": {"far": provider}, "tiers": {"default": ("far/m",)}, "attempts": 1}
    settings = Settings.model_validate({**bench.settings.model_dump(exclude={"models"}), "models": models})

    async def record(found: Sequence[Call]) -> None:
        calls.extend(found)

    async def think() -> ToolOutput:
        client = TierClient(settings, record=record)
        bench.services = replace(bench.services, model=client)
        PAYER.set(Payer("ana", "s1", "r1", "think"))
        try:
            return await bench.call("think_hard", task="why?")
        finally:
            await client.aclose()

    return asyncio.run(think())


def test_its_cost_is_recorded_for_the_user(make_bench: Callable[..., Bench]) -> None:
    calls: list[Call] = []
    with ModelServer(rules=[{"then": {"text": "because"}}]) as server:
        assert fields(_real(make_bench(), server.url, calls).value)["answer"] == "because"
    [call] = calls
    assert (call.payer.principal, call.payer.group, call.tier, call.model) == ("ana", "think", "default", "m")
    assert call.usage.total > 0


def test_a_model_that_is_down_is_told(make_bench: Callable[..., Bench]) -> None:
    with pytest.raises(CapatazError):
        _real(make_bench(), "http://127.0.0.1:1/v1", [])


def test_it_is_missing_only_where_no_model_could_answer() -> None:
    registry = Registry()
    registry.load_builtin()

    def missing(tiers: dict[str, tuple[str, ...]]) -> bool:
        return "think_hard" in registry.catalogue(Settings.model_validate({"models": {"tiers": tiers}})).missing

    assert not missing({})
    assert not missing({"long": ("p/m",)})
    assert missing({"fast": ("p/m",)})
