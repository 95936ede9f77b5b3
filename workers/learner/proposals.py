"""The learner's answer: operations as JSON, each checked on its own, so that a bad one spoils no other. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from shared.errors import ModelError
from shared.playbook import Add, Importance, Merge, Operation, Retire, Reword, Scope, Vote, new_bullet_id
from shared.resemblance import Vector
from workers.learner.sift import stands_for

MAX_OPERATIONS = 5


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AddRule(_Rule):
    """A new rule."""

    op: Literal["add"]
    text: str
    when: str = ""
    importance: Importance = Importance.LOW


class RewordRule(_Rule):
    """Better words for a rule."""

    op: Literal["reword"]
    id: str
    text: str | None = None
    when: str | None = None
    importance: Importance | None = None


class MergeRules(_Rule):
    """Rules that say the same become one."""

    op: Literal["merge"]
    ids: tuple[str, ...]
    text: str
    when: str = ""
    importance: Importance | None = None


class RetireRule(_Rule):
    """A rule that is no longer true or useful."""

    op: Literal["retire"]
    id: str
    reason: str = Field(default="", max_length=200)


class VoteRule(_Rule):
    """A rule helped in this run, or did harm."""

    op: Literal["vote"]
    id: str
    helpful: bool


Proposal = AddRule | RewordRule | MergeRules | RetireRule | VoteRule
_PROPOSAL: TypeAdapter[Proposal] = TypeAdapter(Annotated[Proposal, Field(discriminator="op")])


class _Answer(BaseModel):
    operations: list[Proposal]


ANSWER_SCHEMA: dict[str, Any] = _Answer.model_json_schema()
"""The JSON Schema of the answer, for providers that can be held to one."""


def parse(answer: str) -> tuple[list[Proposal], list[str]]:
    """The proposals of a model's answer, and why others in it were refused.

    Text around the JSON (a code fence, a sentence) is passed over. Raises ModelError when there is no JSON object
    with a list `operations`.
    """
    found = _first_object(answer)
    operations = found.get("operations") if found is not None else None
    if not isinstance(operations, list):
        raise ModelError("the learner's answer has no JSON object with a list `operations`", code="bad_answer")
    proposals: list[Proposal] = []
    refused: list[str] = []
    for raw in operations[:MAX_OPERATIONS]:
        try:
            proposals.append(_PROPOSAL.validate_python(raw))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            refused.append(f"malformed operation: {'.'.join(map(str, first['loc']))} {first['msg']}")
    if len(operations) > MAX_OPERATIONS:
        refused.append(f"{len(operations) - MAX_OPERATIONS} operations beyond the {MAX_OPERATIONS} allowed")
    return proposals, refused


def as_meant(proposal: Proposal, rules: Mapping[str, str], vectors: Mapping[str, Vector] | None) -> Proposal:
    """New words for a rule that does not exist, or that says something else, are a new rule: small models make ids up,
    and what was learned before is not to be lost. `rules`: texts by id; `vectors`: meanings by text."""
    if not isinstance(proposal, RewordRule) or not proposal.text:
        return proposal
    if (old := rules.get(proposal.id)) is not None and stands_for(proposal.text, old, vectors):
        return proposal
    how = proposal.importance or Importance.LOW
    return AddRule(op="add", text=proposal.text, when=proposal.when or "", importance=how)


def _first_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    for match in list(re.finditer(r"\{", text))[:50]:
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "operations" in value:
            return value
    return None


def operation(proposal: Proposal, scope: Scope, run: str, session: str, now_ms: int) -> Operation:
    """The playbook's operation for a proposal; an added rule remembers where it comes from."""
    match proposal:
        case AddRule():
            return Add(
                id=new_bullet_id(now_ms),
                scope=scope,
                text=proposal.text.strip(),
                when_to_use=proposal.when.strip(),
                importance=proposal.importance,
                provenance={"run": run, "session": session},
            )
        case RewordRule():
            return Reword(id=proposal.id, text=proposal.text, when_to_use=proposal.when, importance=proposal.importance)
        case MergeRules():
            return Merge(
                ids=proposal.ids, text=proposal.text, when_to_use=proposal.when, importance=proposal.importance
            )
        case RetireRule():
            return Retire(id=proposal.id, reason=proposal.reason)
        case VoteRule():
            return Vote(id=proposal.id, helpful=proposal.helpful)
