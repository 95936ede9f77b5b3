"""`capataz permissions`: the installation's rules, and what a user has allowed for good."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ops.cli.common import clean, errors, fail, in_archive, print_json, table
from shared.names import LOCAL_PRINCIPAL

if TYPE_CHECKING:
    from shared.permissions import Grant
    from shared.settings import PermissionSettings

T = TypeVar("T")

_User = Annotated[str, typer.Option(help="Whose grants.")]
_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]

permissions = typer.Typer(help="Rules about calls, and what was allowed for good.")


@permissions.callback(invoke_without_command=True)
def _bare(context: typer.Context, user: _User = LOCAL_PRINCIPAL, json_: _Json = False) -> None:
    """Rules about calls, and what was allowed for good. Without a command: list them."""
    if context.invoked_subcommand is None:
        list_(user, json_)


@permissions.command("list")
def list_(user: _User = LOCAL_PRINCIPAL, json_: _Json = False) -> None:
    """List the installation's rules and a user's standing grants. Agent files may narrow further."""
    from shared.sql.grants import grants_of

    with errors():
        from shared.settings import load

        settings = load().permissions
        grants = in_archive(lambda conn: grants_of(conn, user))
    if json_:
        print_json(_as_json(settings, grants))
        return
    typer.echo(f"by default: {settings.default}; an ask where nobody can be asked: {settings.headless}")
    rows = [[rule.id, rule.action, clean(rule.conditions), clean(rule.reason)] for rule in settings.rules]
    table(["rule", "action", "what it is about", "reason"], rows)
    if grants:
        typer.echo(f"\nallowed for good by {user}")
    head = ["grant", "tool", "rule", "agent", "since", "how"]
    table(head, [[g.id, clean(g.tool), g.rule_id, g.agent or "-", _day(g), clean(g.by_text)] for g in grants])


@permissions.command("forget")
def forget(
    grant: Annotated[str, typer.Argument(help="The grant's id.")],
    user: _User = LOCAL_PRINCIPAL,
) -> None:
    """Take a standing grant back: the next such call asks again."""
    from shared.sql.grants import remove_grant

    with errors():
        gone = in_archive(lambda conn: remove_grant(conn, user, grant))
    if not gone:
        fail(f"{user} has no grant {grant}; `capataz permissions list` shows what there is")
    typer.echo(f"{grant} is forgotten")


def _as_json(settings: PermissionSettings, grants: list[Grant]) -> dict[str, object]:
    dump = settings.model_dump(mode="json", exclude={"rules"})
    rules = [{"id": rule.id, **rule.model_dump(mode="json", exclude_defaults=True)} for rule in settings.rules]
    kept = {"id", "principal", "agent", "tool", "rule_id", "created_ms", "by_text"}
    return {**dump, "rules": rules, "grants": [grant.model_dump(mode="json", include=kept) for grant in grants]}


def _day(grant: Grant) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(grant.created_ms / 1000))
