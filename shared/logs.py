"""Logging of all processes: one JSON or console line an event, secrets removed."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

_SECRET = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@]+(?P<at>@)"
    r"|\b(?:sk|pk|gsk|nvapi|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{12,}|\bAIza[A-Za-z0-9_-]{20,}"
    r"|(?P<header>(?i:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{12,}"
)


def redact(text: str) -> str:
    """The text without passwords in URLs, API keys and authorization headers."""

    def cover(match: re.Match[str]) -> str:
        return f"{match['scheme'] or match['header'] or ''}***{match['at'] or ''}"

    return _SECRET.sub(cover, text)


def _redact_event(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact(value)
    return event


class _Tolerant:
    """A stream whose writes may fail: a full disk must not end what is being logged about."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes if that is possible."""
        with suppress(OSError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        """Flushes if that is possible."""
        with suppress(OSError):
            self._stream.flush()


def configure(process: str) -> None:
    """Sets up logging to standard error. CAPATAZ_LOG=json gives JSON lines; the level is INFO."""
    structlog.contextvars.bind_contextvars(process=process)
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if os.environ.get("CAPATAZ_LOG") == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Tolerant(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
