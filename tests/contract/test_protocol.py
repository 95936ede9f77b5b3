"""PROTOCOL.md against the code, in both directions: what the one has and the other lacks is an error."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, MaxLen
from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import shared.llm.errors as llm_errors
from coordinator import inbox
from coordinator.loop import decide
from coordinator.loop.early import planned_event
from shared import contract, entries, ids, messages
from shared.errors import OperatorError
from shared.llm import model
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.changes import node_event
from tests.contract import protocol_source as source

pytestmark = pytest.mark.contract

DOC = source.ROOT / "PROTOCOL.md"
VALUES: dict[str, type[BaseModel]] = {
    "Message": messages.Message,
    "Control": messages.Control,
    "Command": messages.Command,
    "ForkParams": messages.ForkParams,
    "Switches": messages.Switches,
    "ScheduleOrder": messages.ScheduleOrder,
    "PlaybookOrder": messages.PlaybookOrder,
    "Budget": messages.Budget,
    "Attachment": messages.Attachment,
    "Reply": messages.Reply,
    "ErrorInfo": messages.ErrorInfo,
    **entries._BY_TYPE,
    "Retry": entries.Retry,
    "NodeResult": contract.NodeResult,
    "NodeError": contract.NodeError,
    "Usage": model.Usage,
    "ModelMessage": model.Message,
    "TextBlock": model.TextBlock,
    "ImageBlock": model.ImageBlock,
    "ThinkingBlock": model.ThinkingBlock,
    "ToolCall": model.ToolCall,
    "ToolResult": model.ToolResult,
}


# --- the document ------------------------------------------------------------------------------------------------


@cache
def sections() -> dict[str, str]:
    """Text of each section under its heading, without the backquotes of the heading."""
    found: dict[str, str] = {}
    for part in re.split(r"^#{1,4} ", DOC.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        assert title.strip("` ") not in found, f"two sections are called {title}"
        found[title.strip("` ")] = body
    return found


def table(title: str) -> list[dict[str, str]]:
    """Rows of the first table of a section, by column title; cells without backquotes around them."""
    lines = [line for line in sections()[title].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    head, body = rows[0], rows[2:]
    assert all(len(row) == len(head) for row in body), f"a row of {title} has too few or too many cells"
    return [{h: _bare(c) for h, c in zip(head, row, strict=True)} for row in body]


def _bare(cell: str) -> str:
    inner = cell[1:-1]
    return inner if len(cell) > 1 and cell[0] == cell[-1] == "`" and "`" not in inner else cell


def names(title: str, column: str) -> list[str]:
    """One column of a section's table."""
    return [row[column] for row in table(title)]


# --- values in the document's words ------------------------------------------------------------------------------


def type_of(field: FieldInfo) -> str:
    """A field's type with its bounds, as the document writes it."""
    bounds = {type(m): m for m in field.metadata}
    kind = _type(field.annotation, field.metadata)
    low = f" from {bounds[Ge].ge:g}" if Ge in bounds else f" over {bounds[Gt].gt:g}" if Gt in bounds else ""
    high = f" to {bounds[Le].le:g}" if Le in bounds else ""
    length = f" of at most {bounds[MaxLen].max_length} characters" if MaxLen in bounds else ""
    return kind + low + high + length


def _type(annotation: Any, metadata: list[Any]) -> str:
    patterns = {str(m.pattern) for m in metadata if isinstance(m, StringConstraints)}
    origin, args = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated
        return _type(args[0], list(args[1:]))
    if origin in (Union, types.UnionType):
        inner = [a for a in args if a is not type(None)]
        return _type(inner[0], metadata) if len(inner) == 1 else "Block"
    if origin is tuple:
        return f"list of {_type(args[0], [])}"
    if origin is dict:
        return "object"
    if origin is Literal:
        return _choice(args)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _choice(annotation)
    if annotation is str:
        by_pattern = {f"^{ids.NAME.pattern}$": "name", f"^{ids.MESSAGE_ID.pattern}$": "message id"}
        return by_pattern[patterns.pop()] if patterns else "text"
    if annotation is model.Message:
        return "ModelMessage"
    plain = {int: "integer", float: "number", bool: "boolean"}
    return plain.get(annotation) or (annotation.__name__ if isinstance(annotation, type) else "any JSON")


def _choice(options: Any) -> str:
    return ", ".join(f"`{o}`" for o in options) if len(list(options)) > 1 else "text"


def default_of(field: FieldInfo) -> str:
    """A field's default, as the document writes it."""
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "none"
    if isinstance(default, BaseModel) or default in ("", (), {}):
        return "empty"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


@pytest.mark.parametrize("name", VALUES)
def test_fields_of_a_value(name: str) -> None:
    documented = {row["field"]: (row["type"], row["default"]) for row in table(name)}
    assert documented == {f: (type_of(i), default_of(i)) for f, i in VALUES[name].model_fields.items()}


def test_every_log_entry_type_is_documented() -> None:
    assert names("The session log", "type") == list(entries.LOG_TYPES)


