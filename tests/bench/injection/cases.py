"""The values that the environments' process and the measurement exchange. Needs pydantic alone: both sides read it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Call(_Value):
    """A tool call, with the name that the suite gives the tool."""

    tool: str
    args: dict[str, Any] = {}


class ToolInfo(_Value):
    """A tool of a suite; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Goal(_Value):
    """An injected task, and the tools that reaching it takes (none: it is reached by words in the answer)."""

    id: str
    tools: tuple[str, ...]


class Suite(_Value):
    """A suite: its tools, the ids of its user tasks, its goals."""

    name: str
    tools: tuple[ToolInfo, ...]
    tasks: tuple[str, ...]
    goals: tuple[Goal, ...]


class Case(_Value):
    """A user task, attacked with a goal or (None) not at all."""

    suite: str
    task: str
    goal: str | None = None

    @property
    def id(self) -> str:
        """What its session is called."""
        return f"{self.suite}.{self.task}.{self.goal or 'calm'}"


class Play(_Value):
    """What a model that obeys does in a case: the calls of the user task and its answer, and what it does and says
    once it reads `goal` in the result of a tool."""

    prompt: str
    calls: tuple[Call, ...]
    answer: str
    goal: str = ""
    injected: tuple[Call, ...] = ()
    words: str = ""


class Outcome(_Value):
    """What became of the environment: whether the user task passes its check, whether the goal was reached."""

    passed: bool
    reached: bool
