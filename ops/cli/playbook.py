"""`capataz playbook`: what was learned from earlier runs, and the user's word on it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.common import clean, errors, fail, in_archive, print_json, table
from ops.exits import Exit
from shared.names import LOCAL_PRINCIPAL

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from shared.playbook import Bullet, Operation, Scope
    from shared.sql.playbook import LedgerEntry

_Id = Annotated[str, typer.Argument(metavar="BULLET", help="The bullet's id.")]
_User = Annotated[str, typer.Option(help="Whose playbook.")]
_Agent = Annotated[str, typer.Option(help="That of an agent, as the user has it; empty: the user's own.")]
_All = Annotated[bool, typer.Option("--everyone", help="That of the installation, which every user's model sees.")]
_When = Annotated[str | None, typer.Option(help="For which messages or tools it counts; empty: for all.")]
_Importance = Annotated[str | None, typer.Option(help="high, medium or low.")]
_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]

playbook = typer.Typer(no_args_is_help=True, help="What was learned from earlier runs.")


@playbook.command("list")
def list_(
    user: _User = LOCAL_PRINCIPAL,
    agent: Annotated[str, typer.Option(help="Whose playbook, beside the user's and the installation's.")] = "default",
    state: Annotated[str, typer.Option(help="active, retired or forgotten.")] = "active",
    json_: _Json = False,
) -> None:
    """List the bullets in force for a user: pinned ones first, then by importance."""
    from shared.playbook import Scope
    from shared.sql import playbook as book

    scopes = [Scope.user(user), Scope.agent(user, agent), Scope.everyone()]

    def read(conn: Connection) -> list[Bullet]:
        if state == "active":
            return book.active(conn, scopes)
        some = book.retired if state == "retired" else book.forgotten
        return [bullet for scope in scopes for bullet in some(conn, scope)]

    if state not in ("active", "retired", "forgotten"):
        fail(f"{state!r} is none of active, retired, forgotten", Exit.USAGE)
    bullets = in_archive(read)
    if json_:
        print_json([one.model_dump(mode="json") for one in bullets])
        return
    rows = [
        [one.id, one.scope.kind, _weight(one), f"+{one.helpful} -{one.harmful}", clean(one.text)] for one in bullets
    ]
    table(["id", "scope", "importance", "votes", "text"], rows)


@playbook.command("show")
def show(bullet: _Id, json_: _Json = False) -> None:
    """Show a bullet, where it comes from and what became of it."""
    from shared.sql.playbook import ledger

    found, entries = in_archive(lambda conn: ((one := _find(conn, bullet)), ledger(conn, one.scope, limit=1_000)))
    mine = [entry for entry in entries if any(one.id == bullet for one in entry.change.after)]
    if json_:
        print_json({"bullet": found.model_dump(mode="json"), "changes": [_entry_json(entry) for entry in mine]})
        return
    typer.echo(clean(found.text))
    typer.echo(f"when: {clean(found.when_to_use) or '-'}; {_weight(found)}; {found.state}; {_scope(found.scope)}")
    typer.echo(f"helped {found.helpful} times, harmed {found.harmful}; last vote: {_day(found.last_used_ms)}")
    source = json.dumps(found.provenance, ensure_ascii=False) if found.provenance else "the user"
    typer.echo(f"since {_day(found.created_ms)}, from {clean(source)}")
    _table(mine)


@playbook.command("add")
def add(
    text: Annotated[str, typer.Argument(help="One sentence.")],
    when: _When = "",
    importance: _Importance = "medium",
    user: _User = LOCAL_PRINCIPAL,
    agent: _Agent = "",
    everyone: _All = False,
    json_: _Json = False,
) -> None:
    """Add a bullet by hand."""
    from shared.playbook import Add, new_bullet_id

    scope = _chosen(user, agent, everyone)
    id = new_bullet_id()
    how = _importance(importance or "medium")
    new = Add(id=id, scope=scope, text=text, when_to_use=when or "", importance=how, provenance={"by": "user"})
    _change(scope, new)
    _say(id, "added", json_)


@playbook.command("pin")
def pin(bullet: _Id, json_: _Json = False) -> None:
    """Keep a bullet at the top; then nobody but you changes it."""
    from shared.playbook import Pin

    _change(None, Pin(id=bullet))
    _say(bullet, "pinned", json_)


@playbook.command("unpin")
def unpin(bullet: _Id, json_: _Json = False) -> None:
    """Let the learner change a bullet again."""
    from shared.playbook import Pin

    _change(None, Pin(id=bullet, pinned=False))
    _say(bullet, "no longer pinned", json_)


@playbook.command("edit")
def edit(
    bullet: _Id,
    text: Annotated[str | None, typer.Option(help="Its new words.")] = None,
    when: _When = None,
    importance: _Importance = None,
    json_: _Json = False,
) -> None:
    """Say a bullet otherwise; what is not given stays."""
    from shared.playbook import Reword

    how = _importance(importance) if importance else None
    _change(None, Reword(id=bullet, text=text, when_to_use=when, importance=how))
    _say(bullet, "changed", json_)


@playbook.command("forget")
def forget(bullet: _Id, json_: _Json = False) -> None:
    """Take a bullet away for good: nothing that says the same is learned again."""
    from shared.playbook import Retire

    _change(None, Retire(id=bullet, reason="forgotten by the user"))
    _say(bullet, "forgotten", json_)


@playbook.command("log")
def log(
    user: _User = LOCAL_PRINCIPAL,
    agent: _Agent = "",
    everyone: _All = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many changes.")] = 30,
    json_: _Json = False,
) -> None:
    """List the changes of a playbook, the newest first."""
    from shared.sql.playbook import ledger

    scope = _chosen(user, agent, everyone)
    entries = in_archive(lambda conn: ledger(conn, scope, limit=limit))
    if json_:
        print_json([_entry_json(entry) for entry in entries])
        return
    _table(entries)


@playbook.command("rollback")
def rollback(
    entry: Annotated[int, typer.Argument(help="The change's number in the log.")],
    user: _User = LOCAL_PRINCIPAL,
    agent: _Agent = "",
    everyone: _All = False,
    json_: _Json = False,
) -> None:
    """Undo one change. An added bullet is forgotten, so that it is not learned again."""
    from shared.settings import load
    from shared.sql.playbook import rollback as undo

    scope = _chosen(user, agent, everyone)
    with errors():
        limit = load().playbook.max_bullets
        done = in_archive(lambda conn: undo(conn, scope, entry, now_ms=_now_ms(), limit=limit))
    if json_:
        print_json([change.model_dump(mode="json") for change in done.changes])
        return
    typer.echo(f"change {entry} is undone; {len(done.playbook.bullets)} bullets are in force")


def _change(scope: Scope | None, operation: Operation) -> None:
    """Carries out a change of the user's, in the playbook of the bullet that it names if none is given."""
    from shared.playbook import Merge, Rollback
    from shared.settings import load
    from shared.sql import playbook as book

    def work(conn: Connection, limit: int) -> str:
        where = scope
        if where is None and not isinstance(operation, Merge | Rollback):
            where = _find(conn, operation.id).scope
        if where is None:
            raise TypeError(f"{operation.kind} names no playbook")
        version = book.read(conn, where).version
        done = book.apply(conn, where, [operation], version=version, now_ms=_now_ms(), limit=limit, by_user=True)
        return next((change.refused for change in done.changes if change.refused), "")

    with errors():
        limit = load().playbook.max_bullets
        refused = in_archive(lambda conn: work(conn, limit))
    if refused:
        fail(f"nothing was changed: {refused}")


