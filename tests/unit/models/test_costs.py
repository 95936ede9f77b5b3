"""Money: five providers' usages against a calculation by hand, rows in SQL, and what `capataz costs` shows of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator.archive import run_calls
from ops.cli.costs import money, plain, row, seconds
from ops.cli.main import app
from shared.entries import Assistant, Retry, Stored
from shared.fold import SessionFold
from shared.llm.model import Finish, Message, TextBlock, Usage
from shared.llm.pricing import load_prices
from shared.models import Payer
from shared.sql import Database, costs
from shared.sql.costs import Call, Sum
from tests.unit.llm.support import block as block_start
from tests.unit.llm.support import chunk, completion, delta, end, events, sse, start, stop

OPENAI = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 192, "accepted_prediction_tokens": 0},
}
DEEPSEEK = {
    "prompt_tokens": 1000,
    "completion_tokens": 250,
    "total_tokens": 1250,
    "prompt_cache_hit_tokens": 640,
    "prompt_cache_miss_tokens": 360,
    "completion_tokens_details": {"reasoning_tokens": 180},
}
GEMINI = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 470}
GROQ = {
    "queue_time": 0.02,
    "prompt_tokens": 75,
    "completion_tokens": 120,
    "total_tokens": 195,
    "completion_tokens_details": {"reasoning_tokens": 100},
}
WRITE = {"input_tokens": 21, "cache_creation_input_tokens": 188_086, "cache_read_input_tokens": 0, "output_tokens": 393}
READ = {"input_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 188_086, "output_tokens": 50}

# Dollars per million tokens times tokens, worked out by hand.
BY_HAND: dict[str, tuple[str, str, dict[str, Any], str]] = {
    # 86 fresh at 2.50 + 1920 cached at 0.25 + 300 out, 192 of them thought, at 15 = 215 + 480 + 4500
    "openai": ("openai", "gpt-5.4", OPENAI, "0.005195"),
    # 21 at 3 + 188086 written at 3.75 + 393 out at 15 = 63 + 705322.5 + 5895
    "anthropic writes its cache": ("anthropic", "claude-sonnet-4-5", WRITE, "0.7112805"),
    # 4 at 3 + 188086 read at 0.30 + 50 out at 15 = 12 + 56425.8 + 750
    "anthropic reads its cache": ("anthropic", "claude-sonnet-4-5", READ, "0.0571878"),
    # 360 at 1.32 + 640 at 0.044 + 250 out at 3.96 = 475.2 + 28.16 + 990
    "deepseek": ("deepseek", "deepseek-v4-pro", DEEPSEEK, "0.00149336"),
    # 50 at 1.50 + 420 at 9, as 400 were thought beside the 20 = 75 + 3780
    "gemini": ("gemini", "gemini-3.5-flash", GEMINI, "0.003855"),
    # 75 at 0.15 + 120 out, 100 of them thought, at 0.60 = 11.25 + 72
    "groq": ("groq", "openai/gpt-oss-120b", GROQ, "0.00008325"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_usage_on_the_wire_to_money(name: str) -> None:
    provider, model, usage, dollars = BY_HAND[name]
    if provider == "anthropic":
        before = {key: count for key, count in usage.items() if key != "output_tokens"}
        raw = events(
            start(**before, output_tokens=1),
            block_start(0, "text", text=""),
            delta(0, "text_delta", text="hi"),
            stop(0),
            *end("end_turn", output_tokens=usage["output_tokens"]),
        )
        found = completion("anthropic", raw).usage
    else:
        found = completion("openai", sse(chunk(content="hi"), chunk("stop"), {"choices": [], "usage": usage})).usage
    assert found is not None
    assert not found.estimated
    assert load_prices().cost(provider, model, found) == Decimal(dollars)


# --- rows --------------------------------------------------------------------------------------------------------

MAY_1 = 1_777_593_600_000  # 2026-05-01 00:00 UTC
PAYER = Payer("ana", "s", "r1", "mail")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/archive.db")
    database.migrate()
    yield database
    database.close()


def one_call(id: str = "r1.1.1", **changes: Any) -> Call:
    base = Call(
        id=id,
        at_ms=MAY_1,
        payer=PAYER,
        tier="fast",
        provider="p",
        model="m",
        outcome="ok",
        usage=Usage(input=10, cache_write=1, cache_read=2, output=3, reasoning=4),
        cost=Decimal("0.000000000001"),
        took_ms=1_000,
        first_ms=100,
    )
    return replace(base, **changes)


def sums(db: Database, by: Any, **options: Any) -> list[Sum]:
    return db.run_sync(lambda conn: costs.sums(conn, by, **options))


def put(db: Database, *calls: Call) -> None:
    db.run_sync(lambda conn: costs.add(conn, calls))


def test_calls_add_up_exactly_by_everything(db: Database) -> None:
    other = replace(PAYER, principal="eva", group="notes")
    put(
        db,
        one_call("1"),
        one_call("2", cost=Decimal("123.456789012345")),
        one_call("3", payer=other, model="n", at_ms=MAY_1 + 86_400_000, took_ms=3_000, first_ms=None),
    )
    found = sums(db, "model")
    assert [s.key for s in found] == ["p/m", "p/n"], "the dearest first"
    assert found[0].dollars == Decimal("123.456789012346")
    assert (found[0].calls, found[0].input, found[0].cache_write, found[0].cache_read) == (2, 20, 2, 4)
    assert (found[0].output, found[0].reasoning) == (6, 8)
    assert (found[0].took_ms, found[0].first_ms) == (1_000, 100)
    assert found[1].first_ms is None
    assert {s.key: s.calls for s in sums(db, "user")} == {"ana": 2, "eva": 1}
    assert [(s.key, s.calls) for s in sums(db, "day")] == [("2026-05-02", 1), ("2026-05-01", 2)]
    assert {s.key: s.calls for s in sums(db, "group")} == {"mail": 2, "notes": 1}
    assert [s.calls for s in sums(db, "model", principal="eva")] == [1]
    assert [s.calls for s in sums(db, "model", since_day="2026-05-02")] == [1]


def test_an_unknown_price_is_not_zero(db: Database) -> None:
    put(db, one_call("1", cost=None), one_call("2", cost=None, usage=Usage(), outcome="connect_refused"))
    [found] = sums(db, "model")
    assert (found.dollars, found.unpriced, found.failed) == (Decimal(0), 1, 1), "a call without tokens costs nothing"
    assert money(found) == "?"
    assert money(replace(found, dollars=Decimal("0.50"))) == "$0.5 + ?"
    assert money(replace(found, unpriced=0)) == "$0"


def test_recording_twice_counts_once(db: Database) -> None:
    put(db, one_call("1"))
    put(db, one_call("1"), one_call("2"))
    put(db)
    assert [s.calls for s in sums(db, "model")] == [2]


def test_times_are_of_answers_and_guesses_are_marked(db: Database) -> None:
    guess = Usage(input=5, estimated=True)
    put(db, one_call("1"), one_call("2", outcome="timeout_idle", took_ms=60_000, first_ms=None, usage=guess))
    [found] = sums(db, "model")
    assert (found.took_ms, found.first_ms, found.failed, found.estimated) == (1_000, 100, 1, 1)
    assert row(found)[4:] == ["~16", "2", "~7", "1.00s", "0.10s"]
    assert seconds(None) == "-"
    assert plain(Decimal("1E-7")) == "0.0000001"


# --- the log -----------------------------------------------------------------------------------------------------


def entry(**fields: Any) -> Assistant:
    text = Message(role="assistant", blocks=(TextBlock(text="x"),))
    return Assistant(step=1, attempt=3, message=text, finish=Finish.STOP, **fields)


STEP = entry(
    usage=Usage(input=100, output=10),
    provider="two",
    model="m",
    cost="0.2",
    tier="fast",
    group="mail",
    first_ms=120,
    took_ms=900,
    retries=(
        Retry(provider="one", model="m", attempt=1, code="cut_stream", usage=Usage(input=50), cost="0.1", took_ms=70),
        Retry(provider="one", model="m", attempt=2, code="rate_limited"),
    ),
)


def test_a_logged_step_is_one_row_per_attempt() -> None:
    stored = Stored(id="1777593600123-0", run="r1", type=STEP.T, value=STEP)
    found = run_calls([stored], Payer("ana", "s", "r1"))
    assert [(c.id, c.provider, c.outcome, c.cost) for c in found] == [
        ("r1.1.1", "one", "cut_stream", Decimal("0.1")),
        ("r1.1.2", "one", "rate_limited", None),
        ("r1.1.3", "two", "ok", Decimal("0.2")),
    ]
    assert {(c.payer.group, c.tier, c.at_ms) for c in found} == {("mail", "fast", 1_777_593_600_123)}
    assert (found[2].first_ms, found[2].took_ms) == (120, 900)


def test_a_runs_budget_counts_failed_attempts_too() -> None:
    fold = SessionFold.of([Stored(id="1-0", run="r1", type=STEP.T, value=STEP)])
    assert fold.run("r1").usage == Usage(input=150, output=10)
    assert fold.run("r1").cost == Decimal("0.3")
    unpriced = STEP.model_copy(update={"retries": (STEP.retries[0].model_copy(update={"cost": None}),)})
    assert unpriced.all_cost is None
    assert entry(cost=None).all_cost is None


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_DATA__DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    empty = runner.invoke(app, ["costs"])
    assert empty.exit_code == 0
    assert "no model calls" in empty.output
    database = Database(f"sqlite:///{tmp_path}/capataz.db")
    put(database, one_call("1"), one_call("2", cost=None, model="n", payer=replace(PAYER, principal="eva")))
    database.close()
    shown = runner.invoke(app, ["costs", "--days", "3650"]).output
    assert "p/m" in shown
    assert "$0.000000000001" in shown
    assert "models.prices" in shown
    asked = runner.invoke(app, ["costs", "--by", "user", "--user", "eva", "--days", "3650", "--json"]).output
    assert [(r["key"], r["unpriced"]) for r in json.loads(asked)["rows"]] == [("eva", 1)]
    assert runner.invoke(app, ["costs", "--by", "moon"]).exit_code == 2
