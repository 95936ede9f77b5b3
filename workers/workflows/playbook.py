"""A user's command about the playbook, carried out where the archive is: pin, unpin, edit, forget a bullet."""

from __future__ import annotations

from pydantic import JsonValue, ValidationError
from sqlalchemy import Connection

from shared.contract import Effect
from shared.entries import UserMessage
from shared.errors import ModelError, UserError
from shared.messages import PlaybookOrder
from shared.names import LOCAL_PRINCIPAL, WORKFLOW_PLAYBOOK
from shared.playbook import Bullet, Importance, Operation, Pin, Retire, Reword, ScopeKind
from shared.sql import playbook
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.workflows.define import Inputs, Steps, step, workflow

_DONE = {"pin": "pinned", "unpin": "no longer pinned", "edit": "changed", "forget": "forgotten"}


@step(effect=Effect.IDEMPOTENT, timeout_s=30.0)
async def apply(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Carries the command out, once for its run. Raises UserError for a bullet that is not the user's, or a change that
    cannot be made."""
    try:
        order = PlaybookOrder.model_validate(inputs.get("params") or {})
    except ValidationError as error:
        raise ModelError(
            f"this is no command about the playbook: {error.errors()[0]['msg']}", code="bad_arguments"
        ) from error
    if not await _ordered_by_user(ctx):
        raise UserError("only the user changes the playbook", hint="send the command, or use `capataz playbook`")
    operation, now_ms, limit = operation_of(order), ctx.now_ms, ctx.settings.playbook.max_bullets

    def change(conn: Connection) -> playbook.Applied:
        bullet = owned(conn, ctx.principal, order.bullet)
        version = playbook.read(conn, bullet.scope).version
        return playbook.apply(
            conn, bullet.scope, [operation], version=version, now_ms=now_ms, limit=limit, run=ctx.run, by_user=True
        )

    done = await ctx.services.db.run(change)
    if reason := next((one.refused for one in done.changes if one.refused), ""):
        raise UserError(f"the bullet {order.bullet} stays as it is: {reason}")
    value: dict[str, JsonValue] = {"bullet": order.bullet, "done": order.do}
    return ToolOutput(value, f"{order.bullet} is {_DONE[order.do]}.")


def operation_of(order: PlaybookOrder) -> Operation:
    """The change that a command asks for."""
    match order.do:
        case "pin" | "unpin":
            return Pin(id=order.bullet, pinned=order.do == "pin")
        case "forget":
            return Retire(id=order.bullet, reason="forgotten by the user")
        case "edit":
            importance = Importance(order.importance) if order.importance else None
            return Reword(id=order.bullet, text=order.text, when_to_use=order.when, importance=importance)


def owned(conn: Connection, principal: str, id: str) -> Bullet:
    """A bullet that the user may change: their own, and the local owner those of the installation. Raises UserError."""
    bullet = playbook.find(conn, id)
    if bullet is not None:
        of_all = bullet.scope.kind is ScopeKind.GLOBAL and principal == LOCAL_PRINCIPAL
        if of_all or bullet.scope.is_of(principal):
            return bullet
    raise UserError(f"you have no bullet {id}", hint="`capataz playbook list` shows what there is")


async def _ordered_by_user(ctx: ToolContext) -> bool:
    """False for the run of a schedule, which a model may have made."""
    log = await ctx.services.state.log(ctx.session)
    opened = (entry.value for entry in log if entry.run == ctx.run and isinstance(entry.value, UserMessage))
    message = next(opened, None)
    return message is not None and not message.id.startswith("schedule-") and not message.parent


@workflow(WORKFLOW_PLAYBOOK, title="A command about the playbook", result="apply")
def change_playbook() -> Steps:
    """One step."""
    return [apply]
