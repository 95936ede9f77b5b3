"""Exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum

from shared.errors import CapatazError, ConfigError, OperatorError, UserError


class Exit(IntEnum):
    """What a command ended with."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3


def code_of(error: CapatazError) -> Exit:
    """3 for what cannot be reached, 2 for wrong input, else 1."""
    match error:
        case ConfigError() | UserError():
            return Exit.USAGE
        case OperatorError() if error.code != "already_running":
            return Exit.UNREACHABLE
        case _:
            return Exit.FAILED
