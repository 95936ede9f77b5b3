"""What the media tools and tools that ask models cost: a row of the bill each, and together the cost of the node."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from shared.contract import NodeResult, NodeState, Usage
from shared.errors import ModelError
from shared.models import Payer
from shared.sql import costs
from shared.sql.engine import Database
from tests.support.http_stub import Answer, Asked, HttpStub
from tests.unit.tools.conftest import Bench
from tests.unit.tools.test_media import PNG, section
from workers.billing import TAB, Bill, Tab
from workers.context import SqlRunner
from workers.tools.media_bill import seconds_of


def answer(asked: Asked) -> Answer:
    if asked.path.endswith("/images/generations"):
        return Answer({"data": [{"b64_json": base64.b64encode(PNG).decode()}]})
    if asked.path.endswith("/audio/speech"):
        return Answer(b"ID3sound", media_type="audio/mpeg")
    return Answer({"text": "hola", "usage": {"type": "duration", "seconds": 90}})


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TEST_MEDIA_KEY", "k")
    with HttpStub(answer) as stub:
        yield stub.url


PRICES: dict[str, Any] = {
    "image": {"model": "painter", "price_per_image": "0.04"},
    "transcription": {"model": "scribe", "price_per_minute": "0.006"},
    "speech": {"model": "voice", "price_per_million_characters": "15"},
}


def run(bench: Bench, workspace: Path) -> Tab:
    (workspace / "memo.mp3").write_bytes(b"x" * 100)
    token = TAB.set(tab := Tab())
    try:
        bench.run("image_generate", prompt="a lighthouse")
        bench.run("speech_to_text", path="memo.mp3")
        bench.run("text_to_speech", text="ten chars.")
    finally:
        TAB.reset(token)
    return tab


def with_bill(bench: Bench) -> Bench:
    assert isinstance(bench.services.db, Database)
    bench.services = replace(bench.services, bill=Bill(bench.services.db))
    return bench


def by_model(database: SqlRunner) -> dict[str, costs.Sum]:
    return {one.key: one for one in asyncio.run(database.run(lambda conn: costs.sums(conn, "model")))}


def test_each_call_is_on_the_bill_and_all_of_them_on_the_node(
    make_bench: Callable[..., Bench], workspace: Path, url: str
) -> None:
    bench = with_bill(make_bench(media=section(url, **PRICES)))
    tab = run(bench, workspace)
    found = by_model(bench.services.db)
    assert {key: one.dollars for key, one in found.items()} == {
        "media/painter": Decimal("0.04"),
        "media/scribe": Decimal("0.009"),
        "media/voice": Decimal("0.00015"),
    }
    assert [one.unpriced for one in found.values()] == [0, 0, 0]
    result = tab.put_on(NodeResult(state=NodeState.DONE))
    assert result.cost is not None
    assert Decimal(result.cost) == Decimal("0.04915")
    assert result.usage == Usage()


def test_without_a_price_the_bill_says_that_nobody_knows(
    make_bench: Callable[..., Bench], workspace: Path, url: str
) -> None:
    bench = with_bill(make_bench(media=section(url)))
    tab = run(bench, workspace)
    assert [(one.dollars, one.unpriced) for one in by_model(bench.services.db).values()] == [(Decimal(0), 1)] * 3
    result = NodeResult(state=NodeState.DONE)
    assert tab.put_on(result) == result


@pytest.mark.parametrize("bound", ["dollars", "user_day_dollars", "day_dollars"])
def test_a_budget_in_dollars_refuses_what_nobody_knows_the_price_of(
    make_bench: Callable[..., Bench], url: str, bound: str
) -> None:
    bench = make_bench(media=section(url), budget={bound: 1.0})
    with pytest.raises(ModelError, match=r"nothing was done.*media\.image\.price_per_image") as failure:
        bench.run("image_generate", prompt="x")
    assert failure.value.code == "unpriced"
    make_bench(media=section(url), budget={bound: 1.0, "unpriced": "allow"}).run("image_generate", prompt="x")
    make_bench(media=section(url, **PRICES), budget={bound: 1.0}).run("image_generate", prompt="x")


def test_how_long_a_recording_is() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(b"\0\0" * 12_000)
    assert seconds_of(file.getvalue(), "wav", {}) == (1.5, False)
    assert seconds_of(b"x" * 32_000, "mp3", {"text": "t"}) == (2.0, True)
    assert seconds_of(b"RIFFbroken", "wav", None)[1] is True
    assert seconds_of(b"", "mp3", {"duration": 7}) == (7.0, False)
    assert seconds_of(b"", "mp3", {"usage": {"seconds": 8.25}, "duration": 7}) == (8.25, False)
    for nonsense in ({"duration": "7"}, {"duration": -1}, {"duration": True}, {"usage": 3}, {"duration": 1e9}):
        assert seconds_of(b"x" * 16_000, "mp3", nonsense) == (1.0, True)


def call(usage: Usage, cost: str | None) -> costs.Call:
    return costs.Call("c", 0, Payer(), "think", "p", "m", costs.OK, usage, None if cost is None else Decimal(cost), 1)


@pytest.mark.parametrize(
    ("calls", "cost"),
    [
        ([call(Usage(input=3), "0.5"), call(Usage(input=4, output=2), "0.25")], "0.75"),
        ([call(Usage(input=3), None), call(Usage(input=4, output=2), "0.25")], None),
        ([call(Usage(input=7, output=2), "0.00000012"), call(Usage(), None)], "0.00000012"),
    ],
)
def test_what_models_took_adds_up(calls: Sequence[costs.Call], cost: str | None) -> None:
    tab = Tab()
    tab.add(calls)
    result = tab.put_on(NodeResult(state=NodeState.FAILED))
    assert (result.usage, result.cost) == (Usage(input=7, output=2), cost)
