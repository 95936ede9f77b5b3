"""The measurement of routing: its input, its figures, its two outputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.routing import evaluate
from shared.errors import UserError
from tests.unit.routing.support import WordEncoder, catalogue

KEYS = ["file", "lang", "layer", "top1", "top3", "top5", "oos_precision", "oos_recall", "oos_f1", "us"]


def labelled(tmp_path: Path) -> Path:
    rows: list[dict[str, str | None]] = []
    for group in catalogue().groups:
        for lang, sentences in group.examples.items():
            for sentence in sentences:
                rows.append({"text": sentence, "label": group.name, "lang": lang, "split": "train"})
                rows.append({"text": f"please {sentence}", "label": group.name, "lang": lang, "split": "test"})
    rows.append({"text": "how do black holes and jet engines work", "label": None, "lang": "en", "split": "test"})
    rows.append({"text": "why do cats knock things off", "label": "unheard of", "lang": "en", "split": "test"})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n", "utf-8")
    return path


def test_every_layer_in_every_pair_of_languages(tmp_path: Path) -> None:
    rows = evaluate.evaluate([labelled(tmp_path)], WordEncoder())
    assert {(row.lang, row.layer) for row in rows} == {
        (lang, layer) for lang in ("es", "en", "es>en", "en>es") for layer in ("lexical", "centroids", "combined")
    }
    own = [row for row in rows if row.lang in ("es", "en")]
    assert all(row.top1 is not None and row.top1 > 80 for row in own)
    assert all(row.top1 <= row.top3 <= row.top5 == 100 for row in own if row.top1 and row.top3 and row.top5)
    assert all(row.us > 0 for row in rows)
    english = next(row for row in rows if (row.lang, row.layer) == ("en", "combined"))
    assert english.top1 == 100.0, "a label without examples is out of scope, not a miss"
    assert english.oos_f1 is not None
    spanish = next(row for row in rows if (row.lang, row.layer) == ("es", "combined"))
    assert spanish.oos_f1 is None


def test_figures_are_counted_as_defined() -> None:
    scores = np.array([[3, 2, 1], [1, 2, 3], [1, 3, 2], [0, 0, 0]], dtype=float)
    assert evaluate._places(scores, np.array([0, 1, 0, -1])).tolist() == [0, 1, 2]
    assert evaluate._accuracy(np.array([0, 1, 2])) == (33.3, 100.0, 100.0)
    assert evaluate._accuracy(evaluate._places(scores, np.array([-1, -1, -1, -1]))) == (None, None, None)
    abstained, outside = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert evaluate._abstention(abstained, outside) == (0.5, 0.5, 0.5)
    assert evaluate._abstention(~outside, outside) == (0.0, 0.0, 0.0)


GOOD: dict[str, str | None] = {"text": "a", "label": None, "lang": "en", "split": "test"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "a JSON object is wanted"),
        ("3", "a JSON object is wanted"),
        ('{"text": "a", "label": null, "lang": "en"}', "split missing"),
        ('{"text": "a", "label": "b"}', "lang and split missing"),
        (json.dumps(GOOD | {"label": 3}), "label has to be a string, or null"),
        (json.dumps(GOOD | {"text": None}), "text has to be a string"),
        (json.dumps(GOOD | {"lang": 1}), "lang has to be a string"),
        ("\udcff", "utf-8"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(f"{json.dumps(GOOD)}\n\n{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=rf"bad\.jsonl:\d.*{reason}") as raised:
        evaluate.read(path)
    assert reason == "utf-8" or "bad.jsonl:3" in str(raised.value)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@pytest.mark.property
@given(VALUES | st.dictionaries(st.sampled_from([*GOOD, "more"]), VALUES))
def test_whatever_a_line_holds_it_is_a_row_or_said_to_be_none(value: object) -> None:
    try:
        row = evaluate._query(value)
    except ValueError:
        return  # anything else would reach whoever called the command
    assert isinstance(value, dict)
    assert (row.text, row.label, row.lang, row.split) == tuple(value[name] for name in GOOD)


def test_separators_inside_a_text_do_not_end_its_line_and_other_splits_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [GOOD | {"text": "one\u2028two"}, GOOD | {"split": "validation"}]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    assert [(row.text, row.split) for row in evaluate.read(path)] == [("one\u2028two", "test"), ("a", "validation")]


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_file_without_examples_or_without_queries_is_refused(tmp_path: Path, split: str) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text(json.dumps(GOOD | {"split": split, "label": "x"}) + "\n")
    with pytest.raises(UserError, match=r"half\.jsonl has no"):
        evaluate.evaluate([path], WordEncoder())


def test_classes_of_one_example_and_nothing_but_strangers_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    rows: list[dict[str, str | None]] = [
        {"text": f"say {word}", "label": word, "lang": "en", "split": "train"} for word in ("red", "green", "blue")
    ]
    rows += [GOOD | {"text": "why do cats purr"}, GOOD | {"text": "bake bread"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = evaluate.evaluate([path], WordEncoder())
    assert [row.layer for row in measured] == ["lexical", "centroids", "combined"]
    assert all(row.top1 is None and row.oos_f1 is not None for row in measured)


def test_queries_are_encoded_in_parts_that_change_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(encoder: WordEncoder) -> list[evaluate.Row]:
        return [replace(row, us=0) for row in evaluate.evaluate([labelled(tmp_path)], encoder)]

    whole, encoder = figures(WordEncoder()), WordEncoder()
    monkeypatch.setattr(evaluate, "_AT_ONCE", 4)
    assert figures(encoder) == whole
    queries = [call for call in encoder.calls if "do ghosts exist" not in call]
    assert 1 < max(len(call) for call in queries) <= 4


def test_the_command_prints_json_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "PackagedEncoder", WordEncoder)
    path = str(labelled(tmp_path))
    assert evaluate.main([path, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(list(row) == KEYS for row in rows)
    assert evaluate.main([path]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["file", "lang", "layer"]
    assert evaluate.main([str(tmp_path / "missing.jsonl")]) == 2
    assert "missing.jsonl" in capsys.readouterr().err
