"""What goes over the wire in one attempt of a model call, told as events to whoever debugs the session."""

from __future__ import annotations

import structlog

from coordinator.events import EventWriter
from shared.artifacts import ArtifactStore, content_handle
from shared.errors import CapatazError
from shared.logs import redact
from shared.models import Choice

log = structlog.get_logger(__name__)

MOST_SHOWN = 16_000
"""Characters of a body that an event holds; a longer one is an artifact besides."""
MOST_HELD = 4_000_000
"""Bytes of an answer that are kept."""


class WireLog:
    """Sees the bytes of one attempt (`llm.client.Tap`). Bodies are shown as they were sent, without secrets."""

    def __init__(
        self, events: EventWriter, artifacts: ArtifactStore, principal: str, choice: Choice, step: int, attempt: int
    ) -> None:
        self.events = events
        self._artifacts = artifacts
        self._principal = principal
        self._choice = choice
        self._step = step
        self._attempt = attempt
        self._status = 0
        self._heard = bytearray()
        self._size = 0
        self._whole: list[bytes] = []

    def sent(self, url: str, body: bytes) -> None:
        """The request, as it goes out; told at once."""
        text = self._hidden(body)
        self.events.write(
            "debug.request",
            step=self._step,
            attempt=self._attempt,
            model=self._choice.name,
            url=self._hidden(url.encode()),
            bytes=len(body),
            body=text[:MOST_SHOWN],
            artifact=self._kept(text),
        )

    def answered(self, status: int) -> None:
        """The answer begins."""
        self._status = status

    def received(self, chunk: bytes) -> None:
        """The next piece of its body."""
        self._size += len(chunk)
        if len(self._heard) < MOST_HELD:
            self._heard += chunk

    async def close(self) -> None:
        """The attempt is over: tells what was heard (status 0: nothing), and stores what events are too short for."""
        text = self._hidden(bytes(self._heard))
        self.events.write(
            "debug.response",
            step=self._step,
            attempt=self._attempt,
            model=self._choice.name,
            status=self._status,
            bytes=self._size,
            body=text[:MOST_SHOWN],
            artifact=self._kept(text),
        )
        for data in self._whole:
            try:
                await self._artifacts.put(self._principal, data, "text/plain")
            except CapatazError as error:
                log.warning("a body that was to be debugged is not stored", model=self._choice.name, error=str(error))

    def _kept(self, text: str) -> str | None:
        """The handle under which the whole of a long body will be found."""
        if len(text) <= MOST_SHOWN:
            return None
        self._whole.append(text.encode())
        return content_handle(self._whole[-1])

    def _hidden(self, data: bytes) -> str:
        text = data.decode("utf-8", "replace")
        key = self._choice.provider.api_key
        return redact(text if key is None else text.replace(key.get_secret_value(), "***"))
