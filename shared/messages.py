"""What people send and get: inbox entries, the queued message made of one, and the reply. Pure.

An inbox entry is a flat map of strings (any Redis client can write one). `parse_entry` turns it into a
`Message`, a `Control` or a `Command`, or raises UserError saying what is wrong with it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError, field_validator

from shared.contract import Value
from shared.errors import UserError
from shared.ids import MESSAGE_ID, NAME
from shared.settings import LimitSettings

Name = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]
MessageId = Annotated[str, StringConstraints(pattern=f"^{MESSAGE_ID.pattern}$")]


class Submitted(BaseModel):
    """Base of what users write: unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Budget(Submitted):
    """Bounds of one run; None means the installation's default."""

    steps: int | None = Field(default=None, ge=1, le=1000)
    seconds: float | None = Field(default=None, gt=0, le=7 * 86400)
    tokens: int | None = Field(default=None, ge=1)
    dollars: float | None = Field(default=None, ge=0)


class Attachment(Submitted):
    """A file sent along: `artifact` names stored content, or `data` holds it in base64."""

    name: str = Field(default="", max_length=255)
    media_type: str = Field(default="application/octet-stream", max_length=127)
    artifact: str = ""
    data: str = Field(default="", repr=False)

    @field_validator("data")
    @classmethod
    def _base64(cls, data: str) -> str:
        try:
            base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ValueError("not base64") from error
        return data


class Message(Submitted):
    """A message that becomes (or joins) a run. `workflow` runs that workflow instead of an agent."""

    kind: Literal["message", "workflow"] = "message"
    session: Name
    text: str = ""
    id: MessageId | None = None
    agent: Name = "default"
    mode: Literal["queue", "steer", "interrupt"] = "queue"
    attachments: tuple[Attachment, ...] = ()
    model: str = ""
    tools: tuple[str, ...] = ()
    budget: Budget = Budget()
    reply_to: Name | None = None
    workflow: str = ""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    approvals: Literal["ask", "deny"] | None = None
    deliver: tuple[Name, ...] = ()
    """Channels of the user, as the settings name them, on which the answer is delivered as well."""


class Control(Submitted):
    """An entry for a run that exists: named by `run`, or the active one of `session`."""

    kind: Literal["cancel", "steer", "approve", "deny", "answer"]
    session: Name | None = None
    run: Name | None = None
    node: str = ""
    text: str = ""
    scope: Literal["once", "session", "always"] = "once"
    id: MessageId | None = None
    reply_to: Name | None = None


class Command(Submitted):
    """An entry for a session: take its last turn back, copy it, change how it goes on, what runs by itself, what was
    learned. `params` as the command has them: ForkParams, Switches, ScheduleOrder, PlaybookOrder, or none."""

    kind: Literal["command"]
    session: Name
    command: Literal["undo", "fork", "set", "schedule", "playbook"]
    params: dict[str, JsonValue] = Field(default_factory=dict)
    id: MessageId | None = None
    reply_to: Name | None = None


class ForkParams(Submitted):
    """Where a fork goes. `at`: the log entry that it ends with; empty for the newest."""

    to: Name
    at: str = ""

    @field_validator("at")
    @classmethod
    def _entry_id(cls, at: str) -> str:
        if at and not _ENTRY_ID.fullmatch(at):
            raise ValueError("not the id of a log entry, such as 1700000000000-0")
        return at


class Switches(Submitted):
    """How a session goes on, from the next step of a model on. None leaves a switch as it is.

    `model` is a tier or `provider/model` for messages that name none themselves; empty is the default again.
    """

    model: str | None = Field(default=None, max_length=200)
    thinking: Literal["show", "hide"] | None = None
    debug: Literal["on", "off"] | None = None


class ScheduleOrder(Submitted):
    """What becomes of a schedule of the user: add one, change one, delete one.

    `id` names it; for a new one it may be left out. When: one of `cron`, `every` and `at`, in `zone`. A change leaves
    as it is what is not given.
    """

    do: Literal["add", "change", "delete"]
    id: Name | None = None
    name: str | None = Field(default=None, min_length=1, max_length=80)
    cron: str = Field(default="", max_length=200)
    every: str = Field(default="", max_length=20)
    at: str = Field(default="", max_length=40)
    zone: str = Field(default="", max_length=60)
    prompt: str | None = Field(default=None, min_length=1, max_length=8000)
    tools: tuple[Name, ...] | None = None
    agent: Name | None = None
    workflow: str | None = Field(default=None, max_length=64)
    params: dict[str, JsonValue] | None = None
    target: Name | None = None
    missed: Literal["skip", "run_once", "run_all"] | None = None
    deliver: tuple[Name, ...] | None = None
    state: Literal["on", "off"] | None = None


