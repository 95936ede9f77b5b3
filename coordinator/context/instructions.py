"""Instruction files of the workspace (AGENTS.md, CLAUDE.md, CONTEXT.md)."""

from __future__ import annotations

from pathlib import Path

from coordinator.context.prompt import INSTRUCTION_FILES
from shared.errors import ConfigError

MOST_BYTES = 100_000


def read_instructions(workspace: Path) -> dict[str, str]:
    """Those that exist, by name, in fixed order. Too large is an error: the system prompt is never shortened."""
    found = {}
    for name in INSTRUCTION_FILES:
        path = workspace / name
        if not path.is_file():
            continue
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path} has more than {MOST_BYTES} bytes", hint="it goes into every prompt; shorten it")
        try:
            found[name] = path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8: {error}") from error
    return found
