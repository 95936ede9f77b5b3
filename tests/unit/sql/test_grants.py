import pytest

from shared.permissions import Grant
from shared.sql import Database
from shared.sql.grants import add_grant, grants_of, remove_grant


def grant(id: str = "g1", **fields: str) -> Grant:
    base = {"tool": "shell_run", "rule_id": "r1", "agent": "default", "principal": "ana", "by_text": "yes"}
    return Grant.model_validate({"scope": "always", **base, **fields, "id": id})


def test_grants_are_kept_until_they_are_taken_back(db: Database) -> None:
    first = db.run_sync(lambda c: add_grant(c, grant(), now_ms=5))
    assert first == grant().model_copy(update={"created_ms": 5})
    second = db.run_sync(lambda c: add_grant(c, grant("g0", tool="web_get"), now_ms=6))
    assert db.run_sync(lambda c: grants_of(c, "ana")) == [first, second]
    assert db.run_sync(lambda c: remove_grant(c, "ana", "g1"))
    assert not db.run_sync(lambda c: remove_grant(c, "ana", "g1"))
    assert db.run_sync(lambda c: grants_of(c, "ana")) == [second]


@pytest.mark.parametrize("again", ["g1", "g2"])
def test_the_same_grant_again_is_the_first_one(db: Database, again: str) -> None:
    first = db.run_sync(lambda c: add_grant(c, grant(), now_ms=5))
    assert db.run_sync(lambda c: add_grant(c, grant(again, by_text="yes, again"), now_ms=6)) == first
    assert db.run_sync(lambda c: grants_of(c, "ana")) == [first]


def test_users_are_apart(db: Database) -> None:
    kept = db.run_sync(lambda c: add_grant(c, grant(), now_ms=5))
    db.run_sync(lambda c: add_grant(c, grant("g2", principal="eva"), now_ms=5))
    assert not db.run_sync(lambda c: remove_grant(c, "eva", "g1"))
    assert db.run_sync(lambda c: grants_of(c, "ana")) == [kept]


@pytest.mark.parametrize("passing", [{"scope": "session"}, {"args_hash": "0" * 64}])
def test_what_is_not_for_good_is_not_kept(db: Database, passing: dict[str, str]) -> None:
    one = grant(**passing)
    with pytest.raises(ValueError, match="not one for good"):
        db.run_sync(lambda c: add_grant(c, one, now_ms=5))
    assert db.run_sync(lambda c: grants_of(c, "ana")) == []
