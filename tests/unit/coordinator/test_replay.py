"""Recorded runs decide the same again; a recording in which anything was changed does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.replay import main, replay
from shared.errors import UserError
from shared.export import Export, Line, read, written

FOLDER = Path(__file__).parents[2] / "data" / "replays"
NAMES = sorted(p.stem for p in FOLDER.glob("*.jsonl"))


@cache
def recorded(name: str) -> Export:
    return read((FOLDER / f"{name}.jsonl").read_text("utf-8").split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_session_decides_the_same(name: str) -> None:
    report = replay(recorded(name))
    assert report.differences == []
    assert report.runs > 0
    assert report.decisions >= 2 * report.runs  # each asked a model, and ended or was told something


def test_there_are_recordings_of_what_matters() -> None:
    lines = [line for name in NAMES for line in recorded(name).lines]
    states = {line.d["result"]["state"] for line in lines if line.t == "node.result"}
    assert states >= {"done", "failed", "timed_out", "skipped", "refused", "cancelled"}
    assert {line.t for line in lines} >= {"steer", "nudge", "results.elided", "undone", "run.terms"}
    assert {line.d["finish_reason"] for line in lines if line.t == "run.ended"} >= {
        "stop",
        "loop",
        "cancelled",
        "budget_steps",
    }


# --- changes ------------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], None]


def _calls(d: dict[str, Any]) -> list[dict[str, Any]]:
    return [b for b in d["message"]["blocks"] if b["type"] == "tool_call"]


def _other_argument(d: dict[str, Any]) -> None:
    _calls(d)[0]["arguments"]["tag"] = "another"


def _other_tool(d: dict[str, Any]) -> None:
    _calls(d)[-1]["name"] = "probe_other"


def _one_call_less(d: dict[str, Any]) -> None:
    d["message"]["blocks"].remove(_calls(d)[-1])


def _other_text(d: dict[str, Any]) -> None:
    d["message"]["blocks"] = [{"type": "text", "text": "something else"}]


def _other_result(d: dict[str, Any]) -> None:
    d["result"]["text"], d["result"]["value"] = "something else", {"tag": "something else"}


def _other_state(d: dict[str, Any]) -> None:
    done = d["result"]["state"] == "done"
    d["result"]["state"] = "failed" if done else "done"
    d["result"]["error"] = {"code": "tool_error", "message": "no"} if done else None


def _other_needs(d: dict[str, Any]) -> None:
    d["needs"] = [] if d["needs"] else [d["node"] + "x"]


def _other_arguments(d: dict[str, Any]) -> None:
    d["args"] = {**d["args"], "tag": "another"}


def _other_fingerprint(d: dict[str, Any]) -> None:
    d["args_hash"] = "0" * 64


def _other_answer(d: dict[str, Any]) -> None:
    d["answer"] += "!"


def _other_reason(d: dict[str, Any]) -> None:
    d["finish_reason"] = "length"


def _other_nudge(d: dict[str, Any]) -> None:
    d["reason"] = "continue"


def _fewer_steps(d: dict[str, Any]) -> None:
    d["steps"] = 1


CHANGES: dict[str, tuple[Change, ...]] = {
    "assistant.message": (_other_argument, _other_tool, _one_call_less),
    "node.result": (_other_result, _other_state),
    "node.planned": (_other_needs, _other_arguments, _other_fingerprint),
    "run.ended": (_other_answer, _other_reason),
    "nudge": (_other_nudge,),
}


def changes() -> Iterator[tuple[str, int, Change]]:
    """Every change that can be made to one line of the recordings."""
    for name in NAMES:
        for number, line in enumerate(recorded(name).lines):
            for change in CHANGES.get(line.t, ()):
                if line.t == "assistant.message" and not _calls(dict(line.d)):
                    change = _other_text
                if change is _other_fingerprint and not line.d["args_hash"]:
                    continue
                if line.t == "run.ended" and line.d["finish_reason"] == "cancelled":
                    continue  # nothing that was decided here
                yield name, number, change


def changed(export: Export, number: int, change: Change) -> Export:
    lines = list(export.lines)
    d = copy.deepcopy(dict(lines[number].d))
    change(d)
    lines[number] = replace(lines[number], d=d)
    return replace(export, lines=tuple(lines))


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(changes())))
def test_whatever_is_changed_in_a_recording_is_reported(where: tuple[str, int, Change]) -> None:
    name, number, change = where
    assert replay(changed(recorded(name), number, change)).differences


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_missing_from_a_recording_is_reported(data: st.DataObject) -> None:
    export = recorded(data.draw(st.sampled_from(NAMES)))
    kinds = ("assistant.message", "node.planned", "node.result", "nudge", "steer", "undone", "results.elided")
    last = max(n for n, line in enumerate(export.lines) if line.saw)
    lost = data.draw(st.sampled_from([n for n, line in enumerate(export.lines[:last]) if line.t in kinds]))
    lines = tuple(line for n, line in enumerate(export.lines) if n != lost)
    assert replay(replace(export, lines=lines)).differences


def test_a_bound_that_would_have_ended_the_run_sooner() -> None:
    export = recorded("references")
    number = next(n for n, line in enumerate(export.lines) if line.t == "run.terms")
    [first, *_] = replay(changed(export, number, _fewer_steps)).differences
    assert first.what == "decision"
    assert first.replayed["reason"] == "budget_steps"


def test_arguments_are_compared_with_the_references_filled_in() -> None:
    export = recorded("references")
    fed = next(n for n, line in enumerate(export.lines) if line.t == "node.result" and line.d["node"].endswith("1.1.1"))
    found = {one.what: one for one in replay(changed(export, fed, _other_result)).differences}
    assert set(found) == {"arguments", "conversation shown to the model"}
    assert "something else" in json.dumps(found["arguments"].replayed)


def test_an_artifact_that_the_export_lacks() -> None:
    export = recorded("references")

    def too_large(d: dict[str, Any]) -> None:
        d["result"]["value"], d["result"]["artifact"] = None, "a:" + "0" * 32

    fed = next(n for n, line in enumerate(export.lines) if line.t == "node.result" and line.d["node"].endswith("1.1.1"))
    assert "artifact" in {one.what for one in replay(changed(export, fed, too_large)).differences}


def test_a_log_of_before_terms_were_kept() -> None:
    export = recorded("failure")
    lines = tuple(line for line in export.lines if line.t != "run.terms")
    assert replay(replace(export, lines=lines)).differences == []


def test_a_run_without_its_message_is_no_export() -> None:
    lines = tuple(
        Line(line.id, line.t, line.v, line.run, line.d)
        for line in recorded("failure").lines
        if line.t not in ("run.terms",)
    )
    headless = replace(recorded("failure"), lines=lines[1:])
    assert replay(headless).runs == 0  # nothing says that this was a run of an agent


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export = recorded("failure")
    number = next(n for n, line in enumerate(export.lines) if line.t == "run.ended")
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text("\n".join(written(export)) + "\n", "utf-8")
    bad.write_text("\n".join(written(changed(export, number, _other_answer))) + "\n", "utf-8")
    assert main([str(good)]) == 0
    assert "all the same" in capsys.readouterr().out
    assert main([str(bad)]) == 1
    assert "done!" in capsys.readouterr().out
    assert main(["--json", str(bad)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [one["what"] for one in report["differences"]] == ["decision"]


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"format": "capataz-export", "v": 99}', "\xff"])
def test_a_file_that_is_no_export(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(text, "latin-1")
    assert main([str(file)]) == 2
    assert capsys.readouterr().err.startswith("capataz: ")


def test_a_missing_file(tmp_path: Path) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2


def test_a_line_that_is_no_entry_is_named() -> None:
    text = list(written(recorded("failure")))
    text.insert(3, '{"id": "1-0", "t": "nudge"}')
    with pytest.raises(UserError, match="line 4"):
        read(text)
