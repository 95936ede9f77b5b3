"""Changing a playbook by meaning: read, compare, apply, and all of it again if somebody else was faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from shared.errors import ModelError, StateConflict
from shared.meanings import ENCODER, encode_apart, from_bytes, to_bytes
from shared.playbook import Bullet, Operation, Scope
from shared.resemblance import Vector
from shared.sql import playbook
from workers.context import ToolContext
from workers.learner.sift import sift, texts_of

_TRIES = 8
OFF = "off"
"""The setting `routing.encoder` for words alone. With an embeddings endpoint the packaged encoder is used here all the
same, if it is installed: what counts as alike was measured with it, and other models' angles mean other things."""


async def meanings(ctx: ToolContext, texts: Sequence[str]) -> dict[str, Vector] | None:
    """Vectors of texts from a child process; None if there is no encoder, or none is wanted."""
    return await encode_apart(texts) if ctx.settings.routing.encoder != OFF else None


async def vectors_of(
    ctx: ToolContext, scope: Scope, texts: Sequence[str], known: Mapping[str, Vector]
) -> dict[str, Vector] | None:
    """Vectors of texts, some of them a playbook's bullets: what is known or stored is not made again."""
    if ctx.settings.routing.encoder == OFF or not texts:
        return None
    stored = await ctx.services.db.run(lambda conn: playbook.vectors(conn, scope, ENCODER))
    found = {text: from_bytes(stored[text]) for text in texts if text in stored}
    found |= {text: known[text] for text in texts if text in known}
    new = await encode_apart([text for text in texts if text not in found])
    return None if new is None else found | new


async def change(
    ctx: ToolContext,
    scope: Scope,
    operations: Sequence[Operation],
    run: str,
    refused: list[str],
    known: Mapping[str, Vector] | None = None,
) -> playbook.Applied:
    """Applies operations to the newest version of a playbook, against which they are compared by meaning: another
    learner in between costs another look. What is not done for that is told in `refused`. `known`: vectors by text.

    Raises ModelError if the playbook keeps changing.
    """
    now_ms, limit, db = ctx.now_ms, ctx.settings.playbook.max_bullets, ctx.services.db

    def look(conn: Connection) -> tuple[playbook.Playbook, list[Bullet]]:
        return playbook.read(conn, scope), playbook.forgotten(conn, scope)

    for _ in range(_TRIES):
        book, gone = await db.run(look)
        vectors = await vectors_of(ctx, scope, texts_of(operations, book.bullets, gone), known or {})
        sifted = sift(operations, book.bullets, gone, vectors)
        apply = partial(_apply, scope, sifted.operations, book.version, now_ms, limit, run, vectors or {})
        try:
            applied = await db.run(apply)
        except StateConflict:
            continue
        refused += sifted.refused
        return applied
    raise ModelError(
        "the playbook kept changing under the learner", hint="it will learn from later runs", code="conflict"
    )


def _apply(
    scope: Scope,
    operations: Sequence[Operation],
    version: int,
    now_ms: int,
    limit: int,
    run: str,
    vectors: Mapping[str, Vector],
    conn: Connection,
) -> playbook.Applied:
    """Applies them, and keeps the vectors of what is a bullet then."""
    applied = playbook.apply(conn, scope, operations, version=version, now_ms=now_ms, limit=limit, run=run)
    store_vectors(conn, scope, applied.playbook.bullets, vectors)
    return applied


def store_vectors(conn: Connection, scope: Scope, bullets: Sequence[Bullet], vectors: Mapping[str, Vector]) -> None:
    """Keeps the vectors of bullets that have none yet."""
    stored = playbook.vectors(conn, scope, ENCODER) if vectors else {}
    new = {b.text: to_bytes(vectors[b.text]) for b in bullets if b.text in vectors and b.text not in stored}
    playbook.keep_vectors(conn, scope, ENCODER, new)
