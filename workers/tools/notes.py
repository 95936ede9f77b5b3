"""Notes: short texts that a user keeps, found again by their words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints
from sqlalchemy import Connection

from shared.compress import snippet
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.sql import notes
from shared.sql.notes import fold
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es

GROUP = GroupSpec(
    name="notes",
    title="Notes",
    keywords={"es": words_es.NOTES, "en": words_en.NOTES},
    examples={"es": examples_es.NOTES, "en": examples_en.NOTES},
)

_CANDIDATES = 200
_SOME_WORDS = 8

_Id = Annotated[
    str, Field(description="The note's id, as note_list or note_search gave it", pattern="^[A-Za-z0-9]{1,64}$")
]
_Title = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    Field(description="Short name; a note with the same title is replaced"),
]
_Tags = Annotated[list[str], Field(description="Words to group notes by", max_length=20)]
_Limit = Annotated[int, Field(description="How many at most", ge=1, le=100)]


def _as_value(note: notes.Note) -> dict[str, JsonValue]:
    updated = datetime.fromtimestamp(note.updated_ms / 1000, UTC).isoformat(timespec="seconds")
    return {"id": note.id, "title": note.title, "text": note.text, "tags": [*note.tags], "updated": updated}


def _listed(found: Sequence[notes.Note], empty: str, *, whole: bool) -> ToolOutput:
    lines = []
    for note in found:
        tags = f" [{', '.join(note.tags)}]" if note.tags else ""
        body = note.text if whole else snippet(note.text)
        lines.append(f"- {note.title} (id {note.id}){tags}: {body}")
    return ToolOutput({"notes": [_as_value(note) for note in found]}, "\n".join(lines) or empty)


@tool(
    group="notes",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("guardar", "apunta", "anota"), "en": ("save", "write down", "jot")},
    examples={"es": ("apunta que el lunes viene el fontanero",), "en": ("note that the plumber comes on monday",)},
)
async def note_save(
    ctx: ToolContext,
    title: _Title,
    text: Annotated[str, Field(description="The note itself")],
    tags: _Tags = [],  # noqa: B006 - copied by the validator, never changed
) -> ToolOutput:
    """Saves a note for the user, or replaces the one with the same title."""
    now_ms = ctx.now_ms
    note, created = await ctx.services.db.run(
        lambda conn: notes.save(conn, ctx.principal, title=title, text=text, tags=tags, now_ms=now_ms)
    )
    done = "Saved" if created else "Replaced"
    return ToolOutput({**_as_value(note), "created": created}, f'{done} note "{note.title}" (id {note.id}).')


@tool(
    group="notes",
    effect=Effect.READ,
    untrusted=True,
    keywords={"es": ("listar", "ver notas", "mis notas"), "en": ("list", "show notes", "my notes")},
    examples={"es": ("¿qué notas tengo?",), "en": ("which notes do I have?",)},
)
async def note_list(
    ctx: ToolContext,
    limit: _Limit = 20,
    offset: Annotated[int, Field(description="How many of the newest to pass over", ge=0, le=1_000_000)] = 0,
) -> ToolOutput:
    """Lists the user's notes, the last changed first, with the beginning of each."""
    found = await ctx.services.db.run(lambda conn: notes.list_notes(conn, ctx.principal, limit, offset))
    return _listed(found, "There are no notes." if offset == 0 else "There are no more notes.", whole=False)


@tool(
    group="notes",
    effect=Effect.READ,
    untrusted=True,
    keywords={"es": ("buscar", "busca en mis notas"), "en": ("search", "find in my notes")},
    examples={"es": ("busca la nota del seguro",), "en": ("find the note about insurance",)},
)
async def note_search(
    ctx: ToolContext,
    query: Annotated[str, Field(description="Words to look for; case and accents do not matter", min_length=1)],
    limit: _Limit = 10,
) -> ToolOutput:
    """Finds the user's notes by words in title, text or tags, the best match first, and returns them whole."""
    words = sorted(set(fold(query).split()))
    found = await ctx.services.db.run(lambda conn: notes.search(conn, ctx.principal, query, _CANDIDATES))
    if found or len(words) < 2:
        return _listed(ranked(found, words)[:limit], f"No note holds: {query}", whole=True)
    some = await ctx.services.db.run(lambda conn: _holding_some(conn, ctx.principal, words))
    listed = _listed(ranked(some, words)[:limit], f"No note holds any of: {query}", whole=True)
    if not some:
        return listed
    return ToolOutput(listed.value, f"No note holds all the words; these hold some:\n{listed.seen}")


def _holding_some(conn: Connection, principal: str, words: Sequence[str]) -> list[notes.Note]:
    found = {note.id: note for word in words[:_SOME_WORDS] for note in notes.search(conn, principal, word, _CANDIDATES)}
    return list(found.values())


def ranked(found: Sequence[notes.Note], words: Sequence[str]) -> list[notes.Note]:
    """Notes by how well they fit folded words, the best first: in the title, in the tags, as whole words, at all.

    Equal ones stay in their order.
    """

    def score(note: notes.Note) -> float:
        fields = ((4.0, note.title), (3.0, " ".join(note.tags)), (1.0, note.text))
        return sum(weight * _fit(word, fold(text)) for word in words for weight, text in fields)

    return sorted(found, key=score, reverse=True)


def _fit(word: str, text: str) -> float:
    if word not in text:
        return 0.0
    return 1.0 if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) else 0.5


@tool(
    group="notes",
    effect=Effect.IDEMPOTENT,
    untrusted=True,
    keywords={"es": ("cambiar", "editar"), "en": ("change", "edit")},
    examples={"es": ("corrige la nota del dentista",), "en": ("correct the dentist note",)},
)
async def note_update(
    ctx: ToolContext,
    id: _Id,
    title: Annotated[str | None, Field(description="New title")] = None,
    text: Annotated[str | None, Field(description="New text, in place of the whole old one")] = None,
    tags: Annotated[list[str] | None, Field(description="New tags, in place of the old ones")] = None,
) -> ToolOutput:
    """Changes what is given of one note; the rest stays."""
    if title is None and text is None and tags is None:
        raise ModelError("nothing to change was given", hint="give title, text or tags", code="bad_arguments")
    now_ms = ctx.now_ms
    note = await ctx.services.db.run(
        lambda conn: notes.update(conn, ctx.principal, id, title=title, text=text, tags=tags, now_ms=now_ms)
    )
    if note is None:
        raise ModelError(f"there is no note with id {id}", hint="note_list shows the ids", code="not_found")
    return ToolOutput(_as_value(note), f'Changed note "{note.title}" (id {note.id}).')


@tool(
    group="notes",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("borrar", "eliminar"), "en": ("delete", "remove")},
    examples={"es": ("borra la nota de la mudanza",), "en": ("delete the note about the move",)},
)
async def note_delete(ctx: ToolContext, id: _Id) -> ToolOutput:
    """Deletes one note of the user for good."""
    deleted = await ctx.services.db.run(lambda conn: notes.delete(conn, ctx.principal, id))
    text = f"Deleted note {id}." if deleted else f"There is no note {id} (any more)."
    return ToolOutput({"id": id, "deleted": deleted}, text)
