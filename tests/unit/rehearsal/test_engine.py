from __future__ import annotations

import json
from typing import Any

import pytest

from ops.rehearsal.engine import FALLBACK_TEXT, Engine
from ops.rehearsal.playback import CallStart, deltas, limited
from ops.rehearsal.request import Item, Request, ToolResult, Turn, last_turn, without_context
from ops.rehearsal.scenario import load, parse, scenario, shipped
from shared.errors import ConfigError


def ask(user: str = "hello", **rest: Any) -> Request:
    turn = {name: rest.pop(name) for name in ("image", "step", "results", "latest") if name in rest}
    return Request(model=rest.pop("model", "m"), turn=Turn(user=user, **turn), tools=rest.pop("tools", ("t",)), **rest)


def engine(*rules: dict[str, Any], **rest: Any) -> Engine:
    return Engine(scenario(rules, **rest))


def test_the_first_rule_that_fits_answers() -> None:
    playing = engine({"when": {"user": "h.llo"}, "then": {"text": "first"}}, {"then": {"text": "second"}})
    assert playing.reply(ask("say hello")).text == "first"
    assert playing.reply(ask("bye")).text == "second"


def test_without_a_fitting_rule_it_says_that_it_is_a_rehearsal() -> None:
    reply = engine({"when": {"user": "x"}, "then": {"text": "y"}}).reply(ask("hello"))
    assert (reply.text, reply.rule, reply.calls) == (FALLBACK_TEXT, -1, ())
    assert "rehearsal" in reply.text


@pytest.mark.parametrize(
    ("when", "fits", "fits_not"),
    [
        ({"system": "(?i)reflect"}, ask(system="Please reflect."), ask(system="Answer.")),
        ({"model": "^fast$"}, ask(model="fast"), ask(model="faster")),
        ({"step": 1}, ask(step=1), ask(step=2)),
        ({"step": [0, 2]}, ask(step=2), ask(step=1)),
        ({"min_step": 2}, ask(step=3), ask(step=1)),
        ({"has_image": True}, ask(image=True), ask()),
        ({"has_image": False}, ask(), ask(image=True)),
        ({"has_tools": False}, ask(tools=()), ask()),
        ({"tool_result": "^bad"}, ask(latest=(ToolResult("t", "bad"),)), ask(results=(ToolResult("t", "bad"),))),
        ({"user": "a", "step": 0}, ask("a"), ask("a", step=1)),
    ],
)
def test_conditions(when: dict[str, Any], fits: Request, fits_not: Request) -> None:
    playing = engine({"when": when, "then": {"text": "yes"}})
    assert playing.reply(fits).text == "yes"
    assert playing.reply(fits_not).text == FALLBACK_TEXT


def test_calls_are_made_only_of_tools_that_are_offered_unless_the_rule_says_so() -> None:
    rule: dict[str, Any] = {"then": {"calls": [{"name": "t"}]}}
    assert engine(rule).reply(ask()).calls
    assert not engine(rule).reply(ask(tools=())).calls
    assert engine({**rule, "when": {"has_tools": False}}).reply(ask(tools=())).calls


def test_times_bounds_a_rule() -> None:
    playing = engine({"times": 2, "then": {"error": {"status": 500}}}, {"then": {"text": "well"}})
    assert playing.reply(ask(), {0: 1}).error is not None
    assert playing.reply(ask(), {0: 2}).text == "well"


def test_calls_have_filled_in_arguments_and_finish_as_tool_calls() -> None:
    playing = engine(
        {
            "when": {"user": "of (?P<who>\\w+)"},
            "then": {
                "calls": [
                    {"name": "a", "arguments": {"deep": [{"who": "{{user[who]}}", "n": "{{count}}"}], "keep": 1.5}},
                    {"name": "b", "arguments": '{"broken": "{{user[1]}}', "id": "mine"},
                ]
            },
        }
    )
    first, second = (reply := playing.reply(ask("news of Ana"))).calls
    assert json.loads(first.arguments) == {"deep": [{"who": "Ana", "n": 0}], "keep": 1.5}
    assert (second.arguments, second.id) == ('{"broken": "Ana', "mine")
    assert reply.finish == "tool_calls"


