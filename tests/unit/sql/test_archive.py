from functools import partial

import pytest

from shared.errors import UserError
from shared.sql import Database, archive, sessions
from shared.sql.archive import ArchivedEntry


def entry(entry_id: str, text: str = "x") -> ArchivedEntry:
    return ArchivedEntry(entry_id, "r1", "steer", 1, {"text": text, "n": 1.5, "deep": [None, True, {"ñ": "😀"}]})


def test_entries_come_back_in_the_order_of_the_stream(db: Database) -> None:
    ids = ["1000-0", "1000-2", "1000-10", "9-0", "20-18446744073709551"]
    new = db.run_sync(lambda c: archive.append_entries(c, "s", "ana", [entry(i) for i in ids], 1))
    assert new == 5
    found = db.run_sync(lambda c: archive.entries(c, "s", "ana"))
    assert [e.entry_id for e in found] == ["9-0", "20-18446744073709551", "1000-0", "1000-2", "1000-10"]
    assert found[0].data == entry("9-0").data


def test_pages_go_on_after_an_entry(db: Database) -> None:
    ids = ["9-9", "10-0", "10-1", "11-0"]
    db.run_sync(lambda c: archive.append_entries(c, "s", "ana", [entry(i) for i in ids], 1))
    page = db.run_sync(lambda c: archive.entries(c, "s", "ana", after="9-9", limit=2))
    assert [e.entry_id for e in page] == ["10-0", "10-1"]
    rest = db.run_sync(lambda c: archive.entries(c, "s", "ana", after="10-1", limit=2))
    assert [e.entry_id for e in rest] == ["11-0"]


def test_appending_again_adds_only_what_is_new_and_changes_nothing(db: Database) -> None:
    db.run_sync(lambda c: archive.append_entries(c, "s", "ana", [entry("1-0"), entry("2-0")], 1))
    batch = [entry("1-0", "other"), entry("3-0"), entry("3-0")]
    assert db.run_sync(lambda c: archive.append_entries(c, "s", "ana", batch, 2)) == 1
    assert db.run_sync(lambda c: archive.append_entries(c, "s", "ana", [], 2)) == 0
    found = db.run_sync(lambda c: archive.entries(c, "s", "ana"))
    assert [(e.entry_id, e.data["text"]) for e in found] == [("1-0", "x"), ("2-0", "x"), ("3-0", "x")]


def test_a_large_batch_is_stored_whole(db: Database) -> None:
    batch = [entry(f"{number}-0") for number in range(1, 2501)]
    assert db.run_sync(lambda c: archive.append_entries(c, "s", "ana", batch, 1)) == 2500
    assert db.run_sync(lambda c: archive.entries(c, "s", "ana")) == batch


def test_users_are_apart(db: Database) -> None:
    db.run_sync(lambda c: archive.append_entries(c, "s", "ana", [entry("1-0")], 1))
    with pytest.raises(UserError, match="another user"):
        db.run_sync(lambda c: archive.append_entries(c, "s", "eva", [entry("2-0")], 1))
    assert db.run_sync(lambda c: archive.entries(c, "s", "eva")) == []
    assert [e.entry_id for e in db.run_sync(lambda c: archive.entries(c, "s", None))] == ["1-0"]


@pytest.mark.parametrize("entry_id", ["", "5", "5-", "-1-0", "a-b", "5-0 ", "99999999999999999999-0"])
def test_ids_that_no_stream_gives_are_refused_and_nothing_is_stored(db: Database, entry_id: str) -> None:
    with pytest.raises(ValueError, match="stream entry"):
        db.run_sync(lambda c: archive.append_entries(c, "s", "ana", [entry("1-0"), entry(entry_id)], 1))
    assert db.run_sync(lambda c: archive.entries(c, "s", None)) == []


def test_stream_fields_go_there_and_back() -> None:
    fields = {"t": "steer", "v": "2", "run": "r9", "d": '{"text":"añil","n":[1,2.5,null]}'}
    assert ArchivedEntry.from_stream("7-1", fields).to_stream() == fields


def test_owners_of_those_sessions_that_are_there(db: Database) -> None:
    for session, owner in (("s", "ana"), ("t", "eva"), ("u", "eva")):
        db.run_sync(partial(sessions.ensure, session=session, principal=owner, now_ms=1))
    assert db.run_sync(lambda c: archive.owners(c, ["s", "t", "unknown"])) == {"s": "ana", "t": "eva"}
    assert db.run_sync(lambda c: archive.owners(c, [])) == {}
