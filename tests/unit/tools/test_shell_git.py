"""What a repository's configuration may not bring about, and what of it is overridden."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from shared.errors import ModelError
from shared.settings import Settings
from workers.tools import shell
from workers.tools.shell_git import FIXED, careful, configured, overridden

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_keys_become_an_environment() -> None:
    assert configured({"a.b": "1", "c.d.e": ""}) == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "a.b",
        "GIT_CONFIG_VALUE_0": "1",
        "GIT_CONFIG_KEY_1": "c.d.e",
        "GIT_CONFIG_VALUE_1": "",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filter.lfs.clean", ""),
        ("filter.a.b\nc.process", None),
        ("filter.x.required", "false"),
        ("diff.odt.textconv", "cat"),
        ("diff.with.dots.command", "true"),
        ("merge.ours.driver", "false"),
        ("trailer.sign.cmd", "true"),
        ("submodule.inner.ignore", "dirty"),
        ("diff.external", None),
        ("user.name", None),
        ("filter.x.cleanliness", None),
    ],
)
def test_what_a_repository_chose_is_overridden(key: str, value: str | None) -> None:
    found = overridden(f"user.email\na@example.org\0{key}\nevil; id\0core.bare\nfalse\0")
    assert found == ({} if value is None else {key: value})


def test_diffs_are_gits_own_and_stay_out_of_submodules() -> None:
    assert careful(("git", "diff", "HEAD", "--", "a")) == (
        "git", "diff", "--no-ext-diff", "--ignore-submodules=dirty", "HEAD", "--", "a",
    )  # fmt: skip
    assert careful(("git", "show", "x"))[2] == "--no-ext-diff"
    assert careful(("git", "ls-files")) == ("git", "ls-files")
    assert careful(("git",)) == ("git",)


def _repository(folder: Path, *config: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    with (folder / ".git" / "config").open("a") as file:
        file.write("\n".join(config) + "\n")


def _settings(workspace: Path) -> Settings:
    return Settings.model_validate({"workspace": {"dir": workspace}})


@needs_git
def test_a_plan_holds_what_overrides_the_repository_it_runs_in(workspace: Path) -> None:
    _repository(workspace / "with", '[filter "x"]', " clean = id")
    _repository(workspace / "without")

    def chosen(line: str, cwd: str) -> set[str]:
        env = shell.prepare(_settings(workspace), line, cwd).env
        keys = {value for name, value in env.items() if name.startswith("GIT_CONFIG_KEY_")}
        assert set(FIXED) <= keys
        return keys - set(FIXED)

    assert chosen("git status", "with") == {"filter.x.clean"}
    assert chosen("ls && git log | head -1", "with") == {"filter.x.clean"}
    assert chosen("git status", "without") == set()
    assert chosen("git status", "") == set()  # no repository at all
    assert chosen("ls", "with") == set()


@needs_git
def test_a_repository_that_leads_outside_is_not_read(workspace: Path) -> None:
    _repository(workspace.parent / "foreign")
    _repository(workspace / "tree", "[core]", f" worktree = {workspace.parent}")
    _repository(workspace / "inside", "[core]", " worktree = ../..")
    for name in ("link", "file"):
        (workspace / name).mkdir()
    (workspace / "link" / ".git").symlink_to(workspace.parent / "foreign" / ".git")
    (workspace / "file" / ".git").write_text("gitdir: ../../foreign/.git\n")
    for cwd in ("tree", "link", "file"):
        with pytest.raises(ModelError, match="leads outside"):
            shell.prepare(_settings(workspace), "git status", cwd)
    assert shell.prepare(_settings(workspace), "git status", "inside")
