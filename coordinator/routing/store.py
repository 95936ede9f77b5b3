"""The fitted layer 2 on disk: one small file per encoder and set of sentences, in a byte or two a number."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.routing.centroids import Centroids
from coordinator.routing.linear import Whitening
from shared.encoder import Encoder, Vectors

_FORMAT = 3  # raise it with any change of the file or of how the model is fitted
_STEPS = 63  # of a matrix's numbers to either side of 0: less than a byte each once they are compressed
_KEPT = 8  # files of other catalogues and encoders that may stay beside the newest
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """What is worth keeping: the model, and the whitened vectors of single tools (none for a small catalogue)."""

    model: Centroids
    tools: Vectors

    def rounded(self) -> Stored:
        """As it comes back from disk, so that the process that built it decides like all others."""
        return _unpack(_pack(self))


def digest(encoder: Encoder, parts: Sequence[Sequence[str]]) -> str:
    """The key of a build: encoder, format and every sentence and label in order. 32 hex digits."""
    blob = json.dumps([_FORMAT, encoder.name, encoder.dim, parts], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(blob.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def load(folder: Path, key: str) -> Stored | None:
    """The build under `key`, None when there is none or its file is damaged."""
    try:
        with np.load(_path(folder, key), allow_pickle=False) as file:
            return _unpack({name: file[name] for name in file.files})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _log.warning("routing: %s cannot be read and is built anew: %s", _path(folder, key), error)
        return None


def save(folder: Path, key: str, stored: Stored) -> None:
    """Writes the file whole or not at all. A folder that cannot be written costs a build at each start, no more."""
    name = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".tmp", delete=False) as file:
            name = file.name
            np.savez_compressed(file, allow_pickle=False, **_pack(stored))
        os.replace(name, _path(folder, key))
        _prune(folder, key)
    except OSError as error:
        _log.warning("routing: cannot keep the centroids in %s: %s", folder, error)
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _path(folder: Path, key: str) -> Path:
    return folder / f"routing-{key}.npz"


def _prune(folder: Path, key: str) -> None:
    others = [path for path in folder.glob("routing-*.npz") if path != _path(folder, key)]
    for path in sorted(others, key=lambda p: p.stat().st_mtime, reverse=True)[_KEPT:]:
        path.unlink(missing_ok=True)


def _pack(stored: Stored) -> dict[str, Any]:
    """Matrices as whole numbers, each row scaled by its largest one; all else in half precision."""
    model = stored.model
    matrices = {
        "axes": model.whitening.axes,
        "centroids": model.centroids,
        "head": model.head,
        "words": model.words,
        "elsewhere": model.elsewhere,
        "tools": stored.tools,
    }
    values = {
        "centre": model.whitening.centre,
        "gains": model.whitening.gains,
        "threshold": np.array([model.threshold]),
    }
    packed: dict[str, Any] = {name: value.astype(np.float16) for name, value in values.items()}
    for name, rows in matrices.items():
        scales = np.asarray(np.abs(rows).max(axis=1, initial=1e-6) / _STEPS, dtype=np.float32)
        packed[name] = np.rint(rows / scales[:, None]).clip(-_STEPS, _STEPS).astype(np.int8)
        packed[f"{name}_scales"] = scales
    return packed


def _unpack(values: dict[str, Any]) -> Stored:
    def matrix(name: str) -> Vectors:
        return np.asarray(values[name] * values[f"{name}_scales"][:, None], dtype=np.float32)

    def vector(name: str) -> Vectors:
        return np.asarray(values[name], dtype=np.float32)

    model = Centroids(
        Whitening(vector("centre"), matrix("axes"), vector("gains")),
        matrix("centroids"),
        matrix("head"),
        matrix("words"),
        matrix("elsewhere"),
        float(vector("threshold")[0]),
    )
    return Stored(model, matrix("tools"))
