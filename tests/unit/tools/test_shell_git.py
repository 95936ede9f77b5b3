"""What a repository's configuration may not bring about, and what of it is overridden."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.errors import ModelError
from shared.settings import Settings
from tests.unit.tools.conftest import Bench
from workers.tools import shell
from workers.tools.shell_git import FIXED, careful, configured, overridden, plain

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
    assert careful(("git", "blame", "x"))[2] == "--no-ignore-revs-file"
    assert careful(("git", "ls-files")) == ("git", "ls-files")
    assert careful(("git",)) == ("git",)


def test_who_wants_no_pager_has_none_anyway() -> None:
    assert plain(["git", "--no-pager", "-P", "log", "-P"]) == ["git", "log", "-P"]
    assert plain(["git", "--no-pager"]) == ["git"]
    assert plain(["git", "-p", "log"]) == ["git", "-p", "log"]
    assert plain(["rg", "-P", "x"]) == ["rg", "-P", "x"]


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


def _git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "protocol.file.allow=always")
    return subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@needs_git
@pytest.mark.parametrize(
    "place",
    ["packed-refs", "info/grafts", "rebase-merge/done", "refs/heads/x", "objects/ab", "modules/x/config"],
)
def test_no_link_in_a_repository_leads_outside(workspace: Path, place: str) -> None:
    _repository(workspace)
    (workspace.parent / "secret.txt").write_text("secret")
    link = workspace / ".git" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(workspace / ".git" / "description")
    assert shell.prepare(_settings(workspace), "git status", "")
    link.unlink()
    link.symlink_to(workspace.parent / "secret.txt")
    with pytest.raises(ModelError, match="leads outside"):
        shell.prepare(_settings(workspace), "git status", "")


@needs_git
def test_no_objects_come_from_outside(workspace: Path) -> None:
    for folder in (workspace.parent / "foreign", workspace / "own", workspace / "between", workspace / "fine"):
        _repository(folder)

    def borrow(name: str, place: str) -> None:
        (workspace / name / ".git" / "objects" / "info" / "alternates").write_text(f"{place}\n")

    borrow("fine", "../../../own/.git/objects")
    assert shell.prepare(_settings(workspace), "git log", "fine")
    borrow("between", f"{workspace.parent}/foreign/.git/objects")
    borrow("fine", "../../../between/.git/objects")  # in two steps
    for cwd in ("between", "fine"):
        with pytest.raises(ModelError, match="leads outside"):
            shell.prepare(_settings(workspace), "git log", cwd)


@needs_git
def test_no_git_is_started_in_a_submodule(workspace: Path) -> None:
    for name in ("inner", "outer"):
        _repository(workspace / name)
        _git(workspace / name, "commit", "-q", "--allow-empty", "-m", "x")
    settings = Settings.model_validate({"workspace": {"dir": workspace}, "shell": {"allow": ("git *",)}})
    assert shell.prepare(settings, "git add -A", "outer")
    _git(workspace / "outer", "submodule", "--quiet", "add", "../inner", "sub")
    assert shell.prepare(settings, "git status && git diff && git log -p", "outer")
    for line in ("git add -A", "git log && git commit -m x", "git describe --dirty", "git stash"):
        with pytest.raises(ModelError, match="submodules"):
            shell.prepare(settings, line, "outer")


@needs_git
def test_a_file_of_revisions_is_not_read(workspace: Path) -> None:
    _repository(workspace, "[blame]", " ignoreRevsFile = ../../secret.txt")
    (workspace / "a.txt").write_text("one")
    (workspace.parent / "secret.txt").write_text("secret")
    _git(workspace, "add", "a.txt")
    _git(workspace, "commit", "-q", "-m", "x")
    plan = shell.prepare(_settings(workspace), "git blame a.txt", "")
    done = subprocess.run(plan.pipelines[0][1][0], cwd=workspace, env=plan.env, capture_output=True, check=False)
    assert (done.returncode, b"secret" in done.stderr) == (0, False)


@needs_git
def test_a_repository_that_a_line_has_brought_is_guarded_as_well(
    make_bench: Callable[..., Bench], workspace: Path
) -> None:
    _repository(workspace / "copied", '[filter "x"]', f" clean = touch {workspace.parent}/proof && cat")
    (workspace / "copied" / "a.txt").write_text("one")
    (workspace / "copied" / ".gitattributes").write_text("* filter=x")
    _git(workspace / "copied", "add", "a.txt")
    (workspace.parent / "proof").unlink()
    (workspace / "empty").mkdir()
    (workspace / "copied" / "a.txt").write_text("two")
    bench = make_bench(shell={"allow": ("cp", "git status"), "sandbox": "off"})
    said = bench.run("shell_run", command="cp -r ../copied/. . && git status --short", cwd="empty").seen
    assert said.splitlines()[0] == "AM a.txt"
    assert not (workspace.parent / "proof").exists()
