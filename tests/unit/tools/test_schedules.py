"""The tools that make schedules, and the workflow that fires them."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.contract import Catalogue, Effect, StepSpec, ToolSpec, WorkflowSpec
from shared.entries import LogEntry, Offered, Stored, UserMessage
from shared.errors import ModelError, StateUnavailable
from shared.messages import ErrorInfo, Message, Reply
from shared.sql import schedules
from shared.sql.schedules import CLAIM_MS
from shared.timing import Timing
from tests.support.values import Fields, fields, rows
from tests.unit.tools.conftest import NOW, Bench
from workers import schedule as clock
from workers.tools import schedules as tools
from workers.tools.schedules import read_timing
from workers.tools.when import WhenError

MADRID = ZoneInfo("Europe/Madrid")
NOW_MS = int(NOW * 1000)


def _tool(name: str, group: str) -> ToolSpec:
    return ToolSpec(name=name, group=group, description="x", parameters={}, effect=Effect.READ)


def _workflow(name: str, **values: Any) -> WorkflowSpec:
    step = StepSpec(id="a", kind="code", tool=f"workflow:{name}/a")
    return WorkflowSpec(name=name, title=name, steps=(step,), result="a", **values)


@pytest.fixture
def offering(bench: Bench) -> Bench:
    bench.state.offered = Catalogue(
        tools=(_tool("web_get", "web"), _tool("note_list", "notes")),
        workflows=(
            _workflow("brief", cron="0 7 * * *", timezone="Europe/Madrid"),
            _workflow("inner", cron="* * * * *", hidden=True),
        ),
    )
    bench.state.entries = asked()
    return bench


def asked(
    layer: str = "all", tools: tuple[str, ...] = (), run: str = "r1", agent: str = "default", parent: str = ""
) -> list[Stored]:
    """A log in which the run that makes the calls was opened, and given tools."""
    message = UserMessage(run=run, principal="ana", session="s1", received_ms=NOW_MS, agent=agent, parent=parent)
    values: tuple[LogEntry, ...] = (message, Offered(layer=layer, tools=tools))
    return [Stored(id=f"{n}-0", run=run, type=value.T, value=value) for n, value in enumerate(values)]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Message]]:
    found: list[tuple[str, Message]] = []

    async def submit(redis_url: str, principal: str, message: Message) -> None:
        found.append((principal, message))

    async def answers(redis_url: str, names: Sequence[str]) -> list[Reply | None]:
        return [ANSWERS.get(name) for name in names]

    monkeypatch.setattr(clock, "submit", submit)

    async def forget_answers(redis_url: str, names: Sequence[str]) -> None:
        for name in names:
            del ANSWERS[name]

    monkeypatch.setattr(clock, "answers", answers)
    monkeypatch.setattr(clock, "forget_answers", forget_answers)
    monkeypatch.setattr(tools, "submit", submit)
    ANSWERS.clear()
    return found


ANSWERS: dict[str, Reply] = {}
"""What has come on reply lists."""


def _refusal(code: str) -> Reply:
    return Reply(ok=False, error=ErrorInfo(code=code, message="no agent 'clerk'", hint="known: default"))


def _at(bench: Bench, seconds: float) -> Bench:
    """The same installation, so much later."""
    return Bench(
        bench.settings, dataclasses.replace(bench.services, now=lambda: NOW + seconds), bench.state, bench.model
    )


def _listed(bench: Bench, **who: str) -> list[Fields]:
    return rows(bench.fields("schedule_list", **who)["schedules"])


async def _nothing(workflow: str) -> bool:
    return False


def _tick(bench: Bench, mark: str = "w1") -> clock.Ticked:
    """A look at the clock by some worker; the workflows' own schedules have nothing to do."""
    return asyncio.run(clock.tick(bench.services, bench.settings, _nothing, mark))


