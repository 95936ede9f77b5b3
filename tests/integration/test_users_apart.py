"""Two users of one installation: nothing that a tool keeps for one is seen or changed by the other.

One fills every store; the other lists, searches, guesses ids, handles, uids, keys and session names, and what the first
one has is the same as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shared.contract import NodeState
from shared.errors import CapatazError
from shared.sql import gym, notes, reminders, schedules
from tests.support.full_install import (
    BUCKET,
    OTHER,
    OWNER,
    PASSWORD,
    SOUND,
    FullInstall,
    address,
    full_install,
)
from tests.support.values import fields

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Requiring AUTH")]

SECRET = "the owner's zebra"
"""Part of all that the owner keeps; the other user must never read it."""
SESSION = "diary"


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullInstall]:
    with full_install(tmp_path_factory.mktemp("full")) as running:
        yield running


@pytest.fixture(scope="module")
def kept(install: FullInstall) -> dict[str, Any]:
    """What the owner has in every store: the values of the calls that put it there, by tool."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("note_save", {"title": SECRET, "text": SECRET}),
        ("reminder_add", {"text": SECRET, "at": "tomorrow at 9"}),
        ("gym_log", {"text": f"bench press 3x8 60 ({SECRET})"}),
        ("gym_routine_save", {"name": SECRET, "plan": ["squat 5x5"]}),
        ("todo_write", {"items": [{"text": SECRET}]}),
        ("fact_set", {"name": "zebra", "value": SECRET}),
        ("calendar_add", {"title": SECRET, "start": "tomorrow at 10"}),
        ("storage_upload", {"key": "zebra.txt", "text": SECRET}),
        ("schedule_create", {"when": "every day at 7", "prompt": SECRET, "tools": ["notes"], "name": SECRET}),
        ("text_to_speech", {"text": SECRET}),
        ("mail_list", {}),
    )
    uid = install.deliver(OWNER, SECRET)
    results = install.turn(OWNER, SESSION, *calls)
    assert all(result.state is NodeState.DONE for result in results), [result.text for result in results]
    values = {name: result.value for (name, _), result in zip(calls, results, strict=True)}
    [download] = install.turn(OWNER, SESSION, ("storage_download", {"key": "zebra.txt"}))
    return values | {"uid": uid, "artifact": fields(download.value)["handle"]}


def owned(install: FullInstall) -> dict[str, Any]:
    """All that the owner has, past the tools."""
    with install.state() as client:
        found: Any = client.keys(f"capataz:session:{SESSION}*")
        hashes: dict[str, Any] = {
            str(key): client.hgetall(key) for key in found if str(client.type(key)) in ("hash", "b'hash'")
        }
    for row in hashes.values():
        row.pop("archived", None)  # how far the copy in SQL is, which goes on by itself
    return {
        "notes": install.archive(lambda conn: notes.list_notes(conn, OWNER)),
        "reminders": install.archive(lambda conn: reminders.list_reminders(conn, OWNER)),
        "gym": install.archive(lambda conn: gym.history(conn, OWNER)),
        "routines": install.archive(lambda conn: gym.routines(conn, OWNER)),
        "schedules": install.archive(lambda conn: schedules.list_schedules(conn, OWNER)),
        "mail": install.imap.messages(address(OWNER), PASSWORD, "INBOX"),
        "events": install.calendars.events(OWNER),
        "objects": [(key, install.s3.stat_object(BUCKET, key).etag) for key in install.objects(OWNER)],
        "session": hashes,
    }


