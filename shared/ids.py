"""Identifiers. All are ours: a provider's or a client's id is only ever kept beside one of these."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base32, lower case: sorts like the number

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""What a session id, principal or reply name must match entirely."""

MESSAGE_ID = re.compile(r"[A-Za-z0-9._@:+-]{1,128}")
"""What a message id must match entirely; `workflow@slot` is one."""


def is_name(text: str) -> bool:
    """True if `text` is a valid session id, principal or reply name."""
    return NAME.fullmatch(text) is not None


def _base32(number: int, digits: int) -> str:
    out = []
    for _ in range(digits):
        out.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(out))


def sortable_id(now_ms: int | None = None) -> str:
    """A 20-character id: 9 characters of milliseconds since 1970, 11 random ones (55 bits).

    Ids made in different milliseconds sort by time.
    """
    ms = int(time.time() * 1000) if now_ms is None else now_ms
    return _base32(ms, 9) + _base32(secrets.randbits(55), 11)


def run_id(now_ms: int | None = None) -> str:
    """A new run id."""
    return "r" + sortable_id(now_ms)


def node_id(run: str, step: int, attempt: int, position: int) -> str:
    """The id of one node: run, step, attempt and position in the turn, so a replay names it the same."""
    return f"{run}.{step}.{attempt}.{position}"


def effect_key(node: str) -> str:
    """What a service knows a node's effect by: the same for all attempts of a workflow's step, each of which is a node
    of its own; else the node's id."""
    parts = node.split(".")
    return f"{parts[0]}.0.0.{parts[3]}" if len(parts) == 4 and parts[1] == "0" else node


def run_of(node: str) -> str:
    """The run that a node belongs to."""
    return node.partition(".")[0]


def process_id(kind: str) -> str:
    """An id for this incarnation of a process; a restart of the same process gets another."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40]
    return f"{kind}-{host}-{os.getpid()}-{secrets.token_hex(3)}"


def nonce() -> str:
    """A random 64-bit token in hex, for leases and claims."""
    return secrets.token_hex(8)