@pytest.mark.parametrize(
    ("when", "cron", "every", "words"),
    [
        ("every weekday at 8:30", "30 8 * * 1,2,3,4,5", "", "cron"),
        ("cada lunes y miércoles a las 9", "0 9 * * 1,3", "", "cron"),
        ("el primer lunes de cada mes", "0 9 * * 1#1", "", "cron"),
        ("0 7 * * 1-5", "0 7 * * 1-5", "", "cron"),
        ("*/15 9-17 * * *", "*/15 9-17 * * *", "", "cron"),
        ("0 9 1 JAN,JUL *", "0 9 1 JAN,JUL *", "", "cron"),
        ("every 2 hours", "", "2h", "every 2 hours"),
        ("cada 20 minutos", "", "20m", "every 20 minutes"),
        ("every other day at 8", "", "2d", "every 2 days"),
        ("cada dos semanas los jueves a las 10", "", "2w", "every 2 weeks"),
        ("tomorrow at 7:30", "", "", "once"),
        ("2026-12-24T18:00", "", "", "once"),
    ],
)
def test_times_in_words_and_cron(when: str, cron: str, every: str, words: str) -> None:
    timing, _ = read_timing(when, datetime.fromtimestamp(NOW, MADRID))
    timing.check()
    assert (timing.cron, timing.every, timing.zone) == (cron, every, "Europe/Madrid")
    assert timing.words().startswith(words)
    following = timing.next_after(NOW_MS)
    assert following is not None
    assert following > NOW_MS


def test_an_end_in_words_is_the_end_of_that_day() -> None:
    timing, _ = read_timing("every day at 9 until 2026-11-12", datetime.fromtimestamp(NOW, MADRID))
    slots = [datetime.fromtimestamp(ms / 1000, MADRID) for ms in timing.slots(NOW_MS)]
    assert [f"{one:%d %H:%M}" for one in slots] == ["11 09:00", "12 09:00"]


def test_what_no_timing_can_say_is_refused_with_a_way_out() -> None:
    now = datetime.fromtimestamp(NOW, MADRID)
    for words in ("every 3 months", "every 2 weeks on monday and friday"):
        with pytest.raises(WhenError, match="or use cron"):
            read_timing(words, now)


def test_a_prompt_is_scheduled_listed_and_kept_apart(offering: Bench) -> None:
    one = offering.fields(
        "schedule_create", when="cada día a las 7", prompt="Resume las noticias", tools=["web"], name="noticias"
    )
    assert one["next"] == "2026-11-11T07:00:00+01:00"
    assert one["session"] == "s1"
    listed = offering.run("schedule_list").seen
    assert "noticias: cron 0 7 * * * (Europe/Madrid), next Wednesday 2026-11-11 07:00" in listed
    assert offering.run("schedule_list", principal="eva").seen == "Nothing is scheduled."
    again = offering.fields("schedule_create", when="cada día a las 7", prompt="x", tools=["web"])
    assert again["id"] == one["id"]
    assert len(_listed(offering)) == 1


def test_the_owner_sees_the_schedules_of_workflows(offering: Bench) -> None:
    found = offering.run("schedule_list", principal="owner")
    assert [one["workflow"] for one in rows(fields(found.value)["fixed"])] == ["brief"]
    assert "fixed by the installation" in found.seen


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"when": "soonish", "prompt": "x", "tools": ["web"]}, "nothing was scheduled: cannot read a time"),
        ({"when": "0 7 * * 9", "prompt": "x", "tools": ["web"]}, "day-of-week"),
        ({"when": "every day", "prompt": "x"}, "names its tools"),
        ({"when": "every day", "prompt": "x", "tools": ["banking"]}, "no tool or group 'banking'.*notes, web"),
        ({"when": "every day", "workflow": "nope"}, "no workflow 'nope'.*brief"),
        ({"when": "every day", "workflow": "inner"}, "no workflow 'inner'"),
        ({"when": "every day"}, "a workflow or a prompt"),
        ({"when": "every day", "prompt": "x", "tools": ["web"], "missed": "perhaps"}, "missed"),
        ({"when": "2020-01-01T10:00", "prompt": "x", "tools": ["web"]}, "in the past"),
    ],
)
def test_what_cannot_be_scheduled_is_explained(offering: Bench, args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ModelError) as caught:
        offering.run("schedule_create", **args)
    assert re.search(problem, str(caught.value))
    assert offering.run("schedule_list").seen == "Nothing is scheduled."


