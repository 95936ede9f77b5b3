"""Measures routing on labelled files.

A file holds one JSON object a line: `text`, `label` (null: out of scope, routing should abstain), `lang`, `split`.
The rows of split `train` are the examples, those of `test` the queries; rows of other splits are left out. A query
whose label has no example in the language of the examples is out of scope too: nothing could find it.

Layers, each alone, so that what it adds can be seen: `lexical` (tf-idf, no encoder), `centroids` (plain cosine with
class means of the encoder's vectors), `combined` (what the router uses: whitening, a logistic head over meaning and
words, names of classes, centroids, background). Out-of-scope figures of each are at the threshold that the examples
alone set.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.routing import calibrate
from coordinator.routing.centroids import Bools, Examples, Fit, Scorer, Training, combined
from coordinator.routing.forms import in_forms
from coordinator.routing.lexical import LexicalIndex, Scores
from coordinator.routing.linear import Classes, means
from coordinator.routing.text import tokens
from shared.encoder import Encoder, PackagedEncoder, one_thread
from shared.errors import CapatazError, UserError

_TIMED = 100  # queries of which the time is taken one by one
_AT_ONCE = 2048  # queries that are encoded and scored together, so that memory does not grow with the file


@dataclass(frozen=True, slots=True)
class Query:
    """A line of a file."""

    text: str
    label: str | None
    lang: str
    split: str


@dataclass(frozen=True)
class Row:
    """One line of the result. Percentages 0..100 but `oos_*` 0..1; None where there is nothing to measure.

    `lang` is the language of the queries, `en>es` where the examples were English and the queries Spanish. `us` is
    the median time of one query in microseconds, its encoding included.
    """

    file: str
    lang: str
    layer: str
    top1: float | None
    top3: float | None
    top5: float | None
    oos_precision: float | None
    oos_recall: float | None
    oos_f1: float | None
    us: float


def read(path: Path) -> list[Query]:
    """The rows of a file. Raises UserError naming file and line when one is not as described."""
    rows = []
    number = 1
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for line in lines:
                if line.strip():
                    rows.append(_query(json.loads(line)))
                number += 1
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except ValueError as error:  # no JSON, no UTF-8, or no row
        raise UserError(
            f"{path}:{number} is not a labelled row: {error}",
            hint='one JSON object a line in UTF-8 with "text", "label" (or null), "lang" and "split"',
        ) from error
    return rows


def _query(value: Any) -> Query:
    """The row that a line's value stands for. Raises ValueError saying what is wrong with it."""
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is wanted, not {json.dumps(value)[:40]}")
    if missing := [name for name in ("text", "label", "lang", "split") if name not in value]:
        raise ValueError(f"{' and '.join(missing)} missing")
    text, label, lang, split = value["text"], value["label"], value["lang"], value["split"]
    if wrong := [name for name in ("text", "lang", "split") if not isinstance(value[name], str)]:
        raise ValueError(f"{wrong[0]} has to be a string")
    if not (label is None or isinstance(label, str)):
        raise ValueError("label has to be a string, or null for what is out of scope")
    return Query(text, label, lang, split)


def evaluate(files: Sequence[Path], encoder: Encoder | None = None) -> list[Row]:
    """The rows of all files, for each language and from each language to each other; see the module's description.

    The packaged encoder by default. Raises UserError for a malformed file, and for one without examples or queries.
    """
    encoder = in_forms(encoder or PackagedEncoder())
    found: list[Row] = []
    for path in files:
        rows = read(path)
        examples = [row for row in rows if row.split == "train" and row.label is not None]
        queries = [row for row in rows if row.split == "test"]
        for part, what in ((examples, 'labelled row of split "train"'), (queries, 'row of split "test"')):
            if not part:
                raise UserError(f"{path} has no {what}", hint="examples are of split train, queries of split test")
        targets = list(dict.fromkeys(row.lang for row in queries))
        for source in dict.fromkeys(row.lang for row in examples):
            learnt = _learn([row for row in examples if row.lang == source], encoder)
            for target in targets:
                lang = target if source == target else f"{source}>{target}"
                found += _measure(path.name, lang, learnt, [row for row in queries if row.lang == target], encoder)
    return found


def _lexical(training: Training) -> Scorer:
    index = LexicalIndex(training.examples.sentences, training.examples.classes.tolist(), len(training.examples.labels))
    none = len(training.examples.labels)
    return lambda sentences, _asked: np.array([index.scores(tokens(text)) for text in sentences]).reshape(-1, none)


def _cosine(training: Training) -> Scorer:
    middles = means(training.own.meant, training.examples.classes, len(training.examples.labels))
    return lambda _sentences, asked: (asked @ middles.T).astype(np.float64)


