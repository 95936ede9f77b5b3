"""Approvals and questions put to the person at the terminal, while the events of the run go on."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ops.cli.show import EventPrinter
    from shared.client import AsyncClient
    from shared.entries import Event
    from shared.messages import Reply

_SCOPES = {"y": "once", "yes": "once", "s": "session", "a": "always"}


class Prompts:
    """One question at a time, in the order in which they come. What somebody else decides is not asked any more."""

    def __init__(self, client: AsyncClient, printer: EventPrinter) -> None:
        self._client = client
        self._printer = printer
        self._open: dict[str, Event] = {}
        self._task: asyncio.Task[None] | None = None

    def see(self, event: Event) -> None:
        """Takes note of an event."""
        node = str(event.data.get("node", ""))
        if event.type in ("approval.requested", "question.asked"):
            self._open[node] = event
        elif event.type in ("approval.decided", "node.finished") and node in self._open:
            first = next(iter(self._open)) == node
            del self._open[node]
            if first and self._task is not None:
                self._task.cancel()
                self._task = None
        if self._open and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._ask())

    def close(self) -> None:
        """No more questions."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self) -> None:
        while self._open:
            node, event = next(iter(self._open.items()))
            approval = event.type == "approval.requested"
            self._printer.line(
                "  [y]es, for the [s]ession, [a]lways, or [n]o and why:" if approval else "  your answer:"
            )
            if not (said := (await _line()).strip()):
                continue
            reply = await (self._decide(node, said) if approval else self._client.answer(node, said))
            self._open.pop(node, None)
            if not reply.ok:
                self._printer.line(f"  not delivered: {reply.error.message if reply.error else ''}")

    async def _decide(self, node: str, said: str) -> Reply:
        if (scope := _SCOPES.get(said.lower())) is not None:
            return await self._client.approve(node, scope)
        word, _, reason = said.partition(" ")
        return await self._client.deny(node, reason if word.lower() in ("n", "no") else said)


async def _line() -> str:
    """The next line of the terminal. Can be cancelled, which a thread that reads could not."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
        text = sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    if not text:
        await asyncio.Event().wait()  # the terminal is closed: somebody else may still answer
    return text
