"""The week in numbers: a user's runs, how they ended, their tools, tokens and dollars, against the week before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue
from sqlalchemy import Connection

from shared.sql import costs, metrics
from shared.sql.costs import Sum
from shared.sql.metrics import Span
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.workflows.define import Inputs, Steps, step, workflow

_WEEK = timedelta(days=7)


@step()
async def count(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Counts the seven days up to now, and those before."""
    now = datetime.fromtimestamp(ctx.services.now(), UTC)

    def read(conn: Connection) -> tuple[Span, Span, list[Sum]]:
        ends = [int(one.timestamp() * 1000) for one in (now - 2 * _WEEK, now - _WEEK, now)]
        before = metrics.of_user(conn, ctx.principal, ends[0], ends[1])
        week = metrics.of_user(conn, ctx.principal, ends[1], ends[2])
        since = (now - _WEEK + timedelta(days=1)).date().isoformat()  # the bill counts by whole days
        return week, before, costs.sums(conn, "model", since_day=since, principal=ctx.principal)

    week, before, bill = await ctx.services.db.run(read)
    value: JsonValue = {
        "runs": {**week.runs},
        "failures": {**week.failures},
        "tools": {name: list(counts) for name, counts in week.tools.items()},
        "models": [{"model": one.key, "calls": one.calls, "dollars": str(one.dollars)} for one in bill],
    }
    return ToolOutput(value, report(week, before, bill))


def report(week: Span, before: Span, bill: Sequence[Sum]) -> str:
    """The week as it is told."""
    total, earlier = sum(week.runs.values()), sum(before.runs.values())
    if not total:
        return f"No runs in the last seven days ({earlier} in the seven before)."
    ended = ", ".join(f"{count} {state}" for state, count in week.runs.items())
    lines = [f"{total} run{'s' if total > 1 else ''} in the last seven days ({earlier} in the seven before): {ended}."]
    if (finished := total - week.runs.get("running", 0)) > 0:
        lines.append(f"A run took {week.seconds / finished:.1f} s on average.")
    if week.failures:
        lines.append("Failures: " + ", ".join(f"{code} {count}" for code, count in week.failures.items()) + ".")
    if week.tools:
        lines.append("Tools: " + ", ".join(_tool(name, *counts) for name, counts in week.tools.items()) + ".")
    lines += [_model(one) for one in bill]
    dollars = sum(one.dollars for one in bill)
    if bill:
        unpriced = sum(one.unpriced for one in bill)
        lines.append(
            f"Together ${dollars:.4f}" + (f", without {unpriced} calls of unknown price." if unpriced else ".")
        )
    return "\n".join(lines)


def _tool(name: str, calls: int, bad: int) -> str:
    return f"{name} {calls}" + (f" ({bad} not done)" if bad else "")


def _model(one: Sum) -> str:
    tokens = one.input + one.cache_read + one.cache_write
    failed = f", {one.failed} failed" if one.failed else ""
    return (
        f"{one.key}: {one.calls} calls{failed}, {tokens} tokens in ({one.cache_read} of them from the cache), "
        f"{one.output + one.reasoning} out, ${one.dollars:.4f}."
    )


@workflow("weekly-metrics", title="The week in numbers", result="count")
def weekly_metrics() -> Steps:
    """One count; no model."""
    return [count]
