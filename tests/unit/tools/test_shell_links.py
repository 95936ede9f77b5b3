"""Links in folders, for programs that go through them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import ModelError
from tests.unit.tools.hostile import populate
from workers.tools import shell_links


@pytest.fixture
def tree(workspace: Path) -> Path:
    populate(workspace)
    (workspace / "deep" / "er").mkdir(parents=True)
    (workspace / "deep" / "er" / "a.txt").symlink_to(workspace.parent / "secret.txt")
    (workspace / "fine").mkdir()
    (workspace / "fine" / "a.txt").symlink_to("../a.txt")
    (workspace / "fine" / "loop").symlink_to("loop")
    (workspace / "past").mkdir()
    (workspace / "past" / "deep").symlink_to("../deep/er/..")
    (workspace / "past" / "back").symlink_to(".")
    return workspace


def _refused(tree: Path, *words: str, folder: str = ".", every: bool = False) -> bool:
    try:
        shell_links.refuse(tree.resolve(), Path(folder), words, every=every)
    except ModelError as error:
        return error.code == "command_refused"
    return False


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("deep", "sub"), True),
        (("fine", "sub"), False),
        ((".", "sub"), True),
        (("deep/er",), True),
        (("past", "sub"), True),
        (("a.txt", "b.txt"), False),
        (("absent", "sub"), False),
        (("", "sub"), True),
    ],
)
def test_every_link_counts_where_all_are_followed(tree: Path, words: tuple[str, ...], refused: bool) -> None:
    assert _refused(tree, *words, every=True) is refused


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("a.txt", "deep/er"), True),
        (("b.txt", "deep/er"), False),
        (("a.txt", "deep"), False),
        (("sub/er", "deep"), True),
        (("sub/er/", "deep"), True),
        (("sub/.", "deep"), True),
        ((".", "deep"), True),
        ((".", "past"), False),
        (("b.txt", "."), False),
        (("sub/outdir", "."), True),
        (("fine", "sub"), False),
        (("a.txt", "fine"), False),
    ],
)
def test_links_count_in_the_places_that_are_written(tree: Path, words: tuple[str, ...], refused: bool) -> None:
    assert _refused(tree, *words) is refused


def test_words_are_seen_from_the_folder(tree: Path) -> None:
    assert _refused(tree, "a.txt", "er", folder="deep")
    assert not _refused(tree, "a.txt", "er", folder="sub")


def test_a_folder_that_is_too_large_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_links, "_MAX_LOOKED_AT", 3)
    for number in range(5):
        (tree / "sub" / str(number)).touch()
    assert _refused(tree, "sub", every=True)
