"""Canonical JSON, fingerprints of calls, signatures of nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contract import Effect, NodeOrder
from shared.signing import call_hash, canonical_json, key_id, sign, verified

KEY, OTHER = b"k" * 32, b"o" * 32
ARGS = {"title": "ñ", "tags": ["a"], "n": 1}


def order(**fields: Any) -> NodeOrder:
    return NodeOrder.model_validate(
        {
            "run": "r",
            "session": "s",
            "principal": "owner",
            "node": "r.1.1.0",
            "tool": "note_save",
            "args": ARGS,
            "args_hash": call_hash("note_save", ARGS),
            "effect": "idempotent",
            "not_after_ms": 1000,
            "timeout_s": 5.0,
            **fields,
        }
    )


def test_a_signed_order_is_genuine() -> None:
    wire = sign(order(), KEY)
    assert verified(wire, KEY) == order()
    assert verified(json.loads(json.dumps(wire)), KEY) == order()  # also after its travel
    assert verified(wire, OTHER) is None
    assert verified(order().model_dump(mode="json"), KEY) is None


def test_a_field_of_a_newer_version_is_covered_too() -> None:
    wire = order().model_dump(mode="json") | {"extra": 1}
    signed = wire | {"signature": sign(order(), KEY)["signature"]}
    assert verified(signed, KEY) is None


@pytest.mark.parametrize("wire", [{}, {"signature": None}, {"signature": "x", "args": float("nan")}, {"v": "x"}])
def test_what_is_no_order_is_not_genuine(wire: dict[str, Any]) -> None:
    assert verified(wire, KEY) is None


CHANGES: dict[str, Any] = {
    "v": 2,
    "run": "r2",
    "session": "t",
    "principal": "root",
    "node": "r.1.1.1",
    "tool": "note_delete",
    "args": {**ARGS, "n": 2},
    "args_hash": call_hash("note_save", {}),
    "effect": Effect.WRITE,
    "not_after_ms": 1001,
    "timeout_s": 6.0,
    "agent_path": ["default"],
    "approval": "a1",
    "signature": "0" * 64,
}


@pytest.mark.parametrize("name", [*NodeOrder.model_fields, "signature"])
def test_no_field_can_be_changed(name: str) -> None:
    assert verified(sign(order(), KEY) | {name: CHANGES[name]}, KEY) is None


def test_arguments_must_match_their_fingerprint_even_if_signed() -> None:
    assert verified(sign(order(args={"n": 9}), KEY), KEY) is None


def test_a_key_is_known_by_its_id_and_not_betrayed_by_it() -> None:
    assert key_id(KEY) == key_id(bytes(KEY))
    assert key_id(KEY) != key_id(OTHER)
    assert len(key_id(KEY)) == 12
    assert key_id(KEY) != sign(order(), KEY)["signature"][:12]


def test_order_of_keys_does_not_matter_and_everything_else_does() -> None:
    assert call_hash("t", {"a": 1, "b": 2}) == call_hash("t", {"b": 2, "a": 1})
    hashes = [
        call_hash(*call) for call in (("t", {}), ("u", {}), ("t", {"a": 1}), ("t", {"a": "1"}), ("t", {"a": 1.5}))
    ]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_is_no_json_has_no_canonical_form(value: Any) -> None:
    with pytest.raises(ValueError):
        canonical_json(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.property
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.data())
def test_equal_values_give_equal_text(value: dict[str, Any], data: st.DataObject) -> None:
    items = data.draw(st.permutations([*value.items()]))
    assert canonical_json(dict(items)) == canonical_json(value)
    assert " " not in canonical_json(value) or any(" " in text for text in _texts(value))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [t for k, v in value.items() for t in (k, *_texts(v))]
    return [t for v in value for t in _texts(v)] if isinstance(value, list) else []
