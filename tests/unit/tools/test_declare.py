from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import CapatazError, ConfigError, ModelError
from shared.settings import Settings
from tests.unit.tools.conftest import Bench
from workers.context import ToolContext
from workers.declare import Registry, Tool, ToolOutput, tool


class Point(BaseModel):
    """A place."""

    x: int
    title: str = ""


@tool(group="demo", effect=Effect.READ, keywords={"en": ("demo",)})
async def echo(
    ctx: ToolContext,
    title: Annotated[str, Field(description="What to say")],
    times: int = 1,
    ratio: float | None = None,
    tags: list[str] = [],  # noqa: B006
    at: Point | None = None,
    loud: bool = False,
) -> JsonValue:
    """Says it
    again.

    This is not for the model.
    """
    return {"title": title, "times": times, "ratio": ratio, "tags": [*tags], "x": at.x if at else None, "loud": loud}


def test_the_schema_is_plain_and_says_what_is_required() -> None:
    assert echo.spec.description == "Says it again."
    schema = echo.spec.parameters
    assert schema["required"] == ["title"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["title"] == {"description": "What to say", "type": "string"}
    assert schema["properties"]["ratio"] == {"type": "number"}
    assert schema["properties"]["at"]["properties"]["title"] == {"default": "", "type": "string"}
    assert "$ref" not in str(schema)
    assert "$defs" not in str(schema)


def test_what_weak_models_send_is_taken() -> None:
    kwargs = echo.validate({"title": "a", "times": "3", "tags": '["x", "y"]', "ratio": None, "at": '{"x": "4"}'})
    assert kwargs["times"] == 3
    assert kwargs["tags"] == ["x", "y"]
    assert kwargs["ratio"] is None
    assert kwargs["at"].x == 4
    assert kwargs["loud"] is False


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, ["argument `title` is missing", "expected string", "Required arguments: title"]),
        ({"title": "a", "times": "many"}, ["`times` is wrong", "expected integer", '"many"']),
        ({"title": "a", "times": True}, ["`times` is wrong", "not true or false"]),
        ({"title": "a", "size": 3}, ["unknown argument `size`", "known: title, times"]),
        ({"title": 7}, ["`title` is wrong", "expected string", "got 7"]),
        ({"title": "a", "tags": "x"}, ["`tags` is wrong", "expected array"]),
        ({"title": "a", "at": {"x": "far"}}, ["`at.x` is wrong", "expected object"]),
    ],
)
def test_wrong_arguments_are_named_with_what_was_expected(args: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        echo.validate(args)
    for word in words:
        assert word in str(caught.value)


def test_a_plain_function_runs_in_the_executor(bench: Bench) -> None:
    import threading

    @tool(group="demo", effect=Effect.READ)
    def where(ctx: ToolContext) -> JsonValue:
        """Names its thread."""
        return threading.current_thread() is threading.main_thread()

    assert asyncio.run(where.call(bench.ctx(), {})).value is False


def test_half_a_character_is_replaced_where_a_call_only_reads_and_refused_where_it_writes(bench: Bench) -> None:
    ran: list[str] = []

    @tool(group="demo", effect=Effect.WRITE)
    async def keep(ctx: ToolContext, title: str, tags: list[str] = []) -> None:  # noqa: B006
        """Keeps a title."""
        ran.append(title)

    said = asyncio.run(echo.call(bench.ctx(), {"title": "a\ud83d"})).value
    assert isinstance(said, dict)
    assert said["title"] == "a\ufffd"
    with pytest.raises(ModelError, match=r"half a character.*'tags'") as caught:
        asyncio.run(keep.call(bench.ctx(), {"title": "a", "tags": ["\udd25"]}))
    assert caught.value.code == "bad_arguments"
    asyncio.run(keep.call(bench.ctx(), {"title": "a \U0001f525"}))
    assert ran == ["a \U0001f525"]


def test_a_value_that_is_not_json_is_our_defect_not_the_models(bench: Bench) -> None:
    @tool(group="demo", effect=Effect.READ)
    async def bad(ctx: ToolContext) -> Any:
        """Returns a set."""
        return {1, 2}

    with pytest.raises(CapatazError, match="not JSON") as caught:
        asyncio.run(bad.call(bench.ctx(), {}))
    assert not isinstance(caught.value, ModelError)


def test_what_the_model_sees() -> None:
    assert ToolOutput({"a": [1, "ñ"]}).seen == '{"a":[1,"ñ"]}'
    assert ToolOutput("plain").seen == "plain"
    assert ToolOutput({"a": 1}, "in words").seen == "in words"


def _declared(source: str) -> Tool:
    scope: dict[str, Any] = {"tool": tool, "Effect": Effect, "ToolContext": ToolContext, "Point": Point}
    exec(source, scope)
    found: Tool = scope["f"]
    return found


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(ctx, a):\n '''D.'''", "parameter a has no type annotation"),
        ("def f(ctx, *a: int):\n '''D.'''", "parameter a cannot be offered"),
        ("def f(a: int):\n '''D.'''", "first parameter must be"),
        ("def f(ctx):\n pass", "no docstring"),
    ],
)
def test_functions_that_cannot_be_tools_are_refused_with_the_place(source: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        _declared("@tool(group='g', effect=Effect.READ)\n" + source)
    assert "<string>:1" in str(caught.value)


def test_names_are_what_providers_accept_or_internal() -> None:
    with pytest.raises(ConfigError, match="name"):
        tool(group="g", effect=Effect.READ, name="Bad Name")(echo.fn)
    assert tool(group="g", effect=Effect.READ, name="learn:it")(echo.fn).internal
    assert not echo.internal


def test_a_name_is_taken_once_and_a_clash_adds_nothing() -> None:
    registry = Registry()
    registry.add(echo)
    twin = tool(group="other", effect=Effect.READ)(echo.fn)
    fresh = tool(group="other", effect=Effect.READ, name="fresh")(echo.fn)
    with pytest.raises(ConfigError, match="echo is declared twice"):
        registry.add(fresh, twin)
    assert set(registry.tools) == {"echo"}


def test_what_is_not_configured_is_missing_with_its_reason() -> None:
    needy = tool(group="demo", effect=Effect.READ, name="needy", requires=lambda _: "no key: set X")(echo.fn)
    hidden = tool(group="demo", effect=Effect.READ, name="in:side")(echo.fn)
    registry = Registry()
    registry.add(echo, needy, hidden)
    catalogue = registry.catalogue(Settings())
    assert [spec.name for spec in catalogue.tools] == ["echo"]
    assert catalogue.missing == {"needy": "no key: set X"}
    assert catalogue.groups == (GroupSpec(name="demo", title="demo", keywords={"en": ("demo",)}),)
    assert registry.get("in:side") is hidden


USER_TOOL = '''
from __future__ import annotations
from shared.contract import Effect
from workers.context import ToolContext
from workers.declare import tool

@tool(group="mine", effect=Effect.READ)
async def my_tool(ctx: ToolContext, word: str) -> str:
    """Mine."""
    return word
'''


def test_user_files_load_and_bad_ones_are_named_with_file_and_line(tmp_path: Path) -> None:
    good, syntax, raises, clash = (tmp_path / f"{name}.py" for name in ("good", "syntax", "raises", "clash"))
    good.write_text(USER_TOOL)
    syntax.write_text("x = 1\ndef broken(:\n")
    raises.write_text("\n\nraise RuntimeError('no such device')\n")
    clash.write_text(USER_TOOL)
    registry = Registry()
    problems = registry.load_user((*map(str, (syntax, raises, good, clash, tmp_path / "absent.py")), "no_module"))
    assert registry.get("my_tool") is not None
    assert len(problems) == 5
    assert f"{syntax}:2" in problems[0]
    assert problems[1] == f"{raises}:3: RuntimeError: no such device"
    assert "my_tool is declared twice" in problems[2]
    assert str(good) in problems[2]
    assert "absent.py is not a Python file" in problems[3]
    assert "no_module" in problems[4]
    assert registry.problems == list(problems)
