from __future__ import annotations

from typing import Any

import pytest

from shared.errors import ModelError


def test_a_note_is_saved_found_changed_and_deleted(bench: Any) -> None:
    saved = bench.run("note_save", title="Llave", text="En el cajón de arriba", tags=["casa"])
    assert saved.value["created"] is True
    assert 'Saved note "Llave"' in saved.seen
    assert bench.run("note_search", query="cajon casa").value["notes"][0]["text"] == "En el cajón de arriba"
    changed = bench.run("note_update", id=saved.value["id"], text="En la cocina")
    assert changed.value["title"] == "Llave"
    assert bench.run("note_list").seen == f"- Llave (id {saved.value['id']}) [casa]: En la cocina"
    assert bench.run("note_delete", id=saved.value["id"]).value["deleted"] is True
    assert bench.run("note_list").seen == "There are no notes."


def test_changes_may_be_repeated(bench: Any) -> None:
    first = bench.run("note_save", title="A", text="one")
    again = bench.run("note_save", title="A", text="one")
    assert again.value["id"] == first.value["id"]
    assert again.value["created"] is False
    assert len(bench.run("note_list").value["notes"]) == 1
    bench.run("note_delete", id=first.value["id"])
    assert bench.run("note_delete", id=first.value["id"]).value["deleted"] is False


def test_notes_of_one_user_are_never_anothers(bench: Any) -> None:
    note = bench.run("note_save", title="A", text="mine").value["id"]
    assert bench.run("note_list", principal="eva").value["notes"] == []
    assert bench.run("note_search", principal="eva", query="mine").value["notes"] == []
    assert bench.run("note_delete", principal="eva", id=note).value["deleted"] is False
    with pytest.raises(ModelError, match="there is no note"):
        bench.run("note_update", principal="eva", id=note, text="stolen")
    assert bench.run("note_search", query="mine").value["notes"][0]["text"] == "mine"


def test_the_best_match_is_first_and_some_words_are_better_than_none(bench: Any) -> None:
    bench.run("note_save", title="Varios", text="el seguro de la casa, el coche y más")
    bench.run("note_save", title="Seguro del coche", text="póliza 77")
    bench.run("note_save", title="Coches", text="aseguradora", tags=["seguro"])
    titles = [note["title"] for note in bench.run("note_search", query="SEGURO coche").value["notes"]]
    assert titles == ["Seguro del coche", "Coches", "Varios"]
    some = bench.run("note_search", query="póliza barco")
    assert [note["title"] for note in some.value["notes"]] == ["Seguro del coche"]
    assert some.seen.startswith("No note holds all the words")
    assert bench.run("note_search", query="barco vela").seen == "No note holds any of: barco vela"
    assert len(bench.run("note_search", query="seguro", limit=2).value["notes"]) == 2


def test_an_update_without_a_change_says_so(bench: Any) -> None:
    with pytest.raises(ModelError, match="nothing to change"):
        bench.run("note_update", id="n1")


def test_a_reminder_is_set_in_the_users_zone_listed_and_cancelled(bench: Any) -> None:
    one = bench.run("reminder_add", text="Llamar al banco", at="mañana a las 9")
    assert one.value["at"] == "2026-11-11T09:00:00+01:00"
    assert "Wednesday 2026-11-11 09:00 (Europe/Madrid)" in one.seen
    assert one.value["id"] in bench.run("reminder_list").seen
    assert bench.run("reminder_list", principal="eva").value["reminders"] == []
    assert bench.run("reminder_cancel", principal="eva", id=one.value["id"]).value["cancelled"] is False
    assert bench.run("reminder_cancel", id=one.value["id"]).value["cancelled"] is True
    assert bench.run("reminder_list").seen == "No reminders are pending."


def test_a_time_that_is_not_understood_is_answered_with_the_forms(bench: Any) -> None:
    with pytest.raises(ModelError, match=r"cannot read a time from 'soonish'.*in 20 minutes"):
        bench.run("reminder_add", text="x", at="soonish")
    with pytest.raises(ModelError, match="in the past"):
        bench.run("reminder_add", text="x", at="2020-01-01T10:00")
    assert bench.run("reminder_list").value["reminders"] == []
