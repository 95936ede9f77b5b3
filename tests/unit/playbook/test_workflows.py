"""The user's commands about the playbook, and its daily upkeep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.entries import Stored, UserMessage
from shared.errors import ModelError, UserError
from shared.playbook import Add, Bullet, BulletState, Importance, Merge, Pin, Retire, Scope, Vote
from shared.resemblance import Vector, unit
from shared.sql import playbook
from workers.workflows.playbook_upkeep import upkeep

ANA, DAY = Scope.user("ana"), 86_400_000
APPLY, TIDY = "workflow:playbook/apply", "workflow:playbook-upkeep/tidy"


@pytest.fixture
def bench(make_bench: Any) -> Any:
    made = make_bench(routing={"encoder": "off"})
    message = UserMessage(run="r1", principal="ana", session="s1", received_ms=1, kind="workflow", workflow="playbook")
    made.state.entries = [Stored.model_construct(id="1-0", run="r1", type=message.T, value=message)]
    return made


def keep(bench: Any, *operations: Any, scope: Scope = ANA, now: int = 1) -> None:
    def work(conn: Any) -> None:
        version = playbook.read(conn, scope).version
        playbook.apply(conn, scope, operations, version=version, now_ms=now, limit=50, by_user=True)

    bench.services.db.run_sync(work)


def add(id: str, text: str, scope: Scope = ANA, importance: Importance = Importance.MEDIUM) -> Add:
    return Add(id=id, scope=scope, text=text, importance=importance)


def order(bench: Any, do: str, bullet: str = "b1", principal: str = "ana", **params: Any) -> Any:
    return bench.run(APPLY, principal=principal, inputs={"params": {"do": do, "bullet": bullet, **params}})


def book(bench: Any, scope: Scope = ANA) -> tuple[Bullet, ...]:
    found: tuple[Bullet, ...] = bench.services.db.run_sync(lambda conn: playbook.read(conn, scope)).bullets
    return found


def test_a_command_changes_a_bullet_once(bench: Any) -> None:
    keep(bench, add("b1", "Prices with VAT."))
    assert order(bench, "edit", text="Prices with taxes.", importance="high").value == {"bullet": "b1", "done": "edit"}
    [one] = book(bench)
    assert (one.text, one.importance) == ("Prices with taxes.", Importance.HIGH)
    assert order(bench, "edit", text="Other words.").text == "b1 is changed."  # the same run: carried out already
    assert book(bench)[0].text == "Prices with taxes."


@pytest.mark.parametrize(
    ("do", "state", "pinned"), [("pin", BulletState.ACTIVE, True), ("forget", BulletState.FORGOTTEN, False)]
)
def test_pin_and_forget(bench: Any, do: str, state: BulletState, pinned: bool) -> None:
    keep(bench, add("b1", "Prices with VAT."))
    order(bench, do)
    one = bench.services.db.run_sync(lambda conn: playbook.find(conn, "b1"))
    assert (one.state, one.pinned) == (state, pinned)


def test_nobody_changes_anothers_bullet_and_no_schedule_changes_any(bench: Any) -> None:
    keep(bench, add("b1", "Prices with VAT."))
    keep(bench, add("g1", "For all.", Scope.everyone()), scope=Scope.everyone())
    for bullet, principal in (("b1", "eva"), ("g1", "ana"), ("b9", "ana")):
        with pytest.raises(UserError, match="no bullet"):
            order(bench, "forget", bullet, principal)
    order(bench, "pin", "g1", "owner")
    message = bench.state.entries[0].value.model_copy(update={"id": "schedule-x@2026-11-30T06:00:00Z"})
    bench.state.entries = [Stored.model_construct(id="1-0", run="r1", type=message.T, value=message)]
    with pytest.raises(UserError, match="only the user"):
        order(bench, "forget")
    with pytest.raises(ModelError, match="no command"):
        order(bench, "rewrite")
    assert [one.id for one in book(bench)] == ["b1"]


def bullet(id: str, text: str, **values: Any) -> Bullet:
    return Bullet(id=id, scope=ANA, text=text, **{"created_ms": 1, "updated_ms": 1, **values})


def test_upkeep_brings_duplicates_together_and_leaves_what_contradicts() -> None:
    texts = ["Weights in kilograms.", "Pesos en kilogramos.", "Weights in pounds.", "Prices with VAT."]
    angles = [(1.0, 0.0), (1.0, 0.2), (1.0, 0.3), (0.0, 1.0)]
    vectors: dict[str, Vector] = dict(zip(texts, map(unit, angles), strict=True))
    bullets = [bullet("b1", texts[0]), bullet("b2", texts[1], helpful=3), bullet("b4", texts[3])]
    assert upkeep(bullets, vectors, 1) == [Merge(ids=("b2", "b1"), text=texts[1])]
    pinned = [bullet("b1", texts[0], pinned=True), bullet("b2", texts[1], helpful=3)]
    assert upkeep(pinned, vectors, 1) == [Retire(id="b2", reason="says the same as b1")]
    assert upkeep([bullet("b1", texts[0]), bullet("b3", texts[2])], vectors, 1) == []


def test_upkeep_retires_what_did_harm_or_was_not_used() -> None:
    now = 400 * DAY
    bullets = [
        bullet("b1", "Harmful.", harmful=3, helpful=1, updated_ms=now),
        bullet("b2", "Unused.", importance=Importance.LOW, updated_ms=now - 61 * DAY),
        bullet("b3", "Used.", importance=Importance.LOW, last_used_ms=now - DAY),
        bullet("b4", "Important.", importance=Importance.HIGH),
        bullet("b5", "Pinned.", importance=Importance.LOW, pinned=True),
        bullet("b6", "Long unused.", updated_ms=now - 181 * DAY),
    ]
    done = {one.id: one.reason for one in upkeep(bullets, None, now) if isinstance(one, Retire)}
    assert done == {"b1": "did harm", "b6": "not used for 180 days", "b2": "not used for 60 days"}


def test_upkeep_tells_what_it_did_and_does_it_once(bench: Any) -> None:
    when = next(w.when for w in bench.registry.workflows.values() if w.spec.name == "playbook-upkeep")
    assert asyncio.run(when(bench.services)) is False
    keep(bench, add("b1", "Always give weights in kilograms."), add("b2", "Other thing."), now=bench.ctx().now_ms)
    keep(bench, Vote(id="b2", helpful=False), Vote(id="b2", helpful=False), now=bench.ctx().now_ms)
    keep(bench, add("b3", "Give the weights in kilograms"), Pin(id="b1"), now=bench.ctx().now_ms)
    assert asyncio.run(when(bench.services)) is True
    told = bench.run(TIDY, inputs={"params": {}}).value
    assert told["playbooks"] == 1
    assert told["changed"]["user ana"]["left"] == 1
    assert {one["id"]: one["why"] for one in told["changed"]["user ana"]["retired"]} == {
        "b2": "did harm",
        "b3": "says the same as b1",
    }
    assert bench.run(TIDY, inputs={"params": {}}).value == {"playbooks": 1, "changed": {}}
