"""Unified diffs as models write them."""

from __future__ import annotations

import pytest

from shared.errors import ModelError
from workers.tools.patch import applied, parse


def result(text: str | None, hunks: str, old: str = "a/f", new: str = "b/f") -> str | None:
    (file,) = parse(f"--- {old}\n+++ {new}\n{hunks}")
    return applied(file, text)


@pytest.mark.parametrize(
    ("text", "hunks", "after"),
    [
        ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "@@ -90,1 +7,9 @@ def f():\n-b\n+B", "a\nB\nc\n"),  # wrong numbers, a heading
        ("a\n\nc\n", "@@ -1,3 +1,3 @@\n a\n\n-c\n+C\n", "a\n\nC\n"),  # a blank context line without its blank
        ("a\nb\n", "@@ -2,0 +3 @@\n+c\n", "a\nb\nc\n"),
        ("a\nb\n", "@@ -0,0 +1 @@\n+z\n", "z\na\nb\n"),
        ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("a\nb", "@@ -2 +2,2 @@\n b\n+c\n", "a\nb\nc\n"),
        ("x\ny\nx\ny\n", "@@ -3,2 +3,2 @@\n-x\n+X\n y\n", "x\ny\nX\ny\n"),
        ("1\n2\n3\n4\n5\n", "@@ -1 +1,2 @@\n 1\n+1b\n@@ -4 +5 @@\n-4\n+four\n", "1\n1b\n2\n3\nfour\n5\n"),
        ("-- a\nb\n", "@@ -1,2 +1,2 @@\n--- a\n+++ b\n b\n", "++ b\nb\n"),
    ],
)
def test_hunks_go_where_their_lines_stand(text: str, hunks: str, after: str) -> None:
    assert result(text, hunks) == after


@pytest.mark.parametrize(
    ("text", "hunks", "said"),
    [
        ("a\n", "@@ -1 +1 @@\n-x\n+y\n", "`x` is not there"),
        ("x\nx\nx\n", "@@ -9 +9 @@\n-x\n+y\n", r"several places \(lines 1, 2, 3\)"),
        ("a\n", "@@ -1 +1 @@\nfoo\n", "neither blank"),
        ("a\n", "@@ -a +b @@\n x\n", "no hunk header"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n", "does not fit"),
        (None, "@@ -1 +1 @@\n-a\n+b\n", "does not exist"),
    ],
)
def test_what_does_not_fit_says_why(text: str | None, hunks: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        result(text, hunks)


@pytest.mark.parametrize(
    "text",
    [
        "", "hello", "@@ -1 +1 @@\n-a\n+b\n", "--- a/x\n+++ b/x\n", "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/x b/y\nrename from x\nrename to y\n", '--- "a/x"\n+++ "b/x"\n@@ -1 +1 @@\n-a\n+b\n',
        "diff --git a/x b/x\nGIT binary patch\n", "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)  # fmt: skip
def test_what_is_no_patch(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse(text)
    assert caught.value.code == "bad_patch"


def test_files_are_made_and_removed() -> None:
    assert result(None, "@@ -0,0 +1 @@\n+x\n", old="/dev/null") == "x\n"
    assert result("x\n", "@@ -1 +0,0 @@\n-x\n", new="/dev/null") is None
    with pytest.raises(ModelError, match="exists already"):
        result("x\n", "@@ -0,0 +1 @@\n+x\n", old="/dev/null")
    with pytest.raises(ModelError, match="would not be empty"):
        result("x\ny\n", "@@ -1 +0,0 @@\n-x\n", new="/dev/null")


def test_prefixes_and_times_are_left_out() -> None:
    hunk = "@@ -1 +1 @@\n-a\n+b\n"
    assert parse(f"--- a/x/y\t2026-01-01\n+++ b/x/y\t2026-01-01\n{hunk}")[0].path == "x/y"
    assert parse(f"--- x/y\n+++ x/y\n{hunk}")[0].path == "x/y"
    assert parse(f"--- x/y\r\n+++ x/y\r\n{hunk}")[0].path == "x/y"
