"""The export file: what goes in comes out, a run takes along what belongs to it, and no line is too odd to be named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UserError
from shared.export import Blob, Export, Header, Line, handles, of_run, read, sealed, written

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
LINES = st.builds(
    Line, st.from_regex(r"[0-9]{1,13}-[0-9]", fullmatch=True), st.text(), st.integers(1, 9), st.text(),
    st.dictionaries(st.text(), JSON, max_size=3), st.sampled_from(["", "ab"]),
)  # fmt: skip
BLOBS = st.dictionaries(
    st.from_regex(r"a:[0-9a-f]{32}", fullmatch=True), st.builds(Blob, st.binary(), st.text()), max_size=2
)
HEADER = Header(session="s", principal="owner", made_ms=1)


def line(n: int, kind: str, run: str, /, **d: object) -> Line:
    return Line(f"{n}-0", kind, 1, run, d)


def user(n: int, run: str, parent: str = "") -> Line:
    return line(n, "user.message", run, run=run, principal="o", session="s", received_ms=n, text=run, parent=parent)


@pytest.mark.property
@given(st.lists(LINES, max_size=4), BLOBS)
def test_what_is_written_is_read(lines: list[Line], artifacts: dict[str, Blob]) -> None:
    export = Export(HEADER, tuple(lines), artifacts)
    text = "\n".join(written(export)) + "\n"
    assert read(text.split("\n")) == export


@pytest.mark.property
@given(st.lists(st.text() | JSON.map(json.dumps), max_size=4), st.booleans())
def test_any_text_is_read_or_refused_by_name(rows: list[str], headed: bool) -> None:
    head = [HEADER.model_dump_json()] if headed else []
    try:
        read([*head, *rows])
    except UserError as error:
        refusal = error.code
    else:
        refusal = "bad_export"
    assert refusal == "bad_export"


def test_a_run_takes_its_subagents_and_facts_along() -> None:
    lines = [
        user(1, "r1"),
        user(2, "child", parent="r1.1.1.0"),
        user(3, "grandchild", parent="child.2.1.1"),
        line(4, "fact.set", "r1.1.1.1", name="a", version=1),
        line(5, "fact.set", "other.1.1.1", name="a", version=2),
        user(6, "r2"),
    ]
    assert [x.run for x in of_run(lines, "r1")] == ["r1", "child", "grandchild", "r1.1.1.1"]
    assert [x.run for x in of_run(lines, "child")] == ["child", "grandchild"]
    assert of_run(lines, "nobody") == []


def test_artifacts_are_found_wherever_they_are_named() -> None:
    one, two = "a:" + "1" * 32, "a:" + "2" * 32
    lines = [
        line(1, "node.result", "r", node="n", result={"artifact": one}),
        line(2, "results.elided", "r", lines={"n": f'read_artifact("{two}") has them, as {one}'}),
    ]
    assert handles(lines) == [one, two]


def test_the_digest_tells_what_the_model_was_shown() -> None:
    block = {"type": "text", "text": "hi"}
    said = {"step": 1, "attempt": 1, "finish": "stop", "message": {"role": "assistant", "blocks": [block]}}
    first, second = line(2, "assistant.message", "r1", **said), line(4, "assistant.message", "r2", **said)
    whole = sealed([user(1, "r1"), first, user(3, "r2"), second])
    alone = sealed([user(3, "r2"), second])
    other = sealed([user(1, "r1"), first, user(3, "rx"), second])
    assert [bool(x.saw) for x in whole] == [False, True, False, True]
    assert len({whole[1].saw, whole[3].saw, alone[1].saw, other[3].saw}) == 4
    assert whole[1].saw == other[1].saw


def test_an_entry_that_is_none_is_named() -> None:
    with pytest.raises(UserError, match="entry 1-0 is no nudge"):
        sealed([line(1, "nudge", "r")])
    assert sealed([line(1, "of.tomorrow", "r", x=1)])  # what is not known is passed over
