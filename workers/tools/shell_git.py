"""Git in a repository that nobody vouches for: its configuration may name programs, folders and other repositories.

What has a fixed name is overridden by `FIXED`. Filters, drivers and trailers have names that a repository chooses, so
git itself is asked which there are, and each is overridden as well. Asking runs nothing: git reads its configuration.
Where a submodule's configuration would come to bear, which is another repository's, git does not run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from workers.tools.shell_grammar import refused
from workers.tools.shell_programs import names

FIXED: Final = {
    "core.alternateRefsCommand": "false",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "diff.external": "true",
    "diff.ignoreSubmodules": "dirty",
    "diff.orderFile": "/dev/null",
    "diff.submodule": "short",
    "gc.auto": "0",
    "gpg.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "interactive.diffFilter": "",
    "log.showSignature": "false",
    "mailmap.file": "/dev/null",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
_CHOSEN: Final = (
    (re.compile(r"filter\..*\.(clean|smudge|process)", re.S), ""),
    (re.compile(r"filter\..*\.required", re.S), "false"),
    (re.compile(r"diff\..*\.textconv", re.S), "cat"),
    (re.compile(r"diff\..*\.command", re.S), "true"),
    (re.compile(r"merge\..*\.driver", re.S), "false"),
    (re.compile(r"trailer\..*\.(cmd|command)", re.S), "true"),
    (re.compile(r"submodule\..*\.ignore", re.S), "dirty"),
)
_NO_PROGRAM: Final = "--no-ext-diff"
_NO_SUBMODULES: Final = "--ignore-submodules=dirty"
_NO_LISTS: Final = "--no-ignore-revs-file"  # it would quote their lines; its key can be added to, but not overridden
_OPTIONS: Final = {
    **dict.fromkeys(("annotate", "blame"), (_NO_LISTS,)),
    **dict.fromkeys(("diff", "diff-files", "diff-index"), (_NO_PROGRAM, _NO_SUBMODULES)),
    **dict.fromkeys(("diff-tree", "log", "show", "whatchanged"), (_NO_PROGRAM,)),
    "status": (_NO_SUBMODULES,),
}
"""By command: a diff is git's own, and no git is started in a submodule, whose configuration it would follow."""
_ENTERING: Final = names("add checkout commit describe mv reset restore rm stash switch")
"""Commands that may look, with git, whether something in a submodule has changed, and take no option against it."""
_LINK: Final = "160000 "
_FAN_OUT = re.compile("[0-9a-f]{2}")
_SECONDS: Final = 10.0


def configured(values: Mapping[str, str]) -> dict[str, str]:
    """The environment that sets these keys for git, above all its files."""
    env = {"GIT_CONFIG_COUNT": str(len(values))}
    for at, (key, value) in enumerate(values.items()):
        env |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return env


def overridden(listed: str) -> dict[str, str]:
    """What to set instead of what a repository chose, from `git config --list -z`."""
    keys = dict.fromkeys(entry.partition("\n")[0] for entry in listed.split("\0") if entry)
    return {key: value for key in keys for pattern, value in _CHOSEN if pattern.fullmatch(key)}


def careful(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The same command of git, with the options that keep it from programs which no other setting keeps it from."""
    return (*argv[:2], *_OPTIONS.get(argv[1], ()), *argv[2:]) if len(argv) > 1 else argv


def plain(argv: Sequence[str]) -> list[str]:
    """The same command without the wish for no pager: there is none."""
    at = next((at for at, word in enumerate(argv[1:], 1) if word not in ("--no-pager", "-P")), len(argv))
    return [argv[0], *argv[at:]] if argv[0] == "git" else [*argv]


def guarded(git: str, base: Path, folder: Path, env: Mapping[str, str], commands: Iterable[str]) -> dict[str, str]:
    """The environment that keeps git, run in `folder`, from what the repository there names; empty if there is none.

    Raises ModelError when the repository, or the folder that it is about, lies outside the workspace, when something in
    it leads there, or when one of `commands` (log, commit) would start git in a submodule.
    """
    places = _asked(git, folder, env, "rev-parse", "--absolute-git-dir", "--git-common-dir")
    if not places:
        return {}
    found, common = (folder / line for line in places.splitlines()[:2])
    listed = _asked(git, folder, env, "config", "--list", "-z")
    if not listed:  # it has at least what `env` sets
        raise refused("the configuration of the repository here cannot be read", hint="tell the user")
    borrowed = _borrowed(_asked(git, folder, env, "count-objects", "-v"))
    beside = (found / place for place in (*_trees(listed), *borrowed))
    for place in (found, common, *beside, *_links(found), *_links(common)):
        if not Path(os.path.realpath(place)).is_relative_to(base):
            raise refused("the repository here leads outside the workspace", hint="tell the user")
    entering = sorted(_ENTERING.intersection(commands))
    if entering and f"\n{_LINK}" in "\n" + _asked(git, folder, env, "ls-files", "--stage", ":/"):
        raise refused(f"git {entering[0]} would follow the configuration of submodules", hint="tell the user")
    return configured({**FIXED, **overridden(listed)})


def _borrowed(counted: str) -> Iterator[str]:
    """Where objects come from beside the repository's own, from `git count-objects -v`; `/` for what git has quoted."""
    for line in counted.splitlines():
        key, _, place = line.partition(" ")
        if key == "alternate:":
            yield "/" if place.startswith('"') else place


def _links(place: Path) -> Iterator[Path]:
    """The links in a repository. Objects have names that only their content could give, so these are passed over."""
    for where, folders, files in os.walk(place):
        yield from (path for name in (*folders, *files) if (path := Path(where, name)).is_symlink())
        folders[:] = [name for name in folders if not _FAN_OUT.fullmatch(name)]


def _trees(listed: str) -> Iterator[str]:
    for entry in listed.split("\0"):
        key, _, value = entry.partition("\n")
        if key == "core.worktree":
            yield value


def _asked(git: str, folder: Path, env: Mapping[str, str], *words: str) -> str:
    try:
        done = subprocess.run(
            [git, *words],
            cwd=folder,
            env=env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise refused("git does not answer about the repository here", hint="try again later") from error
    except OSError:  # not there: it will not start either
        return ""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""
