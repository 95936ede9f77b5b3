"""A delivery is tried by one at a time, and a try that began and did not end is known."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from shared.sql import Database, deliveries
from shared.sql.deliveries import KEPT_MS, STALE_MS, Delivery, DeliveryState, Taken

NOW = 1_800_000_000_000


def a_delivery(id: str = "r1.hook", **values: Any) -> Delivery:
    one = Delivery(id, "ana", "hook", session="s", run="r1", title="t", text="x", created_ms=NOW, due_ms=NOW)
    return replace(one, **values)


def put(db: Database, one: Delivery) -> None:
    db.run_sync(lambda c: deliveries.add(c, one))


def take(db: Database, mark: str, now_ms: int = NOW, principal: str = "ana", id: str = "r1.hook") -> Taken | None:
    return db.run_sync(lambda c: deliveries.take(c, principal, id, mark, now_ms))


def end(db: Database, mark: str, state: DeliveryState, due_ms: int = NOW) -> bool:
    return db.run_sync(lambda c: deliveries.end(c, "r1.hook", mark, state, "why", due_ms))


def test_of_many_one_takes_it(db: Database) -> None:
    put(db, a_delivery())
    put(db, a_delivery(text="other"))  # the same again changes nothing
    found: list[Taken | None] = []
    threads = [threading.Thread(target=lambda n=n: found.append(take(db, f"n{n}"))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (taken,) = [one for one in found if one is not None]
    assert (taken.delivery.attempts, taken.delivery.text, taken.interrupted) == (1, "x", False)


def test_a_try_that_ended_is_not_made_again(db: Database) -> None:
    put(db, a_delivery())
    assert take(db, "n1", principal="eva") is None
    assert take(db, "n1") is not None
    assert not end(db, "n2", DeliveryState.SENT)  # somebody else's
    assert end(db, "n1", DeliveryState.SENT)
    assert not end(db, "n1", DeliveryState.FAILED)
    assert take(db, "n1") is None
    assert take(db, "n1", NOW + STALE_MS) is None
    assert not db.run_sync(lambda c: deliveries.any_due(c, NOW + STALE_MS))


def test_the_next_try_waits_for_its_time(db: Database) -> None:
    put(db, a_delivery())
    take(db, "n1")
    assert end(db, "n1", DeliveryState.PENDING, NOW + 100)
    assert take(db, "n2", NOW + 99) is None
    assert db.run_sync(lambda c: deliveries.due(c, NOW + 99)) == []
    assert [one.error for one in db.run_sync(lambda c: deliveries.due(c, NOW + 100))] == ["why"]
    again = take(db, "n2", NOW + 100)
    assert again is not None
    assert (again.delivery.attempts, again.interrupted) == (2, False)


def test_a_try_whose_maker_died_is_known_as_such(db: Database) -> None:
    put(db, a_delivery())
    take(db, "n1")
    assert take(db, "n2", NOW + STALE_MS - 1) is None
    same = take(db, "n1", NOW + 1)  # the same node, run again by another worker
    assert same is not None
    assert same.interrupted
    assert [one.id for one in db.run_sync(lambda c: deliveries.due(c, NOW + 1 + STALE_MS))] == ["r1.hook"]
    later = take(db, "n2", NOW + 1 + STALE_MS)
    assert later is not None
    assert later.interrupted
    assert not end(db, "n1", DeliveryState.SENT)


def test_what_is_over_is_forgotten_in_the_end(db: Database) -> None:
    put(db, a_delivery())
    put(db, a_delivery("r2.hook"))
    take(db, "n1")
    end(db, "n1", DeliveryState.SENT)
    put(db, a_delivery("r3.hook", created_ms=NOW + KEPT_MS + 1))
    assert db.run_sync(lambda c: deliveries.get(c, "r1.hook")) is None
    assert db.run_sync(lambda c: deliveries.get(c, "r2.hook")) is not None  # it still waits
