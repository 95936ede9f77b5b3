"""Values too large for logs and messages, stored by their content. A handle works only for its principal."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy import Connection, case, select

from shared.errors import ModelError
from shared.sql.engine import Database
from shared.sql.tables import artifacts, insert

_HANDLE: Final = re.compile(r"a:([0-9a-f]{32})")

DEFAULT_MAX_BYTES: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored value."""

    data: bytes
    media_type: str


class ArtifactStore(Protocol):
    """Where large values live."""

    async def put(self, principal: str, data: bytes, media_type: str) -> str:
        """Stores a value and returns its handle, the same for the same bytes. Raises ModelError if it is too large."""
        ...

    async def get(self, principal: str, handle: str) -> Artifact:
        """The value behind a handle. Raises ModelError if this principal has none such."""
        ...


def content_handle(data: bytes) -> str:
    """The handle of a value: `a:` and the first 128 bits of its SHA-256 in hex."""
    return "a:" + hashlib.sha256(data).hexdigest()[:32]


class SqlArtifacts:
    """Artifacts in the SQL database."""

    def __init__(
        self,
        db: Database,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`ttl_s`: seconds that a value is kept after it was last put; None for ever. `clock`: Unix seconds.

        What has expired is not found any more; `shared.sql.retention` removes it.
        """
        self._db = db
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._clock = clock

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    async def put(self, principal: str, data: bytes, media_type: str) -> str:
        """Stores a value; the same bytes again only keep it for longer, under the first media type."""
        if len(data) > self._max_bytes:
            raise ModelError(
                f"a value of {len(data)} bytes is too large to be stored (at most {self._max_bytes})",
                hint="ask for less of it",
                code="too_large",
            )
        now_ms = self._now_ms()
        expires_ms = None if self._ttl_s is None else now_ms + int(self._ttl_s * 1000)

        def store(conn: Connection) -> None:
            statement = insert(conn, artifacts).values(
                principal=principal,
                sha256=hashlib.sha256(data).hexdigest(),
                media_type=media_type,
                size=len(data),
                created_ms=now_ms,
                expires_ms=expires_ms,
                content=data,
            )
            old, new = artifacts.c.expires_ms, statement.excluded.expires_ms
            longer = case((old.is_(None), None), (new.is_(None), None), (old > new, old), else_=new)
            statement = statement.on_conflict_do_update(
                index_elements=["principal", "sha256"], set_={"expires_ms": longer}
            )
            conn.execute(statement)

        await self._db.run(store)
        return content_handle(data)

    async def get(self, principal: str, handle: str) -> Artifact:
        """The value behind a handle. Raises ModelError if this principal has none such, or none any more."""
        match = _HANDLE.fullmatch(handle)
        if match is None:
            raise ModelError(f"{handle!r} is not an artifact handle", hint="use one as a result gave it, a:…")
        low, high = match[1] + "0" * 32, match[1] + "f" * 32
        query = select(artifacts.c.content, artifacts.c.media_type).where(
            artifacts.c.principal == principal,
            artifacts.c.sha256.between(low, high),
            artifacts.c.expires_ms.is_(None) | (artifacts.c.expires_ms > self._now_ms()),
        )
        row = await self._db.run(lambda conn: conn.execute(query).first())
        if row is None:
            raise ModelError(f"there is no artifact {handle}", hint="it may have expired: run the tool again")
        return Artifact(bytes(row.content), row.media_type)
