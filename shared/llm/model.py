"""The neutral message model: what the system stores and what every dialect translates from and to.

All values are frozen and ignore unknown fields, because they are kept in the session log and read back by later
versions. `opaque` dictionaries hold whatever a provider wants back unchanged; they belong to the provider named
by `Message.origin` and are sent to no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from shared.contract import Usage as Usage
from shared.contract import Value

Opaque = dict[str, JsonValue]
"""Provider data kept verbatim; JSON values only."""


class TextBlock(Value):
    """Visible text."""

    type: Literal["text"] = "text"
    text: str


class ImageBlock(Value):
    """An image: `data` is base64 (RFC 4648, no line breaks), `media_type` for example `image/png`."""

    type: Literal["image"] = "image"
    media_type: str
    data: str


class ThinkingBlock(Value):
    """Thinking as far as the provider shows it; `text` may be empty while `opaque` holds a signature."""

    type: Literal["thinking"] = "thinking"
    text: str = ""
    opaque: Opaque = Field(default_factory=dict)


class ToolCall(Value):
    """A whole call with strictly parsed arguments.

    `id` is ours and unique in the session; a decoder, which knows no session, mints the placeholder
    `call_<position>`, unique in its message. `provider_id` is what the provider called it, possibly empty.
    """

    type: Literal["tool_call"] = "tool_call"
    id: str
    provider_id: str = ""
    name: str
    arguments: dict[str, Any]
    opaque: Opaque = Field(default_factory=dict)


class ToolResult(Value):
    """The answer to the call with `ToolCall.id == call_id` of the assistant message directly before."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    text: str
    is_error: bool = False
    images: tuple[ImageBlock, ...] = ()


Block = Annotated[TextBlock | ImageBlock | ThinkingBlock | ToolCall | ToolResult, Field(discriminator="type")]


class Message(Value):
    """One message. Role `tool` holds all results of the preceding assistant message, in call order."""

    role: Literal["user", "assistant", "tool"]
    blocks: tuple[Block, ...]
    origin: str = ""
    """Name of the provider that wrote it and that the opaque parts belong to; empty for ours."""
    opaque: Opaque = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """All text blocks, joined as they are."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All tool calls, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


class ToolDefinition(Value):
    """A tool as it is offered to a model. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Value):
    """One model call. `None` leaves a parameter to the provider; token counts are whole tokens.

    `thinking_budget` (tokens) and `effort` (`low`, `medium`, `high`, or a word the provider knows) ask for
    thinking; a dialect sends whichever its provider understands. `json_schema` asks for an answer of that shape.
    """

    model: str
    system: str = ""
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    thinking_budget: int | None = None
    effort: str | None = None
    json_schema: dict[str, Any] | None = None


class Finish(StrEnum):
    """Why the model stopped. Whole calls in the message count for more than this label."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    UNKNOWN = "unknown"


class BrokenCall(Value):
    """A call that did not arrive whole or is not strict JSON. It is never run and never stored in a history."""

    name: str
    provider_id: str
    raw: str
    reason: str


class Completion(Value):
    """A whole answer. `message` has role assistant and only whole calls; `broken` lists the others.

    `raw_finish` is the provider's word, empty if it gave none. `usage` is None only where nobody counted.
    """

    message: Message
    finish: Finish
    raw_finish: str = ""
    usage: Usage | None = None
    model: str = ""
    broken: tuple[BrokenCall, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of thinking."""

    text: str


class CallReady(Value):
    """A call that is known to be whole while the stream still runs.

    A stream that fails, or contradicts itself, afterwards does not confirm it: only the calls of the final
    `Completion` count.
    """

    call: ToolCall


class UsageSeen(Value):
    """Usage reported so far: cumulative, each replaces the one before."""

    usage: Usage


StreamItem = TextDelta | ThinkingDelta | CallReady | UsageSeen | Completion
"""What a stream yields; the last item is always one `Completion`."""
