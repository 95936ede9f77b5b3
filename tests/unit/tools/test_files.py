from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ModelError
from workers.tools import paths


@pytest.fixture
def tree(workspace: Path, tmp_path: Path) -> Path:
    (workspace / "a.md").write_text("one\ntwo\nthree\n", "utf-8")
    (workspace / "sub" / "deep").mkdir(parents=True)
    (workspace / "sub" / "b.txt").write_text("Presupuesto: 500\nnada\n", "utf-8")
    (workspace / "sub" / "deep" / "c.txt").write_text("presupuesto final\n", "utf-8")
    (workspace / "bin.dat").write_bytes(b"presupuesto\0\1\2")
    (tmp_path / "secret.txt").write_text("presupuesto secreto", "utf-8")
    (workspace / "out").symlink_to(tmp_path / "secret.txt")
    (workspace / "outdir").symlink_to(tmp_path)
    (workspace / "within").symlink_to(workspace / "a.md")
    return workspace


def test_reading_whole_and_in_part(bench: Any, tree: Path) -> None:
    assert bench.run("file_read", path="a.md").seen == "one\ntwo\nthree\n"
    part = bench.run("file_read", path="sub/../a.md", offset=2, limit=1)
    assert part.value["text"] == "two\n"
    assert "[lines 2 to 2 of 3" in part.seen
    assert bench.run("file_read", path=str(tree / "a.md")).value["lines"] == 3
    assert bench.run("file_read", path="within").value["text"].startswith("one")


@pytest.mark.parametrize(
    "path", ["../secret.txt", "out", "outdir/secret.txt", "sub/../../secret.txt", "/etc/passwd", "/proc/self/environ"]
)
def test_nothing_outside_is_reachable(bench: Any, tree: Path, path: str) -> None:
    with pytest.raises(ModelError) as caught:
        bench.run("file_read", path=path)
    assert caught.value.code == "outside_workspace"


@pytest.mark.parametrize(
    ("path", "code"), [("absent", "not_found"), ("sub", "not_a_file"), ("a.md/x", "not_a_folder"), ("a\0b", "bad_path")]
)
def test_what_cannot_be_read_says_why(bench: Any, tree: Path, path: str, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        bench.run("file_read", path=path)
    assert caught.value.code == code


def test_a_fifo_neither_blocks_nor_reads(bench: Any, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with pytest.raises(ModelError, match="not a regular file"):
        bench.run("file_read", path="pipe")


def test_binary_and_large_files_are_refused(bench: Any, tree: Path) -> None:
    with pytest.raises(ModelError, match="not text"):
        bench.run("file_read", path="bin.dat")
    (tree / "large.txt").write_bytes(b"x" * 100_001)
    with pytest.raises(ModelError, match="100001 bytes; the limit is 100000"):
        bench.run("file_read", path="large.txt")


def test_a_link_swapped_in_after_the_check_is_not_followed(tree: Path, tmp_path: Path) -> None:
    base, relative = paths.contained(tree, "sub/b.txt")
    (tree / "sub").rename(tree / "gone")
    (tree / "sub").symlink_to(tmp_path)
    (tmp_path / "b.txt").write_text("secret")
    with pytest.raises(ModelError):
        paths.open_beneath(base, relative)
    (tree / "sub").unlink()
    (tree / "sub").mkdir()
    (tree / "sub" / "b.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ModelError):
        paths.open_beneath(base, relative)


def test_other_encodings_are_read(bench: Any, tree: Path) -> None:
    (tree / "latin.txt").write_bytes("España".encode("latin-1"))
    (tree / "wide.txt").write_bytes("España".encode("utf-16"))
    assert bench.run("file_read", path="latin.txt").value["text"] == "España"
    assert bench.run("file_read", path="wide.txt").value["text"] == "España"


def test_listing_shows_folders_first_and_never_follows(bench: Any, tree: Path) -> None:
    listed = bench.run("file_list")
    assert listed.seen.splitlines()[:2] == ["sub/", "a.md (14 bytes)"]
    assert "secret.txt" not in listed.seen
    assert [entry["path"] for entry in bench.run("file_list", path="sub").value["entries"]] == ["sub/deep", "sub/b.txt"]
    with pytest.raises(ModelError, match="outside"):
        bench.run("file_list", path="outdir")


def test_grep_finds_lines_and_skips_what_is_not_text(bench: Any, tree: Path) -> None:
    found = bench.run("file_grep", pattern="presupuesto")
    assert [(m["path"], m["line"]) for m in found.value["matches"]] == [("sub/b.txt", 1), ("sub/deep/c.txt", 1)]
    assert found.value["skipped"] == 4  # the binary file and three links
    assert (
        bench.run("file_grep", pattern="presupuesto", ignore_case=False).value["matches"][0]["path"] == "sub/deep/c.txt"
    )
    assert bench.run("file_grep", pattern="t", path="a.md").seen.splitlines() == ["a.md:2: two", "a.md:3: three"]
    assert len(bench.run("file_grep", pattern=".", limit=1).value["matches"]) == 1
    assert bench.run("file_grep", pattern="presupuesto", glob="c.*").value["matches"][0]["path"] == "sub/deep/c.txt"
    assert "No line matches." in bench.run("file_grep", pattern="zzz").seen


def test_a_pattern_that_explodes_is_given_up(bench: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.tools.files._GREP_SECONDS", 0.2)
    (tree / "trap.txt").write_text("a" * 5_000 + "!")
    with pytest.raises(ModelError) as caught:
        bench.run("file_grep", pattern=r"(a|aa)+\w*(a|b)*(a|aa)+$", path="trap.txt")
    assert caught.value.code == "timed_out"


def test_a_pattern_that_is_none_is_refused(bench: Any, tree: Path) -> None:
    with pytest.raises(ModelError, match="not a regular expression"):
        bench.run("file_grep", pattern="(")


def test_glob(bench: Any, tree: Path) -> None:
    assert bench.run("file_glob", pattern="*.txt").value["files"] == ["sub/b.txt", "sub/deep/c.txt"]
    assert bench.run("file_glob", pattern="sub/*.txt").value["files"] == ["sub/b.txt"]
    assert bench.run("file_glob", pattern="../*").value["files"] == []


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("a/b/c.md", "**/c.md", True),
        ("c.md", "**/c.md", True),
        ("a/b/c.md", "a/**", True),
        ("a/b/c.md", "a/*", False),
        ("a/b/c.md", "a/**/b/**/c.md", True),
        ("a/b/c.md", "**/**/**/x", False),
        ("a/b/c.md", "*.md", True),
        ("a/b/c.md", "./a/b/?.md", True),
    ],
)
def test_glob_patterns(path: str, pattern: str, fits: bool) -> None:
    assert paths.matches(path, pattern) is fits
