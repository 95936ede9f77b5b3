"""Arguments of the tools that no worker runs, and how subagents become tools."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.context.agent import Agent
from coordinator.loop.own_tools import (
    LONGEST_WAIT_S,
    MOST_OPTIONS,
    SPECS,
    Pause,
    Question,
    Task,
    parsed,
    subagent_specs,
)
from shared.contract import Effect
from shared.errors import ModelError
from shared.names import QUEUE_COORDINATOR

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
NOW = int(NOON.timestamp() * 1000)
MADRID = ZoneInfo("Europe/Madrid")
KINDS: dict[str, Any] = {"ask_user": Question, "wait": Pause, "agent_worker": Task}


@pytest.mark.parametrize(
    ("args", "seconds"),
    [
        ({"seconds": 1.5}, 1.5),
        ({"seconds": "2"}, 2),
        ({"seconds": LONGEST_WAIT_S}, LONGEST_WAIT_S),
        ({"until": "2026-07-01T12:00:10Z"}, 10),
        ({"until": "2026-07-01T14:30:00+02:00"}, 1800),
        ({"until": "2026-07-01T15:00:00"}, 3600),  # naive: in the user's zone, which is two hours ahead
        ({"until": "2026-07-02"}, 10 * 3600),
        ({"until": "2026-07-01T11:59:00Z"}, -60),
        ({"until": "0001-01-01T00:00:00"}, (datetime(1, 1, 1, tzinfo=MADRID) - NOON).total_seconds()),
        ({"seconds": None, "until": "2026-07-01T12:00:10Z"}, 10),
    ],
)
def test_when_a_pause_is_over(args: dict[str, Any], seconds: float) -> None:
    assert parsed(Pause, "wait", args).until_ms(NOW, MADRID) == NOW + seconds * 1000


@pytest.mark.parametrize("until", ["2026-08-01T12:00:00Z", "9999-12-31T23:59:59", NOW + LONGEST_WAIT_S * 1000 + 60_000])
def test_a_time_that_is_too_far_away_is_told(until: object) -> None:
    with pytest.raises(ModelError, match="more than 30 days") as caught:
        parsed(Pause, "wait", {"until": until}).until_ms(NOW, MADRID)
    assert caught.value.code == "bad_arguments"


@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("wait", {}, "wait: give either seconds or until"),
        ("wait", {"seconds": 1, "until": "2026-07-01"}, "either seconds or until"),
        ("wait", {"seconds": 0}, "seconds: "),
        ("wait", {"seconds": -1}, "seconds: "),
        ("wait", {"seconds": LONGEST_WAIT_S + 1}, "seconds: "),
        ("wait", {"seconds": float("nan")}, "seconds: "),
        ("wait", {"seconds": float("inf")}, "seconds: "),
        ("wait", {"until": "soon"}, "until: "),
        ("wait", {"until": 1e30}, "until: "),
        ("wait", {"seconds": 1, "minutes": 2}, "minutes: "),
        ("ask_user", {}, "question: "),
        ("ask_user", {"question": "  "}, "question: "),
        ("ask_user", {"question": "q" * 20_001}, "question: "),
        ("ask_user", {"question": ["a"]}, "question: "),
        ("ask_user", {"question": "q", "options": "a"}, "options: "),
        ("ask_user", {"question": "q", "options": ["a", " "]}, "options.1: "),
        ("ask_user", {"question": "q", "options": ["a"] * (MOST_OPTIONS + 1)}, "options: "),
        ("agent_worker", {"task": "\n"}, "task: "),
        ("agent_worker", {"task": "t", "agent": "other"}, "agent: "),
        ("agent_worker", {1: "t"}, "agent_worker: "),
    ],
)
def test_bad_arguments_name_the_place(tool: str, args: dict[Any, Any], said: str) -> None:
    with pytest.raises(ModelError) as caught:
        parsed(KINDS[tool], tool, args)
    assert caught.value.code == "bad_arguments"
    assert caught.value.message.startswith(f"{tool}")
    assert said in caught.value.message


def test_texts_are_trimmed() -> None:
    asked = parsed(Question, "ask_user", {"question": " which? ", "options": [" red", "blue "]})
    assert (asked.question, asked.options) == ("which?", ("red", "blue"))


def test_each_subagent_is_a_tool_with_one_task() -> None:
    named = Agent(name="scout", description="Looks around.", when_to_use="For a first look.")
    specs = subagent_specs([named, Agent(name="bare")])
    assert [spec.name for spec in specs] == ["agent_scout", "agent_bare"]
    assert specs[0].description.startswith("Looks around. For a first look. It works on its own")
    assert specs[1].description.startswith("The agent bare. It works on its own")
    assert {(s.effect, s.queue, tuple(s.parameters["required"])) for s in specs} == {
        (Effect.WRITE, QUEUE_COORDINATOR, ("task",))
    }


def test_what_schemas_name_is_what_is_taken() -> None:
    fields = {
        spec.name: set(spec.parameters["properties"]) for spec in (*SPECS, *subagent_specs([Agent(name="worker")]))
    }
    assert fields == {name: set(kind.model_fields) for name, kind in KINDS.items()}


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
Keys = st.sampled_from(["question", "options", "recommended", "seconds", "until", "task", "x"])


@pytest.mark.property
@given(st.sampled_from(sorted(KINDS)), st.dictionaries(Keys, Json | st.datetimes().map(str), max_size=3))
def test_whatever_a_model_writes_is_taken_or_told(tool: str, args: dict[str, Any]) -> None:
    try:
        value = parsed(KINDS[tool], tool, args)
        end = value.until_ms(NOW, MADRID) if isinstance(value, Pause) else NOW
    except ModelError:
        return  # the only error that a model's arguments may lead to
    assert json.loads(value.model_dump_json(exclude_defaults=True)).keys() <= args.keys()
    assert end <= NOW + timedelta(seconds=LONGEST_WAIT_S) / timedelta(milliseconds=1) + 1
