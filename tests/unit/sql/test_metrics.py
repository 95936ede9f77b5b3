"""Counts of a span of time, and sessions that are idle and have no note."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.entries import Node, NodeEnded
from shared.sql import Database, metrics, notes, runs, sessions
from shared.sql.metrics import Span
from shared.sql.runs import Run, RunState
from shared.sql.tables import log_entries

NOW = 1_800_000_000_000
HOUR = 3_600_000


def put_run(db: Database, id: str, session: str = "s", principal: str = "ana", ago: int = HOUR, **values: Any) -> None:
    at = NOW - ago
    ended = Run(id, session, principal, "default", "e", at, state=RunState.ENDED, ended_ms=at, seconds=2.0)
    db.run_sync(lambda c: runs.end_run(c, replace(ended, **values)))


def put_call(db: Database, run: str, tool: str, state: str, number: int) -> None:
    node = f"{run}.1.0.{number}"
    rows = [
        (Node.T, {"node": node, "tool": tool}),
        (Node.T, {"node": node, "tool": tool, "args_hash": "h"}),  # logged again when its inputs were there
        (NodeEnded.T, {"node": node, "result": {"state": state}}),
    ]
    common = {"session": "s", "entry_ms": NOW + number, "run": run, "v": 1}
    entries = [common | {"entry_seq": seq, "type": kind, "data": data} for seq, (kind, data) in enumerate(rows)]
    db.run_sync(lambda c: c.execute(log_entries.insert(), entries))


def test_runs_and_calls_of_one_user_in_a_span(db: Database) -> None:
    put_run(db, "r1")
    put_run(db, "r2", state=RunState.FAILED, error_code="timed_out", seconds=4.0)
    put_run(db, "r3", state=RunState.CANCELLED, error_code="cancelled", seconds=None)
    put_run(db, "old", ago=9 * HOUR)
    put_run(db, "child", parent="r1.1.0.0")
    put_run(db, "lesson", session=".learn.2027-01-15.ana", state=RunState.FAILED, error_code="timed_out")
    put_run(db, "hers", session="h", principal="eva")
    calls = [("web_get", "done"), ("web_get", "failed"), ("note_save", "done"), ("workflow:x/y", "done")]
    for number, (tool, state) in enumerate(calls):
        put_call(db, "r1", tool, state, number)
    put_call(db, "child", "web_get", "timed_out", 9)
    put_call(db, "old", "web_get", "done", 10)
    found = db.run_sync(lambda c: metrics.of_user(c, "ana", NOW - 8 * HOUR, NOW))
    assert found.runs == {"cancelled": 1, "ended": 1, "failed": 1}
    assert (found.seconds, found.failures) == (6.0, {"timed_out": 1})
    assert found.tools == {"web_get": (3, 2), "note_save": (1, 0)}  # those of subagents too
    assert list(db.run_sync(lambda c: metrics.of_user(c, "ana", NOW - 8 * HOUR, NOW, tools=1)).tools) == ["web_get"]
    assert db.run_sync(lambda c: metrics.of_user(c, "zoe", 0, NOW)) == Span({}, 0.0, {}, {})


def test_a_list_of_sessions_leaves_out_what_it_is_told_to(db: Database) -> None:
    put_run(db, "r1", session="talk", ago=3 * HOUR, question="hi")
    put_run(db, "r2", session=".learn.day", ago=2 * HOUR, question="[workflow learn]")
    put_run(db, "r3", session="talk", question="[workflow brief]")

    def listed(*without: str) -> list[tuple[str, int, str]]:
        found = db.run_sync(lambda c: sessions.overview(c, "ana", without=without))
        return [(one.session, one.runs, one.begins) for one in found]

    assert listed() == [("talk", 2, "hi"), (".learn.day", 1, "[workflow learn]")]
    assert listed("t%", "_learn") == listed()
    assert listed(".") == [("talk", 2, "hi")]


def test_idle_sessions_without_a_note(db: Database) -> None:
    put_run(db, "r1", session="a_b", ago=5 * HOUR)
    put_run(db, "r2", session="noted", ago=6 * HOUR)
    put_run(db, "r3", session="fresh", ago=HOUR)
    put_run(db, "r4", session="learn.ana", ago=7 * HOUR)
    put_run(db, "r5", session="hers", principal="eva", ago=7 * HOUR)

    def note(title: str, principal: str = "ana") -> None:
        db.run_sync(lambda c: notes.save(c, principal, title=title, text="x", now_ms=NOW))

    def idle() -> list[str]:
        found = db.run_sync(
            lambda c: sessions.idle(c, "ana", NOW - 2 * HOUR, noted="Session ", without=("learn.", "a%"), limit=5)
        )
        return [one.id for one in found]

    note("Session noted")
    note("Session a_b", "eva")
    assert idle() == ["a_b"]
    put_run(db, "r6", session="noted", ago=-HOUR)  # used again, and idle again
    assert db.run_sync(lambda c: sessions.idle(c, "ana", NOW + 2 * HOUR, noted="Session "))[-1].id == "noted"
