"""The system prompt and its changing tail."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from coordinator.context.prompt import FACT_CHARS, INSTRUCTION_FILES, fill, system_prompt, tail
from shared.playbook import Bullet, Importance, Scope


def bullet(text: str, when: str = "", importance: Importance = Importance.MEDIUM) -> Bullet:
    return Bullet(
        id=text,
        scope=Scope.everyone(),
        text=text,
        when_to_use=when,
        importance=importance,
        created_ms=1,
        updated_ms=1,
    )


def test_names_in_braces_are_filled_and_other_braces_stay() -> None:
    body = 'You use {model} in {workspace}. {"json": true} {unknown} {}'
    filled = fill(body, {"model": "m", "workspace": "/w"})
    assert filled == 'You use m in /w. {"json": true} {unknown} {}'


def test_what_is_filled_in_is_never_filled_again() -> None:
    assert fill("{workspace} {agent}", {"workspace": "/home/{agent}", "agent": "x"}) == "/home/{agent} x"


def test_the_parts_stand_in_their_order() -> None:
    text = system_prompt("\nBody.\n", {"AGENTS.md": "Rules.\n", "CONTEXT.md": "Facts."}, [bullet("Be brief")])
    order = [text.index(part) for part in ("Body.", "# AGENTS.md\nRules.", "# CONTEXT.md\nFacts.", "# Playbook")]
    assert order == sorted(order)
    assert text.startswith("Body.\n\n")
    assert text.endswith("- [medium] Be brief\n")


def test_without_extras_it_is_the_body() -> None:
    assert system_prompt("Body.", {}, []) == "Body.\n"


def test_a_bullet_says_when_it_matters() -> None:
    text = system_prompt("B", {}, [bullet("Ask first", "before sending mail", Importance.HIGH)])
    assert "- [high] Ask first (when: before sending mail)\n" in text


def test_equal_inputs_give_equal_bytes() -> None:
    args = ("Body", dict.fromkeys(INSTRUCTION_FILES, "text"), [bullet("a"), bullet("b")])
    assert system_prompt(*args).encode() == system_prompt(*args).encode()


def test_the_tail_says_when_it_is_there() -> None:
    now = datetime(2026, 11, 30, 9, 5, tzinfo=ZoneInfo("Europe/Madrid"))
    assert tail(now, {}) == "<context>\nNow: Monday 2026-11-30 09:05 CET (UTC+0100)\n</context>"


def test_facts_are_sorted_shown_as_json_and_cut() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone(timedelta(0)))
    lines = tail(now, {"b": "ñ", "a": {"x": [1]}, "long": "y" * 1000}).splitlines()
    assert lines[2:5] == ["Shared facts of this session:", '- a: {"x": [1]}', '- b: "ñ"']
    assert lines[5] == '- long: "' + "y" * (FACT_CHARS - 1) + "…"
