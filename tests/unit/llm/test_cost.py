from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.llm.model import ImageBlock, Message, ThinkingBlock, ToolDefinition, Usage
from shared.llm.pricing import load_prices
from shared.llm.usage import IMAGE_TOKENS, estimate, estimate_request, estimate_text, from_anthropic
from tests.unit.llm.support import ask, chunk, completion, sse, tool_call, user

MILLION = 1_000_000


def test_classes_are_priced_apart_and_exactly() -> None:
    table = load_prices()
    usage = Usage(input=MILLION, cache_write=MILLION, cache_read=MILLION, output=MILLION, reasoning=MILLION)
    assert table.cost("anthropic", "claude-sonnet-4-5", usage) == Decimal("3") + Decimal("3.75") + Decimal(
        "0.3"
    ) + Decimal("30")
    assert table.cost("anthropic", "claude-sonnet-4-5", Usage(input=1)) == Decimal("0.000003")


def test_unknown_is_not_zero_and_ones_own_server_is() -> None:
    table = load_prices()
    assert table.cost("openai", "gpt-of-tomorrow", Usage(input=1)) is None
    assert table.cost("nobody", "claude-sonnet-4-5", Usage(input=1)) is None
    assert table.cost("ollama", "whatever", Usage(input=1)) == 0


@pytest.mark.parametrize("name", ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5-latest", "claude-sonnet-4-5"])
def test_snapshots_cost_what_their_family_costs(name: str) -> None:
    found = load_prices().find("anthropic", name)
    assert found is not None
    assert found.model == "claude-sonnet-4-5"


def test_a_long_prompt_may_cost_more() -> None:
    table = load_prices()
    short, long = Usage(input=100_000), Usage(input=60_000, cache_read=40_001)
    assert table.cost("anthropic", "claude-haiku-5-5", short) == Decimal("0.01")
    assert (
        table.cost("anthropic", "claude-haiku-5-5", long)
        == (60_000 * Decimal("0.50") + 40_001 * Decimal("0.05")) / MILLION
    )


def test_ones_own_table_wins(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(
        '[[price]]\nprovider="anthropic"\nmodel="claude-sonnet-4-5"\nas_of=2026-01-01\ninput=0.1\noutput=0.2\n'
        '[[price]]\nprovider="mine"\nmodel="*"\nas_of=2026-01-01\ninput="1"\noutput="2"\nreasoning="3"\n'
    )
    table = load_prices(own)
    assert table.cost("anthropic", "claude-sonnet-4-5", Usage(input=MILLION, cache_read=MILLION)) == Decimal("0.2")
    assert table.cost("mine", "x", Usage(reasoning=MILLION)) == 3
    assert table.cost("anthropic", "claude-opus-5", Usage(input=MILLION)) == 5
    assert load_prices(tmp_path / "none.toml").find("mine", "x") is None


@pytest.mark.parametrize(
    "text",
    [
        "[[price]",
        '[[price]]\nprovider="x"',
        "price=1",
        '[[price]]\nprovider="x"\nmodel="y"\nas_of=2026-01-01\ninput="-1"\noutput="1"',
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, text: str) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(text)
    with pytest.raises(ConfigError, match=r"prices\.toml"):
        load_prices(own)


def test_usage_adds_up() -> None:
    one, two = Usage(input=1, cache_write=2, cache_read=3, output=4, reasoning=5), Usage(input=1, estimated=True)
    assert (one + two) == Usage(input=2, cache_write=2, cache_read=3, output=4, reasoning=5, estimated=True)
    assert one.total == 15


def test_later_counts_of_messages_complete_the_first_ones() -> None:
    first = from_anthropic({"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1})
    assert from_anthropic({"output_tokens": 9}, first) == Usage(input=5, cache_read=7, output=9)
    assert from_anthropic({"input_tokens": 6, "output_tokens": None}, first) == Usage(input=6, cache_read=7, output=1)


def test_estimates_count_everything_that_is_sent() -> None:
    assert estimate_text("") == 0
    assert estimate_text("a" * 400) == 100
    assert estimate_text("漢" * 30) == 20
    plain = estimate_request(ask(user("hi")))
    image = Message(role="user", blocks=(ImageBlock(media_type="image/png", data="A" * 9999),))
    assert estimate_request(ask(user("hi"), image)) == plain + IMAGE_TOKENS + 4
    tool = ToolDefinition(name="f", description="d" * 400, parameters={})
    assert estimate_request(ask(user("hi"), tools=(tool,))) > plain + 100
    rich = Message(role="assistant", blocks=(ThinkingBlock(text="t" * 400), tool_call("1", "f", x="y" * 400)))
    assert estimate_request(ask(user("hi"), rich)) > plain + 200


def test_an_estimate_says_so_and_counts_broken_calls() -> None:
    from tests.unit.llm.support import call, calls

    whole = completion("openai", sse(chunk("stop", content="a" * 40)))
    assert estimate(ask(), whole) == Usage(input=estimate_request(ask()), output=10, estimated=True)
    broken = completion("openai", sse(calls(call(0, "a", "f", '{"x":"' + "y" * 400)), chunk("length")))
    assert estimate(ask(), broken).output > 100
    assert estimate(ask(), partial="a" * 40).output == 10