def _find(conn: Connection, id: str) -> Bullet:
    from shared.errors import UserError
    from shared.sql.playbook import find

    found = find(conn, id)
    if found is None:
        raise UserError(f"there is no bullet {id}", hint="`capataz playbook list` shows what there is")
    return found


def _chosen(user: str, agent: str, everyone: bool) -> Scope:
    from shared.playbook import Scope

    if everyone:
        return Scope.everyone()
    return Scope.agent(user, agent) if agent else Scope.user(user)


def _importance(name: str) -> Any:
    from shared.playbook import Importance

    if name not in list(Importance):
        fail(f"{name!r} is none of {', '.join(Importance)}", Exit.USAGE)
    return Importance(name)


def _say(bullet: str, done: str, json_: bool) -> None:
    if json_:
        print_json({"bullet": bullet, "done": done})
    else:
        typer.echo(f"{bullet} is {done}")


def _table(entries: Sequence[LedgerEntry]) -> None:
    rows = [[str(e.id), _day(e.at_ms), e.change.operation.kind, e.run or "user", clean(_what(e))] for e in entries]
    table(["change", "day", "what", "run", "bullets after it"], rows)


def _what(entry: LedgerEntry) -> str:
    return "; ".join(f"{one.id} ({one.state}, +{one.helpful} -{one.harmful}): {one.text}" for one in entry.change.after)


def _entry_json(entry: LedgerEntry) -> dict[str, Any]:
    dump = entry.change.model_dump(mode="json", exclude={"refused"})
    return {"change": entry.id, "at_ms": entry.at_ms, "run": entry.run, **dump}


def _weight(bullet: Bullet) -> str:
    return f"{bullet.importance}, pinned" if bullet.pinned else str(bullet.importance)


def _scope(scope: Scope) -> str:
    return f"{scope.kind} {scope.key}".strip()


def _day(at_ms: int | None) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000)) if at_ms else "never"


def _now_ms() -> int:
    return int(time.time() * 1000)