def test_a_schedule_is_changed_paused_and_deleted_by_its_user_only(offering: Bench) -> None:
    id = offering.fields("schedule_create", when="every day at 9", workflow="brief", params={"a": 1})["id"]
    moved = offering.fields("schedule_change", id=id, when="every day at 10", timezone="New York", name="later")
    assert (moved["name"], moved["next"]) == ("later", "2026-11-10T10:00:00-05:00")
    off = offering.fields("schedule_change", id=id, state="off")
    assert (off["state"], off["next"]) == ("off", None)
    assert offering.fields("schedule_change", id=id, state="on", missed="skip")["missed"] == "skip"
    for args, problem in (
        ({}, "nothing to change"),
        ({"name": "x", "principal": "eva"}, "there is no schedule"),
        ({"prompt": "x"}, "was not changed: a schedule runs a workflow or a prompt"),
        ({"when": "nonsense"}, "was not changed"),
        ({"tools": ["banking"]}, "no tool or group"),
    ):
        with pytest.raises(ModelError, match=problem):
            offering.run("schedule_change", id=id, **args)
    assert offering.fields("schedule_delete", id=id, principal="eva")["deleted"] is False
    assert offering.fields("schedule_delete", id=id)["deleted"] is True
    assert offering.fields("schedule_delete", id=id)["deleted"] is False


def test_a_slot_becomes_one_message_of_its_user(offering: Bench, sent: list[tuple[str, Message]]) -> None:
    id = offering.fields("schedule_create", when="in 20 minutes", prompt="Look", tools=["web", "note_list"])["id"]
    flow = offering.fields(
        "schedule_create", principal="eva", node="r1.0.0.1", when="every 20 minutes", workflow="brief"
    )
    assert _tick(offering).sent == ()
    later = _at(offering, 1230)
    assert len(_tick(later).sent) == 2
    assert _tick(later, "w2").sent == ()
    assert {principal: message.id for principal, message in sent} == {
        "ana": f"schedule-{id}@2026-11-10T14:20:00Z",
        "eva": f"schedule-{flow['id']}@2026-11-10T14:20:00Z",
    }
    prompt = dict(sent)["ana"]
    assert (prompt.text, prompt.tools, prompt.session, prompt.approvals) == ("Look", ("web", "note_list"), "s1", "deny")
    states = {one["id"]: one["state"] for one in _listed(offering)}
    assert states == {id: "done"}


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("run_once", 1), ("run_all", 3)])
def test_an_hour_without_beat(offering: Bench, sent: list[tuple[str, Message]], missed: str, count: int) -> None:
    offering.run("schedule_create", when="every 20 minutes", prompt="Look", tools=["web"], missed=missed)
    _tick(_at(offering, 3600 + 600))
    told = [message for _, message in sent if message.workflow == "notice"]
    assert len(told) == (missed == "skip")  # what is skipped is told
    for message in told:
        assert "missed 3 times, the last of them 2026-11-10 16:00" in str(message.params["text"])
        assert message.session == "s1"
        sent.remove(("ana", message))
    assert len(sent) == count
    for _, message in sent:
        assert "late]" in message.text or "late;" in message.text
    if missed == "run_once":
        assert "2 earlier times were missed" in sent[0][1].text
    assert [message.id for _, message in sent] == sorted(str(message.id) for _, message in sent)
    (one,) = _listed(offering)
    assert one["missed_count"] == {"skip": 3, "run_once": 2, "run_all": 0}[missed]
    assert one["next"] == "2026-11-10T16:20:00+01:00"


