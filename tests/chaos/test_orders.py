"""A small order database that only `write` tools change: after chaos it is what was reported, no more and no less."""

from __future__ import annotations

import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pytest

from shared.contract import NodeResult, NodeState
from shared.entries import Node
from tests.chaos.check import NOBODY, World, answers
from tests.chaos.load import Submitter, plain_client
from tests.chaos.model import RULES
from tests.chaos.monkey import Act, Monkey
from tests.chaos.probe import until
from tests.chaos.run import wait_for_rest
from tests.chaos.tools import ORDERS
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(400)]

Row = tuple[str, str, int]
"""Item, state, paid."""

COUNT = 16
ACTS = [
    Act(0.5, "worker-1", "kill", 1.0),
    Act(1.5, "coordinator-1", "kill", 1.0),
    Act(4.0, "worker-2", "pause", 7.0),
    Act(6.0, "state", "kill", 0.5),
    Act(12.0, "worker-1", "kill", 0.5),
    Act(13.0, "coordinator-2", "pause", 7.0),
    Act(14.0, "broker", "kill", 0.5),
    Act(15.0, "worker-2", "kill", 0.5),
]


@dataclass(frozen=True)
class Deed:
    """A node of an order: what it does to it, and how it ended."""

    tool: str
    amount: int
    state: NodeState
    code: str


def rows(system: System) -> dict[str, Row]:
    path = system.workspace / ORDERS
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path, timeout=20)) as db:
        return {i: (item, state, paid) for i, item, state, paid in db.execute("SELECT * FROM orders")}


def applied(deeds: Sequence[Deed], item: str) -> Row | None:
    """An order after these deeds, in this order."""
    row: Row | None = None
    for deed in deeds:
        if deed.tool == "order_create":
            row = (item, "open", 0)
        elif row is not None:
            item, state, paid = row
            row = (item, "cancelled", paid) if deed.tool == "order_cancel" else (item, state, paid + deed.amount)
    return row


def possible(deeds: Sequence[Deed], item: str) -> Iterator[Row | None]:
    """What an order may look like: all that is done has happened, what is unknown may have, nothing else has."""
    unsure = [d for d in deeds if d.state is NodeState.OUTCOME_UNKNOWN]
    for happened in itertools.product((False, True), repeat=len(unsure)):
        did = dict(zip(map(id, unsure), happened, strict=True))
        yield applied([d for d in deeds if d.state is NodeState.DONE or did.get(id(d), False)], item)


def deeds_of(world: World) -> dict[str, list[Deed]]:
    """Every order's nodes, in the order of the graph."""
    found: dict[str, list[tuple[Node, NodeResult | None]]] = defaultdict(list)
    for node, result in world.nodes():
        if node.tool.startswith("order_"):
            found[node.node.partition(".")[0]].append((node, result))
    out: dict[str, list[Deed]] = {}
    for pairs in found.values():
        pairs.sort(key=lambda pair: (pair[0].step, pair[0].position))
        name = str(pairs[0][0].args["order"])
        assert all(result is not None for _, result in pairs)
        out[name] = [
            Deed(n.tool, n.args.get("amount", 0), r.state, r.error.code if r.error else "")
            for n, r in pairs
            if r is not None
        ]
    return out


def test_the_database_holds_what_was_reported(make_system: Callable[..., System], model: ModelServer) -> None:
    model.script(RULES)
    system = make_system(coordinators=2, workers=2, beat=True)
    submitter = Submitter(lambda: plain_client(system.redis_url))
    kinds = {f"{kind}{n}": kind for n in range(COUNT // 2) for kind in ("order", "return")}
    for uid, kind in kinds.items():
        submitter.message(f"calm-{uid}", f"{kind} calm{uid}", tools="orders")
    wait_for_rest(system, submitter)
    calm = {uid: rows(system)[f"calm{uid}"] for uid in kinds}
    assert set(calm.values()) == {("tea", "open", 12), ("cup", "cancelled", 1)}

    for uid, kind in kinds.items():
        submitter.message(f"storm-{uid}", f"{kind} storm{uid}", tools="orders")
    monkey = Monkey(system, ACTS)
    monkey.play()
    wait_for_rest(system, submitter)
    with system.client() as client:
        world = World.read(client, system.workspace)
        assert until(lambda: not answers(world, submitter.sent, client), "all answers")
    deeds, found = deeds_of(world), rows(system)
    for uid, row in calm.items():
        did = deeds[f"storm{uid}"]
        assert found.get(f"storm{uid}") in list(possible(did, row[0])), (uid, did, found.get(f"storm{uid}"))
        if all(d.state is NodeState.DONE for d in did):
            assert found[f"storm{uid}"] == row
        else:  # what did not go well is told as such, and has its reason in a worker that was not there
            assert any(d.state is NodeState.OUTCOME_UNKNOWN or d.code in NOBODY for d in did), (uid, did)
