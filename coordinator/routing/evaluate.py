"""Measures routing on labelled files.

A file holds one JSON object a line: `text`, `label` (null: out of scope, routing should abstain), `lang`, `split`.
The rows of split `train` are the examples, those of `test` the queries. A query whose label has no example in the
language of the examples is out of scope too: nothing could find it.

Layers, each alone, so that what it adds can be seen: `lexical` (tf-idf, no encoder), `centroids` (plain cosine with
class means of the encoder's vectors), `combined` (what the router uses: whitening, logistic head, centroids, lexical
score, background). Out-of-scope figures of each are at the threshold that the examples alone set.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coordinator.routing import calibrate
from coordinator.routing.centroids import Examples, Fit, Scorer, background, combined, lexical_rows
from coordinator.routing.lexical import Scores
from coordinator.routing.linear import Classes, means
from shared.encoder import Encoder, PackagedEncoder, Vectors, one_thread
from shared.errors import CapatazError, UserError

Bools = npt.NDArray[np.bool_]

_TIMED = 200  # queries of which the time is taken one by one


@dataclass(frozen=True)
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
    queries: int
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
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            row = Query(value["text"], value["label"], value["lang"], value["split"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}:{number} is not a labelled row: {error!r}",
                hint='one JSON object a line with "text", "label" (or null), "lang" and "split"',
            ) from error
        rows.append(row)
    return rows


def evaluate(files: Sequence[Path], encoder: Encoder | None = None) -> list[Row]:
    """The rows of all files, for each language and from each language to each other; see the module's description.

    The packaged encoder by default. Raises UserError for a malformed file.
    """
    encoder = encoder or PackagedEncoder()
    found: list[Row] = []
    for path in files:
        rows = read(path)
        strangers = background()
        texts = list(dict.fromkeys([*(row.text for row in rows), *strangers]))
        vectors = dict(zip(texts, encoder.encode(texts), strict=True))
        known = list(dict.fromkeys(row.lang for row in rows if row.split == "train" and row.label is not None))
        for source in known:
            train = [row for row in rows if row.split == "train" and row.lang == source and row.label is not None]
            for target in dict.fromkeys(row.lang for row in rows if row.split == "test"):
                test = [row for row in rows if row.split == "test" and row.lang == target]
                lang = target if source == target else f"{source}>{target}"
                found += _measure(path.name, lang, train, test, vectors, encoder)
    return found


def _lexical(examples: Examples, _vectors: Vectors, _unrelated: Vectors) -> Scorer:
    index = examples.index()
    return lambda sentences, _asked: lexical_rows(index, sentences)


def _cosine(examples: Examples, vectors: Vectors, _unrelated: Vectors) -> Scorer:
    middles = means(vectors, examples.classes, len(examples.labels))
    return lambda _sentences, asked: (asked @ middles.T).astype(np.float64)


_LAYERS: tuple[tuple[str, Fit, bool], ...] = (
    ("lexical", _lexical, False),
    ("centroids", _cosine, True),
    ("combined", combined, True),
)
"""Name, how it is learnt, and whether a query has to be encoded."""


def _measure(
    file: str, lang: str, train: list[Query], test: list[Query], vectors: dict[str, Vectors], encoder: Encoder
) -> list[Row]:
    examples = Examples.of([(row.label or "", row.text) for row in train])
    at = {label: index for index, label in enumerate(examples.labels)}
    truth = np.array([-1 if row.label is None else at.get(row.label, -1) for row in test], dtype=np.intp)
    texts = [row.text for row in test]
    own = np.stack([vectors[sentence] for sentence in examples.sentences])
    asked = np.stack([vectors[text] for text in texts])
    unrelated = np.stack([vectors[text] for text in background()])
    rows = []
    for layer, fit, encodes in _LAYERS:
        with one_thread():
            score = fit(examples, own, unrelated)
            threshold = calibrate.threshold(fit, examples, own, background(), unrelated)
            scores = score(texts, asked)
        micros = _median_us(score, texts[:_TIMED], encoder if encodes else None)
        top, abstained = _accuracy(scores, truth), _abstention(scores.max(axis=1) < threshold, truth < 0)
        rows.append(Row(file, lang, layer, len(texts), *top, *abstained, micros))
    return rows


def _accuracy(scores: Scores, truth: Classes) -> tuple[float | None, float | None, float | None]:
    """Percent of the queries in scope whose class is among the best 1, 3 and 5."""
    inside = truth >= 0
    if not inside.any():
        return None, None, None
    order = np.argsort(-scores[inside], axis=1, kind="stable")
    place = (order == truth[inside][:, None]).argmax(axis=1)
    first, third, fifth = (round(100 * float((place < k).mean()), 1) for k in (1, 3, 5))
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
    elif rows:
        print(_table(rows))
    return 0
