"""The fitted layer 2 on disk: one small file per encoder and set of sentences, in half precision or bytes."""

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

_FORMAT = 2  # raise it with any change of the file or of how the model is fitted
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
    """Vectors that are only ranked by their angle are kept as bytes of their largest number, all else in half
    precision."""
    model = stored.model
    values = {
        "centre": model.whitening.centre,
        "axes": model.whitening.axes,
        "gains": model.whitening.gains,
        "centroids": model.centroids,
        "head": model.head,
        "elsewhere": model.elsewhere,
        "threshold": np.array([model.threshold]),
        "scales": np.abs(stored.tools).max(axis=1, initial=1e-6),
    }
    tools = np.rint(stored.tools / values["scales"][:, None] * 127).astype(np.int8)
    return {"tools": tools} | {name: value.astype(np.float16) for name, value in values.items()}


def _unpack(values: dict[str, Any]) -> Stored:
    whole = {name: value.astype(np.float32) for name, value in values.items()}
    model = Centroids(
        Whitening(whole["centre"], whole["axes"], whole["gains"]),
        whole["centroids"],
        whole["head"],
        whole["elsewhere"],
        float(whole["threshold"][0]),
    )
    return Stored(model, whole["tools"] / 127 * whole["scales"][:, None])