def test_one_inbox_that_refuses_holds_up_no_other(
    offering: Bench, sent: list[tuple[str, Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"eva"}

    async def submit(url: str, principal: str, message: Message) -> None:
        if principal in full:
            raise StateUnavailable("the state Redis refuses us")
        sent.append((principal, message))

    monkeypatch.setattr(clock, "submit", submit)
    for n, (principal, missed) in enumerate((("eva", "skip"), ("ana", "skip"))):
        args = {"when": "in 10 minutes", "prompt": "x", "tools": ["web"], "missed": missed}
        offering.run("schedule_create", principal=principal, node=f"r1.0.0.{n}", **args)
    assert list(_tick(_at(offering, 600)).refused) == ["eva"]
    assert [principal for principal, _ in sent] == ["ana"]
    full.clear()
    sent.clear()
    _tick(_at(offering, 600 + CLAIM_MS / 1000 + 300), "w2")
    assert [(who, message.workflow) for who, message in sent] == [("eva", "notice")]  # it says skip, and is late by now
    (one,) = _listed(offering, principal="eva")
    assert one["missed_count"] == 1


def test_run_now_runs_once_however_often_the_call_is_tried(offering: Bench, sent: list[tuple[str, Message]]) -> None:
    id = offering.fields("schedule_create", when="every day at 9", workflow="brief", params={"a": 1})["id"]
    for _ in range(2):
        offering.run("schedule_run_now", id=id)
    assert len({message.id for _, message in sent}) == 1
    assert (sent[0][0], sent[0][1].workflow, sent[0][1].params) == ("ana", "brief", {"a": 1})
    with pytest.raises(ModelError, match="there is no schedule"):
        offering.run("schedule_run_now", principal="eva", id=id)
    assert _listed(offering)[0]["next"] == "2026-11-11T09:00:00+01:00"


def test_run_now_says_that_it_may_have_run(offering: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def submit(redis_url: str, principal: str, message: Message) -> None:
        raise StateUnavailable("the state Redis is away")

    monkeypatch.setattr(tools, "submit", submit)
    id = offering.fields("schedule_create", when="every day at 9", workflow="brief")["id"]
    with pytest.raises(ModelError, match="perhaps not started"):
        offering.run("schedule_run_now", id=id)


def test_a_timing_keeps_its_zone() -> None:
    timing, note = read_timing("2027-03-28 02:30", datetime.fromtimestamp(NOW, MADRID))
    assert timing == Timing("Europe/Madrid", 1_806_197_400_000)
    assert "the clocks skip 02:30" in note


def test_a_slot_that_was_refused_for_the_moment_is_sent_again(offering: Bench, sent: list[tuple[str, Message]]) -> None:
    offering.run("schedule_create", when="in 20 minutes", prompt="Look", tools=["web"])
    _tick(_at(offering, 1230))
    ((_, first),) = sent
    ANSWERS[str(first.reply_to)] = _refusal("too_fast")
    _tick(_at(offering, 1235))
    assert ANSWERS == {}
    _tick(_at(offering, 1235 + CLAIM_MS / 1000), "w2")
    assert [message.id for _, message in sent] == [first.id] * 2
    ANSWERS[str(first.reply_to)] = Reply(ok=False, run="r5", error=ErrorInfo(code="timed_out", message="too long"))
    for seconds in (1300, 2000, 9000):  # it ran, and its end is told by itself
        _tick(_at(offering, seconds), "w3")
    assert len(sent) == 2


def test_a_slot_that_was_refused_for_good_is_told(offering: Bench, sent: list[tuple[str, Message]]) -> None:
    offering.run("schedule_create", when="in 20 minutes", prompt="Look", tools=["web"], name="look")
    _tick(_at(offering, 1230))
    ANSWERS[str(sent[0][1].reply_to)] = _refusal("unknown_agent")
    _tick(_at(offering, 1235))
    assert ANSWERS == {}
    _tick(_at(offering, 1240 + CLAIM_MS / 1000))
    (told,) = [message for _, message in sent if message.workflow == "notice"]
    assert told.params == {"text": "look did not run: no agent 'clerk' (known: default)"}
    assert told.session == "s1"
    assert len(sent) == 2


NARROW = ("note_list", "schedule_create", "schedule_change")


def test_an_agent_schedules_with_no_more_than_it_has(offering: Bench) -> None:
    """What it was given bounds what it has scheduled, by whatever name, and it is itself who will do it."""
    wide = offering.fields("schedule_create", when="every day at 9", prompt="Look", tools=["web_get"])["id"]
    offering.state.entries = asked("explicit", NARROW, agent="clerk")
    for names in (["web_get"], ["web"], ["notes", "web_get"]):
        with pytest.raises(ModelError, match=r"this agent has no tool 'web_get'.*it has: note_list"):
            offering.run("schedule_create", node="r1.0.0.1", when="every day at 9", prompt="Look", tools=names)
    one = offering.fields("schedule_create", node="r1.0.0.2", when="every day at 9", prompt="Look", tools=["notes"])
    assert one["tools"] == ["note_list"]  # the group as it is today: it may grow
    (stored,) = [
        made
        for made in asyncio.run(offering.services.db.run(lambda conn: schedules.list_schedules(conn, "ana")))
        if made.id == one["id"]
    ]
    assert stored.agent == "clerk"
    # Nor by giving one that may do more other words, or other tools.
    for args in ({"prompt": "Now do this"}, {"tools": ["web"]}):
        with pytest.raises(ModelError, match="this agent has no tool 'web_get'"):
            offering.run("schedule_change", id=wide, **args)
    assert offering.fields("schedule_change", id=wide, when="every day at 10")["tools"] == ["web_get"]


def test_what_find_tools_opened_counts(offering: Bench) -> None:
    found = Offered(layer="find_tools", tools=("web_get",))
    offering.state.entries = [*asked("explicit", NARROW), Stored(id="9-0", run="r1", type=found.T, value=found)]
    one = offering.fields("schedule_create", when="every day at 9", prompt="Look", tools=["web"])
    assert one["tools"] == ["web_get"]
    # Of another run of the session it does not.
    offering.state.entries = [*asked("explicit", NARROW), Stored(id="9-0", run="r2", type=found.T, value=found)]
    with pytest.raises(ModelError, match="no tool 'web_get'"):
        offering.run("schedule_create", node="r1.0.0.1", when="every day at 9", prompt="Look", tools=["web"])


def test_a_subagent_schedules_nothing(offering: Bench) -> None:
    offering.state.entries = asked(agent="helper", parent="r0.1.0.0")
    with pytest.raises(ModelError, match="a subagent schedules nothing"):
        offering.run("schedule_create", when="every day at 9", workflow="brief")
    offering.state.entries = []
    with pytest.raises(ModelError, match="cannot be seen who asks"):
        offering.run("schedule_create", when="every day at 9", workflow="brief")


def test_workflows_are_bounded_by_their_tools(offering: Bench) -> None:
    step = StepSpec(id="get", kind="tool", tool="web_get")
    free = StepSpec(id="do", kind="agent", prompt="x")
    flows = (
        WorkflowSpec(name="free", title="f", steps=(free,), result="do"),
        WorkflowSpec(name="bound", title="b", steps=(free.model_copy(update={"tools": ("notes",)}),), result="do"),
        WorkflowSpec(name="fetcher", title="f", steps=(step,), result="get"),
        WorkflowSpec(name="schedule", title="s", steps=(step,), result="get"),
    )
    offering.state.offered = offering.state.offered.model_copy(update={"workflows": flows})
    offering.state.entries = asked("explicit", NARROW)
    with pytest.raises(ModelError, match="uses 'web_get', which this agent does not have"):
        offering.run("schedule_create", when="every day at 9", workflow="fetcher")
    with pytest.raises(ModelError, match="uses 'any tool', which this agent does not have"):
        offering.run("schedule_create", when="every day at 9", workflow="free")
    assert offering.fields("schedule_create", node="r1.0.0.7", when="every day at 9", workflow="bound")["id"]
    with pytest.raises(ModelError, match="no workflow 'schedule'"):
        offering.run("schedule_create", when="every day at 9", workflow="schedule")
    offering.state.entries = asked()
    assert offering.fields("schedule_create", when="every day at 9", workflow="fetcher")["workflow"] == "fetcher"


def test_channels_are_named_checked_and_kept(make_bench: Callable[..., Bench], sent: list[tuple[str, Message]]) -> None:
    channels = {
        "hook": {"kind": "webhook", "url": "https://example.org/h"},
        "bot": {"kind": "telegram", "chat": "1", "token_env": "NO_SUCH_TOKEN"},
    }
    bench = make_bench(delivery={"users": {"ana": {"default": ["hook"], "channels": channels}}})
    bench.state.offered = Catalogue(tools=(_tool("web_get", "web"),))
    bench.state.entries = asked()
    args: dict[str, Any] = {"when": "in 20 minutes", "prompt": "Look", "tools": ["web"]}
    with pytest.raises(ModelError, match=r"NO_SUCH_TOKEN.*session, hook, bot"):
        bench.run("schedule_create", deliver=["bot"], **args)
    with pytest.raises(ModelError, match="no channel pager"):
        bench.run("schedule_create", deliver=["pager"], **args)
    quiet = bench.fields("schedule_create", deliver=["session"], **args)
    assert quiet["deliver"] == ["session"]
    usual = bench.fields("schedule_create", node="r1.0.0.1", **args)
    _tick(_at(bench, 1230))
    assert {str(message.id).split("@")[0]: message.deliver for _, message in sent} == {
        f"schedule-{quiet['id']}": (),
        f"schedule-{usual['id']}": ("hook",),
    }
