"""Kombu's Redis transport with a client that is kept: kombu makes a new one for each command, which costs ten times as
much as the command's own work. Loaded only by who connects to such a broker."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):
    """A channel whose commands (all but the blocking ones) go through one client, as long as it has the same pool."""

    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:  # made once a channel anyway
            return super()._create_client(asynchronous=True)  # type: ignore[no-untyped-call]
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[no-untyped-call]
        return self._kept


class Transport(redis.Transport):
    """Kombu's, with our channel."""

    Channel = Channel
