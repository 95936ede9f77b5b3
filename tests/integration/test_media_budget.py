"""Budgets of the day against a real gate: pictures and sound count like model calls, each user's for themselves."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from shared.errors import ModelError
from shared.llm.errors import BudgetSpent
from shared.state.gate import DAY_S
from tests.integration.test_gate import Rig, with_rig
from tests.support.http_stub import Answer, HttpStub
from tests.support.redis import TestRedis, redis_server
from tests.unit.tools import conftest as tool_bench
from tests.unit.tools.conftest import Bench
from tests.unit.tools.test_media import PNG, section

pytestmark = pytest.mark.integration

workspace, make_bench = tool_bench.workspace, tool_bench.make_bench


@pytest.fixture
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


def test_pictures_use_up_the_budget_of_their_user(
    server: TestRedis, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MEDIA_KEY", "k")
    answers = [Answer({"data": [{"b64_json": base64.b64encode(PNG).decode()}]})] * 4 + [Answer("no", 500)]

    async def spent(rig: Rig, user: str) -> Decimal:
        seconds, _ = await rig.redis.time()
        return (await rig.w1.today(int(seconds) // DAY_S, user)).dollars

    with HttpStub(lambda asked: answers[len(stub.asked) - 1]) as stub:
        media = section(stub.url, image={"model": "painter", "price_per_image": "0.04"})
        bench = make_bench(media=media)

        async def test(rig: Rig) -> None:
            bench.services = replace(bench.services, gate=rig.w1)
            await bench.call("image_generate", principal="ana", prompt="one")
            await bench.call("image_generate", principal="ana", prompt="two")
            with pytest.raises(BudgetSpent, match="is used up; try again in"):
                await bench.call("image_generate", principal="ana", prompt="three")
            assert len(stub.asked) == 2
            assert await spent(rig, "ana") == Decimal("0.08")
            await bench.call("image_generate", principal="eva", prompt="one")
            answers[3] = answers[4]
            with pytest.raises(ModelError, match="refused with status 500"):
                await bench.call("image_generate", principal="eva", prompt="two")
            assert await spent(rig, "eva") == Decimal("0.04"), "what failed is given back"

        with_rig(server, test, budget={"user_day_dollars": 0.1})
