"""Writing, editing and patching files: what may be written, and that it is whole or not at all."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ModelError
from shared.settings import Settings
from tests.unit.tools.hostile import cases, populate
from workers.tools import paths, writes
from workers.tools.writes import Change

ODD_NAMES = (
    "an\u0303o.txt", "日本語.txt", "emoji 😀.txt", "-n", "--help", "~", "$HOME", "*.txt", "a;b|c.txt", "..a", "...",
    "a..b", ".hidden", "%2e%2e",
)  # fmt: skip
HOSTILE, BENIGN = cases("paths.txt")[""], cases("paths_benign.txt")[""]


@pytest.fixture
def tree(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    populate(workspace)
    (workspace / "deep").mkdir()
    (workspace / "deep" / "up").symlink_to("../..")
    (workspace / "deep" / "etc").symlink_to("/etc")
    (workspace / "chain").symlink_to("chain2")
    (workspace / "chain2").symlink_to("out")
    (workspace / "loop").symlink_to("loop")
    (workspace / "absolute").symlink_to("/etc")
    links = {"loop2": "loop3", "loop3": "loop2", "root": "/", "self": "/proc/self", "dangling": "../absent"}
    links |= {"dangling2": "/absent/x", "twice": "outdir", "parent": "..", "slashes": "sub//..//..//secret.txt"}
    inside = {"folder": ".", "two": "folder", "inner": "./sub/../a.txt", "sub/back": "..", "sub/up": "../a.txt"}
    for name, target in (links | inside).items():
        (workspace / name).symlink_to(target)
    for name in ODD_NAMES:
        (workspace / name).write_text("TODO", "utf-8")
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as server, monkeypatch.context() as patch:
        patch.chdir(workspace)  # the path of a socket may have some 100 bytes
        server.bind("socket")
    return workspace


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ModelError) as caught:
        call(*args, **kwargs)
    return caught.value.code


def _outside(tree: Path) -> tuple[list[str], str]:
    """What lies beside the workspace."""
    return sorted(os.listdir(tree.parent)), (tree.parent / "secret.txt").read_text()


def test_no_hostile_path_is_read_listed_or_changed(bench: Any, tree: Path) -> None:
    assert len(HOSTILE) >= 150
    before, through = _outside(tree), []
    diff = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-secret\n+changed\n"
    for path in HOSTILE:
        for name, args in (
            ("file_read", {"path": path}),
            ("file_write", {"path": path, "text": "x", "overwrite": True}),
            ("file_edit", {"path": path, "old": "secret", "new": "changed"}),
            ("file_patch", {"patch": diff.format(path)}),
        ):
            try:
                bench.run(name, **args)
            except ModelError:
                continue
            through.append((name, path))
    assert through == []
    assert _outside(tree) == before


def test_harmless_paths_are_read(bench: Any, tree: Path) -> None:
    for path in BENIGN:
        assert "TODO" in bench.run("file_read", path=path).seen, path


def test_writing_makes_folders_and_keeps_the_mode(bench: Any, tree: Path) -> None:
    assert bench.run("file_write", path="new/deep/x.md", text="hola ñ\n").value["done"] == "created"
    assert (tree / "new/deep/x.md").read_text("utf-8") == "hola ñ\n"
    assert stat.S_IMODE((tree / "new/deep/x.md").stat().st_mode) == 0o644
    assert bench.run("file_write", path="new/deep/x.md", text="hola ñ\n").value["done"] == "unchanged"
    assert refused(bench.run, "file_write", path="new/deep/x.md", text="other") == "exists"
    (tree / "a.txt").chmod(0o750)
    assert bench.run("file_write", path="a.txt", text="x", overwrite=True).value["done"] == "replaced"
    assert stat.S_IMODE((tree / "a.txt").stat().st_mode) == 0o750
    assert [one.name for one in tree.rglob("*.part")] == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (".", "bad_path"),
        ("sub", "not_a_file"),
        ("a.txt/x", "not_a_folder"),
        ("sub/.git/config", "protected"),
        ("a/" * 32 + "x", "bad_path"),
    ],
)
def test_what_cannot_be_written_says_why(bench: Any, tree: Path, path: str, code: str) -> None:
    assert refused(bench.run, "file_write", path=path, text="x", overwrite=True) == code


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/config",
        ".git",
        "sub/.git/hooks/x",
        ".git./config",
        "sub/../.git/x",
        ".git /config",
        ".g\u200cit/config",
        ".ＧＩＴ/config",
        ".git::$INDEX_ALLOCATION/config",
        "ＡGENTS.md",
        "sub/claude.md.",
        "AGENTS.md",
        "agents.md",
        "sub/CLAUDE.md",
        "sub/../CONTEXT.md",
    ],
)
def test_what_configures_programs_or_prompts_is_not_written(bench: Any, tree: Path, path: str) -> None:
    assert refused(bench.run, "file_write", path=path, text="x") == "protected"


def test_only_writable_folders_are_written(make_bench: Any, tree: Path) -> None:
    bench = make_bench(workspace={"dir": tree, "writable": ("sub", "notes/own")})
    bench.run("file_write", path="sub/x.txt", text="x")
    bench.run("file_write", path="notes/own/x.txt", text="x")
    for path in ("x.txt", "notes/x.txt", "subway/x.txt", "sub/../x.txt", "SUB2/x"):
        assert refused(bench.run, "file_write", path=path, text="x") == "not_writable"
    tool = bench.registry.get("file_write")
    assert "workspace.writable" in tool.requires(Settings.model_validate({"workspace": {"dir": tree, "writable": ()}}))


def test_a_link_swapped_in_after_the_check_is_not_followed(tree: Path) -> None:
    base, relative = writes.writable(Settings.model_validate({"workspace": {"dir": tree}}).workspace, "sub/c.txt")
    (tree / "sub").rename(tree / "gone")
    (tree / "sub").symlink_to(tree.parent)
    assert refused(writes.apply, base, [Change(relative, None, b"x")]) == "unwritable"
    assert not (tree.parent / "c.txt").exists()
    (tree / "sub").unlink()
    (tree / "sub").mkdir()
    (tree / "sub" / "c.txt").symlink_to(tree.parent / "secret.txt")
    assert refused(writes.apply, base, [Change(relative, b"secret", b"x")]) == "not_a_file"
    assert (tree.parent / "secret.txt").read_text() == "secret"


def test_a_link_swapped_in_is_not_read(tree: Path) -> None:
    base, relative = paths.contained(tree, "sub/c.txt")
    (tree / "sub" / "c.txt").unlink()
    (tree / "sub" / "c.txt").symlink_to(tree.parent / "secret.txt")
    assert refused(paths.open_beneath, base, relative) == "unreadable"
    base, relative = paths.contained(tree, "deep/absent.txt")
    (tree / "deep").rename(tree / "gone")
    (tree / "deep").symlink_to(tree.parent)
    (tree.parent / "absent.txt").write_text("secret")
    assert refused(paths.open_beneath, base, relative) == "not_a_folder"
    assert refused(paths.entries, base, Path("deep")) == "not_a_folder"


def test_a_hard_link_is_cut_by_a_change(bench: Any, tree: Path) -> None:
    os.link(tree.parent / "secret.txt", tree / "hard")
    bench.run("file_write", path="hard", text="x", overwrite=True)
    assert (tree.parent / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("path", ["a/" * 200_000, "../" * 100_000, "x" * 300, "a/" * 2_000 + "x", "é" * 200])
def test_paths_that_are_too_long_are_told(bench: Any, tree: Path, path: str) -> None:
    for name, args in (("file_read", {}), ("file_write", {"text": "x"})):
        assert refused(bench.run, name, path=path, **args) in ("bad_path", "unreadable", "unwritable", "not_found")


def test_a_file_that_changed_meanwhile_is_left_alone(tree: Path) -> None:
    changes = [Change(Path("b.txt"), (tree / "b.txt").read_bytes(), b"new"), Change(Path("a.txt"), b"stale", b"new")]
    assert refused(writes.apply, tree.resolve(), changes) == "conflict"
    assert (tree / "b.txt").read_text() == "one b.txt\ntwo\nTODO three\n"
    assert refused(writes.apply, tree.resolve(), [Change(Path("a.txt"), None, b"new")]) == "conflict"


def test_a_failure_in_the_middle_puts_everything_back(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = {name: (tree / name).read_bytes() for name in ("a.txt", "b.txt", "sub/c.txt")}
    changes = [
        Change(Path("a.txt"), read["a.txt"], b"new"),
        Change(Path("made.txt"), None, b"new"),
        Change(Path("b.txt"), read["b.txt"], None),
        Change(Path("sub/c.txt"), read["sub/c.txt"], b"new"),
    ]
    real = os.replace

    def replace(source: Any, target: Any, **options: Any) -> None:
        if target == "c.txt":
            raise OSError(28, "No space left on device")
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ModelError, match=r"nothing was changed: sub/c.txt .*No space left"):
        writes.apply(tree.resolve(), changes)
    assert {name: (tree / name).read_bytes() for name in read} == read
    assert not (tree / "made.txt").exists()
    assert [one.name for one in tree.rglob("*.part")] == []


def test_an_edit_is_exact(bench: Any, tree: Path) -> None:
    assert bench.run("file_edit", path="a.txt", old="two\n", new="2\n").value["replaced"] == 1
    assert (tree / "a.txt").read_text() == "one a.txt\n2\nTODO three\n"
    assert refused(bench.run, "file_edit", path="a.txt", old="absent", new="x") == "not_found"
    assert refused(bench.run, "file_edit", path="a.txt", old="t", new="T") == "ambiguous"
    assert bench.run("file_edit", path="a.txt", old="t", new="T", every=True).value["replaced"] == 3
    assert refused(bench.run, "file_edit", path="absent", old="a", new="b") == "not_found"
    assert refused(bench.run, "file_edit", path="a.txt", old="a", new="a") == "bad_arguments"
    assert refused(bench.run, "file_edit", path="a.txt", old="", new="a") == "bad_arguments"


def test_line_ends_and_marks_stay(bench: Any, tree: Path) -> None:
    (tree / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    bench.run("file_edit", path="dos.txt", old="one\ntwo", new="1\n2\n2b")
    assert (tree / "dos.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree"
    bench.run("file_patch", patch="--- a/dos.txt\n+++ b/dos.txt\n@@ -1,2 +1,3 @@\n 1\n+x\n 2\n")
    assert (tree / "dos.txt").read_bytes() == b"\xef\xbb\xbf1\r\nx\r\n2\r\n2b\r\nthree"


@pytest.mark.parametrize(("data", "code"), [(b"a\0b", "binary"), ("año".encode("latin-1"), "encoding")])
def test_what_is_not_utf8_is_not_edited(bench: Any, tree: Path, data: bytes, code: str) -> None:
    (tree / "odd").write_bytes(data)
    assert refused(bench.run, "file_edit", path="odd", old="a", new="b") == code
    assert (tree / "odd").read_bytes() == data


def test_sizes_are_bounded(make_bench: Any, tree: Path) -> None:
    bench = make_bench(workspace={"dir": tree, "max_file_bytes": 100})
    assert refused(bench.run, "file_write", path="x", text="x" * 101) == "too_large"
    assert refused(bench.run, "file_edit", path="a.txt", old="two", new="x" * 101) == "too_large"
    (tree / "large").write_text("x" * 101)
    assert refused(bench.run, "file_edit", path="large", old="x", new="y", every=True) == "too_large"
    assert refused(bench.run, "file_write", path="x", text="a\0b") == "binary"
    assert refused(bench.run, "file_write", path="x", text="\ud800") == "bad_arguments"


PATCH = """diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one a.txt
-two
+2
 TODO three
