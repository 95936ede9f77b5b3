"""What providers want done differently, and what is known about them beforehand."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

ReasoningStyle = Literal["auto", "none", "effort", "openrouter", "gemini", "deepseek", "budget", "adaptive"]


class Switches(BaseModel):
    """What a provider wants done differently. Unknown names are errors, so that a typing slip is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replay_reasoning: Literal["auto", "always", "never"] = "auto"
    """`auto`: thinking goes back while its tool loop is open, signed or structured thinking always. `always`: on
    every assistant message, even empty. `never`: stripped."""
    reasoning_field: str = "reasoning_content"
    """The field under which `always` sends thinking that did not come under a field of its own."""
    reasoning_style: ReasoningStyle = "auto"
    """How thinking is asked for. `auto`: as the dialect has it (Chat Completions `effort`, Messages by the model).
    `budget` and `adaptive` are the two ways of Messages, the others those of Chat Completions."""
    unsigned_calls: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Pattern of model names -> what to put on the first call of a message that another provider wrote."""
    strict_schemas: bool = False
    """Ask for strict function schemas where a schema qualifies."""
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How `json_schema` is asked for; below `json_schema` the schema goes into the system text as well."""
    parallel_tool_calls: bool | None = None
    """None leaves it to the provider; False asks for one call a turn."""
    max_tools: int | None = Field(default=None, ge=1)
    required_word: Literal["required", "any"] = "required"
    """The provider's word for "must call a tool"."""
    stream: bool = True
    """False: ask for one JSON answer instead of a stream."""
    stream_usage: bool = True
    """Ask for usage at the end of a stream."""
    name_pattern: str = r"[A-Za-z0-9_-]{1,64}"
    """What a tool name must match entirely."""
    name_max: int = Field(default=64, ge=16)
    id_style: Literal["plain", "nine"] = "plain"
    """`nine`: call ids are exactly nine letters or digits."""
    system_role: Literal["system", "developer"] = "system"
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    default_max_tokens: int = Field(default=8192, ge=1)
    """Sent where the dialect demands a number and the request has none."""
    images: bool = True
    """False: the model cannot see; images become a note."""
    graph_calls: bool = True
    """Offer references between the calls of a turn; small models fill in arguments better without."""
    merge_user: bool = False
    """The provider demands that user messages do not follow each other."""
    prompt_cache: bool = True
    """Mark cacheable prefixes, where the dialect has marks."""
    auth: Literal["bearer", "x-api-key"] | None = None
    """None: as the dialect has it."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Put into every request body as it is."""

    @field_validator("name_pattern", "unsigned_calls")
    @classmethod
    def _compiles(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        for pattern in [value] if isinstance(value, str) else value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return value


class Preset(BaseModel):
    """What is known about a provider beforehand. `key_env` is empty for servers that need no key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: str = "openai"
    base_url: str
    key_env: str = ""
    switches: Switches = Switches()
