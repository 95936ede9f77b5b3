"""Commands in the workspace, without a shell: `shell_grammar` says what a line may be, `shell_rules` what may run.

Before anything starts, every command of the line is judged: by the rules, by what its arguments could open, and by
where its program is found. The programs run in a sandbox where there is one (`sandbox`), and always with limits, a
clean environment and no input but what was given.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.settings import Settings
from shared.tool_settings import ShellSettings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import (
    examples_en,
    examples_es,
    paths,
    processes,
    sandbox,
    shell_git,
    shell_links,
    shell_rules,
    words_en,
    words_es,
)
from workers.tools.loglines import shorten_output
from workers.tools.shell_grammar import After, Word, parse, refused

GROUP = GroupSpec(
    name="shell",
    title="Shell",
    keywords={"es": words_es.SHELL, "en": words_en.SHELL},
    examples={"es": examples_es.SHELL, "en": examples_en.SHELL},
)

_MAX_MATCHES = 400
_MAX_LISTED = 20_000
_MAX_SLASHES = 100
_MARGIN_S = 0.5
"""So much earlier than the caller stops waiting, the programs are ended, so that there is an answer."""


@dataclass(frozen=True)
class Plan:
    """A line that may run: pipelines of programs (absolute path and arguments), where, and in what environment."""

    base: Path
    folder: Path
    pipelines: tuple[tuple[After, tuple[tuple[str, ...], ...]], ...]
    env: Mapping[str, str]


def _missing(settings: Settings) -> str | None:
    if not settings.workspace.dir.is_dir():
        return f"the workspace folder {settings.workspace.dir} does not exist; create it or set workspace.dir"
    if not settings.shell.allow:
        return "no command is allowed; set shell.allow"
    if settings.shell.sandbox == "on" and (why := sandbox.unusable()):
        return f"shell.sandbox is on, but {why}"
    return None


@tool(
    group="shell",
    effect=Effect.WRITE,
    untrusted=True,
    timeout_s=605.0,
    parallel=8,
    requires=_missing,
    compress=shorten_output,
    keywords={"es": ("ejecuta", "comando"), "en": ("run", "command")},
    examples={"es": ("ejecuta ls",), "en": ("run ls",)},
)
async def shell_run(
    ctx: ToolContext,
    command: Annotated[
        str,
        Field(description='Programs and arguments, such as "grep -rn TODO src | head -20"; | && ; only, no expansions'),
    ],
    cwd: Annotated[str, Field(description="Folder to run in, relative to the workspace")] = "",
    timeout_s: Annotated[float, Field(description="Seconds after which it is stopped", gt=0, le=600)] = 30.0,
    stdin: Annotated[str, Field(description="Text for the first command to read", max_length=1_000_000)] = "",
) -> ToolOutput:
    """Runs an allowed command line in the workspace, without a shell, and returns its output and exit code."""
    settings = ctx.settings.shell
    loop, pool = asyncio.get_running_loop(), ctx.services.blocking
    boxed = await loop.run_in_executor(pool, _boxed, settings)
    plan = await loop.run_in_executor(pool, prepare, ctx.settings, command, cwd)
    seconds = max(0.1, min(timeout_s, settings.timeout_s, ctx.remaining_s - _MARGIN_S))
    try:
        ran = await _run(ctx, plan, boxed, seconds, stdin.encode("utf-8", "replace"))
    except OSError as error:
        raise ModelError(
            f"the command could not be started: {error.strerror or error}", hint="try again later", code="not_started"
        ) from error
    return _told(ran, seconds)


def _boxed(settings: ShellSettings) -> bool:
    """Whether programs run in the sandbox; the first call tries it. Raises ModelError when they must and cannot."""
    if settings.sandbox == "off":
        return False
    why = sandbox.unusable()
    if why and settings.sandbox == "on":
        raise ModelError(f"commands cannot run: {why}", hint="tell the user", code="no_sandbox")
    return not why


def prepare(settings: Settings, command: str, cwd: str) -> Plan:
    """Judges a command line and finds its programs and files. Raises ModelError that says what is not allowed.

    `env` of the plan holds what keeps git from the repository as it is now; see `_guard`.
    """
    base, relative = paths.contained(settings.workspace.dir, cwd or ".")
    os.close(paths.open_beneath(base, relative, folder=True))
    pipelines = []
    for pipeline in parse(command):
        commands = tuple(_prepared(settings, base, relative, words) for words in pipeline.commands)
        pipelines.append((pipeline.after, commands))
    programs = [argv for _, commands in pipelines for argv in commands]
    return Plan(base, relative, tuple(pipelines), _guard(settings.shell, base, relative, programs))


def _guard(settings: ShellSettings, base: Path, folder: Path, commands: Iterable[Sequence[str]]) -> dict[str, str]:
    """The environment for programs, of which git is kept from what the repository in `folder` names."""
    env = environment(settings, base)
    gits = [argv for argv in commands if PurePosixPath(argv[0]).name == "git"]
    if gits:
        env |= shell_git.guarded(gits[0][0], base, base / folder, env, (argv[1] for argv in gits if argv[1:]))
    return env


def _prepared(every: Settings, base: Path, folder: Path, words: Sequence[Word]) -> tuple[str, ...]:
    settings, name = every.shell, words[0].text
    argv = [name, *(text for word in words[1:] for text in _expanded(base, folder, word))]
    if not shell_rules.exact(argv, settings.allow):
        argv = shell_git.plain(argv)
    program = _program(settings, base, name)
    real = Path(os.path.realpath(program)).name if program else ""
    if why := shell_rules.permitted(argv, settings.allow, settings.deny, real):
        raise refused(why, hint="use what is permitted, or a file tool")
    protected = () if shell_rules.exact(argv, settings.allow) else every.workspace.protected
    named = [*shell_rules.paths_in(argv)]
    for path in named:
        _inside(base, folder, path, protected if shell_rules.writes(argv) else ())
    if followed := shell_rules.follows(argv):
        shell_links.refuse(base, folder, named, every=followed == "all")
    if not program:
        raise refused(f"{name} is not installed", hint="use another program")
    return (program, *(shell_git.careful(tuple(argv)) if name == "git" else argv)[1:])


def _expanded(base: Path, folder: Path, word: Word) -> Iterator[str]:
    """The file names that a pattern matches, in order; the word itself if it matches none, or is no pattern."""
    if word.pattern is None:
        yield word.text
        return
    parts = PurePosixPath(word.pattern).parts
    if word.pattern.startswith("/") or ".." in parts:
        raise refused(f"the pattern {word.text!r} leaves the folder", hint="use patterns relative to cwd")
    slash = "/" if word.pattern.endswith("/") else ""  # folders only
    found = [f"{path}{slash}" for path in _matches(base, folder, parts, folders=bool(slash))]
    if len(found) > _MAX_MATCHES:
        raise refused(f"{word.text!r} matches more than {_MAX_MATCHES} files", hint="use a narrower pattern")
    if not found:
        yield word.text
    for path in found:
        yield f"./{path}" if path.startswith("-") else path  # a file name is never an option


def _matches(base: Path, folder: Path, parts: Sequence[str], *, folders: bool) -> list[str]:
    """Links are neither followed nor, as folders, looked into."""
    found = [""]
    listed = 0
    for depth, part in enumerate(parts):
        grown: list[str] = []
        for prefix in found:
            try:
                entries = paths.entries(base, folder / prefix)
            except ModelError:  # not a folder, or gone
                continue
            listed += len(entries)
            if listed > _MAX_LISTED:
                raise refused("the pattern looks through too many files", hint="use a narrower pattern")
            last = depth == len(parts) - 1 and not folders
            names = [PurePosixPath(one.path).name for one in entries if one.folder or last]
            shown = [name for name in names if part.startswith(".") or not name.startswith(".")]
            grown += [f"{prefix}/{name}".lstrip("/") for name in shown if fnmatchcase(name, part)]
        found = grown
    return sorted(found)


def _inside(base: Path, folder: Path, argument: str, protected: Sequence[str]) -> None:
    if argument.count("/") > _MAX_SLASHES:
        raise refused(f"a path in its arguments goes through more than {_MAX_SLASHES} folders")
    try:
        _, relative = paths.contained(base, str(folder / argument))
    except ModelError as error:
        raise refused(
            f"{argument[:200]!r} in its arguments leads outside the workspace",
            hint="use paths relative to cwd, inside the workspace",
        ) from error
    if protected and paths.protects(protected, (*PurePosixPath(argument).parts, *relative.parts)):
        raise refused(
            f"{argument[:200]!r} is protected: tools do not write it", hint="tell the user, who may do it by hand"
        )


def _program(settings: ShellSettings, base: Path, name: str) -> str:
    """The absolute path of a program, empty if there is none; what lies in the workspace is none."""
    for folder in settings.path:
        candidate = folder / name
        real = Path(os.path.realpath(candidate))
        foreign = folder.is_absolute() and not real.is_relative_to(base) and not candidate.is_relative_to(base)
        if foreign and real.is_file() and os.access(real, os.X_OK):
            return str(candidate)
    return ""


def environment(settings: ShellSettings, base: Path) -> dict[str, str]:
    """All that programs get to see of an environment: nothing of the worker's own but its time zone."""
    env = {
        "PATH": ":".join(map(str, settings.path)),
        "HOME": str(base),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "EDITOR": "false",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_ASKPASS": "false",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CEILING_DIRECTORIES": str(base.parent),
        **shell_git.configured(shell_git.FIXED),
    }
    if zone := os.environ.get("TZ"):
        env["TZ"] = zone
    return env


