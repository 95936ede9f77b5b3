"""Whether a call may run: rules of the installation and of agents, and what a user has already said yes to. Pure.

Rules that restrict (`deny`, `ask`) match generously, rules that permit (`allow`) strictly: where an argument can be
read in two ways, the stricter outcome is taken.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from shared.contract import Effect, Value
from shared.signing import call_hash, canonical_json

Action = Literal["allow", "ask", "deny"]
Glob = Annotated[str, StringConstraints(min_length=1)]
ArgumentPath = Annotated[str, StringConstraints(pattern=r"^[^.]+(\.[^.]+)*$")]

DEFAULT_RULE: Final = "default"
"""The rule id of a decision that no rule made."""

_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_STRICTNESS: Final[dict[Action, int]] = {"allow": 0, "ask": 1, "deny": 2}


class Rule(BaseModel):
    """One rule. All conditions that are given must hold; one that is empty always does.

    `tools`, `groups`, `agents` and `principals` are globs, of which one must match (case counts). `agents` looks at
    the agent that calls, and for `deny` and `ask` also at those that started it.

    `args` maps dotted paths to globs over the text of what is there: strings as they are, numbers and booleans as in
    JSON. An array or object stands for everything in it, and so does JSON inside a string: any of it must match for
    `deny` and `ask`, all of it for `allow`. `.` and `..` between slashes are resolved as well as taken literally, and
    case does not count for `deny` and `ask`. A path at which there is nothing, or null, matches no rule.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Action
    tools: tuple[Glob, ...] = ()
    groups: tuple[Glob, ...] = ()
    effects: tuple[Effect, ...] = ()
    args: dict[ArgumentPath, str] = Field(default_factory=dict)
    agents: tuple[Glob, ...] = ()
    principals: tuple[Glob, ...] = ()
    reason: str = ""
    """Told to the user who is asked, and to the model that is refused."""

    @property
    def id(self) -> str:
        """A short digest of what the rule does: the same for the same conditions in any order, whatever its reason."""
        content = self.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
        content = {key: sorted(set(value)) if isinstance(value, list) else value for key, value in content.items()}
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:12]

    @property
    def conditions(self) -> str:
        """The conditions in one line, for people."""
        said = [
            f"{name} {', '.join(values)}"
            for name in ("tools", "groups", "effects", "agents", "principals")
            if (values := getattr(self, name))
        ]
        said += [f"{path} = {glob}" for path, glob in self.args.items()]
        return "; ".join(said) or "every call"

    def matches(self, call: CallFacts) -> bool:
        """True if the rule speaks about this call."""
        agents = call.agent_path[-1:] if self.action == "allow" else call.agent_path
        return (
            _any(self.tools, [call.tool])
            and _any(self.groups, [call.group])
            and (not self.effects or call.effect in self.effects)
            and _any(self.agents, agents)
            and _any(self.principals, [call.principal])
            and all(_argument(call.args, path, glob, self.action) for path, glob in self.args.items())
        )


