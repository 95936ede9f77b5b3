"""Command lines before they run: hundreds that must not, scores that must, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ModelError
from shared.settings import Settings
from tests.unit.tools.conftest import Bench
from tests.unit.tools.hostile import cases, populate
from workers.tools import sandbox, shell
from workers.tools.shell_grammar import Pipeline, Word, parse
from workers.tools.shell_rules import follows, paths_in, permitted

HOSTILE = cases("shell.txt")
BENIGN = cases("shell_benign.txt")[""]


@pytest.fixture
def prepare(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., shell.Plan]:
    """Judges a line in a populated workspace, on a host that has every program."""
    populate(workspace)
    monkeypatch.setattr(shell, "_program", lambda settings, base, name: f"/usr/bin/{name}")

    def run(line: str, cwd: str = "", **rules: Any) -> shell.Plan:
        return shell.prepare(Settings.model_validate({"workspace": {"dir": workspace}, "shell": rules}), line, cwd)

    return run


def _refused(prepare: Callable[..., shell.Plan], line: str, **rules: Any) -> bool:
    try:
        prepare(line, **rules)
    except ModelError as error:
        return error.code == "command_refused"
    return False


def test_the_collections_are_large_enough() -> None:
    assert sum(map(len, HOSTILE.values())) >= 1_400
    assert len(BENIGN) >= 270


def test_no_hostile_line_gets_through_the_shipped_rules(prepare: Callable[..., shell.Plan]) -> None:
    lines = HOSTILE["default"] + HOSTILE["any"]
    assert [line for line in lines if not _refused(prepare, line)] == []


def test_a_rule_for_everything_permits_no_escape(prepare: Callable[..., shell.Plan]) -> None:
    assert [line for line in HOSTILE["any"] if not _refused(prepare, line, allow=("*",))] == []


def test_a_rule_that_names_the_program_permits_no_escape(prepare: Callable[..., shell.Plan]) -> None:
    def named(line: str) -> tuple[str, ...]:
        return tuple(f"{word} *" for word in line.split())

    assert [line for line in HOSTILE["any"] if not _refused(prepare, line, allow=named(line))] == []


def test_harmless_lines_run(prepare: Callable[..., shell.Plan]) -> None:
    refused = {}
    for line in BENIGN:
        try:
            prepare(line)
        except ModelError as error:
            refused[line] = str(error)
    assert refused == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ls > x", "no redirection"),
        ("echo $HOME", "variables and substitutions"),
        ("cd sub", "cwd argument"),
        ("ls & id", "background"),
        ("rm a.txt", "no rule of shell.allow permits `rm a.txt`"),
        ("find . -delete", "it has -delete"),
        ("cat ../x", "leads outside the workspace"),
        ("cat " + "a/" * 200, "more than 100 folders"),
        ("diff -r . sub", "--no-dereference"),
        ("grep -R one .", "grep with -r"),
        ("grep - ../x", "leads outside the workspace"),
        ("git blame --help", "it has --help"),
        ("ls；id", "U+FF1B"),
    ],
)
def test_a_refusal_says_why(prepare: Callable[..., shell.Plan], line: str, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        prepare(line)
    assert said in str(caught.value)


def test_lines_become_pipelines() -> None:
    assert parse("a 'b c'\"d\" | e && f; g ''") == (
        Pipeline(((Word("a"), Word("b cd")), (Word("e"),)), ""),
        Pipeline(((Word("f"),),), "&&"),
        Pipeline(((Word("g"), Word("")),), ";"),
    )
    assert parse("ls '*'*")[0].commands[0][1] == Word("**", "[*]*")


def test_patterns_are_files_of_the_folder(prepare: Callable[..., shell.Plan], workspace: Path) -> None:
    (workspace / "-n.txt").write_text("x")
    (workspace / ".hidden.txt").write_text("x")
    argv = prepare("cat *.txt").pipelines[0][1][0]
    assert argv == ("/usr/bin/cat", "./-n.txt", "a.txt", "año.txt", "b.txt", "with blank.txt")
    assert prepare("ls -d */").pipelines[0][1][0][2:] == ("sub/",)  # folders only, and no links
    assert prepare("cat */*.txt").pipelines[0][1][0][1:] == ("sub/c.txt",)
    assert prepare("cat *.txt", cwd="sub").pipelines[0][1][0][1:] == ("c.txt",)
    assert prepare("cat out*/secret.txt").pipelines[0][1][0][1:] == ("out*/secret.txt",)  # links are not looked into
    assert prepare("cat nothing*").pipelines[0][1][0][1:] == ("nothing*",)
    assert prepare("cat '*.txt'").pipelines[0][1][0][1:] == ("*.txt",)
    for number in range(401):
        (workspace / f"many{number}").touch()
    with pytest.raises(ModelError, match="more than 400 files"):
        prepare("cat many*")


@pytest.mark.parametrize("cwd", ["..", "/etc", "outdir", "absent", "a.txt", "sub/../.."])
def test_the_folder_is_inside(prepare: Callable[..., shell.Plan], cwd: str) -> None:
    with pytest.raises(ModelError):
        prepare("ls", cwd=cwd)


def test_a_path_is_judged_from_the_folder(prepare: Callable[..., shell.Plan]) -> None:
    assert prepare("cat ../a.txt", cwd="sub")
    with pytest.raises(ModelError, match="outside"):
        prepare("cat ../../secret.txt", cwd="sub")


@pytest.mark.parametrize(
    ("argv", "allow", "deny", "runs"),
    [
        ("git log -3", ["git log"], [], True),
        ("git log", ["git log *"], [], True),
        ("git show", ["git log"], [], False),
        ("git log", ["g*"], [], True),
        ("gitx log", ["git*"], [], False),
        ("gitx log", ["gitx l*"], [], True),
        ("LS", ["ls"], [], False),
        ("ls -l", ["ls"], ["ls"], False),
        ("ls -l", ["ls"], ["LS -L"], False),
        ("git -C x push", ["git *"], ["git push"], False),
        ("git log --all", ["git log"], ["git * --all"], False),
        ("git log", ["git log"], ["git push"], True),
        ("git log --al", ["git log"], ["git log --all"], False),
        ("git log --all=x", ["git log"], ["git log --all"], False),
        ("git log --allx", ["git log"], ["git log --all"], True),
        ("git log -- a", ["git log"], ["git log --all"], True),
        ("bash *", ["bash *"], [], False),
        ("python3 *.py", ["python3 *.py"], [], False),
        ("python3 a?.py", ["python3 a?.py"], [], False),
        ("python3 [a].py", ["python3 [a].py"], [], False),
        ("python3 a.py", ["python3 *"], [], False),
        ("python3 a.py", ["python3 a.py"], [], True),
        ("python3 a.py b", ["python3 a.py"], [], False),
        ("make test", ["make test"], [], True),
        ("make test", ["make test"], ["make"], False),
        ("sort -o x a", ["sort -o x a"], [], True),
        ("sort -o y a", ["sort -o x a"], [], False),
        ("sed -n 1,5p a", ["sed"], [], True),
        ("sed s/a/b/g a", ["sed"], [], True),
        ("sed -n $p a", ["sed"], [], True),
        ("ls", [], [], False),
        ("ls", [""], [], False),
        ("mytool -v x", ["mytool"], [], True),
        ("tee x", ["tee"], [], True),
        ("date -d tomorrow +%d", ["date"], [], True),
        ("date 01010000", ["date"], [], False),
        ("date -ud now +%d", ["date"], [], True),
        ("date -Id now", ["date"], [], False),
        ("uniq -f 1 x", ["uniq"], [], True),
        ("uniq -f 1 x y", ["uniq"], [], False),
        ("xxd -l 32 x", ["xxd"], [], True),
        ("xxd -ps x y", ["xxd"], [], False),
        ("uniq -cf 1 x", ["uniq"], [], True),
        ("uniq -cf 1 x y", ["uniq"], [], False),
        ("uniq -fc 1 x", ["uniq"], [], False),
        ("cp -tbin x", ["cp"], [], True),
        ("cp -btbin x", ["cp"], [], False),
        ("mytool --output x", ["mytool"], [], True),
        ("mytool --no-pager x", ["mytool"], [], True),
        ("mytool --recommend x", ["mytool"], [], True),
        ("mytool --run-command=x", ["mytool"], [], False),
        ("mytool a@b", ["mytool"], [], True),
        ("cksum --check a", ["cksum"], [], False),
        ("mytool @b", ["mytool"], [], False),
        ("sed -n /error/,$p a", ["sed"], [], True),
        ("sed /^#/d a", ["sed"], [], True),
        ("sed -n /a/w a", ["sed"], [], False),
        ("cp -r a b", ["cp"], [], True),
        ("cp -rs a b", ["cp"], [], False),
        ("vim.tiny a", ["vim.tiny *"], [], False),
        ("git-shell", ["git-shell *"], [], False),
    ],
)
def test_rules(argv: str, allow: list[str], deny: list[str], runs: bool) -> None:
    assert (permitted(argv.split(), allow, deny) is None) is runs


def test_a_name_that_leads_to_an_interpreter_is_one() -> None:
    assert permitted(["tool", "x"], ["tool"], [], real="tool") is None
    assert "python3.11" in str(permitted(["tool", "x"], ["tool"], [], real="python3.11"))
    assert permitted(["tool", "x"], ["tool x"], [], real="python3.11") is None


@pytest.mark.parametrize(
    ("argv", "links"),
    [
        ("diff a b", "all"),
        ("diff -r --no-dereference a b", ""),
        ("diff --brief --no-dereference a b", ""),
        ("diff a --no-dereference b", ""),
        ("diff -x --no-dereference a b", "all"),
        ("diff -- --no-dereference b", "all"),
        ("cp a b", "same"),
        ("cp -rT a b", "all"),
        ("cp --no-target-dir a b", "all"),
        ("ls a", ""),
        ("grep -r a b", ""),
        ("grep -nR a b", "all"),
        ("egrep --dereference-r a b", "all"),
    ],
)
def test_programs_that_go_through_links(argv: str, links: str) -> None:
    assert follows(argv.split()) == links


@pytest.mark.parametrize("line", ["tee AGENTS.md", "cp a.txt .git/x", "git rm AGENTS.md", "mytool AGENTS.md"])
def test_only_a_rule_of_its_own_lets_a_command_write_what_is_protected(
    prepare: Callable[..., shell.Plan], line: str
) -> None:
    assert _refused(prepare, line, allow=(f"{line} *",))
    assert not _refused(prepare, line, allow=(line,))
    assert not _refused(prepare, "cat AGENTS.md")
    assert not _refused(prepare, "git log -- AGENTS.md .git")


def test_values_inside_options_count_as_paths() -> None:
    assert "/etc" in [*paths_in(["x", "-I/etc"])]
    assert "../y" in [*paths_in(["x", "-vf../y"])]
    assert "/etc/passwd" in [*paths_in(["x", "--file=/etc/passwd"])]
    assert "/b" in [*paths_in(["x", "a:/b"])]
    assert [*paths_in(["echo", "/etc"])] == []
    assert "/etc" not in [*paths_in(["grep", "-n", "/etc", "file"])]
    assert "/etc" in [*paths_in(["grep", "-e", "x", "/etc"])]
    assert "/etc" in [*paths_in(["grep", "-", "/etc"])]
    assert "/etc" in [*paths_in(["grep", "--", "-A", "/etc"])]
    assert "/etc" in [*paths_in(["grep", "--label", "-A", "x", "/etc"])]
    assert "/etc" in [*paths_in(["grep", "--lab", "-A", "x", "/etc"])]
    assert "/etc" not in [*paths_in(["grep", "-nA", "1", "/etc", "file"])]
    assert "/etc" not in [*paths_in(["grep", "--exclude=x", "/etc", "file"])]
    assert "/etc" not in [*paths_in(["grep", "-A1", "--", "/etc", "file"])]
    assert "." in [*paths_in(["grep", "-R", "x"])]
    assert "." in [*paths_in(["grep", "-R", "-e", "x", "y"])]
    assert "." not in [*paths_in(["grep", "-R", "x", "y"])]
    assert "a,b" in [*paths_in(["diff", "--from-file=a,b", "c"])]  # a name may hold what else separates names
    assert "a" in [*paths_in(["diff", "--from-file=a,b", "c"])]
    assert "out" in [*paths_in(["grep", "-nnnnnnnnnnnnnnnnnfout", "a"])]
    assert "/" not in [*paths_in(["sort", "-t", "/", "-k2", "a"])]
    assert "/" in [*paths_in(["ls", "/"])]
    assert "s/../../1" in [*paths_in(["sed", "-n", "p", "s/../../1"])]
    assert "s/a/b/" not in [*paths_in(["sed", "s/a/b/", "f"])]


def test_programs_are_looked_for_outside_the_workspace_only(workspace: Path, tmp_path: Path) -> None:
    for folder in (workspace, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    (tmp_path / "bin" / "back").symlink_to(workspace / "tool")

    def plan(name: str, *path: str) -> shell.Plan:
        rules = {"allow": (name,), "path": path}
        return shell.prepare(Settings.model_validate({"workspace": {"dir": workspace}, "shell": rules}), name, "")

    assert plan("tool", str(tmp_path / "bin")).pipelines[0][1] == ((str(tmp_path / "bin" / "tool"),),)
    for path in (str(workspace), ".", "bin"):
        with pytest.raises(ModelError, match="not installed"):
            plan("tool", path)
    with pytest.raises(ModelError, match="not installed"):
        plan("back", str(tmp_path / "bin"))


def test_the_environment_holds_nothing_of_the_worker(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_PRELOAD", "x.so")
    env = shell.environment(Settings().shell, workspace)
    assert not {"OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH"} & set(env)
    assert env["HOME"] == str(workspace)
    assert env["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_the_tool_is_missing_without_rules_or_sandbox(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = bench.tool("shell_run").requires
    assert requires is not None

    def missing(folder: Path = bench.settings.workspace.dir, **rules: Any) -> str | None:
        return requires(Settings.model_validate({"workspace": {"dir": folder}, "shell": rules}))

    assert missing() is None
    assert "shell.allow" in str(missing(allow=()))
    monkeypatch.setattr(sandbox, "unusable", lambda: "bubblewrap (bwrap) is not installed")
    assert "bwrap" in str(missing(sandbox="on"))
    assert missing(sandbox="auto") is None
    assert "workspace" in str(missing(Path("/absent")))
