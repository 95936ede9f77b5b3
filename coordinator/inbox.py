"""Classifies inbox entries: what the `route` script shall do with each. Pure.

Reading and judging happen here, taking happens in the script, which looks again whether the entry is still there.
Every coordinator reads from the oldest entry on, so whoever comes second finds its prefix gone and does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from shared.errors import UserError
from shared.ids import NAME, run_id, run_of
from shared.messages import Command, Control, ErrorInfo, Message, QueuedMessage, Reply, parse_entry
from shared.names import WORKFLOW_PLAYBOOK, WORKFLOW_SCHEDULE, may_open
from shared.settings import LimitSettings

RAW_CHARS = 4000
ORDERS = {"schedule": WORKFLOW_SCHEDULE, "playbook": WORKFLOW_PLAYBOOK}
"""Commands whose work is in the archive, and the workflows that do it."""


def entry_ms(entry_id: str) -> int:
    """When a stream entry was added, in Unix milliseconds."""
    return int(entry_id.partition("-")[0])


def classify(
    entry_id: str, fields: Mapping[str, str], principal: str, limits: LimitSettings, agents: Collection[str]
) -> dict[str, Any]:
    """The decision on one entry as the script takes it; `action` is message, control, command or reject."""
    base = {"entry": entry_id, "raw": _raw(fields)}
    try:
        entry = parse_entry(fields, limits)
        if isinstance(entry, Message) and entry.kind == "message" and entry.agent not in agents:
            known = ", ".join(sorted(agents))
            raise UserError(f"there is no agent {entry.agent!r}", code="unknown_agent", hint=f"known: {known}")
        for session in _named(entry):
            if not may_open(session, principal):
                hint = "choose a name that does not begin with a dot"
                raise UserError(f"the session {session!r} is the system's own", code="forbidden", hint=hint)
    except UserError as error:
        return reject(entry_id, fields, error)
    if isinstance(entry, Control):
        return base | _control(entry)
    if isinstance(entry, Command):
        return base | (_order(entry, entry_id, principal) if entry.command in ORDERS else _command(entry))
    return base | _message(entry, entry_id, principal)


def reject(entry_id: str, fields: Mapping[str, str], error: UserError) -> dict[str, Any]:
    """The decision to refuse an entry: answered on its reply path and kept with the reason."""
    return {"entry": entry_id, "raw": _raw(fields)} | _rejection(error, fields)


def _named(entry: Message | Control | Command) -> list[str]:
    """The sessions that an entry opens if there are none of these names."""
    if isinstance(entry, Control):
        return []
    return [entry.session, str(entry.params.get("to", ""))] if entry.kind == "command" else [entry.session]


def _message(entry: Message, entry_id: str, principal: str) -> dict[str, Any]:
    run = run_id(entry_ms(entry_id))
    queued = QueuedMessage(
        run=run,
        principal=principal,
        received_ms=entry_ms(entry_id),
        **entry.model_dump(exclude={"reply_to", "id"}),
        id=entry.id or "",
    )
    return {
        "action": "message",
        "id": entry.id or "",
        "session": entry.session,
        "run": run,
        "mode": entry.mode,
        "reply_to": entry.reply_to or "",
        "payload": queued.model_dump_json(exclude_defaults=True),
        "mail": json.dumps({"kind": "steer", "text": entry.text, "id": entry.id or ""}),
    }


def _control(entry: Control) -> dict[str, Any]:
    return {
        "action": "control",
        "kind": entry.kind,
        "id": entry.id or "",
        "session": entry.session or "",
        "target_run": entry.run or run_of(entry.node),
        "answers": entry.kind in ("approve", "deny", "answer"),
        "reply_to": entry.reply_to or "",
        "mail": entry.model_dump_json(exclude={"session", "run", "reply_to", *(() if entry.node else ("node",))}),
    }


def _command(entry: Command) -> dict[str, Any]:
    """`set` holds the switches by field, those to be taken away as empty text."""
    return {
        "action": "command",
        "command": entry.command,
        "id": entry.id or "",
        "session": entry.session,
        "to": str(entry.params.get("to", "")),
        "at": str(entry.params.get("at", "")),
        "set": {n: str(v) for n, v in entry.params.items() if v is not None} if entry.command == "set" else {},
        "reply_to": entry.reply_to or "",
    }


def _order(entry: Command, entry_id: str, principal: str) -> dict[str, Any]:
    """A command whose work is in the archive: the message of a workflow that does it, and answers when it is done."""
    message = Message(
        kind="workflow",
        workflow=ORDERS[entry.command],
        session=entry.session,
        id=entry.id,
        params=entry.params,
        reply_to=entry.reply_to,
    )
    return _message(message, entry_id, principal)


def _rejection(error: UserError, fields: Mapping[str, str]) -> dict[str, Any]:
    name = fields.get("reply_to", "")
    session = fields.get("session", "")
    reply = Reply(
        ok=False,
        id=fields.get("id", "")[:128],
        session=session if NAME.fullmatch(session) else "",
        error=ErrorInfo(code=error.code, message=error.message, hint=error.hint),
    )
    return {
        "action": "reject",
        "code": error.code,
        "reason": str(error),
        "reply_to": name if NAME.fullmatch(name) else "",
        "reply": reply.model_dump_json(exclude_none=True),
    }


def _raw(fields: Mapping[str, str]) -> str:
    text = json.dumps(dict(fields), ensure_ascii=False)
    return text if len(text) <= RAW_CHARS else text[:RAW_CHARS] + "…"