_LAYERS: tuple[tuple[str, Fit, bool], ...] = (
    ("lexical", _lexical, False),
    ("centroids", _cosine, True),
    ("combined", combined, True),
)
"""Name, how it is learnt, and whether a query has to be encoded."""


@dataclass(frozen=True)
class _Layer:
    """A layer that has learnt from examples of the classes `labels`."""

    name: str
    encodes: bool
    labels: tuple[str, ...]
    score: Scorer
    threshold: float


def _learn(rows: Sequence[Query], encoder: Encoder) -> list[_Layer]:
    examples = Examples.of([(row.label or "", row.text) for row in rows])
    texts = Training.texts(examples)
    training = Training.of(examples, dict(zip(texts, encoder.encode(texts), strict=True)))
    with one_thread():
        return [
            _Layer(name, encodes, examples.labels, fit(training), calibrate.threshold(fit, training))
            for name, fit, encodes in _LAYERS
        ]


def _measure(file: str, lang: str, layers: Sequence[_Layer], test: Sequence[Query], encoder: Encoder) -> list[Row]:
    places: list[list[Classes]] = [[] for _ in layers]
    best: list[list[Scores]] = [[] for _ in layers]
    truths = []
    for part in _parts(test):
        texts = [row.text for row in part]
        asked = encoder.encode(texts)
        truth = _truth(part, layers[0].labels)
        truths.append(truth)
        for at, layer in enumerate(layers):
            with one_thread():
                scores = layer.score(texts, asked)
            places[at].append(_places(scores, truth))
            best[at].append(scores.max(axis=1))
    outside = np.concatenate(truths) < 0
    rows = []
    for at, layer in enumerate(layers):
        top = _accuracy(np.concatenate(places[at]))
        abstained = _abstention(np.concatenate(best[at]) < layer.threshold, outside)
        micros = _median_us(layer.score, [row.text for row in test[:_TIMED]], encoder if layer.encodes else None)
        rows.append(Row(file, lang, layer.name, *top, *abstained, micros))
    return rows


def _parts(test: Sequence[Query]) -> Iterator[list[Query]]:
    left = iter(test)
    while part := list(islice(left, _AT_ONCE)):
        yield part


def _truth(test: Sequence[Query], labels: Sequence[str]) -> Classes:
    """The class of each query, -1 for what is out of scope."""
    at = {label: index for index, label in enumerate(labels)}
    return np.array([-1 if row.label is None else at.get(row.label, -1) for row in test], dtype=np.intp)


def _places(scores: Scores, truth: Classes) -> Classes:
    """How many classes stand before the right one, for each query in scope; of equal scores the earlier class wins."""
    inside = truth >= 0
    order = np.argsort(-scores[inside], axis=1, kind="stable")
    return np.asarray((order == truth[inside][:, None]).argmax(axis=1), dtype=np.intp)


def _accuracy(places: Classes) -> tuple[float | None, float | None, float | None]:
    """Percent of the queries in scope whose class is among the best 1, 3 and 5, from `_places`."""
    if not len(places):
        return None, None, None
    first, third, fifth = (round(100 * float((places < k).mean()), 1) for k in (1, 3, 5))
    return first, third, fifth


def _abstention(abstained: Bools, outside: Bools) -> tuple[float | None, float | None, float | None]:
    """Precision, recall and F1 of abstaining, None where nothing is out of scope."""
    if not outside.any():
        return None, None, None
    right = int((abstained & outside).sum())
    precision = right / max(int(abstained.sum()), 1)
    recall = right / int(outside.sum())
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return round(precision, 3), round(recall, 3), round(f1, 3)


def _median_us(score: Scorer, texts: Sequence[str], encoder: Encoder | None) -> float:
    """Median microseconds of one query, encoding it when there is an encoder."""
    nothing = np.zeros((1, 0), dtype=np.float32)
    took = []
    for text in texts:
        start = time.perf_counter()
        score([text], nothing if encoder is None else encoder.encode([text]))
        took.append(time.perf_counter() - start)
    return round(1e6 * float(np.median(took)), 1)


def _table(rows: Sequence[Row]) -> str:
    cells = [list(asdict(rows[0])), *([_cell(value) for value in asdict(row).values()] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """The command: prints a table, or one JSON list of rows. Exit code 2 for a file that cannot be used."""
    parser = argparse.ArgumentParser(prog="capataz route eval", description="Measure routing on labelled files.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSONL: text, label or null, lang, split")
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON list")
    chosen = parser.parse_args(argv)
    try:
        rows = evaluate(chosen.files)
    except CapatazError as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1))
    else:
        print(_table(rows))
    return 0
