import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ModelError
from shared.sql import Database, notes


def save(
    db: Database, title: str, text: str = "", tags: tuple[str, ...] = (), at: int = 1, who: str = "ana"
) -> notes.Note:
    return db.run_sync(lambda c: notes.save(c, who, title=title, text=text, tags=tags, now_ms=at))[0]


def found(db: Database, query: str, who: str = "ana") -> list[str]:
    return [note.title for note in db.run_sync(lambda c: notes.search(c, who, query))]


def test_saving_under_a_title_again_replaces(db: Database) -> None:
    first, created = db.run_sync(lambda c: notes.save(c, "ana", title="Lista", text="pan", tags=["casa"], now_ms=1))
    assert created
    second, created = db.run_sync(lambda c: notes.save(c, "ana", title="Lista", text="leche", now_ms=2))
    assert not created
    assert second == notes.Note(first.id, "ana", "Lista", "leche", (), 1, 2)
    assert db.run_sync(lambda c: notes.list_notes(c, "ana")) == [second]
    assert found(db, "pan") == []


def test_search_folds_case_and_accents_and_wants_every_word(db: Database) -> None:
    save(db, "Cumpleaños de Íñigo", "Comprar GLOBOS", ("familia", "Straße"), at=1)
    save(db, "Compra", "globos 100% algodón_fino \\ fin", at=2)
    assert found(db, "CUMPLEANOS inigo") == ["Cumpleaños de Íñigo"]
    assert found(db, "globos") == ["Compra", "Cumpleaños de Íñigo"]
    assert found(db, "strasse familia") == ["Cumpleaños de Íñigo"]
    assert found(db, "globos familia compra") == ["Cumpleaños de Íñigo"]
    assert found(db, "globos coche") == []
    assert found(db, "100%") == ["Compra"]
    assert found(db, "n_f") == ["Compra"]
    assert found(db, "a%a") == []
    assert found(db, "\\") == ["Compra"]
    assert len(found(db, "  ")) == 2


def test_search_refuses_what_no_database_should_be_asked(db: Database) -> None:
    for query in ("x" * 501, " ".join(f"w{n}" for n in range(33))):
        with pytest.raises(ModelError):
            found(db, query)


def test_lists_are_paged_last_changed_first(db: Database) -> None:
    for number in range(5):
        save(db, f"n{number}", at=number)
    page = db.run_sync(lambda c: notes.list_notes(c, "ana", limit=2, offset=1))
    assert [note.title for note in page] == ["n3", "n2"]


def test_update_changes_what_is_given_also_for_search(db: Database) -> None:
    note = save(db, "Título", "texto", ("a",), at=1)
    changed = db.run_sync(lambda c: notes.update(c, "ana", note.id, text="nuevo", now_ms=5))
    assert changed == notes.Note(note.id, "ana", "Título", "nuevo", ("a",), 1, 5)
    assert db.run_sync(lambda c: notes.get(c, "ana", note.id)) == changed
    assert found(db, "nuevo titulo a") == ["Título"]
    assert found(db, "texto") == []


def test_a_title_is_unique_bounded_and_not_empty(db: Database) -> None:
    save(db, "uno")
    other = save(db, "dos")
    save(db, "tres", who="eva")
    with pytest.raises(ModelError, match="has this title"):
        db.run_sync(lambda c: notes.update(c, "ana", other.id, title="uno", now_ms=2))
    assert db.run_sync(lambda c: notes.update(c, "ana", other.id, title="tres", now_ms=2)) is not None
    for title in ("", "x" * 201):
        with pytest.raises(ModelError, match="title"):
            save(db, title)
    save(db, "😀" * 200)


def test_delete(db: Database) -> None:
    note = save(db, "uno")
    assert db.run_sync(lambda c: notes.delete(c, "ana", note.id))
    assert not db.run_sync(lambda c: notes.delete(c, "ana", note.id))
    assert db.run_sync(lambda c: notes.get(c, "ana", note.id)) is None


def test_users_are_apart(db: Database) -> None:
    mine = save(db, "secreto", "clave")
    hers = save(db, "secreto", "otra", who="eva")
    assert mine.id != hers.id
    assert db.run_sync(lambda c: notes.get(c, "eva", mine.id)) is None
    assert db.run_sync(lambda c: notes.update(c, "eva", mine.id, text="robado", now_ms=9)) is None
    assert not db.run_sync(lambda c: notes.delete(c, "eva", mine.id))
    assert found(db, "clave", "eva") == []
    assert db.run_sync(lambda c: notes.list_notes(c, "eva")) == [hers]
    assert db.run_sync(lambda c: notes.list_notes(c, "ana")) == [mine]


SPANISH = "aábcdeéfghiíjklmnñoópqrstuúüvwxyz ABCÁÉÍÑÓÚÜßçàèôß\u0301\u0303"


@pytest.mark.property
@given(st.text())
def test_folding_is_stable(text: str) -> None:
    once = notes.fold(text)
    assert notes.fold(once) == once


@pytest.mark.property
@given(st.text(SPANISH))
def test_folding_forgets_case_and_how_accents_are_written(text: str) -> None:
    assert notes.fold(text.upper()) == notes.fold(text.lower()) == notes.fold(text)
    assert notes.fold(unicodedata.normalize("NFC", text)) == notes.fold(unicodedata.normalize("NFD", text))


@pytest.mark.property
@given(st.text(), st.text(), st.text())
def test_folding_keeps_parts_that_stand_apart(before: str, part: str, after: str) -> None:
    assert notes.fold(part) in notes.fold(f"{before}\n{part}\n{after}")
