"""Upkeep of playbooks, once a day: duplicates become one, what does harm or was not used for long retires.

Bullets that the user has pinned stay as they are. What was done is told in the run's result, and in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from sqlalchemy import Connection

from shared.contract import Effect
from shared.errors import StateConflict
from shared.names import QUEUE_LEARNER
from shared.playbook import Bullet, Importance, Merge, Operation, Retire, Scope
from shared.resemblance import Vector
from shared.sql import playbook
from workers.context import Services, ToolContext
from workers.learner.book import store_vectors, vectors_of
from workers.learner.sift import closest
from workers.workflows.define import Inputs, Steps, step, workflow

UNUSED_DAYS = {Importance.LOW: 60, Importance.MEDIUM: 180}
"""How long a bullet may stay without a vote. Those of high importance stay."""
HARM = 2
"""Votes that it did harm, beyond those that it helped, from which a bullet retires."""
_DAY_MS = 86_400_000


async def any_bullets(services: Services) -> bool:
    """True if anything was ever learned."""
    return bool(await services.db.run(playbook.scopes))


@step(effect=Effect.IDEMPOTENT, queue=QUEUE_LEARNER, timeout_s=300.0)
async def tidy(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Tidies all playbooks: for each that changed, which bullets were merged and retired, and how many are left."""
    scopes = await ctx.services.db.run(playbook.scopes)
    told: dict[str, JsonValue] = {}
    for scope in scopes:
        if (done := await _tidy(ctx, scope)) is not None:
            told[f"{scope.kind.value} {scope.key}".strip()] = done
    return {"playbooks": len(scopes), "changed": told}


async def _tidy(ctx: ToolContext, scope: Scope) -> JsonValue:
    """What was done to a playbook; None if nothing. One that changes meanwhile is left for the next day."""
    now_ms, limit = ctx.now_ms, ctx.settings.playbook.max_bullets
    book = await ctx.services.db.run(lambda conn: playbook.read(conn, scope))
    vectors = await vectors_of(ctx, scope, [one.text for one in book.bullets], {})
    operations = upkeep(book.bullets, vectors, now_ms)

    def apply(conn: Connection) -> playbook.Applied:
        done = playbook.apply(conn, scope, operations, version=book.version, now_ms=now_ms, limit=limit, run=ctx.run)
        store_vectors(conn, scope, done.playbook.bullets, vectors or {})
        return done

    try:
        applied = await ctx.services.db.run(apply)
    except StateConflict:
        return None
    done = [change.operation for change in applied.changes if not change.refused]
    if not done:
        return None
    return {
        "merged": [[*one.ids] for one in done if isinstance(one, Merge)],
        "retired": [{"id": one.id, "why": one.reason} for one in done if isinstance(one, Retire)],
        "left": len(applied.playbook.bullets),
    }


def upkeep(bullets: Sequence[Bullet], vectors: Mapping[str, Vector] | None, now_ms: int) -> list[Operation]:
    """What is to be done to a playbook with these active bullets. Pure.

    Of two that say the same the pinned one's words stay, else those of the one with more votes, else the older one's.
    """
    operations: list[Operation] = []
    kept: dict[str, Bullet] = {}
    for bullet in sorted(bullets, key=lambda b: (not b.pinned, b.harmful - b.helpful, b.created_ms, b.id)):
        if not bullet.pinned and (why := _outlived(bullet, now_ms)):
            operations.append(Retire(id=bullet.id, reason=why))
            continue
        twin = _twin(bullet, kept, vectors)
        if twin is None:
            kept[bullet.id] = bullet
        elif twin.pinned:
            operations.append(Retire(id=bullet.id, reason=f"says the same as {twin.id}"))
        else:
            operations.append(Merge(ids=(twin.id, bullet.id), text=twin.text, when_to_use=twin.when_to_use))
    return operations


def _twin(bullet: Bullet, kept: Mapping[str, Bullet], vectors: Mapping[str, Vector] | None) -> Bullet | None:
    """A kept bullet that says the same. Two that contradict each other are for the learner or the user to decide."""
    if bullet.pinned:
        return None
    texts = {id: one.text for id, one in kept.items()}
    id, what = closest(bullet.text, texts, vectors)
    return kept[id] if what == "same" else None


def _outlived(bullet: Bullet, now_ms: int) -> str:
    """Why a bullet has had its time; empty if it has not."""
    if bullet.harmful - bullet.helpful >= HARM:
        return "did harm"
    days = UNUSED_DAYS.get(bullet.importance)
    used_ms = max(bullet.created_ms, bullet.updated_ms, bullet.last_used_ms or 0)
    return f"not used for {days} days" if days is not None and now_ms - used_ms > days * _DAY_MS else ""


@workflow(
    "playbook-upkeep", title="Upkeep of playbooks", cron="40 3 * * *", result="tidy", hidden=True, when=any_bullets
)
def playbook_upkeep() -> Steps:
    """One step on the learner's queue."""
    return [tidy]
