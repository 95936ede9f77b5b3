import asyncio
import hashlib

import pytest

from shared.artifacts import Artifact, ArtifactStore, SqlArtifacts, content_handle
from shared.errors import ModelError
from shared.sql import Database, retention


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def put(store: ArtifactStore, data: bytes, who: str = "ana", media_type: str = "text/plain") -> str:
    return asyncio.run(store.put(who, data, media_type))


def get(store: ArtifactStore, handle: str, who: str = "ana") -> Artifact:
    return asyncio.run(store.get(who, handle))


def purge(db: Database, clock: Clock) -> int:
    return db.run_sync(lambda conn: retention.expired_artifacts(conn, int(clock() * 1000), 10))


def test_a_value_comes_back_by_its_content_handle(db: Database) -> None:
    store = SqlArtifacts(db)
    data = bytes(range(256)) * 1000
    handle = put(store, data, media_type="image/png")
    assert handle == "a:" + hashlib.sha256(data).hexdigest()[:32] == content_handle(data)
    assert put(store, data, media_type="image/png") == handle
    assert get(store, handle) == Artifact(data, "image/png")
    assert get(store, put(store, b"")) == Artifact(b"", "text/plain")


def test_another_user_cannot_read_it_and_has_an_own_copy(db: Database) -> None:
    store = SqlArtifacts(db)
    handle = put(store, b"secret")
    with pytest.raises(ModelError, match="no artifact"):
        get(store, handle, "eva")
    assert put(store, b"secret", "eva") == handle
    assert get(store, handle, "eva").data == b"secret"


def test_too_large_is_refused(db: Database) -> None:
    store = SqlArtifacts(db, max_bytes=3)
    put(store, b"123")
    with pytest.raises(ModelError) as failure:
        put(store, b"1234")
    assert failure.value.code == "too_large"


@pytest.mark.parametrize("handle", ["", "a:", "a:zz", "a:" + "0" * 64, "a:" + "%" * 32, "x:" + "0" * 32])
def test_what_is_no_handle_is_said_to_be_none(db: Database, handle: str) -> None:
    with pytest.raises(ModelError, match="handle"):
        get(SqlArtifacts(db), handle)


def test_values_expire_and_are_purged_unless_put_again(db: Database) -> None:
    clock = Clock()
    store = SqlArtifacts(db, ttl_s=10, clock=clock)
    old, renewed = put(store, b"old"), put(store, b"renewed")
    kept = put(SqlArtifacts(db, clock=clock), b"kept")
    put(store, b"kept")
    clock.now += 6
    put(store, b"renewed")
    assert purge(db, clock) == 0
    clock.now += 5
    with pytest.raises(ModelError, match="expired"):
        get(store, old)
    assert purge(db, clock) == 1
    assert get(store, renewed).data == b"renewed"
    clock.now += 100
    assert purge(db, clock) == 1
    assert get(store, kept).data == b"kept"


def test_a_shorter_time_does_not_shorten_what_was_promised(db: Database) -> None:
    clock = Clock()
    handle = put(SqlArtifacts(db, ttl_s=100, clock=clock), b"data")
    put(SqlArtifacts(db, ttl_s=1, clock=clock), b"data")
    clock.now += 50
    assert get(SqlArtifacts(db, clock=clock), handle).data == b"data"