def test_what_one_user_keeps_is_neither_seen_nor_changed_by_another(install: FullInstall, kept: dict[str, Any]) -> None:
    before = owned(install)
    assert all(before.values()), "the owner has something in every store"
    entry, note, event = kept["gym_log"]["entries"][0]["id"], kept["note_save"]["id"], kept["calendar_add"]["uid"]
    looking = [
        ("note_list", {}), ("note_search", {"query": "zebra"}), ("reminder_list", {}), ("gym_history", {}),
        ("gym_exercises", {}), ("gym_stats", {}), ("gym_routines", {}), ("gym_routines", {"name": SECRET}),
        ("todo_read", {}), ("fact_get", {}), ("fact_get", {"name": "zebra"}), ("calendar_upcoming", {}),
        ("storage_list", {}), ("storage_list", {"prefix": f"../{OWNER}/"}), ("schedule_list", {}), ("mail_list", {}),
        ("mail_search", {"text": "zebra"}), ("mail_read", {"uid": kept["uid"]}),
        ("read_artifact", {"handle": kept["artifact"]}), ("speech_to_text", {"handle": kept["artifact"]}),
        ("image_describe", {"handle": kept["text_to_speech"]["handle"]}),
        ("storage_download", {"key": "zebra.txt"}), ("storage_download", {"key": f"../{OWNER}/zebra.txt"}),
        ("storage_share", {"key": "zebra.txt"}), ("find_tools", {"query": "zebra"}), ("tv_list", {}),
    ]  # fmt: skip
    changing = [
        ("note_update", {"id": note, "text": "mine"}), ("note_delete", {"id": note}),
        ("reminder_change", {"id": kept["reminder_add"]["id"], "text": "mine"}),
        ("reminder_cancel", {"id": kept["reminder_add"]["id"]}),
        ("gym_correct", {"id": entry, "text": "squat 1x1"}), ("gym_delete", {"id": entry}),
        ("gym_routine_delete", {"name": SECRET}), ("calendar_change", {"uid": event, "title": "mine"}),
        ("calendar_delete", {"uid": event}), ("storage_delete", {"key": "zebra.txt"}),
        ("storage_delete", {"key": f"../{OWNER}/zebra.txt"}),
        ("storage_upload", {"key": f"../{OWNER}/zebra.txt", "text": "mine", "overwrite": True}),
        ("storage_upload", {"key": "copy.txt", "handle": kept["artifact"]}),
        ("schedule_change", {"id": kept["schedule_create"]["id"], "state": "off"}),
        ("schedule_run_now", {"id": kept["schedule_create"]["id"]}),
        ("schedule_delete", {"id": kept["schedule_create"]["id"]}),
        ("mail_mark", {"uids": [kept["uid"]], "action": "trash"}),
        ("mail_reply", {"uid": kept["uid"], "body": "mine"}),
        ("mail_send", {"to": ["x@example.net"], "subject": "copy", "body": "copy",
                       "attachments": [{"artifact": kept["artifact"], "name": "a.txt"}]}),
        ("tv_power", {"on": False, "tv": "Lounge"}),
    ]  # fmt: skip
    calls = [*looking, *changing]
    results = install.turn(OTHER, "elsewhere", *calls)
    for (name, arguments), result in zip(calls, results, strict=True):
        told = result.text
        for given in arguments.values():  # what it was asked with may be repeated
            told = told.replace(str(given), "")
        assert "zebra" not in told, (name, told)
        if (name, arguments) in changing:
            value: Any = result.value or {}
            harmless = result.state is NodeState.FAILED or not (value.get("deleted") or value.get("cancelled"))
            assert harmless or value.get("done") == [], (name, result)
    assert owned(install) == before
    assert not install.post.received
    assert install.objects(OTHER) == []


def test_the_same_names_are_two_things_of_two_users(install: FullInstall, kept: dict[str, Any]) -> None:
    calls = (
        ("note_save", {"title": SECRET, "text": "eva's"}),
        ("gym_routine_save", {"name": SECRET, "plan": ["plank 3x60s"]}),
        ("storage_upload", {"key": "zebra.txt", "text": "eva's"}),
        ("calendar_add", {"title": "Eva's", "start": "tomorrow at 10"}),
    )
    before = owned(install)
    results = install.turn(OTHER, "eva-own", *calls)
    assert all(result.state is NodeState.DONE for result in results), [result.text for result in results]
    assert install.objects(OTHER) == [f"users/{OTHER}/zebra.txt"]
    assert len(install.calendars.events(OTHER)) == 1
    assert owned(install) == before


def test_a_session_of_another_user_is_refused_and_stays_as_it_is(install: FullInstall, kept: dict[str, Any]) -> None:
    before = owned(install)
    client = install.client(OTHER)
    try:
        reply = client.ask("what is said here?", session=SESSION, timeout=30)
        assert not reply.ok
        assert "zebra" not in json.dumps(reply.model_dump(mode="json"))
        for order in (
            lambda: client.undo(SESSION),
            lambda: client.fork(SESSION, "stolen"),
            lambda: client.set(SESSION, model="fast"),
        ):
            assert not _done(order)
        assert client.owner("stolen") == ""
    finally:
        client.close()
    assert owned(install) == before


def _done(order: Any) -> bool:
    try:
        return bool(order().ok)
    except CapatazError:
        return False


def test_questions_to_one_user_are_not_answered_and_runs_not_ended_by_another(install: FullInstall) -> None:
    asking = {"name": "ask_user", "arguments": {"question": "Red or blue?"}}
    install.model.script([{"when": {"step": 0}, "then": {"calls": [asking]}}, {"then": {"text": "{{results}}"}}])
    client, other = install.client(), install.client(OTHER)
    try:
        sent = client.submit("ask me", session="choice")
        asked = next(e for e in client.stream("choice", timeout=30) if e.type == "question.asked")
        node = str(asked.data["node"])
        for order in (
            lambda: other.answer(node, "eva says green"),
            lambda: other.deny(node),
            lambda: other.cancel(session="choice"),
            lambda: other.cancel(run=asked.run),
            lambda: other.control("steer", session="choice", text="eva says stop"),
        ):
            assert not _done(order)
        assert client.answer(node, "blue").ok
        reply = client.wait(sent, 30)
        history = str(client.history("choice"))
    finally:
        client.close()
        other.close()
    assert "blue" in reply.answer
    assert "eva says" not in history


def test_sound_is_a_file_of_the_shared_workspace(install: FullInstall) -> None:
    (install.workspace / "note.wav").write_bytes(SOUND)
    for user in (OWNER, OTHER):
        [heard] = install.turn(user, f"hearing-{user}", ("speech_to_text", {"path": "note.wav"}))
        assert heard.state is NodeState.DONE
