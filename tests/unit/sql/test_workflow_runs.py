"""Runs of workflows, told from those of agents by their question."""

from __future__ import annotations

from functools import partial
from typing import Any

from shared.sql import Database, runs
from shared.sql.runs import Run, question_of

ROWS = [
    ("r1", "ana", "", "brief"),
    ("r2", "ana", "late by 3 hours", "brief"),
    ("r3", "ana", "", "brief-two"),
    ("r4", "ana", "what does [workflow brief] do?", ""),
    ("r5", "eva", "", "brief"),
    ("r6", "ana", "", "due-reminders"),
]


def test_they_are_found_by_name_and_user(db: Database) -> None:
    for number, (run, user, text, workflow) in enumerate(ROWS):
        asked = question_of(text, workflow)
        row = Run(run, f"s-{user}", user, "default", "e", 1000 + number, question=asked)
        db.run_sync(partial(runs.start_run, run=row))

    def found(*args: Any, **options: Any) -> list[str]:
        return [r.id for r in db.run_sync(lambda c: runs.workflow_runs(c, *args, **options))]

    assert found("ana", "brief") == ["r2", "r1"]
    assert found(None, "brief") == ["r5", "r2", "r1"]
    assert found("ana") == ["r6", "r3", "r2", "r1"]
    assert found("ana", without=["due-reminders", "brief"]) == ["r3"]
    assert found("ana", limit=1) == ["r6"]
    assert found("ana", "%") == []


def test_what_stands_for_the_question() -> None:
    assert question_of("hello", "") == "hello"
    assert question_of("", "brief") == "[workflow brief]"
    assert question_of("late", "brief") == "[workflow brief] late"
    assert len(question_of("x" * 5000, "brief")) == 2000
