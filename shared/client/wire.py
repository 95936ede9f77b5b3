"""What both clients have in common: what they put into an inbox, and how they read what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.entries import Event, Stored
from shared.ids import nonce, sortable_id
from shared.messages import Command, Message, PlaybookOrder, ScheduleOrder
from shared.names import LOCAL_PRINCIPAL

POLL_S = 1.0
COMMAND_S = 30.0
"""How long an answer to a command is waited for: a long log takes a while to copy."""
TERMINAL = ("run.finished", "run.failed")


@dataclass(frozen=True)
class Submitted:
    """What was put into the inbox. `reply_to` names the list on which the answer will arrive."""

    id: str
    session: str
    entry: str
    reply_to: str


def new_message(text: str, session: str | None, fields: dict[str, Any], principal: str) -> Message:
    """A message with an id and a place for its answer; without `session` it opens one."""
    # A user's sessions begin with the user's name, so that access rules by key pattern can tell them apart.
    own = sortable_id() if principal == LOCAL_PRINCIPAL else f"{principal}.{sortable_id()}"
    values: dict[str, Any] = {"session": session or own, "text": text, "id": sortable_id()}
    values["reply_to"] = f"c-{nonce()}"
    values.update({k: v for k, v in fields.items() if v is not None})
    return Message(**values)


def new_command(session: str, command: str, params: Mapping[str, Any]) -> Command:
    """A command for a session; what is None in `params` is left out."""
    given = {name: value for name, value in params.items() if value is not None}
    values: dict[str, Any] = {"kind": "command", "session": session, "command": command, "params": given}
    return Command(**values, id=sortable_id(), reply_to=f"c-{nonce()}")


def schedule_command(session: str, do: str, order: Mapping[str, Any]) -> Command:
    """A command about a schedule. Raises pydantic's ValidationError for fields that ScheduleOrder has not."""
    params = ScheduleOrder.model_validate({"do": do, **order}).model_dump(mode="json", exclude_unset=True)
    return new_command(session, "schedule", params)


def playbook_command(session: str, do: str, bullet: str, order: Mapping[str, Any]) -> Command:
    """A command about a bullet. Raises pydantic's ValidationError for fields that PlaybookOrder has not."""
    params = PlaybookOrder.model_validate({"do": do, "bullet": bullet, **order})
    return new_command(session, "playbook", params.model_dump(mode="json", exclude_unset=True))


def event_of(entry_id: str, fields: dict[str, str]) -> Event:
    """An entry of an event stream."""
    return Event(id=entry_id, type=fields["type"], run=fields.get("run", ""), data=json.loads(fields["data"] or "{}"))


def is_behind(info: dict[str, Any], after: str) -> bool:
    """True if entries behind `after` have been trimmed away: then the oldest one left is a later one."""
    first = info.get("first-entry")
    trimmed = int(info.get("entries-added", 0)) > int(info.get("length", 0))
    return bool(trimmed and first and after not in ("0", "0-0") and _number(str(first[0])) > _number(after))


def _number(entry_id: str) -> tuple[int, int]:
    ms, _, seq = entry_id.partition("-")
    return int(ms or 0), int(seq or 0)


def stream_rows(answer: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Entries of an XREAD answer on one stream, in the shape of either protocol version."""
    streams = answer.items() if isinstance(answer, dict) else answer or []
    for _, entries in streams:
        for entry in entries[0] if entries and isinstance(entries[0], list) else entries:
            yield entry[0], entry[1]


def plain(entry: Stored) -> dict[str, Any]:
    """An entry of a log as a snapshot has it."""
    value = entry.value.model_dump(mode="json") if entry.value is not None else {}
    return {"id": entry.id, "run": entry.run, "type": entry.type, "value": value}