def test_json_text_escapes_what_it_takes_over() -> None:
    playing = engine({"then": {"json": {"said": "{{user}}"}}})
    assert json.loads(playing.reply(ask('a "quoted"\nword')).text) == {"said": 'a "quoted"\nword'}


def test_usage_is_estimated_given_or_left_out() -> None:
    estimate = engine({"then": {"text": "12345"}}).reply(ask(chars=401)).usage
    given = engine({"then": {"usage": {"input": 7, "output": 2, "cached": 3}}}).reply(ask()).usage
    assert estimate is not None
    assert given is not None
    assert (estimate.input, estimate.output) == (101, 2)
    assert (given.input, given.output, given.cached) == (7, 2, 3)
    assert engine({"then": {"usage": False}}).reply(ask()).usage is None


def test_deltas_spell_the_reply_and_limits_shorten_it() -> None:
    then = {"thinking": "abcde", "text": "fghij", "calls": [{"name": "t", "arguments": "{}"}], "delta_chars": 2}
    said = deltas(engine({"then": then}).reply(ask()))
    assert "".join(delta.text for delta in said) == "abcdefghij{}"
    assert max(len(delta.text) for delta in said) == 2
    for chars in range(13):
        assert "".join(delta.text for delta in limited(said, chars)) == "abcdefghij{}"[:chars]
    assert not any(isinstance(delta, CallStart) for delta in limited(said, 10))


def test_a_context_block_at_the_end_is_no_part_of_the_message() -> None:
    assert without_context("hello\n\n<context>\nmonday\n</context>\n") == "hello"
    assert without_context("a <context>x</context>\n<context>y</context>") == "a"
    assert without_context("<context>x</context> what is that?") == "<context>x</context> what is that?"
    assert without_context("odd </context>") == "odd </context>"


def test_a_turn_begins_with_the_last_message_of_the_user() -> None:
    result = ToolResult("t", "r")
    items = [
        Item("user", "first"),
        Item("assistant", calls=True),
        Item("results", results=(result,)),
        Item("assistant", "done"),
        Item("user", "second <context>c</context>"),
        Item("assistant", calls=True),
        Item("results", results=(result,)),
        Item("results", results=(ToolResult("u", "s"),)),
        Item("user", "<context>news</context>"),
        Item("assistant", calls=True),
        Item("results", results=(ToolResult("v", "w"),)),
    ]
    turn = last_turn(items)
    assert (turn.user, turn.step) == ("second", 2)
    assert [found.text for found in turn.results] == ["r", "s", "w"]
    assert [found.text for found in turn.latest] == ["w"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: [", "not valid YAML"),
        ("rules: [{}]", "then"),
        ("rules: [{then: {txt: a}}]", "txt"),
        ("rules: [{when: {user: '('}, then: {}}]", "regular expression"),
        ("rules: [{then: {text: a, json: 1}}]", "not both"),
        ("rules: [{name: r, then: {text: '{{nothing}}'}}]", "rule r: .*unknown source"),
        ("rules: [{then: {text: '{{results|find:(}}'}}]", "regular expression"),
        ("rules: [{then: {text: '{{results|upper:}}'}}]", "unknown filter"),
        ("rules: [{then: {calls: [{name: a, arguments: {x: ['{{user|map:none}}']}}]}}]", "no map 'none'"),
        ("rules: [{then: {hang: -1}}]", "hang"),
        ("rules: [{then: {usage: {input: 1, output: 1, cached: 2}}}]", "cached"),
    ],
)
def test_a_malformed_scenario_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)mine.yaml.*{complaint}"):
        parse(text, "mine.yaml")


def test_scenarios_are_played_one_after_the_other(tmp_path: Any) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("maps: {m: {Ñandú: bird}}\nrules: [{when: {user: bird}, then: {text: '{{user|map:m}}'}}]", "utf-8")
    both = load([mine, "default"])
    assert len(both.rules) == len(load(["default"]).rules) + 1
    assert both.maps["m"] == {"nandu": "bird"}
    assert "timezones" in both.maps


def test_an_unknown_scenario_is_an_error_that_names_the_known_ones() -> None:
    assert set(shipped()) >= {"default", "research"}
    with pytest.raises(ConfigError, match=r"absent.yaml.*default, research"):
        load(["absent.yaml"])