class PlaybookOrder(Submitted):
    """What becomes of a bullet of the user's playbooks: pin it, unpin it, say it otherwise, forget it.

    `edit` leaves as it is what is not given. What is forgotten is not learned again.
    """

    do: Literal["pin", "unpin", "edit", "forget"]
    bullet: Name
    text: str | None = Field(default=None, max_length=500)
    when: str | None = Field(default=None, max_length=500)
    importance: Literal["high", "medium", "low"] | None = None


Entry = Message | Control | Command

_ENTRY_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,15}")
_JSON_FIELDS = {"attachments", "budget", "params"}
_WORD_FIELDS = {"tools", "deliver"}
_MOST_CHANNELS = 10
_CONTROL_KINDS = {"cancel", "steer", "approve", "deny", "answer"}


class QueuedMessage(Value):
    """A message that was routed: what waits on the session's queue and opens the run in the log."""

    v: int = 1
    run: str
    principal: str
    session: str
    received_ms: int
    kind: Literal["message", "workflow"] = "message"
    text: str = ""
    id: str = ""
    agent: str = "default"
    mode: str = "queue"
    attachments: tuple[Attachment, ...] = ()
    model: str = ""
    tools: tuple[str, ...] = ()
    budget: Budget = Budget()
    workflow: str = ""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    approvals: Literal["ask", "deny"] | None = None
    deliver: tuple[str, ...] = ()
    parent: str = ""
    """The node that this run of a subagent answers; empty for a run that a message opened."""
    path: tuple[str, ...] = ()
    """The agents from the one that was asked down to this one; empty for a run that a message opened."""

    @property
    def headless(self) -> bool:
        """True if nobody is there who could be asked for anything."""
        return self.approvals == "deny" or (self.approvals is None and self.kind == "workflow")


class ErrorInfo(Value):
    """An error as users get it. `retry_after` in seconds."""

    code: str
    message: str
    hint: str = ""
    retry_after: float | None = None


class Reply(Value):
    """The one JSON value on the reply list. `cost` is US dollars as a decimal string, None if unknown."""

    v: int = 1
    ok: bool
    id: str = ""
    run: str = ""
    session: str = ""
    answer: str = ""
    finish_reason: str = ""
    usage: dict[str, JsonValue] = Field(default_factory=dict)
    cost: str | None = None
    seconds: float = 0.0
    model: str = ""
    error: ErrorInfo | None = None


def _field_error(error: ValidationError, kind: str) -> UserError:
    first = error.errors()[0]
    where = ".".join(str(p) for p in first["loc"])
    if first["type"] == "missing":
        return UserError(f"field {where!r} is missing from the {kind} entry", code="missing_field")
    if first["type"] == "extra_forbidden":
        return UserError(f"field {where!r} is not known for a {kind} entry", code="unknown_field")
    return UserError(f"field {where!r} of the {kind} entry: {first['msg']}", code="bad_field")


