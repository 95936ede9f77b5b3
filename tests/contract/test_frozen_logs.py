"""A new version reads the logs that old ones wrote.

The rule: never regenerate or edit a file in `tests/data/frozen_logs`. What is there was written by a version that
people have run, and sessions of that time are still in somebody's Redis. If a test here fails, the fold is wrong, not
the file. Whoever adds a kind of entry, or changes what one means, adds a scene to `frozen_logs.py` and its files.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from shared.contract import VERSION
from shared.entries import LOG_TYPES, decode
from shared.fold import SessionFold
from tests.contract.frozen_logs import FIELDS, FOLDER, SCENES, folded, read

pytestmark = pytest.mark.contract

LOGS = sorted(FOLDER.glob("*.jsonl"))
STRANGER = {"t": "moon.phase", "v": "1", "d": '{"phase":"full"}'}
NEWER = {"t": "user.message", "v": str(VERSION + 1), "d": '{"form":"of tomorrow"}'}


def expected(path: Path) -> object:
    return json.loads(path.with_suffix(".json").read_text("utf-8"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_fold_of_an_old_log_is_what_it_was(path: Path) -> None:
    entries = read(path)
    assert all(tuple(entry) == FIELDS for entry in entries)
    assert folded(entries) == expected(path)


def test_every_scene_and_nearly_every_kind_of_entry_is_recorded() -> None:
    assert {scene.__name__ for scene in SCENES} <= {path.stem for path in LOGS}
    recorded = {entry["t"] for path in LOGS for entry in read(path)}
    assert recorded <= set(LOG_TYPES), "an entry that was written once must be known for good"
    assert len(recorded) >= 11


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_what_a_newer_version_adds_is_passed_over(path: Path) -> None:
    """Entries of unknown types and versions among the known ones, and unknown fields in those."""
    mixed = []
    for entry in read(path):
        foreign = {"id": entry["id"], "run": entry["run"]}
        values = {**json.loads(entry["d"]), "added_by_a_newer_version": {"deep": [1]}}
        mixed += [STRANGER | foreign, {**entry, "d": json.dumps(values), "also": "new"}, NEWER | foreign]
    assert folded(mixed) == expected(path)


@pytest.mark.property
@given(st.data())
def test_strangers_anywhere_change_nothing(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(LOGS))
    entries = read(path)
    for at in sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=8)), reverse=True):
        kind = data.draw(st.text(min_size=1, max_size=12).filter(lambda text: text not in LOG_TYPES))
        near = entries[min(at, len(entries) - 1)]
        entries.insert(at, {"id": near["id"], "t": kind, "v": "1", "run": near["run"], "d": data.draw(st.text())})
    assert folded(entries) == expected(path)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_entries_that_lack_every_optional_field_are_read(path: Path) -> None:
    """As the first version that had the entry wrote it: what came later has a default."""
    fold = SessionFold()
    for entry in read(path):
        value = decode(entry["id"], entry).value
        assert value is not None
        bare = {"id": entry["id"], "t": entry["t"], "run": entry["run"], "d": json.dumps(_required(value))}
        stored = decode(entry["id"], bare)
        assert type(stored.value) is type(value)
        fold.apply(stored)
    runs = [run for run in fold.runs.values() if run.message is not None]
    assert runs
    assert all(run.ended is not None and not run.open_nodes for run in runs)


def _required(value: BaseModel) -> dict[str, object]:
    """The fields without a default, and in them the same."""
    return {
        name: _bare(getattr(value, name)) for name, field in type(value).model_fields.items() if field.is_required()
    }


def _bare(value: object) -> object:
    if isinstance(value, BaseModel):
        return {**_required(value), **({"type": kind} if (kind := getattr(value, "type", None)) else {})}
    if isinstance(value, tuple | list):
        return [_bare(item) for item in value]
    return json.loads(json.dumps(value, default=str))
