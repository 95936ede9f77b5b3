"""The graph of one turn: which of the model's calls needs which, and which of them cannot run. Pure.

Two reserved properties of a call's arguments say what references cannot: `_label` gives the call a name to refer to
it by, `_after` makes it wait for others without taking their output. Both are taken out before validation.

The graph is a function of the calls alone, so that a coordinator which takes the run over builds the same one.
Positions are 1-based, as the model counts; a refused call keeps its place but needs nothing, so that what is left
has no cycle, and whoever needs a refused call is skipped like the dependent of a failed one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from coordinator.graph.order import cycles, topological
from coordinator.graph.references import AMBIGUOUS, LABEL, Parsed, parse, substitute
from shared.contract import NodeError, NodeResult, NodeState
from shared.errors import ModelError

LABEL_KEY: Final = "_label"
AFTER_KEY: Final = "_after"
MOST_CALLS: Final = 1000
DEEPEST: Final = 50
"""How many calls one after the other a turn may hold."""

_LONGEST_PATH: Final = 12
"""Nodes of a path that errors name."""

REFERENCES_PROMPT: Final = """\
Calls that you make in one message run at the same time. A call can use the output of another call of the same \
message: write "$2" as an argument for the whole output of your second call, "$2.results[0].url" for a part of it \
(the type is kept), and "Read ${2.title} first" inside longer text. Calls are counted from 1 in the order you write \
them; instead of a number you may give a call a name with "_label": "trends" and write "$trends.items". With \
"_after": [1] a call waits for another one without using its output. So make dependent calls together in one message \
instead of waiting for each result, whenever you know what the outputs look like. Nothing may need itself, directly \
or in a circle. For the plain text $2 write "$$2", for a dollar sign before a value "$$${2.price}"; other dollar \
signs need no care."""
"""What a model that uses references is told about them."""

_PROPERTIES: Final[dict[str, dict[str, Any]]] = {
    LABEL_KEY: {
        "type": "string",
        "description": "Name of this call for others of this message",
    },
    AFTER_KEY: {
        "type": "array",
        "items": {"type": "string"},
        "description": "Calls of this message to wait for",
    },
}


def reserved_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's JSON Schema (type object) with the two reserved optional properties added; `schema` is not changed."""
    return {**schema, "type": "object", "properties": {**schema.get("properties", {}), **_PROPERTIES}}


@dataclass(frozen=True)
class GraphCall:
    """One call. `arguments` are without the reserved properties, references still in them.

    `needs` are the positions that must be done first, `sources` those of them whose output it takes.
    """

    position: int
    name: str
    arguments: dict[str, Any]
    label: str = ""
    needs: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    parsed: Parsed = field(default_factory=Parsed)


@dataclass(frozen=True)
class TurnGraph:
    """The calls of one turn in order. `notices` and `refused` are by position, for the model."""

    calls: tuple[GraphCall, ...]
    notices: dict[int, tuple[str, ...]] = field(default_factory=dict)
    refused: dict[int, ModelError] = field(default_factory=dict)

    def call(self, position: int) -> GraphCall:
        """The call at a 1-based position."""
        return self.calls[position - 1]

    @property
    def needs(self) -> dict[int, tuple[int, ...]]:
        """What each call waits for; free of cycles."""
        return {c.position: c.needs for c in self.calls}

    @property
    def sources(self) -> dict[int, tuple[int, ...]]:
        """Whose output each call takes."""
        return {c.position: c.sources for c in self.calls}

    def arguments(self, position: int, values: Mapping[int, JsonValue]) -> dict[str, Any]:
        """The call's arguments with the outputs of its sources put in.

        `values` maps at least the positions in its `sources`. Raises ModelError with code `bad_reference`.
        """
        call = self.call(position)
        return substitute(call.arguments, call.parsed, values) if call.parsed.templates else call.arguments


@dataclass(frozen=True)
class Draft:
    """A call before it is known what it needs. `after` holds names, as the model wrote them."""

    name: str
    arguments: dict[str, Any]
    label: str = ""
    after: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def build(
    calls: Sequence[tuple[str, dict[str, Any]]],
    *,
    references: bool = True,
    most: int = MOST_CALLS,
    deepest: int = DEEPEST,
) -> TurnGraph:
    """The graph of a turn's calls, each (tool name, arguments). Without `references` arguments are left alone."""
    if not references:
        flat = tuple(GraphCall(i, name, args) for i, (name, args) in enumerate(calls, 1))
        return TurnGraph(flat, refused={c.position: _too_many(most) for c in flat[most:]})
    drafts = [_draft(name, args) for name, args in calls]
    return assemble(drafts, positions_and_labels([d.label for d in drafts]), most=most, deepest=deepest)


def positions_and_labels(labels: Sequence[str]) -> dict[str, int]:
    """Every name of a turn's calls to its position; a label that several calls have is ambiguous."""
    names: dict[str, int] = {}
    for position, label in enumerate(labels, 1):
        names[str(position)] = position
        if label:
            names[label] = AMBIGUOUS if label in names else position
    return names


def assemble(
    drafts: Sequence[Draft], names: Mapping[str, int], *, noun: str = "call", most: int = MOST_CALLS, deepest: int
) -> TurnGraph:
    """The graph of calls whose names are known. `noun` is what errors call one of them."""
    calls, notices, refused = [], {}, {}
    for position, draft in enumerate(drafts, 1):
        parsed = parse(draft.arguments, names)
        if told := (*draft.notices, *parsed.notices):
            notices[position] = told
        try:
            if position > most:
                raise _too_many(most)
            sources, needs = _needs(position, draft, parsed, names, noun)
        except ModelError as error:
            refused[position] = error
            sources, needs = (), ()
        calls.append(GraphCall(position, draft.name, draft.arguments, draft.label, needs, sources, parsed))
    graph = TurnGraph(tuple(calls), notices, refused)
    graph = _without(graph, _circular(graph, noun))
    return _without(graph, _too_deep(graph, deepest))


