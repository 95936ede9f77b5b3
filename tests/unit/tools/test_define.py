"""What a declaration of a workflow says, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from shared.contract import Condition, Effect, OnError, Retries, WorkflowSpec
from shared.errors import ConfigError
from workers.context import ToolContext
from workers.workflows.define import (
    Inputs,
    Step,
    fallback,
    given,
    model_step,
    optional,
    prompt_file,
    ref,
    step,
    tool_step,
    workflow,
)


def made(*steps: Step, result: str = "") -> WorkflowSpec:
    return workflow("demo", title="Demo", result=result or steps[-1].spec.id)(lambda: list(steps)).spec


@step()
def first(ctx: ToolContext, inputs: Inputs) -> Any:
    return True


@step(
    needs=["first", optional("other")],
    when=["other", given("first", "n", gt=0, lt=9), given("params", "city", eq="Lugo")],
    retry=Retries(attempts=3, backoff_s=0.5),
    on_error=fallback({"n": 0}),
    timeout_s=5,
)
def full(ctx: ToolContext, inputs: Inputs) -> Any:
    return 1


def other(**options: Any) -> Step:
    return model_step("other", prompt="{params}", **options)


def test_a_step_says_all_of_it() -> None:
    spec = made(first, other(), full).steps[2]
    assert spec.needs == ("first", "other"), "conditions need what they look at"
    assert spec.optional == ("other",)
    assert spec.when == (
        Condition(step="other", op="holds", value=True),
        Condition(step="first", path=("n",), op="lt", value=9),
        Condition(step="first", path=("n",), op="gt", value=0),
        Condition(step="params", path=("city",), op="eq", value="Lugo"),
    )
    assert spec.retry == Retries(attempts=3, backoff_s=0.5)
    assert spec.on_error == OnError(do="value", value={"n": 0})
    assert WorkflowSpec.model_validate_json(made(first, other(), full).model_dump_json()) == made(first, other(), full)


def test_a_reference_is_what_models_write() -> None:
    args = {"id": ref("first.items[0].id"), "text": "about ${first.title}, $5 and $$first"}
    spec = made(first, tool_step("put", tool="t", args=args, needs=["first"], effect=Effect.READ)).steps[1]
    assert spec.args == {"id": "${first.items[0].id}", "text": "about ${first.title}, $5 and $$first"}


class Shape(BaseModel):
    n: int


def test_an_answer_has_a_shape() -> None:
    assert made(other(answer=Shape)).steps[0].json_schema == Shape.model_json_schema()
    assert made(other(answer={"type": "array"})).steps[0].json_schema == {"type": "array"}
    assert made(other()).steps[0].json_schema is None


def test_prompts_of_users_lie_beside_their_modules(tmp_path: Path) -> None:
    (tmp_path / "tell.md").write_text("Tell.\n")
    assert prompt_file(str(tmp_path / "flows.py"), "tell.md") == "Tell."


def write(**options: Any) -> Step:
    return tool_step("put", tool="t", args={}, effect=Effect.WRITE, **options)


def plain(**options: Any) -> Step:
    return step(**options)(lambda ctx, inputs: None)


def put(args: dict[str, Any], **options: Any) -> Step:
    return tool_step("put", tool="t", args=args, effect=Effect.READ, **options)


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda: write(retry=2), "a write is never retried by itself"),
        (lambda: step(retry=2, effect=Effect.WRITE)(lambda ctx, inputs: None), "a write is never retried by itself"),
        (lambda: plain(retry=0), "attempts are possible"),
        (lambda: plain(retry=Retries(attempts=2, backoff_s=-1)), "attempts are possible"),
        (lambda: plain(timeout_s=0), "timeout_s must be more than 0"),
        (lambda: plain(on_error="ignore"), "on_error is 'fail', 'skip' or fallback"),
        (lambda: plain(needs="first"), "needs is a list of names"),
        (lambda: step()(lambda ctx: None), "must take two arguments"),  # type: ignore[arg-type, misc]
        (lambda: given("first", exists=1), "takes True or False"),
        (lambda: given("first", eq={1, 2}), "is not JSON"),
        (lambda: fallback(float("nan")), "is not JSON"),
        (lambda: fallback(1, step="other"), "a value or a step, not both"),
        (lambda: ref("first..id"), "is no path"),
        (lambda: ref("$first"), "is no path"),
        (lambda: put({"a": {1}}), "is not JSON"),
        (lambda: other(answer={"type": "object", "patternProperties": {}}), "uses 'patternProperties'"),
        (lambda: other(answer={"type": "date"}), "the unknown type 'date'"),
        (lambda: other(answer={"$ref": "#/$defs/X"}), "refers to '#/\\$defs/X'"),
        (lambda: made(put({"a": "${first.id}"}), first), "refer to 'first', which it does not need"),
        (lambda: made(put({"a": ["$first"]}), first), "refer to 'first', which it does not need"),
        (lambda: made(put({"a": "${nowhere}"})), "refer to 'nowhere'"),
        (lambda: made(first, other(when="nowhere")), "needs 'nowhere', which is no step"),
        (lambda: made(model_step("m", prompt="See {first}"), first), "speaks of {first}"),
        (lambda: made(other(on_error=fallback(step="other"))), "falls back to 'other'"),
        (lambda: made(other(on_error=fallback(step="gone"))), "falls back to 'gone'"),
        (lambda: made(first, other(on_error=fallback(step="first")), full), "need other, whose place it takes"),
        (lambda: made(other(on_error=fallback(step="first")), first), "need other, whose place it takes"),
        (
            lambda: made(
                other(on_error=fallback(step="first")),
                plain_named("a", on_error=fallback(step="first")),
                first,
                result="other",
            ),
            "is the fallback of two steps",
        ),
        (
            lambda: made(
                other(on_error=fallback(step="late")),
                plain_named("user", needs=["other"]),
                plain_named("late", needs=["user"]),
                result="user",
            ),
            "in a circle",
        ),
        (lambda: workflow("demo", title="D", result="first", timeout_s=-1)(lambda: [first]), "must not be negative"),
        (lambda: workflow("demo", title="D", result="f")(lambda: [undeclared]), "declare it with @step"),  # type: ignore[list-item]
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(declare: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        declare()
    assert "test_define.py:" in str(caught.value)


def plain_named(name: str, **options: Any) -> Step:
    return tool_step(name, tool="t", args={}, effect=Effect.READ, **options)


def undeclared() -> None:
    """Not a step."""
