"""A diff that difflib makes leads from the one text to the other."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shared.errors import ModelError
from workers.tools.patch import applied, parse

pytestmark = pytest.mark.property

texts = st.lists(st.sampled_from(["a", "b", "c", "", "-- x", "++ y", " z", "@@", "\\"]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(texts.filter(bool), texts.filter(bool), st.integers(0, 3))
def test_a_made_diff_applies(before: str, after: str, context: int) -> None:
    # Without context, a removed `-- x` in front of an added `++ y` and of the next hunk cannot be told from a header.
    assume(context or "-- x" not in before)
    diff = list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f", n=context))
    if not diff:
        return
    (file,) = parse("".join(diff))
    assert applied(file, before) == after


@given(st.text(st.sampled_from("-+ @ab/1,\n\r\\"), max_size=80), texts)
def test_anything_else_is_refused_or_gives_text(patch: str, text: str) -> None:
    try:
        for file in parse(patch):
            applied(file, text)
    except ModelError as error:
        message = str(error)
    else:
        return
    assert message.startswith("the patch was not applied")
