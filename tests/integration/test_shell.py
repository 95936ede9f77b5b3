"""Commands for real: what they see, what bounds them, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import uvloop

from shared.errors import ModelError
from shared.settings import Settings
from tests.support.values import fields
from tests.unit.tools.hostile import populate
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.tools import sandbox
from workers.tools.shell import shell_run

pytestmark = pytest.mark.integration


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    populate(folder)
    return folder


def _unusable() -> str:
    """Why there is no sandbox: in CI too the kernel may forbid user namespaces, but the program must be there."""
    why = sandbox.unusable()
    if why and not sandbox.program() and os.environ.get("CI"):
        pytest.fail("bubblewrap is not installed")
    return why


@pytest.fixture(params=["off", "on"])
def box(request: pytest.FixtureRequest) -> str:
    if request.param == "on" and (why := _unusable()):
        pytest.skip(why)
    return str(request.param)


def _context(workspace: Path, **rules: Any) -> ToolContext:
    settings = Settings.model_validate({"workspace": {"dir": workspace}, "shell": rules})
    services: Any = SimpleNamespace(blocking=None, now=time.time)
    return ToolContext("ana", "s", "r", "n", "n", int((time.time() + 60) * 1000), settings, services)


def _run(workspace: Path, command: str, *, rules: dict[str, Any] | None = None, **args: Any) -> ToolOutput:
    return asyncio.run(shell_run.call(_context(workspace, **(rules or {})), {"command": command, **args}))


def _printed(output: ToolOutput) -> str:
    """What the programs wrote to their standard output."""
    printed = fields(output.value)["stdout"]
    assert isinstance(printed, str)
    return printed


def _exact(workspace: Path, box: str, *words: str, **rules: Any) -> ToolOutput:
    """Runs `sh name` with a script, which only its own rule permits."""
    (workspace / "script").write_text("\n".join(words))
    return _run(workspace, "sh script", rules={"sandbox": box, "allow": ("sh script",), **rules})


def test_lines_do_what_a_shell_would_do(workspace: Path, box: str) -> None:
    def seen(command: str, **args: Any) -> str:
        return _printed(_run(workspace, command, rules={"sandbox": box}, **args))

    assert seen("cat a.txt | sort | head -1") == "TODO three\n"
    assert seen("grep -l one *.txt | wc -l") == "4\n"
    assert seen("ls absent && echo no; echo yes") == "yes\n"
    assert seen("pwd", cwd="sub") == f"{workspace}/sub\n"
    assert seen("tr a-z A-Z", stdin="hola ñ") == "HOLA ñ"
    assert seen("echo '$HOME; `id` | x'") == "$HOME; `id` | x\n"
    assert seen("cat") == ""


def test_exit_codes_and_errors_are_told(workspace: Path, box: str) -> None:
    output = _run(workspace, "grep nothing a.txt; cat absent", rules={"sandbox": box})
    assert fields(output.value)["exit"] == 1
    assert "[stderr]" in output.seen
    assert "absent" in output.seen
    assert output.seen.endswith("[exit code 1]")
    assert _run(workspace, "ls | head -0", rules={"sandbox": box}).seen == "[no output, exit code 0]"


def test_git_runs_nothing_that_a_repository_names(workspace: Path, box: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    proof = workspace / "proof"
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    (workspace / ".git" / "config").write_text(
        f"[core]\n fsmonitor = touch {proof}\n pager = touch {proof}\n hooksPath = {workspace}\n"
        f"[diff]\n external = touch {proof}\n"
    )
    (workspace / ".gitconfig").write_text(f"[core]\n fsmonitor = touch {proof}\n[alias]\n ls-files = !touch {proof}\n")
    for command in ("git status -s", "git diff", "git ls-files"):
        _run(workspace, command, rules={"sandbox": box})
    assert not proof.exists()
    outer = workspace / "plain"
    outer.mkdir()
    shutil.rmtree(workspace / ".git")
    subprocess.run(["git", "init", "-q"], cwd=workspace.parent, check=True)
    assert "not a git repository" in _run(workspace, "git status", rules={"sandbox": box}, cwd="plain").seen


def _made(folder: Path, *config: str) -> None:
    """A repository with one commit, whose files go through a driver `x`, and a change in it."""
    folder.mkdir(exist_ok=True)
    for name, text in (("a.txt", "one\n"), (".gitattributes", "*.txt diff=x filter=x merge=x\n")):
        (folder / name).write_text(text)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (["init", "-q"], ["add", "a.txt", ".gitattributes"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "a.txt").write_text("two\n")
    with (folder / ".git" / "config").open("a") as file:
        file.write("\n".join(config) + "\n")


def test_git_runs_no_driver_of_a_repository_and_still_shows_changes(workspace: Path, box: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    repository, proof = workspace / "repository", workspace / "proof"
    _made(
        repository,
        f'[diff "x"]\n textconv = touch {proof}; cat\n command = touch {proof}',
        f'[filter "x"]\n clean = touch {proof}; cat\n smudge = touch {proof}; cat\n required = true',
        f"[core]\n fsmonitor = touch {proof}\n alternateRefsCommand = touch {proof}",
        f"[diff]\n external = touch {proof}\n submodule = diff\n[gpg]\n format = ssh\n[log]\n showSignature = true",
        f'[gpg "ssh"]\n program = touch {proof}\n[pager]\n log = touch {proof}\n[alias]\n status = !touch {proof}',
    )

    def seen(command: str) -> str:
        os.utime(repository / "a.txt")  # git looks into the file again
        return _printed(_run(workspace, command, rules={"sandbox": box}, cwd="repository"))

    assert "-one\n+two\n" in seen("git diff")
    assert "+one\n" in seen("git log -p")
    assert "+one\n" in seen("git show")
    assert seen("git show HEAD:a.txt") == "one\n"
    assert "M a.txt" in seen("git status -s")
    assert "two" in seen("git blame a.txt")
    assert seen("git ls-files") == ".gitattributes\na.txt\n"
    assert not proof.exists()


def test_git_runs_nothing_that_a_submodule_names(workspace: Path, box: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    outer, proof = workspace / "outer", workspace / "proof"
    _made(workspace / "inner")
    _made(outer)
    add = ["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "sub"]
    subprocess.run(add, cwd=outer, check=True)
    with (outer / ".git/modules/sub/config").open("a") as file:
        file.write(f'[filter "x"]\n clean = touch {proof}; cat\n[diff "x"]\n textconv = touch {proof}; cat\n')
    (outer / "sub" / "a.txt").write_text("three\n")
    assert "sub" in _printed(_run(workspace, "git status -s", rules={"sandbox": box}, cwd="outer"))
    assert "+two" in _printed(_run(workspace, "git diff", rules={"sandbox": box}, cwd="outer"))
    assert not proof.exists()


def test_nothing_is_left_after_the_deadline(workspace: Path, box: str) -> None:
    (workspace / "script").write_text("sleep 987.5 &\nsleep 987.5")
    with pytest.raises(ModelError) as caught:
        _run(workspace, "sh script", rules={"sandbox": box, "allow": ("sh script",)}, timeout_s=1)
    assert caught.value.code == "timed_out"
    _gone("987.5")


def _gone(mark: str) -> None:
    """Waits for the kernel to have taken down all processes with that argument."""
    until = time.monotonic() + 20
    while _alive(mark):
        assert time.monotonic() < until, f"a process with {mark} is left"
        time.sleep(0.05)


def _started(mark: str) -> None:
    until = time.monotonic() + 20
    while not _alive(mark):
        assert time.monotonic() < until, f"no process with {mark} was started"
        time.sleep(0.05)


def _alive(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if mark in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def test_nothing_is_left_of_what_a_command_started_behind_itself(workspace: Path, box: str) -> None:
    _exact(workspace, box, "sleep 876.5 >/dev/null 2>&1 &", "echo done")
    _gone("876.5")


def test_a_cancelled_call_ends_its_programs(workspace: Path, box: str) -> None:
    (workspace / "script").write_text("sleep 765.5")

    async def main() -> None:
        rules = {"sandbox": box, "allow": ("sh script",)}
        call = asyncio.create_task(shell_run.call(_context(workspace, **rules), {"command": "sh script"}))
        await asyncio.to_thread(_started, "765.5")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    _gone("765.5")


def test_too_much_output_is_stopped(workspace: Path, box: str) -> None:
    output = _run(workspace, "yes", rules={"sandbox": box, "allow": ("yes",), "output_bytes": 5_000})
    assert fields(output.value)["cut"] is True
    assert len(_printed(output)) == 5_000
    assert "more than the limit" in output.seen


def test_memory_and_files_are_bounded(workspace: Path, box: str) -> None:
    full = _exact(workspace, box, "head -c 300000000 /dev/zero | tail -c 290000000 | wc -c", memory_bytes=64_000_000)
    assert _printed(full) != "290000000\n"
    _exact(workspace, box, "head -c 3000000 /dev/zero > large", file_bytes=1_000_000)
    assert (workspace / "large").stat().st_size <= 1_000_000


def test_control_characters_do_not_come_through(workspace: Path, box: str) -> None:
    (workspace / "odd.txt").write_bytes(b"\x1b[31mred\x1b[0m\x07\xff\n")
    assert _run(workspace, "cat odd.txt", rules={"sandbox": box}).seen == "red\ufffd"


def test_it_works_on_the_loop_that_workers_have(workspace: Path, box: str) -> None:
    """uvloop, in a thread that is not the first."""
    out: list[str] = []
    call = shell_run.call(_context(workspace, sandbox=box), {"command": "cat a.txt | tail -1"})
    thread = threading.Thread(target=lambda: out.append(uvloop.run(call).seen))
    thread.start()
    thread.join(30)
    assert out == ["TODO three"]


def test_the_sandbox_shows_only_the_workspace(workspace: Path) -> None:
    if why := _unusable():
        pytest.skip(why)
    seen = _exact(
        workspace, "on", "cat ../secret.txt; cat outdir/secret.txt; ls /home /root /srv; echo $HOME; id -u"
    ).seen
    assert "secret\n" not in seen
    assert seen.count("No such file") >= 3
    assert _printed(_exact(workspace, "on", "cat /proc/net/dev | grep -vc -e lo: -e '|'")) == "0\n"
    assert int(_printed(_exact(workspace, "on", "ls /proc | grep -c '^[0-9]'"))) < 10
    written = _exact(workspace, "on", "touch /usr/x; touch /x; touch here")
    assert written.seen.count("Read-only file system") == 2
    assert (workspace / "here").exists()


def test_the_sandbox_writes_only_where_tools_may(workspace: Path) -> None:
    if why := _unusable():
        pytest.skip(why)
    (workspace / "script").write_text("touch no; touch sub/yes")
    settings = Settings.model_validate(
        {
            "workspace": {"dir": workspace, "writable": ("sub",)},
            "shell": {"sandbox": "on", "allow": ("sh script",)},
        }
    )
    services: Any = SimpleNamespace(blocking=None, now=time.time)
    context = ToolContext("ana", "s", "r", "n", "n", int((time.time() + 60) * 1000), settings, services)
    asyncio.run(shell_run.call(context, {"command": "sh script"}))
    assert not (workspace / "no").exists()
    assert (workspace / "sub" / "yes").exists()


def test_without_a_sandbox_that_is_demanded_nothing_runs(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "unusable", lambda: "bubblewrap (bwrap) is not installed")
    with pytest.raises(ModelError) as caught:
        _run(workspace, "ls", rules={"sandbox": "on"})
    assert caught.value.code == "no_sandbox"


def test_wrong_arguments_are_refused(workspace: Path) -> None:
    for args in ({}, {"command": 1}, {"command": "ls", "timeout_s": 0}, {"command": "ls", "shell": True}):
        with pytest.raises(ModelError):
            asyncio.run(shell_run.call(_context(workspace), args))
