import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.archive import archived_entry, copy_from
from coordinator.restore import facts_of, informed, lost_run, untold
from shared.entries import FactSet, Nudge, RunEnded
from shared.errors import ArchiveUnavailable
from shared.sql import archive
from shared.sql.archive import ArchivedEntry
from shared.sql.runs import Run

IDS = st.tuples(st.integers(0, 50), st.integers(0, 3)).map(lambda p: f"{p[0]}-{p[1]}")


@pytest.mark.property
@given(st.lists(IDS, unique=True), st.integers(0, 50), st.one_of(st.just(""), IDS))
def test_a_copy_takes_the_run_and_whatever_was_not_copied(ids: list[str], started: int, copied_to: str) -> None:
    start = copy_from(str(started), copied_to)
    low = archive.position(start.removeprefix("(") if "-" in start and start != "-" else f"{start.strip('-') or 0}-0")
    taken = {i for i in ids if archive.position(i) > low or (archive.position(i) == low and not start.startswith("("))}
    for entry in ids:
        at = archive.position(entry)
        needed = at >= (started, 0) or not copied_to or at > archive.position(copied_to)
        assert (entry in taken) or not needed
    assert taken == set(ids) or start != "-"


def test_an_entry_of_a_node_is_archived_under_its_run() -> None:
    entry = archived_entry("1-0", {"t": "fact.set", "v": "1", "run": "r7.1.1.0", "d": "{}"})
    assert (entry.run, entry.to_stream()["run"]) == ("r7", "r7")


def fact(name: str, version: int, value: Any) -> ArchivedEntry:
    return ArchivedEntry(f"{version}-0", "r", FactSet.T, 1, {"name": name, "version": version, "row": {"value": value}})


def test_the_last_change_of_a_fact_is_the_fact() -> None:
    other = ArchivedEntry("9-0", "r", "steer", 1, {"text": "x"})
    found = facts_of([fact("a", 1, 1), fact("b", 1, []), other, fact("a", 2, {})])
    assert {name: (f.version, f.row["value"]) for name, f in found.items()} == {"a": (2, {}), "b": (1, [])}


def test_what_is_known_of_a_session_stands_in_its_decision() -> None:
    rows = [{"session": s} for s in ("here", "mine", "hers", "new", "")]
    rows += [{"action": "reject"}, {"session": "here", "to": "hers"}]
    found = informed(rows, "ana", ["mine", "hers", "new"], {"mine": "ana", "hers": "eva"})
    assert [row.keys() - {"session", "to", "action"} for row in found] == [
        {"known"}, {"known"}, {"owner"}, set(), set(), set(), {"known", "taken"},
    ]  # fmt: skip
    assert found[2]["owner"] == "eva"


def test_a_message_whose_session_nobody_can_tell_is_answered_and_control_goes_on() -> None:
    decision = {"action": "message", "entry": "1-0", "raw": "{}", "id": "m", "session": "s", "reply_to": "r"}
    refused = untold(decision, ArchiveUnavailable("the disk is full", hint="free some"))
    assert (refused["action"], refused["entry"], refused["reply_to"]) == ("reject", "1-0", "r")
    reply = json.loads(refused["reply"])
    assert (reply["ok"], reply["id"], reply["error"]["code"]) == (False, "m", "archive_unavailable")
    control = {"action": "control", "session": "s"}
    assert untold(control, ArchiveUnavailable("x")) == control


def test_of_a_lost_run_its_question_is_told_as_far_as_it_fits() -> None:
    lost = lost_run(Run("r", "s", "ana", "main", "e", 5, question="x" * 5000, replies=("a",)))
    [nudge, end] = lost.change.entries
    assert isinstance(nudge, Nudge)
    assert "x" * 200 + "…" in nudge.text
    assert len(lost.reply) < 1000
    assert isinstance(end, RunEnded)
    assert end.error is not None
    assert (lost.started_ms, lost.replies) == (5, ("a",))
