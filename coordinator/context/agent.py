"""Agent files: Markdown with YAML frontmatter. A project's files win over the built-in ones."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from shared.errors import ConfigError
from shared.ids import is_name
from shared.permissions import Policy

log = structlog.get_logger(__name__)

ToolSuffix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,56}$")]
"""Names that may be a part of a tool's name, which providers restrict."""

_FRONT = re.compile(r"\A---\r?\n(?P<front>.*?)\r?\n---\r?\n?(?P<body>.*)\Z", re.DOTALL)


class Agent(BaseModel):
    """One agent. `tools` are groups or tool names; empty means all that routing chooses.

    `permissions` narrow what the installation's rules allow, for this agent and those that it starts; `subagents` are
    the agents that it may start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    when_to_use: str = ""
    tier: str = "default"
    model: str = ""
    tools: tuple[str, ...] = ()
    subagents: tuple[ToolSuffix, ...] = ()
    permissions: Policy = Policy()
    calls: Literal["auto", "flat", "references", "plan"] = "auto"
    """Whether calls of one turn stand alone, may refer to each other, or come as one plan; `auto`: as the provider
    of its model is known to cope with."""
    max_steps: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    thinking_budget: int | None = Field(default=None, ge=0)
    body: str = ""


def parse_agent(text: str, source: str) -> Agent:
    """An agent from its file's text. Raises ConfigError naming file, line and reason."""
    match = _FRONT.match(text)
    if match is None:
        raise ConfigError(f"{source}:1: no frontmatter", hint="begin with --- and name: …, end it with ---")
    front = _front(match["front"], source)
    try:
        agent = Agent(**{str(k): v for k, v in front.items()}, body=match["body"].strip())
    except ValidationError as error:
        first = error.errors()[0]
        place = f"{source}:{_line_of(first['loc'], match['front'])}"
        raise ConfigError(f"{place}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except TypeError as error:  # a key that is given beside the frontmatter, such as body
        raise ConfigError(f"{source}:2: {error}") from error
    if not is_name(agent.name):
        raise ConfigError(f"{source}: name {agent.name!r} must match [A-Za-z0-9._-]{{1,128}}")
    return agent


def _front(text: str, source: str) -> dict[Any, Any]:
    """The frontmatter as a map. Raises ConfigError with the line."""
    try:
        front: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = (mark.line if mark else 0) + 2
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{source}:{line}: {problem}", hint="the frontmatter must be YAML") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}:2: {error}", hint="the frontmatter must be YAML") from error
    if not isinstance(front, dict):
        raise ConfigError(f"{source}:2: the frontmatter is not a map of keys")
    return front


def _line_of(place: Sequence[str | int], front: str) -> int:
    """The line of the file on which what has a place in the frontmatter begins, or what is next around it."""
    node = yaml.compose(front, yaml.SafeLoader)
    line = 0
    for part in place:
        if isinstance(node, yaml.MappingNode):
            keyed = next(((key, value) for key, value in node.value if key.value == part), None)
            if keyed is None:
                break
            line, node = keyed[0].start_mark.line, keyed[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 2


class Agents:
    """All agents by name; files are read again when they have changed. A bad file is reported, the rest load."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps: dict[Path, tuple[float, int]] = {}
        self._agents: dict[str, Agent] = {}
        self.problems: list[str] = []
        self._load()

    def names(self) -> set[str]:
        """Names of all agents."""
        self._refresh()
        return set(self._agents)

    def get(self, name: str) -> Agent:
        """The agent of that name. Raises ConfigError if it has gone meanwhile."""
        self._refresh()
        if name not in self._agents:
            raise ConfigError(f"there is no agent {name!r}", hint=f"known: {', '.join(sorted(self._agents))}")
        return self._agents[name]

    def _files(self) -> dict[Path, tuple[float, int]]:
        if not self._folder.is_dir():
            return {}
        found = {}
        for path in sorted(self._folder.glob("*.md")):
            stat = path.stat()
            found[path] = (stat.st_mtime, stat.st_size)
        return found

    def _refresh(self) -> None:
        if self._files() != self._stamps:
            self._load()

    def _load(self) -> None:
        agents: dict[str, Agent] = {}
        self.problems = []
        for entry in (importlib.resources.files("coordinator.context") / "agents").iterdir():
            if entry.name.endswith(".md"):
                agent = parse_agent(entry.read_text("utf-8"), entry.name)
                agents[agent.name] = agent
        self._stamps = self._files()
        for path in self._stamps:
            try:
                agent = parse_agent(path.read_text("utf-8"), str(path))
                agents[agent.name] = agent
            except (ConfigError, UnicodeDecodeError, OSError) as error:
                problem = str(error) if isinstance(error, ConfigError) else f"{path}: {error}"
                self.problems.append(problem)
                log.error("agent file not loaded", problem=problem)
        self._agents = agents
