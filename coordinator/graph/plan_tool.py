"""The `plan` tool: a whole graph in one call, for models that make one call a message. Pure.

The schema is flat, so that weak models can fill it, and the reader is tolerant about form: a plan as JSON text, a
bare list, arguments as JSON text, the common other names of a field. About meaning it is strict: a plan with a
mistake is refused as a whole, before anything runs, with all mistakes named, so that the corrected plan can be sent
again without doing anything twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from coordinator.graph.references import AMBIGUOUS, LABEL
from coordinator.graph.turn import DEEPEST, MOST_CALLS, Draft, TurnGraph, after_names, assemble
from shared.contract import NodeResult
from shared.errors import ModelError

PLAN: Final = "plan"
"""The tool's name."""

DESCRIPTION: Final = (
    "Run several tools as one plan: steps that need nothing from each other run at the same time. "
    'Use the output of a step in the args of another one: "$a" is the whole output of step a, "$a.items[0].url" a '
    'part of it, "Read ${a.title}" puts it inside text. Example: {"steps": [{"id": "a", "tool": "web_search", "args": '
    '{"query": "x"}}, {"id": "b", "tool": "web_fetch", "args": {"url": "$a.results[0].url"}}]}'
)

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "description": "The steps, in any order.",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "A short name for the step: a, b, search"},
                    "tool": {"type": "string", "description": "Name of the tool to run"},
                    "args": {"type": "object", "description": "The tool's arguments"},
                    "after": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Optional: ids of steps that must end first although no output is used",
                    },
                },
                "required": ["id", "tool", "args"],
            },
        }
    },
    "required": ["steps"],
}
"""JSON Schema of the tool's arguments."""

_MOST_TOLD = 10
_OTHER_NAMES: Final = {
    "name": "tool",
    "tool_name": "tool",
    "arguments": "args",
    "parameters": "args",
    "input": "args",
    "needs": "after",
    "depends_on": "after",
    "dependencies": "after",
    "step": "id",
}
_FIELDS: Final = ("id", "tool", "args", "after")
_TALK: Final = ("description", "title", "reason", "thought", "purpose", "goal", "why", "note")
"""What models write beside the fields, to nobody in particular."""


def parse_plan(
    arguments: Any, known: Callable[[str], bool], *, most: int = MOST_CALLS, deepest: int = DEEPEST
) -> TurnGraph:
    """The graph of a plan; its calls have the steps' ids as labels, and nothing in it is refused.

    `known` says whether a tool of that name may be used. Raises ModelError with code `bad_plan` whose text names
    every mistake in words that let a model correct it.
    """
    steps = _steps(arguments)
    if not steps:
        raise _bad(["it has no steps"])
    if len(steps) > most:
        raise _bad([f"it has {len(steps)} steps, and {most} are allowed"])
    problems: list[str] = []
    drafts = [_draft(number, step, known, problems) for number, step in enumerate(steps, 1)]
    names = _names(drafts, problems)
    if problems:
        raise _bad(problems)
    graph = assemble(drafts, names, noun="step", most=most, deepest=deepest)
    if graph.refused:
        # A cycle is one mistake, though each of its steps is refused with it.
        texts = {str(error): graph.call(position).label for position, error in graph.refused.items()}
        raise _bad([f"step {label}: {text}" for text, label in texts.items()])
    return graph


def report(graph: TurnGraph, results: Mapping[int, NodeResult], lines: Mapping[int, str]) -> str:
    """What the model reads of a plan that was carried out: state and output of each step, or the line in its place."""
    pieces = (
        f"## {graph.call(p).label} ({graph.call(p).name}): {r.state}\n{lines.get(p, r.text)}"
        for p, r in results.items()
    )
    return "\n\n".join(pieces)


def _steps(arguments: Any) -> list[Any]:
    """The list of steps in whatever form it came."""
    value = _decoded(arguments, "the plan")
    for _ in range(3):  # {"steps": …} inside {"steps": …} is a known slip
        if not isinstance(value, Mapping) or "tool" in value:
            break
        value = _decoded(value.get("steps", value.get("plan")), "steps")
    if isinstance(value, Mapping) and "tool" in value:
        value = [value]
    if not isinstance(value, list):
        raise _bad(['it must look like {"steps": [{"id": "a", "tool": "…", "args": {…}}]}'])
    return value


def _decoded(value: Any, what: str) -> Any:
    """`value`, or what it says if it is JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise _bad([f"{what} came as text that is not valid JSON ({error})"]) from error


def _draft(number: int, step: Any, known: Callable[[str], bool], problems: list[str]) -> Draft:
    """One step; what is wrong with it is added to `problems`."""
    if not isinstance(step, Mapping):
        problems.append(f"step {number} is not an object with id, tool and args")
        return Draft("", {}, str(number))
    fields: dict[str, Any] = {_OTHER_NAMES.get(key, str(key)): value for key, value in step.items()}
    fields |= {key: step[key] for key in _FIELDS if key in step}
    label = _id(number, fields.get("id"), problems)
    tool = str(fields.get("tool") or "")
    if not tool:
        problems.append(f"step {label} names no tool")
    elif tool == PLAN:
        problems.append(f"step {label}: a plan cannot hold a plan; put its steps into this one")
    elif not known(tool):
        problems.append(f"step {label}: there is no tool {tool[:64]!r}")
    args = _args(label, fields, problems)
    return Draft(tool, args, label, after_names(fields.get("after")))


def _id(number: int, value: Any, problems: list[str]) -> str:
    """The step's id: its own, or its number if it has none."""
    if value is None or value == "":
        return str(number)
    text = str(value).removeprefix("$")
    if not (LABEL.fullmatch(text) or (text.isascii() and text.isdigit() and len(text) < 10)):
        problems.append(
            f"step {number}: the id {text[:60]!r} must be small letters, digits, _ and -, such as step_{number}"
        )
    return text


def _args(label: str, fields: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    value = fields.get("args")
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            pass  # reported below as what it is: not an object
    if value is None or value == "":
        if stray := [k for k in fields if k not in _FIELDS and k not in _TALK]:
            problems.append(f'step {label}: put the arguments ({", ".join(stray[:5])}) into "args": {{…}}')
        return {}
    if not isinstance(value, dict):
        problems.append(f'step {label}: "args" must be an object such as {{"query": "…"}}')
        return {}
    return value


def _names(drafts: Sequence[Draft], problems: list[str]) -> dict[str, int]:
    """Ids to positions. Numbers mean places in the list only where no step took a number for its id."""
    names: dict[str, int] = {}
    for position, draft in enumerate(drafts, 1):
        if draft.label in names and names[draft.label] != AMBIGUOUS:
            problems.append(f"two steps have the id {draft.label!r}")
        names[draft.label] = AMBIGUOUS if draft.label in names else position
    if not any(name.isdigit() for name in names):
        names |= {str(position): position for position in range(1, len(drafts) + 1)}
    return names


def _bad(problems: list[str]) -> ModelError:
    told = problems[:_MOST_TOLD]
    if (more := len(problems) - len(told)) > 0:
        told.append(f"and {more} more")
    return ModelError(
        "Nothing of the plan was run: " + "; ".join(told),
        hint="correct this and send the whole plan again",
        code="bad_plan",
    )
