"""`capataz schedules`: what runs by itself, from the archive; and what the code of workflows brings along."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from ops.cli.common import clean, errors, fail, in_archive, print_json, reachable, table, target
from ops.exits import Exit
from shared.names import LOCAL_PRINCIPAL

if TYPE_CHECKING:
    from shared.contract import WorkflowSpec
    from shared.schedules import Schedule
    from shared.timing import Missed, Timing

T = TypeVar("T")

_Id = Annotated[str, typer.Argument(help="The schedule's id.")]
_User = Annotated[str, typer.Option(help="Whose schedules.")]
_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
_Cron = Annotated[str, typer.Option(help="Five fields, such as '0 7 * * 1-5'.")]
_Every = Annotated[str, typer.Option(help="An interval from now on: 20m, 2h, 3d, 2w.")]
_At = Annotated[str, typer.Option(help="Once, at an ISO time such as 2026-12-24T18:00.")]
_Zone = Annotated[str, typer.Option(help="IANA time zone; empty: that of the settings.")]
_Missed = Annotated[str, typer.Option(help="Times missed while the system was down: skip, run_once or run_all.")]
_Tools = Annotated[str, typer.Option(help="Tools or groups of a prompt, apart by spaces or commas.")]
_Deliver = Annotated[str, typer.Option(help="Channels for results besides the session, apart by spaces or commas.")]
_Params = Annotated[str, typer.Option(help="Parameters of a workflow, as JSON.")]

schedules = typer.Typer(help="What runs by itself at its times.")


@schedules.callback(invoke_without_command=True)
def _bare(context: typer.Context, user: _User = LOCAL_PRINCIPAL, json_: _Json = False) -> None:
    """What runs by itself at its times. Without a command: list it."""
    if context.invoked_subcommand is None:
        list_(user, json_)


@schedules.command("list")
def list_(user: _User = LOCAL_PRINCIPAL, json_: _Json = False) -> None:
    """List a user's schedules, and those of workflows that live workers offer."""
    with errors():
        from shared.schedules import INSTALLATION
        from shared.sql.schedules import list_schedules

        found = in_archive(lambda conn: list_schedules(conn, user))
        fixed = _fixed() if user == LOCAL_PRINCIPAL else []
        served = {one.workflow: one for one in in_archive(lambda conn: list_schedules(conn, INSTALLATION))}
    if json_:
        keep = {"name", "title", "cron", "timezone"}
        rows = [one.model_dump(mode="json", include=keep) | _served(served.get(one.name)) for one in fixed]
        print_json({"schedules": [_as_json(one) for one in found], "fixed": rows})
        return
    rows_ = [
        [one.id, one.state.value, _next(one), one.timing.words(), one.policy.value, str(one.missed), _what(one)]
        for one in found
    ]
    for flow in fixed:
        so_far = _served(served.get(flow.name))
        when = f"{flow.cron} ({flow.timezone})"
        rows_.append(["-", "fixed", so_far["next"], when, so_far["policy"], str(so_far["missed"]), flow.name])
    if not rows_:
        typer.echo("nothing is scheduled")
    table(["schedule", "state", "next", "when", "missed", "so far", "what"], rows_)


@schedules.command("add")
def add(
    name: Annotated[str, typer.Argument(help="A short name.")],
    cron: _Cron = "",
    every: _Every = "",
    at: _At = "",
    zone: _Zone = "",
    prompt: Annotated[str, typer.Option(help="What an agent is to do.")] = "",
    tools: _Tools = "",
    agent: Annotated[str, typer.Option(help="Which agent gets the prompt.")] = "default",
    workflow: Annotated[str, typer.Option(help="A workflow to run instead of a prompt.")] = "",
    params: _Params = "{}",
    session: Annotated[
        str, typer.Option("--session", "-s", help="Where results go; empty: a session of its own.")
    ] = "",
    missed: _Missed = "run_once",
    deliver: _Deliver = "",
    user: _User = LOCAL_PRINCIPAL,
) -> None:
    """Schedule a prompt or a workflow, with --cron, --every or --at; print its id."""
    now_ms = _now_ms()
    with errors():
        from shared import schedules as model
        from shared.ids import sortable_id
        from shared.sql.schedules import add as put

        timing = _timing(cron, every, at, zone, now_ms)
        if timing is None:
            fail("say when: --cron, --every or --at", code=Exit.USAGE)
        id = "s" + sortable_id(now_ms)
        new = model.Schedule(
            id=id,
            principal=user,
            name=name,
            timing=timing,
            session=session or model.own_session(user, id),
            created_ms=now_ms,
            policy=_policy(missed),
            workflow=workflow,
            params=_json(params),
            prompt=prompt,
            tools=_names(tools),
            agent=agent,
            deliver=_channels(user, deliver),
        )
        one = in_archive(lambda conn: put(conn, model.started(new, now_ms)))
    typer.echo(f"{one.id} is due {_next(one)}")