def test_entry_kinds() -> None:
    expected = [(k, v.__name__) for v in (messages.Message, messages.Control, messages.Command) for k in _kinds(v)]
    assert [(row["kind"], row["fields"]) for row in table("Kinds of entry")] == expected


def _kinds(value: type[BaseModel]) -> tuple[str, ...]:
    return get_args(value.model_fields["kind"].annotation)


def test_what_has_no_effect_yet_is_marked() -> None:
    does = {row["kind"]: row["what it does"] for row in table("Kinds of entry")}
    assert ("nothing waits yet" in does["approve"]) == ("approval.requested" not in emitted())
    assert ("nothing asks yet" in does["answer"]) == ("question.asked" not in emitted())
    what = {row["setting"]: row["what"] for row in table("Limits")}
    sources = "".join(p.read_text("utf-8") for p in source.python_files() if p.name != "settings.py")
    for name in LimitSettings.model_fields:
        assert ("not enforced" in what[f"limits.{name}"]) == (f".{name}" not in sources)


# --- events ------------------------------------------------------------------------------------------------------

SPLATS: dict[str, Callable[[], set[str]]] = {
    "reply.model_dump(mode='json', exclude_none=True)": lambda: set(messages.Reply.model_fields),
    "usage.model_dump(mode='json')": lambda: set(model.Usage.model_fields),
    "planned_event(node)": lambda: set(planned_event(entries.Node(node="n", step=1, position=0, tool="t"))),
}
RESERVED = "not sent by this version"


def _sites() -> list[source.Site]:
    return [*source.python_sites(), *source.lua_sites()]


def emitted() -> dict[str, set[str]]:
    """Every event type that the sources emit, with the data fields of all places that emit it."""
    found: dict[str, set[str]] = {}
    for site in _sites():
        assert site.kinds, f"{site.where}: the type of this event cannot be told from the source"
        for kind in site.kinds:
            fields = found.setdefault(kind, set())
            fields.update(site.fields)
            for splat in site.splats:
                assert splat in SPLATS, f"{site.where}: unknown fields **{splat}; name them in SPLATS"
                fields |= SPLATS[splat]()
    failed = contract.NodeResult(
        state=contract.NodeState.FAILED, artifact="a", error=contract.NodeError(code="c", message="m")
    )
    found["node.finished"] |= set(ast.literal_eval(node_event("n", "t", failed).replace("false", "False")))
    found["snapshot"] = {"behind", "history"}  # made by the reader
    return found


def documented_events() -> dict[str, str]:
    """Event types with their cell of data fields."""
    return {row["type"]: row["data"] for row in table("Events")}


def test_every_event_type_is_documented() -> None:
    assert list(documented_events()) == list(entries.EVENT_TYPES)
    assert set(emitted()) <= set(entries.EVENT_TYPES)


def test_event_types_that_nothing_sends_are_marked() -> None:
    silent = [kind for kind, data in documented_events().items() if data == RESERVED]
    assert silent == [kind for kind in entries.EVENT_TYPES if kind not in emitted()]


@pytest.mark.parametrize("kind", entries.EVENT_TYPES)
def test_data_of_an_event(kind: str) -> None:
    cell = documented_events()[kind]
    fields = set(re.findall(r"`(\w+)\??`", cell))
    for value in re.findall(r"(\w+)'s fields", cell):
        fields |= set(VALUES[value].model_fields)
    assert fields == emitted().get(kind, set())
    assert fields or cell == (RESERVED if kind not in emitted() else "none")


def test_codes_of_notices() -> None:
    literal = {code for site in _sites() if "notice" in site.kinds for code in site.codes}
    literal |= set(re.findall(r'"code":"(\w+)"', source.lua("take_over")))
    assert set(names("Codes of notices", "code")) == literal


def test_reasons_of_nudges() -> None:
    assert set(names("Reasons of nudges", "reason")) == nudge_reasons()


def nudge_reasons() -> set[str]:
    """First arguments of Tell, `reason` of Nudge, and the reasons that force an answer."""
    found = set(decide.FORCED)
    for path in (source.ROOT / "coordinator").rglob("*.py"):
        for call in (n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)):
            given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "reason")]
            if ast.unparse(call.func).split(".")[-1] in ("Tell", "Nudge"):
                found.update(*(source.texts(a) for a in given))
    return found


def test_finish_reasons() -> None:
    found = {*decide.FORCED, *re.findall(r"finish_reason = '(\w+)'", source.lua("route"))}
    for path in (source.ROOT / "coordinator" / "loop").glob("*.py"):
        text = path.read_text("utf-8")
        found |= set(re.findall(r'\bOutcome\("\w+", "(\w+)"', text)) | set(re.findall(r'\bFinished\("(\w+)"', text))
        for chosen in re.findall(r"\bFinished\(forced or \((.*?)\)", text):
            found |= set(re.findall(r'"(\w+)"', chosen))
    assert set(names("Finish reasons", "reason")) == found


