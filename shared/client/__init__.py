"""The Python client: `Client` for scripts and command lines, `AsyncClient` for asyncio. Both speak only Redis.

    client = Client.connect("redis://localhost:6379")
    print(client.ask("what time is it in Madrid?").answer)

Every submission gets an id, so a repeat after a lost connection is the same run.
"""

from __future__ import annotations

from shared.client.aio import AsyncClient
from shared.client.sync import Client
from shared.client.wire import Submitted, stream_rows

__all__ = ["AsyncClient", "Client", "Submitted", "stream_rows"]
