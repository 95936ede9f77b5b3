"""Tools that no worker runs: to ask a person, to wait, and to have a subagent do something. Pure.

Their nodes wait in the log (`Waiting`), not in a process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from coordinator.context.agent import Agent
from shared.contract import Effect, ToolSpec
from shared.errors import ModelError
from shared.names import QUEUE_COORDINATOR

ASK_USER: Final = "ask_user"
WAIT: Final = "wait"
AGENT: Final = "agent_"
"""What the name of a subagent's tool begins with."""

LONGEST_WAIT_S: Final = 30 * 86400
MOST_OPTIONS: Final = 10

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Question(_Arguments):
    """Arguments of `ask_user`."""

    question: Text
    options: tuple[Text, ...] = Field(default=(), max_length=MOST_OPTIONS)
    recommended: str = ""


class Pause(_Arguments):
    """Arguments of `wait`."""

    seconds: float | None = Field(default=None, gt=0, le=LONGEST_WAIT_S)
    until: datetime | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.seconds is None) == (self.until is None):
            raise ValueError("give either seconds or until")
        return self

    def until_ms(self, now_ms: int, zone: tzinfo) -> int:
        """When it is over, in Unix milliseconds; a time without a zone is in the user's. Raises ModelError."""
        if self.seconds is not None:
            return now_ms + math.ceil(self.seconds * 1000)
        assert self.until is not None
        at = self.until if self.until.tzinfo else self.until.replace(tzinfo=zone)
        end = math.ceil(at.timestamp() * 1000)
        if end > now_ms + LONGEST_WAIT_S * 1000:
            raise ModelError(f"{self.until} is more than 30 days away", code="bad_arguments")
        return end


class Task(_Arguments):
    """Arguments of a subagent's tool."""

    task: Text


_TEXT: Final = {"type": "string"}

SPECS: Final = (
    ToolSpec(
        name=ASK_USER,
        group="session",
        description="Ask the user a question and wait for the answer. Only if you cannot go on sensibly without it.",
        parameters={
            "type": "object",
            "properties": {
                "question": {**_TEXT, "description": "one clear question"},
                "options": {"type": "array", "items": _TEXT, "description": "answers to choose from"},
                "recommended": {**_TEXT, "description": "the option you would take"},
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        effect=Effect.READ,
        queue=QUEUE_COORDINATOR,
        keywords={"en": ("ask me", "ask me first"), "es": ("pregúntame", "pregúntame antes")},
        examples={"en": ("ask me before you choose",), "es": ("pregúntame antes de elegir",)},
        always=True,
    ),
    ToolSpec(
        name=WAIT,
        group="session",
        description="Wait for some time, or until a time, before going on.",
        parameters={
            "type": "object",
            "properties": {
                "seconds": {"type": "number", "description": "how long"},
                "until": {**_TEXT, "description": "or: ISO 8601 date and time"},
            },
            "additionalProperties": False,
        },
        effect=Effect.READ,
        queue=QUEUE_COORDINATOR,
        keywords={"en": ("wait", "in a while"), "es": ("espera", "esperar")},
        examples={
            "en": ("wait ten minutes and look again", "pause until noon"),
            "es": ("espera diez minutos y vuelve a mirar", "para hasta mediodía"),
        },
    ),
)
"""What every agent has. Those of subagents are its own: `subagent_specs`."""


def subagent_specs(agents: Sequence[Agent]) -> tuple[ToolSpec, ...]:
    """One tool per subagent."""
    return tuple(
        ToolSpec(
            name=AGENT + agent.name,
            group="agents",
            description=f"{agent.description or f'The agent {agent.name}.'} {agent.when_to_use}".strip()
            + " It works on its own with its own tools, knows the talk so far, and returns its answer.",
            parameters={
                "type": "object",
                "properties": {"task": {**_TEXT, "description": "what to do, complete in itself"}},
                "required": ["task"],
                "additionalProperties": False,
            },
            effect=Effect.WRITE,
            queue=QUEUE_COORDINATOR,
        )
        for agent in agents
    )


_A = TypeVar("_A", bound=_Arguments)


def parsed(kind: type[_A], tool: str, args: dict[str, Any]) -> _A:
    """The arguments as a value. Raises ModelError that says what is wrong with them."""
    try:
        return kind(**args)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        text = f"{tool}: {where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
        raise ModelError(text, code="bad_arguments", hint="call it again with arguments as its schema says") from error
    except TypeError as error:  # a key that is no name
        raise ModelError(f"{tool}: {error}", code="bad_arguments") from error
