"""What model calls cost and how long they took: a row per call, and its sums by model, user, day or tool group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, Row, case, func, select

from shared.entries import Assistant, Retry
from shared.llm.model import Usage
from shared.models import Payer
from shared.sql.tables import insert, model_calls

PICO: Final = 1_000_000_000_000
"""Picodollars in a dollar. Whole numbers add up exactly in every database; a price per token has more than nine
decimals, and less than twelve."""

By = Literal["model", "user", "day", "group"]
OK: Final = "ok"
_COUNTS: Final = (
    "calls", "failed", "input", "cache_write", "cache_read", "output", "reasoning", "unpriced", "estimated",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt. `payer.group`: the tool groups it served, joined by `+`. `outcome`: `ok`, or its error's code.

    `cost` in dollars, None if the price is not known. `first_ms` is the time to the first piece, None if nobody saw it.
    """

    id: str
    at_ms: int
    payer: Payer
    tier: str
    provider: str
    model: str
    outcome: str
    usage: Usage
    cost: Decimal | None
    took_ms: int
    first_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """Calls of one model, user, day (UTC) or group. `dollars` are those of the calls whose price is known;
    `unpriced` counts the others, `estimated` those whose tokens are our guess. Times are means over the answers."""

    key: str
    calls: int
    failed: int
    input: int
    cache_write: int
    cache_read: int
    output: int
    reasoning: int
    dollars: Decimal
    unpriced: int
    estimated: int
    took_ms: float | None
    first_ms: float | None


def of_step(entry: Assistant, at_ms: int, payer: Payer) -> list[Call]:
    """The calls of a logged step: those that failed, and the one that answered. Its group is the entry's."""
    payer = replace(payer, group=entry.group)
    step = f"{payer.run}.{entry.step}"
    cost = None if entry.cost is None else Decimal(entry.cost)
    answered = _call(f"{step}.{entry.attempt}", at_ms, payer, entry.tier, entry, OK, cost, entry.first_ms or None)
    return [*of_retries(entry.retries, step, at_ms, payer, entry.tier), answered]


def of_retries(retries: Sequence[Retry], step: str, at_ms: int, payer: Payer, tier: str) -> list[Call]:
    """The failed attempts of a step; `step` makes their ids unique."""
    return [
        _call(f"{step}.{r.attempt}", at_ms, payer, tier, r, r.code, None if r.cost is None else Decimal(r.cost))
        for r in retries
    ]


def _call(
    call_id: str,
    at_ms: int,
    payer: Payer,
    tier: str,
    entry: Assistant | Retry,
    outcome: str,
    cost: Decimal | None,
    first_ms: int | None = None,
) -> Call:
    return Call(
        id=call_id,
        at_ms=at_ms,
        payer=payer,
        tier=tier,
        provider=entry.provider,
        model=entry.model,
        outcome=outcome,
        usage=entry.usage,
        cost=cost,
        took_ms=entry.took_ms,
        first_ms=first_ms,
    )


def add(conn: Connection, calls: Sequence[Call]) -> None:
    """Records calls; one that is recorded already is left as it is."""
    if calls:
        statement = insert(conn, model_calls).on_conflict_do_nothing(index_elements=["id"])
        conn.execute(statement, [_values(call) for call in calls])


def _values(call: Call) -> dict[str, Any]:
    usage = call.usage
    return {
        "id": call.id,
        "at_ms": call.at_ms,
        "day": datetime.fromtimestamp(call.at_ms / 1000, UTC).date().isoformat(),
        "principal": call.payer.principal,
        "session": call.payer.session,
        "run": call.payer.run,
        "tier": call.tier,
        "tool_group": call.payer.group,
        "provider": call.provider,
        "model": call.model,
        "outcome": call.outcome,
        "input": usage.input,
        "cache_write": usage.cache_write,
        "cache_read": usage.cache_read,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "estimated": usage.estimated,
        "cost_pico": None if call.cost is None else int((call.cost * PICO).quantize(Decimal(1), ROUND_HALF_UP)),
        "took_ms": call.took_ms,
        "first_ms": call.first_ms,
    }


def sums(conn: Connection, by: By, *, since_day: str = "", principal: str | None = None) -> list[Sum]:
    """Sums by one of the four, the dearest first (days: the newest). `since_day`: ISO date of the first day (UTC).

    `principal` None is everybody, for the operator.
    """
    c = model_calls.c
    key: ColumnElement[str] = {
        "model": c.provider + "/" + c.model,
        "user": c.principal,
        "day": c.day,
        "group": c.tool_group,
    }[by]
    answered = c.outcome == OK
    tokens = (c.input, c.cache_write, c.cache_read, c.output, c.reasoning)
    query = select(
        key.label("key"),
        func.count().label("calls"),
        _count(~answered).label("failed"),
        *(func.sum(column).label(column.name) for column in tokens),
        func.coalesce(func.sum(c.cost_pico), 0).label("pico"),
        _count(c.cost_pico.is_(None) & (answered | (sum(tokens) > 0))).label("unpriced"),
        _count(c.estimated).label("estimated"),
        func.avg(case((answered, c.took_ms))).label("took_ms"),
        func.avg(case((answered, c.first_ms))).label("first_ms"),
    ).group_by(key)
    query = query.where(c.day >= since_day)
    if principal is not None:
        query = query.where(c.principal == principal)
    query = (
        query.order_by(key.desc()) if by == "day" else query.order_by(func.sum(c.cost_pico).desc().nulls_last(), key)
    )
    return [_sum(row) for row in conn.execute(query)]


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _sum(row: Row[Any]) -> Sum:
    values = {name: row._mapping[name] for name in _COUNTS}
    return Sum(
        key=row.key,
        **{name: int(value) for name, value in values.items()},  # PostgreSQL adds whole numbers up to decimals
        dollars=Decimal(int(row.pico)) / PICO,
        took_ms=None if row.took_ms is None else float(row.took_ms),
        first_ms=None if row.first_ms is None else float(row.first_ms),
    )
