"""What a user's runs were in a span of time: how many and how they ended, which tools they called, what failed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, distinct, func, select

from shared.entries import Node, NodeEnded
from shared.names import SYSTEM_SESSION
from shared.sql.tables import log_entries, runs


@dataclass(frozen=True, slots=True)
class Span:
    """Counts of a span: runs by state, seconds of those that have ended, failures by error code, calls by tool with how
    many of them did not end as done; each the most first."""

    runs: dict[str, int]
    seconds: float
    failures: dict[str, int]
    tools: dict[str, tuple[int, int]]


def of_user(conn: Connection, principal: str, since_ms: int, until_ms: int, tools: int = 10) -> Span:
    """The counts of a user's runs that were created in the span (`until_ms` exclusive), without those of subagents and
    of the system's own workflows."""
    mine = (runs.c.principal == principal) & (runs.c.created_ms >= since_ms) & (runs.c.created_ms < until_ms)
    asked = mine & runs.c.parent.is_(None) & ~runs.c.session.startswith(SYSTEM_SESSION, autoescape=True)
    states = select(runs.c.state, func.count()).where(asked).group_by(runs.c.state)
    states = states.order_by(func.count().desc(), runs.c.state)
    failed = (
        select(runs.c.error_code, func.count())
        .where(asked, runs.c.error_code != "", runs.c.state != "cancelled")
        .group_by(runs.c.error_code)
        .order_by(func.count().desc(), runs.c.error_code)
    )
    seconds = conn.execute(select(func.coalesce(func.sum(runs.c.seconds), 0.0)).where(asked)).scalar_one()
    node, tool = log_entries.c.data["node"].as_string(), log_entries.c.data["tool"].as_string()
    entries = log_entries.join(runs, log_entries.c.run == runs.c.id)
    calls = (
        select(tool.label("tool"), func.count(distinct(node)).label("calls"))
        .select_from(entries)
        .where(mine, log_entries.c.type == Node.T, tool.not_like("%:%"))
        .group_by(tool)
        .order_by(func.count(distinct(node)).desc(), tool)
        .limit(tools)
    )
    called = {row.tool: int(row.calls) for row in conn.execute(calls)}
    ended = log_entries.alias()
    bad = (
        select(tool.label("tool"), func.count(distinct(node)).label("calls"))
        .select_from(entries.join(ended, (ended.c.run == runs.c.id) & (ended.c.data["node"].as_string() == node)))
        .where(
            mine,
            log_entries.c.type == Node.T,
            tool.in_(called),
            ended.c.type == NodeEnded.T,
            ended.c.data["result"]["state"].as_string() != "done",
        )
        .group_by(tool)
    )
    not_done = {row.tool: int(row.calls) for row in conn.execute(bad)}
    return Span(
        runs={state: int(count) for state, count in conn.execute(states)},
        seconds=float(seconds),
        failures={code: int(count) for code, count in conn.execute(failed)},
        tools={name: (count, not_done.get(name, 0)) for name, count in called.items()},
    )
