"""Canonical JSON, the fingerprint of a call, and the signature of a node (HMAC-SHA256, RFC 2104)."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from shared.contract import NodeOrder


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text. NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def call_hash(tool: str, args: dict[str, Any]) -> str:
    """SHA-256 in hex over tool name and canonical arguments: what the ledger and approvals are bound to."""
    return hashlib.sha256(canonical_json([tool, args]).encode()).hexdigest()


def key_id(key: bytes) -> str:
    """A public fingerprint of a signing key: equal keys, equal ids; the key cannot be had from it."""
    return hmac.new(key, b"capataz signing key id", hashlib.sha256).hexdigest()[:12]


def _payload(order: NodeOrder) -> bytes:
    return canonical_json(order.model_dump(mode="json", exclude={"signature"})).encode()


def sign(order: NodeOrder, key: bytes) -> NodeOrder:
    """The order with its signature filled in."""
    signature = hmac.new(key, _payload(order), hashlib.sha256).hexdigest()
    return order.model_copy(update={"signature": signature})


def verify(order: NodeOrder, key: bytes) -> bool:
    """True if the order was signed with `key` and not changed since; and its args match its hash."""
    expected = hmac.new(key, _payload(order), hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, order.signature) and call_hash(order.tool, order.args) == order.args_hash
