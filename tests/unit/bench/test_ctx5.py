"""The records behind CTX5: what they are needed for is in them, and comes through the tools."""

from __future__ import annotations

import asyncio

import pytest

from shared.compress import LIMIT_CHARS
from shared.contract import Effect, ToolSpec
from tests.bench import ctx5
from workers.declare import Tool
from workers.tools.schema import arguments_model


@pytest.mark.parametrize("record", ctx5.records(), ids=lambda record: record.file)
def test_the_facts_are_in_what_came(record: ctx5.Record) -> None:
    text = record.data.decode()
    assert [fact for fact in record.needed if fact not in text] == []


def test_shown_is_compressed_then_capped() -> None:
    def fn(ctx: object) -> None:
        """Nothing."""

    spec = ToolSpec(name="t", group="g", description="d", parameters={"type": "object"}, effect=Effect.READ)
    tool = Tool(spec, fn, lambda: arguments_model(fn, "t"), "here", str.upper)
    assert ctx5.shown(tool, "abc") == "ABC"
    long = ctx5.shown(tool, "a" * (LIMIT_CHARS + 1))
    assert len(long) <= LIMIT_CHARS
    assert "read_artifact(handle=a:" in long


def test_a_page_without_its_code() -> None:
    page = "<html><head><title>t</title></head><body><p>one <b>two</b></p><script>x()</script></body></html>"
    assert ctx5.visible(page) == "one\ntwo"


def test_nothing_needed_is_lost_and_a_third_is_saved() -> None:
    found = asyncio.run(ctx5.measured())
    assert [one.lost for one in found if one.lost] == []
    assert sum(one.after for one in found) < 0.7 * sum(one.before for one in found)
