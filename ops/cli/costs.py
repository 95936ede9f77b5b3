"""`capataz costs`: what model calls cost and how long they took, from the archive."""

from __future__ import annotations

import time
from dataclasses import asdict
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.common import clean, in_archive, print_json, table

if TYPE_CHECKING:
    from shared.sql.costs import Sum

DAY_S = 86_400


class By(StrEnum):
    """What calls are added up by."""

    MODEL = "model"
    USER = "user"
    DAY = "day"
    GROUP = "group"


def costs(
    by: Annotated[By, typer.Option(help="What to add up by; days are UTC, groups are tool groups.")] = By.MODEL,
    days: Annotated[int, typer.Option(min=1, max=3660, help="How many days, with today.")] = 30,
    user: Annotated[str, typer.Option(help="Only this user's calls; empty: everybody's.")] = "",
    json_: Annotated[bool, typer.Option("--json", help="As JSON; money as decimal text.")] = False,
) -> None:
    """Show what model calls cost and how long they took. Calls of runs that have not ended yet are not in it."""
    first = time.strftime("%Y-%m-%d", time.gmtime(time.time() - (days - 1) * DAY_S))
    from shared.sql.costs import sums

    found = in_archive(lambda conn: sums(conn, by.value, since_day=first, principal=user or None))
    if json_:
        rows = [asdict(one) | {"dollars": plain(one.dollars)} for one in found]
        print_json({"by": by.value, "since": first, "rows": rows})
        return
    if not found:
        typer.echo(f"no model calls since {first}")
        return
    head = [by.value, "cost", "calls", "failed", "fresh in", "cached in", "out", "mean time", "first piece"]
    table(head, [row(one) for one in found])
    if any(one.unpriced for one in found):
        typer.echo("+ ?: and calls of models whose price is not known; add it to the table of models.prices")
    if any(one.estimated for one in found):
        typer.echo("~: with tokens that are our guess, because the provider did not count them")


def row(one: Sum) -> list[str]:
    """The cells of one line. Tokens written to a cache are fresh input too."""
    guess = "~" if one.estimated else ""
    return [
        clean(one.key) or "-",
        money(one),
        str(one.calls),
        str(one.failed),
        f"{guess}{one.input + one.cache_write}",
        str(one.cache_read),
        f"{guess}{one.output + one.reasoning}",
        seconds(one.took_ms),
        seconds(one.first_ms),
    ]


def money(one: Sum) -> str:
    """Dollars; with a mark, or alone, `?` for what nobody knows: unknown is not zero."""
    known = f"${plain(one.dollars)}"
    if not one.unpriced:
        return known
    return f"{known} + ?" if one.dollars else "?"


def plain(amount: Decimal) -> str:
    """A decimal number without exponent and needless zeros."""
    return format(amount.normalize(), "f")


def seconds(milliseconds: float | None) -> str:
    """Seconds, or a dash where nobody measured."""
    return "-" if milliseconds is None else f"{milliseconds / 1000:.2f}s"
