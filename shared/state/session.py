"""Session state as tools and clients of a process see it: facts, to-do list, log, and the live catalogue."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from shared.catalogue import merge_catalogues
from shared.contract import Catalogue, WorkerInfo
from shared.entries import Stored, decode
from shared.ids import nonce
from shared.messages import Switches
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.config import script_config
from shared.state.connection import mapped
from shared.state.pipeline import Pipeliner
from shared.state.scripting import Scripts


@dataclass(frozen=True)
class Fact:
    """A shared fact of a session. `version` counts its changes from 1; `by` is the node or run that set it."""

    value: JsonValue
    version: int
    by: str


class SessionState:
    """Reads and writes a session's shared values. Raises StateUnavailable; `set_fact` also StateConflict."""

    def __init__(self, pipeline: Pipeliner, limits: LimitSettings) -> None:
        self._pipe = pipeline
        self._scripts = Scripts(pipeline)
        self._limits = limits
        self._cfg = script_config(limits)

    async def facts(self, session: str) -> dict[str, Fact]:
        """All facts by name."""
        with mapped():
            flat: dict[str, str] = await self._pipe.execute("HGETALL", keys.facts(session))
        out: dict[str, Fact] = {}
        for field, version in flat.items():
            if field.endswith(":v"):
                name = field[:-2]
                row: dict[str, Any] = json.loads(flat[f"{name}:d"])
                out[name] = Fact(row["value"], int(version), row["by"])
        return out

    async def set_fact(self, session: str, name: str, value: JsonValue, expected_version: int | None, by: str) -> int:
        """Sets one fact; returns its new version. With `expected_version` (0: must not exist) raises StateConflict."""
        row = json.dumps({"value": value, "by": by}, ensure_ascii=False)
        expected = "" if expected_version is None else str(expected_version)
        return int(await self._scripts.call("set_fact", session, name, row, expected, by, self._cfg, nonce()))

    async def switches(self, session: str) -> Switches:
        """How the session goes on; reading them keeps them for as long as the session is used."""
        key = keys.switches(session)
        with mapped():
            fields: dict[str, str] = await self._pipe.execute("HGETALL", key)
            if fields:
                await self._pipe.execute("EXPIRE", key, self._limits.session_ttl_s)
        known = {name: value for name, value in fields.items() if name in Switches.model_fields}
        return Switches.model_validate(known)

    async def todo(self, session: str) -> list[dict[str, JsonValue]]:
        """The to-do list, in order."""
        with mapped():
            text = await self._pipe.execute("GET", keys.todo(session))
        return list(json.loads(text)) if text else []

    async def set_todo(self, session: str, items: list[dict[str, JsonValue]]) -> None:
        """Replaces the to-do list."""
        with mapped():
            await self._pipe.execute("SET", keys.todo(session), json.dumps(items), "EX", self._limits.session_ttl_s)

    async def log(self, session: str) -> list[Stored]:
        """The log, oldest entry first."""
        with mapped():
            return [decode(i, dict(f)) for i, f in await self._pipe.execute("XRANGE", keys.log(session), "-", "+")]

    async def workers(self) -> list[WorkerInfo]:
        """Workers whose heartbeat lives."""
        with mapped():
            ids = await self._pipe.execute("ZRANGE", keys.WORKERS, 0, -1)
            found = await self._pipe.execute("MGET", *(keys.worker(w) for w in ids)) if ids else []
        return [WorkerInfo.model_validate_json(f) for f in found if f]

    async def catalogue_of(self, digest: str) -> Catalogue | None:
        """A published catalogue by its digest."""
        with mapped():
            text = await self._pipe.execute("GET", keys.catalogue(digest))
        return Catalogue.model_validate_json(text) if text else None

    async def catalogue(self) -> Catalogue:
        """What all live workers offer together."""
        digests = sorted({w.catalogue for w in await self.workers()})
        found = [await self.catalogue_of(d) for d in digests]
        return merge_catalogues([c for c in found if c is not None])
