"""The scenario format: pydantic models of the YAML that `README.md` documents, and its loader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from ops.rehearsal.templates import check, fold
from shared.errors import ConfigError

DEFAULT_SCENARIOS = ("research", "default")
"""What the server plays when it is told nothing, in this order."""

_M = TypeVar("_M", bound=BaseModel)
_SHIPPED = resources.files("ops.rehearsal") / "scenarios"


class _Part(BaseModel):
    """Base of the parts of a scenario: immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class When(_Part):
    """The conditions of a rule; all that are given must hold. Patterns are searched for, not matched from the start.

    `user`: the last user message without its context block. `step`: how many assistant messages with calls came
    after it (one of several, if a list). `tool_result`: the results of the last step, joined by blank lines.
    """

    user: re.Pattern[str] | None = None
    system: re.Pattern[str] | None = None
    model: re.Pattern[str] | None = None
    tool_result: re.Pattern[str] | None = None
    step: int | tuple[int, ...] | None = None
    min_step: int = 0
    has_image: bool | None = None
    has_tools: bool | None = None


class CallSpec(_Part):
    """A tool call. Arguments given as a string are sent as they are, so that they can be broken on purpose."""

    name: str
    arguments: dict[str, JsonValue] | str = Field(default_factory=dict)
    id: str = ""


class UsageSpec(_Part):
    """Token counts of an answer. `cached` is part of `input`."""

    input: int = Field(ge=0)
    output: int = Field(ge=0)
    cached: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _cached_is_part(self) -> UsageSpec:
        if self.cached > self.input:
            raise ValueError("`cached` is part of `input` and cannot exceed it")
        return self


class ErrorSpec(_Part):
    """An error instead of an answer, or inside a stream once `after` characters are out.

    Without `body` it is the dialect's usual error object for the status; a string is sent as plain text.
    """

    status: int = Field(default=500, ge=200, le=599)
    body: JsonValue = None
    headers: dict[str, str] = Field(default_factory=dict)
    after: int | None = Field(default=None, ge=0)


class Then(_Part):
    """The answer of a rule. Times in milliseconds, `cut` and `hang` in characters of what the model says.

    `json` is an alternative to `text`: a value whose filled-in form is the text. `cut` closes the socket; `hang`
    goes silent and keeps it open, before anything is sent if it is true. `usage` false leaves usage out.
    """

    text: str = ""
    json_text: JsonValue = Field(default=None, alias="json")
    thinking: str = ""
    calls: tuple[CallSpec, ...] = ()
    first_token_ms: float = Field(default=0.0, ge=0)
    stream_ms: float = Field(default=0.0, ge=0)
    delta_chars: int = Field(default=4, ge=1)
    finish: str = ""
    usage: UsageSpec | bool = True
    cut: int | None = Field(default=None, ge=0)
    hang: bool | int = False
    error: ErrorSpec | None = None

    @field_validator("hang")
    @classmethod
    def _not_negative(cls, value: bool | int) -> bool | int:
        if value < 0:
            raise ValueError("must be true, false or a number of characters")
        return value

    @model_validator(mode="after")
    def _one_text(self) -> Then:
        if self.text and self.json_text is not None:
            raise ValueError("give `text` or `json`, not both")
        return self


class Rule(_Part):
    """When to say what. `times` bounds how often the rule may answer, so that a fault can pass."""

    name: str = ""
    when: When = When()
    then: Then
    times: int | None = Field(default=None, ge=1)


class Scenario(_Part):
    """Rules in the order in which they are tried, and maps from words to values for the `map:` filter."""

    name: str = ""
    description: str = ""
    rules: tuple[Rule, ...] = ()
    maps: dict[str, dict[str, str]] = Field(default_factory=dict)

    @field_validator("maps")
    @classmethod
    def _fold_keys(cls, maps: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return {name: {fold(key): value for key, value in entries.items()} for name, entries in maps.items()}

    @model_validator(mode="after")
    def _templates(self) -> Scenario:
        for number, rule in enumerate(self.rules, 1):
            said = rule.then
            try:
                check([said.text, said.json_text, said.thinking], self.maps)
                for call in said.calls:
                    check(call.arguments, self.maps)
            except ConfigError as error:
                raise ValueError(f"rule {rule.name or number}: {error}") from error
        return self


def scenario(rules: Iterable[Rule | dict[str, Any]], **rest: Any) -> Scenario:
    """A scenario made in code, from rules or from what YAML would give. Raises ConfigError."""
    plain = [rule if isinstance(rule, Rule) else _validated(Rule, rule, "rule") for rule in rules]
    return _validated(Scenario, {"rules": tuple(plain), **rest}, "scenario")


def parse(text: str, origin: str) -> Scenario:
    """Reads the YAML of a scenario; `origin` is named in the ConfigError that malformed text raises."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin} is not valid YAML: {error}") from error
    return _validated(Scenario, value, origin)


def load(names: Sequence[str | Path] = DEFAULT_SCENARIOS) -> Scenario:
    """One scenario from several, their rules in the order given.

    A name is that of a shipped scenario (`default`, `research`) or the path of a YAML file. Raises ConfigError.
    """
    parts = [_load_one(name) for name in names]
    maps: dict[str, dict[str, str]] = {}
    for part in parts:
        maps.update(part.maps)
    return Scenario(
        name="+".join(part.name for part in parts if part.name),
        rules=tuple(rule for part in parts for rule in part.rules),
        maps=maps,
    )


def shipped() -> tuple[str, ...]:
    """The names of the scenarios in the package."""
    return tuple(sorted(item.name.removesuffix(".yaml") for item in _SHIPPED.iterdir() if item.name.endswith(".yaml")))


def _load_one(name: str | Path) -> Scenario:
    if str(name) in shipped():
        return parse((_SHIPPED / f"{name}.yaml").read_text("utf-8"), f"scenario {name}")
    try:
        return parse(Path(name).read_text("utf-8"), str(name))
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(shipped())
        raise ConfigError(f"cannot read scenario {name}: {error}", hint=f"a YAML file, or one of {known}") from error


def _validated(model: type[_M], value: Any, origin: str) -> _M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{origin}: {place or 'top level'}: {first['msg']}") from error
