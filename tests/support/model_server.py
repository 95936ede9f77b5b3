"""The rehearsal model in a thread of its own, as the scripted model of a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from ops.rehearsal.scenario import Rule, Scenario, load, scenario
from ops.rehearsal.server import Recorded, RehearsalServer


class ModelServer:
    """A running scripted model.

        with ModelServer(rules=[{"when": {"user": "hi"}, "then": {"text": "hello"}}]) as server:
            ...  # server.url, server.requests

    Without rules it plays shipped scenarios: those named, or the server's defaults.
    """

    def __init__(
        self,
        rules: Iterable[Rule | dict[str, Any]] | None = None,
        *,
        names: Iterable[str] = (),
        maps: dict[str, dict[str, str]] | None = None,
        keep: int = 10_000,
    ) -> None:
        self._arrived = threading.Condition()
        self._server = RehearsalServer(_chosen(rules, names, maps), keep=keep, on_request=self._announce)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server", daemon=True)

    @property
    def url(self) -> str:
        """Base URL, with `/v1`."""
        return self._server.url

    @property
    def requests(self) -> list[Recorded]:
        """The requests so far, oldest first."""
        return list(self._server.requests)

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> list[Recorded]:
        """Waits until `count` requests have arrived, and returns the requests. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self._server.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived within {timeout_s} s")
        return self.requests

    def script(self, rules: Iterable[Rule | dict[str, Any]], maps: dict[str, dict[str, str]] | None = None) -> None:
        """Replaces the rules and forgets the requests so far."""
        chosen = _chosen(rules, (), maps)
        self._call(self._replace(chosen))

    def __enter__(self) -> ModelServer:
        self._thread.start()
        try:
            self._call(self._server.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call(self._server.stop())
        finally:
            self._end()

    def _announce(self) -> None:
        with self._arrived:
            self._arrived.notify_all()

    async def _replace(self, chosen: Scenario) -> None:
        self._server.play(chosen)
        self._server.requests.clear()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _chosen(
    rules: Iterable[Rule | dict[str, Any]] | None, names: Iterable[str], maps: dict[str, dict[str, str]] | None
) -> Scenario:
    if rules is not None:
        return scenario(rules, maps=maps or {})
    return load(tuple(names)) if (names := tuple(names)) else load()