def _decode_fields(fields: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in fields.items():
        if name in _JSON_FIELDS:
            values[name] = _json(name, text)
        elif name in _WORD_FIELDS:
            values[name] = tuple(part for part in text.replace(",", " ").split() if part)
        elif text != "" or name in ("text", "session"):
            values[name] = text
    return values


def _is_text(text: str) -> bool:
    """False for what was read from bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(name: str, text: str) -> Any:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # "\\ud800" is JSON, but no text that could be stored
    except RecursionError as error:
        raise UserError(f"field {name!r} is nested too deeply", code="bad_json") from error
    except ValueError as error:
        raise UserError(f"field {name!r} is not valid JSON: {error}", code="bad_json") from error
    return value


def parse_entry(fields: Mapping[str, str], limits: LimitSettings) -> Entry:
    """An inbox entry's fields as a typed value. Raises UserError with a code and a clear message."""
    for name, text in fields.items():
        if not (_is_text(name) and _is_text(text)):
            raise UserError(f"field {name[:40]!r} is not UTF-8 text", code="bad_field")
    kind = fields.get("kind", "")
    if not kind:
        raise UserError("field 'kind' is missing", code="missing_field", hint="for example: kind message")
    if kind not in _CONTROL_KINDS and kind not in ("message", "workflow", "command"):
        raise UserError(f"unknown kind {kind[:40]!r}", code="unknown_kind", hint="message, workflow, cancel, steer, …")
    size = len(fields.get("text", "").encode("utf-8", "surrogatepass"))
    if size > limits.text_bytes:
        raise UserError(f"text has {size} bytes, the limit is {limits.text_bytes}", code="too_large")
    if len(fields.get("params", "")) > limits.text_bytes:
        raise UserError(f"params has more than {limits.text_bytes} characters", code="too_large")
    if len(fields.get("attachments", "")) > limits.attachment_bytes * 4 // 3 + 1000:
        raise UserError(f"attachments are larger than {limits.attachment_bytes} bytes", code="too_large")
    values = _decode_fields(fields)
    cls: type[Entry] = Control if kind in _CONTROL_KINDS else Command if kind == "command" else Message
    try:
        entry: Entry = cls(**values)
    except ValidationError as error:
        raise _field_error(error, kind) from error
    if isinstance(entry, Message):
        _check_message(entry)
    elif isinstance(entry, Command):
        _check_command(entry)
    elif entry.session is None and entry.run is None and not entry.node:
        raise UserError(f"a {kind} entry needs 'run', 'session' or 'node'", code="missing_field")
    elif kind == "steer" and not entry.text.strip():
        raise UserError("field 'text' of the steer entry is empty", code="missing_field")
    return entry


def _check_message(entry: Message) -> None:
    if entry.kind == "workflow" and not entry.workflow:
        raise UserError("field 'workflow' is missing from the workflow entry", code="missing_field")
    if entry.kind == "workflow" and entry.mode == "steer":
        raise UserError("a workflow cannot join a running run", code="bad_field", hint="mode queue or interrupt")
    if len(entry.deliver) > _MOST_CHANNELS:
        raise UserError(f"field 'deliver' names more than {_MOST_CHANNELS} channels", code="bad_field")
    if entry.kind == "message" and not entry.text.strip() and not entry.attachments:
        raise UserError("field 'text' is empty", code="missing_field")


def _check_command(entry: Command) -> None:
    what = f"{entry.command} command"
    try:
        if entry.command == "fork":
            fork = ForkParams.model_validate(entry.params)
            if fork.to == entry.session:
                raise UserError(f"the {what} names the same session twice", code="bad_field", hint="choose a new name")
        elif entry.command == "set":
            switches = Switches.model_validate(entry.params)
            if not switches.model_dump(exclude_none=True):
                raise UserError(f"the {what} sets nothing", code="missing_field", hint="params: model, thinking, debug")
        elif entry.command == "schedule":
            order = ScheduleOrder.model_validate(entry.params)
            if order.do != "add" and order.id is None:
                raise UserError(f"field 'id' is missing from the {what}", code="missing_field")
        elif entry.command == "playbook":
            change = PlaybookOrder.model_validate(entry.params)
            given = change.model_dump(exclude={"do", "bullet"}, exclude_none=True)
            if bool(given) != (change.do == "edit"):
                raise UserError(f"the {what} gives new words to edit, or does something else", code="bad_field")
        elif entry.params:
            raise UserError("an undo command takes no params", code="unknown_field")
    except ValidationError as error:
        raise _field_error(error, what) from error


def as_fields(entry: Entry) -> dict[str, str]:
    """The flat map of strings that stands for `entry` on the wire; `parse_entry` reads it back."""
    fields: dict[str, str] = {"kind": entry.kind}
    dumped = entry.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
    for name, value in dumped.items():
        if value is None:
            continue
        if name in _JSON_FIELDS:
            fields[name] = json.dumps(value)
        elif name in _WORD_FIELDS:
            fields[name] = " ".join(value)
        else:
            fields[name] = str(value)
    return fields