--- a/b.txt
+++ /dev/null
@@ -1,3 +0,0 @@
-one b.txt
-two
-TODO three
--- /dev/null
+++ b/sub/new.txt
@@ -0,0 +1,2 @@
+first
+second
\\ No newline at end of file
"""


def test_a_patch_changes_makes_and_removes(bench: Any, tree: Path) -> None:
    output = bench.run("file_patch", patch=PATCH)
    assert output.seen == "a.txt: changed\nb.txt: removed\nsub/new.txt: created"
    assert (tree / "a.txt").read_text() == "one a.txt\n2\nTODO three\n"
    assert not (tree / "b.txt").exists()
    assert (tree / "sub/new.txt").read_text() == "first\nsecond"
    assert refused(bench.run, "file_patch", patch=PATCH) == "bad_patch"


def test_a_patch_of_which_one_part_does_not_fit_changes_nothing(bench: Any, tree: Path) -> None:
    (tree / "b.txt").write_text("something else\n")
    with pytest.raises(ModelError, match=r"hunk 1 of b.txt does not fit: `one b.txt`"):
        bench.run("file_patch", patch=PATCH)
    assert (tree / "a.txt").read_text() == "one a.txt\ntwo\nTODO three\n"
    assert not (tree / "sub/new.txt").exists()


def test_a_patch_that_names_one_file_twice_is_refused(bench: Any, tree: Path) -> None:
    twice = "--- a/{0}\n+++ b/{0}\n@@ -2 +2 @@\n-two\n+2\n"
    assert refused(bench.run, "file_patch", patch=twice.format("a.txt") + twice.format("./a.txt")) == "bad_patch"
    assert refused(bench.run, "file_patch", patch=twice.format("a.txt") * 2) == "bad_patch"