async def _run(ctx: ToolContext, plan: Plan, boxed: bool, seconds: float, stdin: bytes) -> processes.Ran:
    """Runs the pipelines of a line one after the other, within the bounds of one.

    Git is guarded anew behind others, which may have brought another repository.
    """
    shell, loop = ctx.settings.shell, asyncio.get_running_loop()
    writable = tuple(plan.base / one for one in ctx.settings.workspace.writable)
    box = sandbox.Sandbox(plan.base, writable, shell.path, shell.network)
    until = loop.time() + seconds
    total = processes.Ran()
    folder = paths.open_beneath(plan.base, plan.folder, folder=True)
    try:
        for after, commands in plan.pipelines:
            if after == "&&" and total.code != 0:
                continue
            env = plan.env
            if after:
                at = (shell, plan.base, plan.folder, commands)
                env = await loop.run_in_executor(ctx.services.blocking, _guard, *at)
            if boxed:
                commands = tuple(tuple(box.around(argv, plan.base / plan.folder)) for argv in commands)
            used = len(total.stdout) + len(total.stderr)
            ran = await processes.run(
                commands,
                folder=folder,
                env=env,
                limits=processes.Limits(
                    max(0.05, until - loop.time()),
                    max(0, shell.output_bytes - used),
                    shell.memory_bytes,
                    shell.file_bytes,
                    shell.processes,
                ),
                stdin=stdin,
                lock=not boxed,  # the sandbox does so itself
            )
            stdin = b""
            total = processes.Ran(ran.code, total.stdout + ran.stdout, total.stderr + ran.stderr, ran.cut, ran.expired)
            if ran.cut or ran.expired:
                break
    finally:
        os.close(folder)
    return total


_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _text(data: bytes) -> str:
    return _CONTROLS.sub("", data.decode("utf-8", "replace"))


def _told(ran: processes.Ran, seconds: float) -> ToolOutput:
    out, err = _text(ran.stdout), _text(ran.stderr)
    if ran.expired:
        so_far = f" Output so far:\n{_joined([out, err])[-2_000:]}" if out or err else ""
        raise ModelError(
            f"the command did not end within {seconds:g} s and was stopped; what it had done stays done.{so_far}",
            hint="give it more time with timeout_s, or less to do",
            code="timed_out",
        )
    notes = []
    if ran.cut:
        notes.append("[stopped: its output was more than the limit; narrow it, for example with head]")
    elif ran.code < 0:
        notes.append(f"[ended by signal {-ran.code}; it may have run into a limit of memory, file size or time]")
    elif ran.code:
        notes.append(f"[exit code {ran.code}]")
    value: dict[str, JsonValue] = {"exit": ran.code, "stdout": out, "stderr": err, "cut": ran.cut}
    shown = _joined([out, f"[stderr]\n{err}" if err.strip() else "", *notes])
    return ToolOutput(value, shown or "[no output, exit code 0]")


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())