def refusal(error: ModelError) -> NodeResult:
    """The result of a call that is refused before it starts."""
    text = f"This call was not run: {error}"
    problem = NodeError(code=error.code, message=error.message, hint=error.hint)
    return NodeResult(state=NodeState.REFUSED, text=text, error=problem)


def skipped(position: int, name: str, state: NodeState) -> NodeResult:
    """The result of a call that waits in vain: call `position` of tool `name`, which it needs, ended as `state`."""
    how = {NodeState.DENIED: "was denied", NodeState.CANCELLED: "was cancelled", NodeState.REFUSED: "was refused"}
    why = how.get(state, f"ended as: {state.value.replace('_', ' ')}")
    text = f"This call was skipped and had no effect: it needs call {position} ({name}), which {why}."
    return NodeResult(state=NodeState.SKIPPED, text=text, error=NodeError(code="skipped", message=text))


def skipped_step() -> NodeResult:
    """The result of a plan's step whose plan waits in vain."""
    result = refusal(ModelError("what it waits for did not end well", code="skipped"))
    return result.model_copy(update={"state": NodeState.SKIPPED})


def title(position: int, label: str) -> str:
    """How texts for the model name a call: by its label, else by its number."""
    return label or str(position)


def _draft(name: str, arguments: dict[str, Any]) -> Draft:
    args = {k: v for k, v in arguments.items() if k not in (LABEL_KEY, AFTER_KEY)}
    label, notices = _label(arguments.get(LABEL_KEY))
    return Draft(name, args, label, after_names(arguments.get(AFTER_KEY)), notices)


def _label(value: Any) -> tuple[str, tuple[str, ...]]:
    if value is None or value == "":
        return "", ()
    text = str(value).removeprefix("$")
    if LABEL.fullmatch(text):
        return text, ()
    return "", (f"The {LABEL_KEY} {text[:60]!r} cannot be referred to: use small letters, digits, _ and -.",)


def after_names(value: Any) -> tuple[str, ...]:
    """The names in an `_after` value: a list of names or numbers, or a single one; a dollar in front is passed over."""
    items = value if isinstance(value, list) else [] if value is None or value == "" else [value]
    return tuple(str(item).strip().removeprefix("$") for item in items)


def _needs(
    position: int, draft: Draft, parsed: Parsed, names: Mapping[str, int], noun: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions whose output is taken, and all that must be done first. Raises ModelError."""
    wanted = {ref.text: ref.target for ref in parsed.refs}
    for name in draft.after:
        if name not in names:
            known = ", ".join(list(names)[:20]) or "none"
            text = f"it must run after {name[:60]!r}, which is no {noun} of this turn"
            raise ModelError(text, hint=f"there are: {known}", code="unknown_node")
        wanted.setdefault(name, names[name])
    for text, target in wanted.items():
        if target == AMBIGUOUS:
            raise ModelError(
                f"{text}: several {noun}s have this name", hint="refer to it by number", code="ambiguous_label"
            )
        if target == position:
            hint = f'write "${text}" for the plain text' if text.startswith("$") else ""
            raise ModelError(f"{text} refers to the {noun} itself", hint=hint, code="self_reference")
    return parsed.targets, tuple(sorted(set(wanted.values())))


def _circular(graph: TurnGraph, noun: str) -> dict[int, ModelError]:
    """The calls that need each other in a circle, each with the path along one."""
    found: dict[int, ModelError] = {}
    for members, path in cycles(graph.needs):
        names = [title(p, graph.call(p).label) for p in path]
        way = " -> ".join(names if len(names) <= _LONGEST_PATH else [*names[: _LONGEST_PATH - 2], "…", names[-1]])
        for position in members:
            found[position] = ModelError(f"these {noun}s need each other in a circle: {way}", code="cycle")
    return found


def _too_deep(graph: TurnGraph, deepest: int) -> dict[int, ModelError]:
    """The calls with too many others one after the other before them, each with the path that leads to it."""
    depth: dict[int, int] = {}
    before: dict[int, int] = {}
    for position in topological(graph.needs):
        needs = graph.call(position).needs
        deepest_need = max(needs, key=lambda p: depth[p], default=0)
        depth[position] = 1 + (depth[deepest_need] if needs else 0)
        before[position] = deepest_need
    found = {}
    for position, level in depth.items():
        if level > deepest:
            path = [position]
            while before[path[-1]] and len(path) < 4:
                path.append(before[path[-1]])
            way = " <- ".join(title(p, graph.call(p).label) for p in path)
            text = f"{level} calls one after the other lead to it ({way} <- …), and {deepest} are allowed"
            found[position] = ModelError(text, hint="split the work over several turns", code="too_deep")
    return found


def _without(graph: TurnGraph, refused: Mapping[int, ModelError]) -> TurnGraph:
    """The graph with more calls refused."""
    if not refused:
        return graph
    calls = tuple(
        GraphCall(c.position, c.name, c.arguments, c.label) if c.position in refused else c for c in graph.calls
    )
    return TurnGraph(calls, graph.notices, {**graph.refused, **refused})


def _too_many(most: int) -> ModelError:
    return ModelError(f"a turn may hold {most} calls at most", hint="ask for the rest later", code="too_many_calls")