class Policy(BaseModel):
    """The rules of one source, and what holds for calls that none of them speaks about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: Action = "allow"
    rules: tuple[Rule, ...] = ()


class Grant(Value):
    """A user's yes to calls of `tool` by `agent` that the rule `rule_id` (`default`: no rule) asks about.

    `once` holds for exactly the call whose fingerprint (`signing.call_hash`) is `args_hash`; the others for any
    arguments, unless `args_hash` is given. Whoever keeps grants of a `session` brings them in that session only.
    `by_text` says for people how it was given.
    """

    id: Annotated[str, StringConstraints(min_length=1)]
    tool: str
    rule_id: str
    agent: str
    principal: str
    scope: Literal["once", "session", "always"]
    args_hash: str = ""
    created_ms: int = 0
    by_text: str = ""

    @model_validator(mode="after")
    def _once_is_one_call(self) -> Self:
        if self.scope == "once" and not self.args_hash:
            raise ValueError("a grant for once needs the fingerprint of its call")
        return self


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of a call. `agent_path` has the agents, the root first; it is empty where code calls."""

    tool: str
    group: str
    effect: Effect
    args: Mapping[str, Any]
    agent_path: tuple[str, ...]
    principal: str

    @property
    def agent(self) -> str:
        """The agent that calls, empty if none does."""
        return self.agent_path[-1] if self.agent_path else ""

    @property
    def internal(self) -> bool:
        """True for steps that are code of the installation, which no model can call."""
        return ":" in self.tool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, and why.

    `rule` made the decision (None: a default), `rule_id` is its id, `reason` a sentence without full stop. `asking`
    has the ids of all rules that ask: a grant for each lets the call through. `approval` is the id of the grant that
    lifted an `ask`.
    """

    action: Action
    rule: Rule | None
    reason: str
    rule_id: str
    asking: tuple[str, ...] = ()
    approval: str = ""


def judge(layers: Sequence[Policy], call: CallFacts, grants: Collection[Grant] = ()) -> Verdict:
    """Decides about a call.

    `layers`: the installation's policy, then that of each agent of the call's path, the root first. The strictest
    layer wins, so an agent can only narrow. In a layer `deny` wins over `ask` over `allow`, in whatever order the
    rules stand; the default decides if no rule matches. A grant lifts the `ask` of its rule, never a `deny`. Defaults
    do not concern internal steps, rules do.
    """
    given = {grant.rule_id: grant for grant in _covering(grants, call)}
    verdicts = [_of_layer(policy, call, given, _source(n, call)) for n, policy in enumerate(layers)]
    if not verdicts:
        return Verdict("allow", None, "no rules", DEFAULT_RULE)
    strictest = max(verdicts, key=lambda verdict: (_STRICTNESS[verdict.action], bool(verdict.approval)))
    asking = tuple(dict.fromkeys(rule for verdict in verdicts for rule in verdict.asking))
    approval = next((verdict.approval for verdict in verdicts if verdict.approval), "")
    return replace(
        strictest,
        asking=asking if strictest.action == "ask" else (),
        approval=approval if strictest.action == "allow" else "",
    )


def unattended(verdict: Verdict, becomes: Literal["deny", "allow"]) -> Verdict:
    """The verdict where nobody can be asked: an `ask` becomes what the setting `permissions.headless` says."""
    if verdict.action != "ask":
        return verdict
    if becomes == "allow":
        return replace(verdict, action="allow", asking=(), approval="unattended")
    return replace(verdict, action="deny", asking=(), reason=f"{verdict.reason}, and nobody can be asked here")


def refusal(tool: str, reason: str) -> str:
    """What the model is told of a call that was not let through."""
    return (
        f"{tool} was not run: {reason}. Do not try to reach the same in another way: "
        "go on without it, or tell the user what was not permitted."
    )


def _source(layer: int, call: CallFacts) -> str:
    if layer == 0:
        return "the installation"
    return f"agent {call.agent_path[layer - 1]}" if layer <= len(call.agent_path) else "an agent"


def _of_layer(policy: Policy, call: CallFacts, given: Mapping[str, Grant], source: str) -> Verdict:
    """What one policy says; `given` has the grants that cover the call, by rule."""
    matching = sorted((rule for rule in policy.rules if rule.matches(call)), key=lambda rule: (rule.id, rule.reason))
    by_action: dict[Action, list[Rule]] = {"allow": [], "ask": [], "deny": []}
    for rule in matching:
        by_action[rule.action].append(rule)
    if by_action["deny"]:
        rule = by_action["deny"][0]
        return Verdict("deny", rule, _said(rule, source), rule.id)
    if asking := [rule for rule in by_action["ask"] if rule.id not in given]:
        rule = asking[0]
        return Verdict("ask", rule, _said(rule, source), rule.id, asking=tuple(dict.fromkeys(r.id for r in asking)))
    if matching:  # none of them restricts, or a grant has lifted those that do
        rule = (by_action["ask"] or by_action["allow"])[0]
        approval = given[rule.id].id if rule.action == "ask" else ""
        return Verdict("allow", rule, _said(rule, source), rule.id, approval=approval)
    return _by_default(policy, call, given, source)


def _by_default(policy: Policy, call: CallFacts, given: Mapping[str, Grant], source: str) -> Verdict:
    """What a policy says of a call that none of its rules speaks about."""
    if policy.default == "allow" or call.internal:
        return Verdict("allow", None, f"no rule of {source} speaks about it", DEFAULT_RULE)
    if policy.default == "ask" and DEFAULT_RULE in given:
        return Verdict("allow", None, "the user has allowed it", DEFAULT_RULE, approval=given[DEFAULT_RULE].id)
    if policy.default == "ask":
        reason = f"no rule of {source} allows it without asking the user"
        return Verdict("ask", None, reason, DEFAULT_RULE, asking=(DEFAULT_RULE,))
    return Verdict("deny", None, f"no rule of {source} allows it", DEFAULT_RULE)


def _said(rule: Rule, source: str) -> str:
    verb = {"allow": "allows it", "ask": "asks the user first", "deny": "denies it"}[rule.action]
    return f"rule {rule.id} of {source} {verb} ({rule.reason.rstrip('. ') or rule.conditions})"


def _covering(grants: Collection[Grant], call: CallFacts) -> Iterator[Grant]:
    """The grants that speak about this call. One for a certain call must have its fingerprint."""
    named = [g for g in grants if (g.tool, g.agent, g.principal) == (call.tool, call.agent, call.principal)]
    fingerprint = _fingerprint(call) if any(grant.args_hash for grant in named) else ""
    # By id, the last first: which of several equal ones is named does not depend on how they came.
    for grant in sorted(named, key=lambda grant: grant.id, reverse=True):
        if grant.args_hash in ("", fingerprint):
            yield grant


def _fingerprint(call: CallFacts) -> str | None:
    """The fingerprint of a call; None for arguments that cannot be sent."""
    try:
        return call_hash(call.tool, dict(call.args))
    except (ValueError, TypeError, RecursionError):
        return None


def _any(globs: Sequence[str], names: Iterable[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for name in names for glob in globs)


def _argument(args: Mapping[str, Any], path: str, glob: str, action: Action) -> bool:
    """True if what stands at a path of the arguments matches."""
    found = list(_texts(args, path))
    if action == "allow":
        return bool(found) and all(text is not None and _strictly(text, glob) for text in found)
    return any(text is not None and _generously(text, glob) for text in found)


def _strictly(text: str, glob: str) -> bool:
    return fnmatchcase(text, glob) and fnmatchcase(_resolved(text), glob)


def _generously(text: str, glob: str) -> bool:
    return any(
        fnmatchcase(form, glob) or fnmatchcase(form.casefold(), glob.casefold()) for form in (text, _resolved(text))
    )


def _resolved(text: str) -> str:
    """A path, or the path of a URL, without `.`, `..` and doubled slashes; other texts as they are."""
    host = _HOST.match(text)
    start = host[0] if host else ""
    out: list[str] = []
    for part in re.sub("/{2,}", "/", text[len(start) :]).split("/"):
        if part == ".." and out and out[-1] != "..":
            if out != [""]:  # nothing is above the root
                out.pop()
        elif part != ".":
            out.append(part)
    return start + "/".join(out)


def _texts(args: Mapping[str, Any], path: str) -> Iterator[str | None]:
    """The texts of everything at a dotted path; None for each branch where there is nothing.

    Keys that hold dots are found too. It does not recurse: arguments may be nested as deeply as they like.
    """
    todo: list[tuple[Any, tuple[str, ...]]] = [(args, tuple(path.split(".")))]
    while todo:
        value, rest = todo.pop()
        if isinstance(value, Mapping):
            below = _below(value, rest)
            todo.extend(below)
            if rest and not below:
                yield None
        elif isinstance(value, (list, tuple)):
            todo.extend((item, rest) for item in value)
        elif (inside := _json_inside(value)) is not None:
            todo.append((inside, rest))
            yield None if rest else str(value)
        else:
            yield None if rest else _text(value)


def _below(value: Mapping[str, Any], rest: tuple[str, ...]) -> list[tuple[Any, tuple[str, ...]]]:
    """Where a path leads on from an object: to all that is in it if the path ends here."""
    if not rest:
        return [(item, ()) for item in value.values()]
    keys = [(".".join(rest[:n]), rest[n:]) for n in range(1, len(rest) + 1)]
    return [(value[key], further) for key, further in keys if key in value]


def _json_inside(value: Any) -> Any:
    """The array or object that a string holds as JSON, which tools take as if it were sent as such; else None."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    """A scalar as text, whole numbers without a fraction; None for null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)