@schedules.command("change")
def change(
    schedule: _Id,
    name: Annotated[str, typer.Option(help="A new name.")] = "",
    cron: _Cron = "",
    every: _Every = "",
    at: _At = "",
    zone: _Zone = "",
    prompt: Annotated[str, typer.Option(help="A new prompt.")] = "",
    tools: _Tools = "",
    params: _Params = "",
    missed: _Missed = "",
    deliver: _Deliver = "",
    state: Annotated[str, typer.Option(help="on to go on with it, off to pause it.")] = "",
    user: _User = LOCAL_PRINCIPAL,
) -> None:
    """Change a schedule, or switch it off and on; what is not given stays."""
    now_ms = _now_ms()
    with errors():
        from shared import schedules as model
        from shared.sql.schedules import change as store

        changes: dict[str, Any] = {key: value for key, value in {"name": name, "prompt": prompt}.items() if value}
        changes |= {"tools": _names(tools)} if tools else {}
        changes |= {"params": _json(params)} if params else {}
        changes |= {"policy": _policy(missed)} if missed else {}
        changes |= {"deliver": _channels(user, deliver)} if deliver else {}
        timing = _timing(cron, every, at, zone, now_ms)
        if timing is None and zone:
            fail("--zone goes with --cron, --every or --at", code=Exit.USAGE)
        if state not in ("", "on", "off"):
            fail(f"--state {state!r} is not known: on or off", code=Exit.USAGE)
        if not changes and timing is None and not state:
            fail("nothing to change was given", code=Exit.USAGE)

        def edit(one: Schedule) -> Schedule:
            new = replace(one, **changes)
            new.check()
            new = new if timing is None else model.retimed(new, timing, now_ms)
            return model.switched(new, state == "on", now_ms) if state else new

        one = in_archive(lambda conn: store(conn, user, schedule, edit))
    if one is None:
        _unknown(user, schedule)
    typer.echo(f"{one.id} is {one.state.value}" + (f", due {_next(one)}" if one.state is model.State.ON else ""))


@schedules.command("delete")
def delete(schedule: _Id, user: _User = LOCAL_PRINCIPAL) -> None:
    """Delete a schedule for good."""
    with errors():
        from shared.sql.schedules import remove

        gone = in_archive(lambda conn: remove(conn, user, schedule))
    if not gone:
        _unknown(user, schedule)
    typer.echo(f"{schedule} is deleted")


@schedules.command("run")
def run(schedule: _Id, user: _User = LOCAL_PRINCIPAL) -> None:
    """Run a schedule once now, beside its times; does not wait for the result."""
    with errors():
        from shared.client import Client
        from shared.delivery import channels_of
        from shared.ids import sortable_id
        from shared.schedules import message
        from shared.settings import load
        from shared.sql.schedules import get

        settings = load()
        one = in_archive(lambda conn: get(conn, user, schedule))
        if one is None:
            _unknown(user, schedule)
        channels = channels_of(settings, user, one.deliver, one.workflow)
        what = message(one, f"schedule-{one.id}@now-{sortable_id()}", deliver=channels)
        client = Client.connect(target(settings).redis_url, user)
        try:
            fields = what.model_dump(exclude={"text", "session"}, exclude_unset=True)
            client.submit(what.text, session=what.session, **fields)
        finally:
            client.close()
    typer.echo(f"started in session {one.session}")


def _fixed() -> list[WorkflowSpec]:
    """The schedules of workflows; none if no system runs."""
    from shared.client import Client
    from shared.settings import load

    if not reachable():
        return []
    client = Client.connect(target(load()).redis_url)
    try:
        return [one for one in client.catalogue().workflows if one.cron and not one.hidden]
    finally:
        client.close()


def _timing(cron: str, every: str, at: str, zone: str, now_ms: int) -> Timing | None:
    """The timing that the options name, None for none of them. Raises UserError for more than one."""
    from shared.settings import load
    from shared.timing import chosen

    return chosen(cron=cron, every=every, at=at, zone=zone or load().workflows.timezone, now_ms=now_ms)


def _policy(text: str) -> Missed:
    from shared.errors import UserError
    from shared.timing import Missed

    try:
        return Missed(text)
    except ValueError as error:
        raise UserError(f"--missed {text!r} is not known", hint="skip, run_once or run_all") from error


def _json(text: str) -> dict[str, Any]:
    from shared.errors import UserError

    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(f"--params is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError("--params is no JSON object", hint='such as {"city": "Lugo"}')
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.replace(",", " ").split() if part)


def _channels(user: str, text: str) -> tuple[str, ...]:
    """The channels that are named. Raises UserError for one that is not set up; secrets are the workers' to know."""
    from shared.delivery import check_channels
    from shared.settings import load

    names = _names(text)
    check_channels(load(), user, names, None)
    return names


def _now_ms() -> int:
    return int(time.time() * 1000)


def _unknown(user: str, schedule: str) -> NoReturn:
    fail(f"{user} has no schedule {schedule}; `capataz schedules list` shows what there is")


def _what(one: Schedule) -> str:
    target_ = one.workflow or f"{one.prompt!r} [{' '.join(one.tools)}]"
    return clean(f"{one.name}: {target_} in {one.session}")


def _next(one: Schedule) -> str:
    from zoneinfo import ZoneInfo

    from shared.schedules import State

    if one.next_ms is None or one.state is not State.ON:
        return "-"
    return f"{datetime.fromtimestamp(one.next_ms / 1000, ZoneInfo(one.timing.zone)):%Y-%m-%d %H:%M}"


def _served(one: Schedule | None) -> dict[str, Any]:
    """What became of a workflow's own schedule so far; nothing until somebody has looked what is due."""
    if one is None:
        return {"next": "-", "policy": "-", "missed": 0}
    return {"next": _next(one), "policy": one.policy.value, "missed": one.missed}


def _as_json(one: Schedule) -> dict[str, Any]:
    from dataclasses import asdict

    values = asdict(one)
    return {**values, "when": one.timing.words(), "next": _next(one)}
