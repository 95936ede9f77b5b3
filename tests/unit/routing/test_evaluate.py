"""The measurement of routing: its input, its figures, its two outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coordinator.routing import evaluate
from shared.errors import UserError
from tests.unit.routing.support import WordEncoder, catalogue

KEYS = {"file", "lang", "layer", "top1", "top3", "top5", "oos_precision", "oos_recall", "oos_f1", "us"}


def labelled(tmp_path: Path) -> Path:
    rows = []
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
    assert evaluate._accuracy(scores, np.array([0, 1, 0, -1])) == (33.3, 100.0, 100.0)
    assert evaluate._accuracy(scores, np.array([-1, -1, -1, -1])) == (None, None, None)
    abstained, outside = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert evaluate._abstention(abstained, outside) == (0.5, 0.5, 0.5)
    assert evaluate._abstention(~outside, outside) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"text": "a", "label": null, "lang": "en"}', "3"])
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"text": "a", "label": null, "lang": "en", "split": "test"}}\n{line}\n')
    with pytest.raises(UserError, match=r"bad\.jsonl:2"):
        evaluate.read(path)


def test_the_command_prints_json_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "PackagedEncoder", WordEncoder)
    path = str(labelled(tmp_path))
    assert evaluate.main([path, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(set(row) >= KEYS for row in rows)
    assert evaluate.main([path]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["file", "lang", "layer"]
    assert evaluate.main([str(tmp_path / "missing.jsonl")]) == 2
    assert "missing.jsonl" in capsys.readouterr().err
