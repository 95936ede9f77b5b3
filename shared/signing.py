"""Canonical JSON, the fingerprint of a call, and the signature of a node (HMAC-SHA256, RFC 2104)."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from shared.contract import NodeOrder


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text. NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def call_hash(tool: str, args: dict[str, Any]) -> str:
    """SHA-256 in hex over tool name and canonical arguments: what the ledger and approvals are bound to."""
    return text_hash(tool, canonical_json(args))


def text_hash(tool: str, canonical_args: str) -> str:
    """The same, of arguments whose canonical JSON is at hand."""
    return hashlib.sha256(f"[{canonical_json(tool)},{canonical_args}]".encode()).hexdigest()


def key_id(key: bytes) -> str:
    """A public fingerprint of a signing key: equal keys, equal ids; the key cannot be had from it."""
    return hmac.new(key, b"capataz signing key id", hashlib.sha256).hexdigest()[:12]


def _signature(fields: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, canonical_json(fields).encode(), hashlib.sha256).hexdigest()


def sign(order: NodeOrder, key: bytes) -> dict[str, Any]:
    """The order as it travels: its fields as JSON values, and `signature` over all of them."""
    wire = order.model_dump(mode="json")
    wire["signature"] = _signature(wire, key)
    return wire


def verified(wire: Mapping[str, Any], key: bytes) -> NodeOrder | None:
    """The order, if it was signed with `key` and not changed since, and its args match their hash; else None.

    Fields that this version does not know are covered by the signature like all others.
    """
    fields = {name: value for name, value in wire.items() if name != "signature"}
    try:
        genuine = hmac.compare_digest(_signature(fields, key), str(wire.get("signature", "")))
        order = NodeOrder.model_validate(fields) if genuine else None
    except (ValueError, TypeError):  # not JSON, or not an order
        return None
    if order is None or call_hash(order.tool, order.args) != order.args_hash:
        return None
    return order