# --- errors, limits, keys ----------------------------------------------------------------------------------------


def operator_codes() -> set[str]:
    """Codes of all errors that the operator must act on, those of model calls among them."""
    found: set[str] = set()
    classes: list[type[OperatorError]] = [OperatorError]
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if issubclass(cls, llm_errors.Timeout):
            found |= {f"timeout_{kind}" for kind in get_args(llm_errors.TimeoutKind)}
        elif cls.__module__ in ("shared.errors", "shared.llm.errors"):
            found.add(cls.code)
    return found


def test_error_codes() -> None:
    expected = {
        "entry": source.python_error_codes("shared/messages.py", "coordinator/inbox.py"),
        "routing": source.lua_error_codes() - {"cancelled"},
        "run": source.python_error_codes(
            "coordinator/loop/ending.py", "coordinator/loop/workflow.py", "coordinator/restore.py"
        ),
    }
    operator = operator_codes()
    documented: dict[str, set[str]] = {}
    for row in table("Error codes"):
        documented.setdefault(row["from"], set()).add(row["code"])
    assert documented == {**expected, "operator": operator}


def test_limits() -> None:
    documented = {row["setting"]: row["default"] for row in table("Limits")}
    assert documented == {f"limits.{f}": str(i.default) for f, i in LimitSettings.model_fields.items()}


def test_fixed_limits() -> None:
    text = sections()["Limits"]
    assert f"`{ids.NAME.pattern}`" in text
    assert f"`{ids.MESSAGE_ID.pattern}`" in text
    assert f"first {inbox.RAW_CHARS} characters" in text


def test_every_key_is_documented() -> None:
    assert names("Keys", "key") == [f"{keys.PREFIX}{k.pattern}" for k in keys.TABLE]


@pytest.mark.parametrize("doc", keys.TABLE, ids=lambda doc: doc.pattern)
def test_a_row_of_the_key_table(doc: keys.KeyDoc) -> None:
    documented = {row["key"]: tuple(row.values())[1:] for row in table("Keys")}
    assert documented[f"{keys.PREFIX}{doc.pattern}"] == (doc.type, doc.ttl, doc.writers, doc.doc)


def test_versions() -> None:
    versions = {row["value"]: row["v"] for row in table("Versions")}
    assert versions["Reply"] == str(messages.Reply(ok=True).v)
    assert versions["log entry"] == re.findall(r"'v', '(\d+)'", source.lua("lib"))[0]
    assert versions["NodeResult"] == versions["NodeOrder"] == versions["WorkerInfo"] == str(contract.VERSION)


# --- scripts -----------------------------------------------------------------------------------------------------

TABLE_PATTERNS = {re.sub(r"<[^>]+>", "<>", k.pattern) for k in keys.TABLE}


@pytest.mark.parametrize("script", source.lua_names())
def test_keys_that_a_script_builds_are_in_the_key_table(script: str) -> None:
    built = source.lua_keys(script)
    assert built, "no keys were found in this script"
    assert built <= TABLE_PATTERNS


@pytest.mark.parametrize("script", source.lua_names())
def test_a_scripts_header_names_its_keys(script: str) -> None:
    header = source.header_keys(script)
    patterns = {key: key.replace("*", "<>") for key in header} | {"dedupe:*": "dedupe:<>:<>"}
    assert source.lua_keys(script) <= set(patterns.values())
    assert {patterns[key] for key in header} <= {*TABLE_PATTERNS, "inbox stream"}


@pytest.mark.parametrize("script", source.lua_names())
def test_a_scripts_header_names_its_arguments(script: str) -> None:
    used = {int(n) for n in re.findall(r"\bARGV\[(\d+)\]", source.lua(script))}
    named = {int(n) for n in re.findall(r"(?:^|, )(\d) ", _argv_line(script))}
    assert used == named == set(range(1, len(used) + 1))


def _argv_line(script: str) -> str:
    """The header's list of arguments on one line, without what stands in braces and parentheses."""
    found = re.search(r"^-- ARGV: (.*?)^-- returns:", source.lua(script), re.MULTILINE | re.DOTALL)
    assert found is not None, "the header has no ARGV and returns lines"
    line = re.sub(r"\n--\s+", ", ", found[1])
    while (shorter := re.sub(r"\{[^{}]*\}|\([^()]*\)", "", line)) != line:
        line = shorter
    return line


@pytest.mark.parametrize("script", source.lua_names())
def test_a_scripts_header_says_its_name_and_answer(script: str) -> None:
    assert re.search(rf"^-- {script}: \S", source.lua(script), re.MULTILINE)
    assert source.header(script, "returns")


# --- access ------------------------------------------------------------------------------------------------------


def test_users_of_the_acl_files() -> None:
    documented = {(row["file"], row["user"]) for row in table("Access")}
    found = set()
    for path in sorted((source.ROOT / "ops" / "acl").glob("*.acl")):
        found |= {(path.name, line.split()[1]) for line in path.read_text("ascii").splitlines()}
    assert documented == found
