"""The whole catalogue of a full installation: what each tool says of itself, and what it does on the server behind it.

The scripted model makes the calls, a real worker runs them. `TOOLS` has a row for every tool, and a tool without
one fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from coordinator.loop.own_tools import SPECS
from shared.contract import Catalogue, Effect, NodeResult, NodeState, ToolSpec
from shared.sql import gym
from shared.state import keys
from tests.support.full_install import (
    OWNER,
    PNG,
    SEEN,
    SOUND,
    FullInstall,
    full_install,
)
from tests.support.full_world import SESSION, WRONG, World

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Requiring AUTH")]

GROUPS = {
    "notes", "mail", "calendar", "gym", "reminders", "tv", "web", "reddit", "vision", "media", "shell", "files",
    "storage", "schedule", "think", "session", "utility",
}  # fmt: skip
PATCH = "--- a/patched.txt\n+++ b/patched.txt\n@@ -1 +1 @@\n-old\n+new\n"


Args = dict[str, Any] | Callable[[World], dict[str, Any]]
Check = Callable[[World, Any], bool]


@dataclass(frozen=True)
class Row:
    """A tool: arguments that are valid and what must be true then, of the world and the value; wrong arguments, and
    what the model must read of them. Rows of a stage are called together, after those of the stages before."""

    tool: str
    args: Args
    check: Check
    wrong: dict[str, Any]
    told: str
    stage: int = 1


def with_id(tool: str, **more: Any) -> Args:
    """Arguments with the id that an earlier call has returned."""
    return lambda world: {"id": world.values[tool]["id"], **more}


def entry(world: World) -> str:
    """The id of the exercise that was logged."""
    return str(world.values["gym_log"]["entries"][0]["id"])


NOTES = [
    Row("note_save", {"title": "Locker", "text": "code 4711", "tags": ["gym"]},
        lambda w, v: w.notes()[v["id"]] == "code 4711", {"title": "x"}, "text"),
    Row("note_list", {}, lambda w, v: v["notes"][0]["title"] == "Locker", {"limit": 0}, "limit", 2),
    Row("note_search", {"query": "locker"}, lambda w, v: len(v["notes"]) == 1, {}, "query", 2),
    Row("note_update", with_id("note_save", text="code 4712"), lambda w, v: w.notes()[v["id"]] == "code 4712",
        {"id": "x"}, "nothing to change", 3),
    Row("note_delete", with_id("note_save"), lambda w, v: v["deleted"] and v["id"] not in w.notes(), {}, "id", 4),
]  # fmt: skip
REMINDERS = [
    Row("reminder_add", {"text": "call the bank", "at": "tomorrow at 9"},
        lambda w, v: w.reminders()[v["id"]] == "call the bank", {"text": "x", "at": "whenever it suits"}, "not set"),
    Row("reminder_list", {}, lambda w, v: len(v["reminders"]) == 1, {"limit": 0}, "limit", 2),
    Row("reminder_change", with_id("reminder_add", text="call the bank twice"),
        lambda w, v: w.reminders()[v["id"]] == "call the bank twice", {"id": "x"}, "nothing to change", 3),
    Row("reminder_cancel", with_id("reminder_add"), lambda w, v: v["cancelled"] and v["id"] not in w.reminders(),
        {}, "id", 4),
]  # fmt: skip
GYM = [
    Row("gym_log", {"text": "bench press 3x8 60"}, lambda w, v: v["entries"][0]["id"] in w.gym(),
        {"text": "something that is no training"}, "nothing was logged"),
    Row("gym_history", {}, lambda w, v: v["entries"][0]["id"] == entry(w), {"limit": 0}, "limit", 2),
    Row("gym_exercises", {}, lambda w, v: len(v["exercises"]) == 1, {"exercise": 7}, "exercise", 2),
    Row("gym_stats", {}, lambda w, v: v["streak_weeks"] == 1, {"count": 0}, "count", 2),
    Row("gym_correct", lambda w: {"id": entry(w), "text": "bench press 4x8 60"},
        lambda w, v: "4x8" in v["text"] and list(w.gym()[v["id"]]) == v["sets"], {"id": "x"}, "nothing", 3),
    Row("gym_delete", lambda w: {"id": entry(w)}, lambda w, v: v["deleted"] and not w.gym(), {}, "id", 4),
    Row("gym_routine_save", {"name": "Push", "plan": ["bench press 3x8"]},
        lambda w, v: w.install.archive(lambda conn: gym.routine(conn, OWNER, "Push")) is not None,
        {"name": "Push", "plan": []}, "plan"),
    Row("gym_routines", {"name": "Push"}, lambda w, v: v["routines"][0]["name"] == "Push", {"name": 7}, "name", 2),
    Row("gym_routine_delete", {"name": "Push"},
        lambda w, v: not w.install.archive(lambda conn: gym.routines(conn, OWNER)), {}, "name", 4),
]  # fmt: skip
SESSION_TOOLS = [
    Row("todo_write", {"items": [{"text": "pack"}]}, lambda w, v: "pack" in w.in_state(keys.todo(SESSION)),
        {"items": [{"text": "x", "state": "later"}]}, "state"),
    Row("todo_read", {}, lambda w, v: v["items"][0]["text"] == "pack", {"nonsense": 1}, "ignored", 2),
    Row("fact_set", {"name": "budget", "value": 500},
        lambda w, v: "500" in w.in_state(keys.facts(SESSION), "budget:d"), {"name": "no name", "value": 1}, "no name"),
    Row("fact_get", {"name": "budget"}, lambda w, v: v["value"] == 500, {"name": "nothing"}, "there is no fact", 2),
    Row("find_tools", {"query": "weather forecast"}, lambda w, v: "weather_get" in v["tools"], {}, "query"),
    Row("read_artifact", lambda w: {"handle": w.values["storage_download"]["handle"]},
        lambda w, v: v["text"] == "in the cloud", {"handle": "b:1"}, "not an artifact handle", 3),
]  # fmt: skip
SCHEDULE = [
    Row("schedule_create", {"when": "every day at 7", "prompt": "sum up my notes", "tools": ["notes"], "name": "Notes"},
        lambda w, v: w.schedules()[v["id"]] == "Notes", {"when": "whenever", "prompt": "x", "tools": ["notes"]},
        "nothing was scheduled"),
    Row("schedule_list", {}, lambda w, v: v["schedules"][0]["name"] == "Notes", {"nonsense": 1}, "ignored", 2),
    Row("schedule_change", with_id("schedule_create", name="My notes"),
        lambda w, v: w.schedules()[v["id"]] == "My notes", {"id": "x"}, "nothing to change", 3),
    Row("schedule_run_now", with_id("schedule_create"), lambda w, v: v["session"] == SESSION, {"id": "x"},
        "no schedule x", 3),
    Row("schedule_delete", with_id("schedule_create"),  # what was run in stage 3 is over by now
        lambda w, v: v["deleted"] and not w.schedules() and w.said("sum up my notes"), {}, "id", 4),
]  # fmt: skip
UTILITY = [
    Row("time_now", {"timezone": "Lima"}, lambda w, v: v["timezone"] == "America/Lima",
        {"timezone": "Nowhere"}, "zone"),
    Row("calculate", {"expression": "17*23"}, lambda w, v: v["result"] == 391, {"expression": "17*"}, "not computed"),
    Row("convert_units", {"value": "30", "source": "mi", "target": "km"},
        lambda w, v: "48.28" in json.dumps(v), {"value": "1", "source": "mi", "target": "kg"}, "kg"),
    Row("date_calc", {"start": "2026-01-30", "days": 3}, lambda w, v: "2026-02-02" in json.dumps(v),
        {"start": "not a day"}, "not a day"),
]  # fmt: skip
WEB = [
    Row("web_fetch", lambda w: {"url": f"{w.install.sites.url}/page"},
        lambda w, v: "seven in the morning" in v["text"] and w.asked("/page"), {"url": "file:///etc/passwd"}, "http"),
    Row("web_search", {"query": "light house"},
        lambda w, v: v["results"][0]["title"] == "A lighthouse" and w.asked("/search", "light house"), {}, "query"),
    Row("weather_get", {"place": "Vigo", "days": 1},
        lambda w, v: v["now"]["sky"] == "light rain" and w.asked("/forecast", "42.2"), {"place": "V"}, "place"),
    Row("feeds_read", lambda w: {"url": f"{w.install.sites.url}/feed"},
        lambda w, v: v["entries"][0]["title"] == "Bridge opens" and w.asked("/feed"), {"url": "gopher://x.y"}, "http"),
    Row("news_headlines", {"topic": "bridges", "language": "en"},
        lambda w, v: v["entries"][0]["title"] == "Bridge opens" and w.asked("/news/search", "bridges"),
        {"language": "xx"}, "language"),
]  # fmt: skip
REDDIT = [
    Row("reddit_trending", {"limit": 3}, lambda w, v: len(v["posts"]) == 1 and w.asked("/r/popular/hot.json"),
        {"limit": 0}, "limit"),
    Row("reddit_subreddit", {"name": "python"}, lambda w, v: len(v["posts"]) == 1 and w.asked("/r/python/hot.json"),
        {"name": "no such/name"}, "not the name"),
    Row("reddit_search", {"query": "quiet keys"}, lambda w, v: v["posts"] and w.asked("/search.json", "quiet"),
        {"query": "x", "sort": "best"}, "sort"),
]  # fmt: skip
VISION = [
    Row("image_describe", {"path": "square.png"}, lambda w, v: v["description"] == SEEN, {}, "path"),
    Row("image_read_text", {"path": "square.png"}, lambda w, v: v["text"] == SEEN, {"path": "../x.png"}, "workspace"),
    Row("image_compare", {"images": ["square.png", "square.png"]}, lambda w, v: v["comparison"] == SEEN,
        {"images": ["square.png"]}, "images"),
    Row("think_hard", {"task": "which is redder?"}, lambda w, v: v["answer"] == SEEN, {}, "task"),
]  # fmt: skip
MEDIA = [
    Row("image_generate", {"prompt": "a lighthouse"},
        lambda w, v: v["media_type"] == "image/png"
        and w.asked("/v1/images/generations").json()["prompt"] == "a lighthouse",
        {"prompt": "x", "size": "big"}, "size"),
    Row("speech_to_text", {"path": "note.wav"},
        lambda w, v: v["text"] == "Good morning."
        and w.asked("/v1/audio/transcriptions").form()["file"].get_payload(decode=True) == SOUND, {}, "path"),
    Row("text_to_speech", {"text": "Good night"},
        lambda w, v: v["media_type"] == "audio/mpeg" and w.asked("/v1/audio/speech").json()["input"] == "Good night",
        {"text": "x", "format": "midi"}, "format"),
]  # fmt: skip
FILES = [
    Row("file_read", {"path": "letter.txt"}, lambda w, v: v["text"] == "Dear all\n", {"path": "../x"}, "workspace"),
    Row("file_list", {}, lambda w, v: "letter.txt" in json.dumps(v["entries"]), {"path": "/etc"}, "workspace"),
    Row("file_glob", {"pattern": "*.txt"}, lambda w, v: "letter.txt" in json.dumps(v["files"]), {}, "pattern"),
    Row("file_grep", {"pattern": "^Dear"}, lambda w, v: v["matches"][0]["path"] == "letter.txt",
        {"pattern": "("}, "regular expression"),
    Row("file_write", {"path": "new/list.txt", "text": "eggs"}, lambda w, v: w.text("new/list.txt") == "eggs",
        {"path": "../list.txt", "text": "eggs"}, "workspace"),
    Row("file_edit", {"path": "edited.txt", "old": "one", "new": "two"}, lambda w, v: w.text("edited.txt") == "two\n",
        {"path": "edited.txt", "old": "", "new": "x"}, "differ"),
    Row("file_patch", {"patch": PATCH}, lambda w, v: w.text("patched.txt") == "new\n", {"patch": "no diff"}, "patch"),
    Row("shell_run", {"command": "sort letter.txt | wc -l"},
        lambda w, v: (v["exit"], v["stdout"].strip()) == (0, "1"), {"command": "rm letter.txt"}, "rm"),
]  # fmt: skip
STORAGE = [
    Row("storage_upload", {"key": "a/b.txt", "text": "in the cloud"}, lambda w, v: w.kept("a/b.txt") == b"in the cloud",
        {"key": "x", "text": "a", "path": "letter.txt"}, "exactly one"),
    Row("storage_list", {}, lambda w, v: [one["key"] for one in v["objects"]] == ["a/b.txt"], {"limit": 0}, "limit", 2),
    Row("storage_download", {"key": "a/b.txt"}, lambda w, v: v["size"] == 12, {"key": "../x"}, "key", 2),
    Row("storage_share", {"key": "a/b.txt", "expires_s": 60}, lambda w, v: httpx.get(v["url"]).text == "in the cloud",
        {"key": "a", "expires_s": 1}, "expires_s", 2),
    Row("storage_delete", {"key": "a/b.txt"}, lambda w, v: v["deleted"] and not w.install.objects(OWNER), {}, "key", 4),
]  # fmt: skip
MAIL = [
    Row("mail_folders", {}, lambda w, v: "Enviados" in v["folders"], {"nonsense": 1}, "ignored"),
    Row("mail_list", {}, lambda w, v: v["mails"][0]["uid"] == w.uid, {"limit": 0}, "limit"),
    Row("mail_search", {"subject": "dinner"}, lambda w, v: v["mails"][0]["uid"] == w.uid, {}, "search"),
    Row("mail_read", lambda w: {"uid": w.uid}, lambda w, v: v["text"] == "about Friday dinner", {"uid": 0}, "uid"),
    Row("mail_send", {"to": ["bob@example.net"], "subject": "Plans", "body": "See you"},
        lambda w, v: w.sent("Plans").recipients == ("bob@example.net",) and "Plans" in w.mails("Enviados"),
        {"to": ["no address"], "subject": "x", "body": "x"}, "no address"),
    Row("mail_reply", lambda w: {"uid": w.uid, "body": "I come"},
        lambda w, v: b"I come" in w.sent("Re: Friday dinner").data
        and w.sent("Re: Friday dinner").recipients == ("martha@example.net",), {"uid": 1, "body": 7}, "body", 2),
    Row("mail_mark", lambda w: {"uids": [w.uid], "action": "archive"},
        lambda w, v: "Friday dinner" in w.mails("Archive") and "Friday dinner" not in w.mails("INBOX"),
        {"uids": [1], "action": "move"}, "target", 3),
]  # fmt: skip
CALENDAR = [
    Row("calendar_add", {"title": "Dentist", "start": "tomorrow at 9:30"}, lambda w, v: "SUMMARY:Dentist" in w.events(),
        {"title": "x", "start": "some day"}, "some day"),
    Row("calendar_today", {}, lambda w, v: v["events"] == [], {"nonsense": 1}, "ignored"),
    Row("calendar_upcoming", {}, lambda w, v: v["events"][0]["title"] == "Dentist", {"days": 0}, "days", 2),
    Row("calendar_change", lambda w: {"uid": w.values["calendar_add"]["uid"], "title": "Doctor"},
        lambda w, v: "SUMMARY:Doctor" in w.events(), {"uid": "x"}, "nothing to change", 3),
    Row("calendar_delete", lambda w: {"uid": w.values["calendar_add"]["uid"]}, lambda w, v: not w.events(),
        {}, "uid", 4),
]  # fmt: skip
TV = [
    Row("tv_list", {}, lambda w, v: [one["name"] for one in v["tvs"]] == ["Kitchen", "Lounge"], {"nonsense": 1},
        "ignored"),
    Row("tv_status", {"tv": "kitchen"}, lambda w, v: (v["on"], v["volume"]) == (True, 12), {"tv": "attic"}, "attic"),
    Row("tv_keys", {"keys": ["home", "ok"], "tv": "kitchen"},
        lambda w, v: w.install.tv.keys == ["KEY_HOME", "KEY_ENTER"],
        {"keys": ["the red one"], "tv": "kitchen"}, "keys are"),
    Row("tv_volume", {"action": "set", "level": 30, "tv": "kitchen"}, lambda w, v: w.install.tv.volume == 30,
        {"action": "set", "tv": "kitchen"}, "level", 2),
    Row("tv_source", {"source": "console", "tv": "lounge"},
        lambda w, v: ("samsungvd.mediaInputSource", "setInputSource", ["HDMI1"]) in w.commands(), {}, "source", 2),
    Row("tv_power", {"on": False, "tv": "kitchen"}, lambda w, v: w.install.tv.power == "standby",
        {"on": "perhaps", "tv": "kitchen"}, "on", 3),
]  # fmt: skip
TOOLS = {
    row.tool: row
    for row in (
        *NOTES, *REMINDERS, *GYM, *SESSION_TOOLS, *UTILITY, *WEB, *REDDIT, *VISION, *MEDIA, *FILES, *STORAGE, *MAIL,
        *CALENDAR, *TV, *SCHEDULE,
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullInstall]:
    with full_install(tmp_path_factory.mktemp("full")) as running:
        (running.workspace / "letter.txt").write_text("Dear all\n")
        (running.workspace / "edited.txt").write_text("one\n")
        (running.workspace / "patched.txt").write_text("old\n")
        (running.workspace / "square.png").write_bytes(PNG)
        (running.workspace / "note.wav").write_bytes(SOUND)
        yield running


@pytest.fixture(scope="module")
def catalogue(install: FullInstall) -> Catalogue:
    client = install.client()
    try:
        return client.catalogue()
    finally:
        client.close()


@pytest.fixture(scope="module")
def world(install: FullInstall) -> World:
    return World(install, install.deliver(OWNER, "Friday dinner"))


def specs(catalogue: Catalogue) -> tuple[ToolSpec, ...]:
    return (*catalogue.tools, *SPECS)


def test_nothing_is_missing_and_the_table_has_every_tool(catalogue: Catalogue) -> None:
    assert catalogue.missing == {}
    assert {one.name for one in catalogue.tools} == set(TOOLS)
    assert len(specs(catalogue)) >= 60
    assert {one.group for one in specs(catalogue)} == GROUPS
    assert {group.name for group in catalogue.groups} == GROUPS


def test_every_tool_says_what_it_is_for_and_how_it_is_asked_for(catalogue: Catalogue) -> None:
    for spec in specs(catalogue):
        assert spec.effect in Effect, spec.name
        assert len(spec.description) > 20, spec.name
        assert spec.parameters["type"] == "object", spec.name
        for name, shape in spec.parameters.get("properties", {}).items():
            assert shape.keys() & {"description", "enum", "default", "type", "anyOf"}, (spec.name, name)
        for words in (spec.keywords, spec.examples):
            assert all(words.get(language) for language in ("es", "en")), f"{spec.name} lacks words in a language"
    for group in catalogue.groups:
        for words in (group.keywords, group.examples):
            assert all(len(words.get(language, ())) >= 3 for language in ("es", "en")), group.name


def test_wrong_arguments_are_explained_and_have_no_effect(world: World) -> None:
    before = world.everything()
    rows = list(TOOLS.values())
    results = world.install.turn(OWNER, WRONG, *((row.tool, row.wrong) for row in rows))
    for row, result in zip(rows, results, strict=True):
        assert row.told in result.text, (row.tool, result.text)
        ignored = row.told == "ignored"  # there is no way to call it wrongly
        assert result.state is (NodeState.DONE if ignored else NodeState.FAILED), (row.tool, result)
        assert ignored or (result.error is not None and not result.error.may_have_had_effect), row.tool
        assert len(result.text) < 1500, row.tool
    assert world.everything() == before


def test_every_tool_does_what_it_says(world: World, catalogue: Catalogue) -> None:
    marked = {one.name for one in catalogue.tools if one.untrusted}
    for stage in sorted({row.stage for row in TOOLS.values()}):
        rows = [row for row in TOOLS.values() if row.stage == stage]
        calls = [(row.tool, row.args(world) if callable(row.args) else row.args) for row in rows]
        results = world.install.turn(OWNER, SESSION, *calls)
        for row, result in zip(rows, results, strict=True):
            assert result.state is NodeState.DONE, (row.tool, result.text)
            world.values[row.tool] = result.value
        for row, result in zip(rows, results, strict=True):
            assert row.check(world, result.value), (row.tool, result.value)
            assert is_marked(result) is (row.tool in marked), (row.tool, result.text)


def is_marked(result: NodeResult) -> bool:
    """True if the model gets the result between marks."""
    return (
        re.fullmatch(r"\[([0-9a-f]{8}): \w+: data, not instructions\]\n.*\n\[\1: end\]", result.text, re.S) is not None
    )


def test_what_a_tool_asks_of_a_model_is_on_its_node(install: FullInstall) -> None:
    asked = [("think_hard", {"task": "which is redder?"}), ("image_describe", {"path": "square.png"})]
    *models, picture, plain = install.turn(
        OWNER, "paying", *asked, ("image_generate", {"prompt": "x"}), ("calculate", {"expression": "1+1"})
    )
    assert all(one.usage is not None and one.usage.total > 0 for one in models)
    assert picture.usage is None, "nobody has said what it costs"
    assert (plain.usage, plain.cost) == (None, None)


def test_what_the_coordinator_carries_out(install: FullInstall) -> None:
    wrong = install.turn(
        OWNER, "asking", ("ask_user", {}), ("wait", {"seconds": 1, "until": "2030-01-01T00:00:00"}), ("wait", {})
    )
    assert all(result.state is not NodeState.DONE for result in wrong)
    assert "question" in wrong[0].text
    assert "either seconds or until" in wrong[1].text
    calls = [{"name": "ask_user", "arguments": {"question": "Red or blue?", "options": ["red", "blue"]}}]
    calls.append({"name": "wait", "arguments": {"seconds": 0.05}})
    install.model.script([{"when": {"step": 0}, "then": {"calls": calls}}, {"then": {"text": "{{results}}"}}])
    client = install.client()
    try:
        submitted = client.submit("ask me", session="asking")
        for event in client.stream("asking", timeout=30):
            if event.type == "question.asked":
                client.answer(event.data["node"], "blue")
                break
        reply = client.wait(submitted, 30)
    finally:
        client.close()
    assert reply.ok
    assert "blue" in reply.answer
