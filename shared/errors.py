"""The one error tree. Errors are told apart by who must act on them.

`UserError`: the person who sent the message. `ModelError`: the model; the text goes back to it as a
tool result. `OperatorError`: whoever runs the installation. `LeaseLost` and `StateConflict`: nobody; the
process that raised it lets go of the work, which another one continues. Anything else is our defect.

Foreign exceptions (redis, httpx, sqlalchemy, kombu) are mapped into this tree at one seam each.
"""

from __future__ import annotations


class CapatazError(Exception):
    """Base of all errors raised by Capataz.

    `code` is a stable machine-readable word; `hint` says what to do about it.
    """

    code = "error"

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UserError(CapatazError):
    """The submitted entry is wrong; answered on its reply path."""

    code = "bad_request"


class ModelError(CapatazError):
    """A tool call cannot be carried out as asked; the text is a result for the model."""

    code = "tool_error"


class OperatorError(CapatazError):
    """The installation is misconfigured or a part of it is unreachable."""

    code = "unavailable"


class ConfigError(OperatorError):
    """A setting is missing, unknown or malformed. The message names it and where it came from."""

    code = "config"


class StateUnavailable(OperatorError):
    """The state Redis cannot be reached or refuses writes (paused, restarting, out of memory)."""

    code = "state_unavailable"


class ArchiveUnavailable(OperatorError):
    """The SQL database cannot be reached or written (full disk, wrong URL, locked)."""

    code = "archive_unavailable"


class LeaseLost(CapatazError):
    """This process is no longer the owner of the run: it must not write to it again."""

    code = "lease_lost"


class StateConflict(CapatazError):
    """A compare-and-set lost the race; read again and decide anew."""

    code = "conflict"
