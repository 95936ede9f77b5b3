"""Whether one command may run: rules over its words, and what no rule lets through by the way. Pure.

A rule is words, of which each is a glob over the word at its place: `git log` speaks about every command that begins
with these two, `ls` (or `ls *`) about every `ls`. To permit, the words must match as they are; to deny, case does not
count and other words may stand between, so that `git push` also denies `git -C x push`.

Some commands can do anything: interpreters, what starts other programs, options that name a program to run or a list
of files to open, or that follow links. No rule permits these by a prefix or a glob: only one that is, word for word,
the command itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_INTERPRETERS: Final = _set(
    "ash awk bash bun busybox csh dash deno elvish erl expect fish gawk gdb ghci groovy guile gjs irb java jshell "
    "julia ksh lua luajit m4 mawk mksh mono nawk node nodejs nu octave osascript perl php pwsh pypy python r "
    "rbash rscript ruby sash scala sh sqlite swift tclsh toybox wish yash zsh"
)
_STARTERS: Final = _set(
    "apt apt-get at batch bazel bwrap capsh cargo chroot chrt cmake cpulimit crontab dbus-run-session docker doas "
    "dpkg entr env exec fakeroot find2perl firejail flatpak flock gcc go gradle hyperfine ionice just kubectl ld "
    "ltrace make meson mount mvn newgrp nice ninja nohup npm npx nsenter numactl parallel pip pipx pkexec pnpm "
    "podman poetry prlimit proot rpm run-parts runcon runuser script setarch setpriv setsid sg snap "
    "start-stop-daemon stdbuf strace su sudo systemctl systemd-run taskset time timeout tox unshare uv uvx "
    "valgrind watch xargs xvfb-run yarn"
)
_PAGERS_AND_EDITORS: Final = _set(
    "ed elinks emacs emacsclient ex info jed joe less lesspipe links lynx man mc mcedit micro more most nano nvim "
    "pg pico pinfo rview rvim screen tmux vi view vim vimdiff w3m"
)
_CARRIERS: Final = _set(
    "7z ar bsdtar cpio curl dd ftp install ln mail mailx mkfifo mknod nc ncat netcat nmap openssl patch pax rsync "
    "scp sendmail sftp socat ssh tar telnet unzip wget zip"
)
_LAUNCHERS: Final = _INTERPRETERS | _STARTERS | _PAGERS_AND_EDITORS | _CARRIERS
_VERSION = re.compile(r"[-0-9.]+$")


@dataclass(frozen=True)
class _Escapes:
    """Options that need a rule of their own: `long` without dashes, `short` letters, `words` as they are."""

    long: frozenset[str] = frozenset()
    short: str = ""
    words: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    """Whole options that are beginnings of one in `long`, which GNU programs would take for it otherwise."""


_SUMS: Final = _Escapes(_set("check"), "c")
_GREP: Final = _Escapes(_set("dereference-recursive"), "R")
_UNKNOWN: Final = _Escapes(
    _set(
        "checkpoint-action command compress-program editor eval exec exec-batch exec-path expression ext-diff "
        "files-from files0-from filter init-file interpreter load open-files-in-pager pager plugin pre "
        "preprocessor receive-pack require rsh rsh-command shell to-command upload-pack use-compress-program"
    ),
    words=_set("-exec -execdir -ok -okdir -delete"),
)
_PLAIN: Final = _set(
    "basename cat chmod cmp column comm cut dirname echo expr fmt fold head id join mkdir mv nl od paste printf "
    "pwd readlink realpath rev rm rmdir seq tac tail tee test touch tr true uname uniq whoami xxd"
)
_BY_PROGRAM: Final[dict[str, _Escapes]] = {
    "cp": _Escapes(_set("dereference"), "LH"),
    "date": _Escapes(_set("set"), "s"),
    "du": _Escapes(_set("dereference dereference-args files0-from"), "DHL"),
    "file": _Escapes(_set("compile files-from magic-file uncompress"), "fmCzZ"),
    "find": _Escapes(
        words=_set("-exec -execdir -ok -okdir -delete -fls -fprint -fprint0 -fprintf -files0-from -follow -L -H")
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "ls": _Escapes(_set("dereference dereference-command-line dereference-command-line-symlink-to-dir"), "LH"),
    "md5sum": _SUMS,
    "rg": _Escapes(_set("follow hostname-bin pre pre-glob search-zip"), "Lz"),
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "shuf": _Escapes(_set("output random-source"), "o"),
    "sort": _Escapes(_set("compress-program files0-from output random-source temporary-directory"), "oT"),
    "split": _Escapes(_set("filter")),
    "stat": _Escapes(_set("dereference"), "L"),
    "tree": _Escapes(_set("fromfile fromtabfile gitfile infofile"), "loR"),
    "wc": _Escapes(_set("files0-from")),
    **dict.fromkeys(_PLAIN, _Escapes()),
}
_GIT: Final = _Escapes(
    _set(
        "config-env contents exec exec-path ext-diff git-dir ignore-revs-file no-index open-files-in-pager output "
        "filters output-directory paginate receive-pack show-signature template textconv upload-pack work-tree"
    ),
    harmless=_set("text"),
)
_GIT_COMMANDS: Final = _set(
    "add annotate blame branch cat-file check-ignore checkout commit count-objects describe diff diff-files "
    "diff-index diff-tree for-each-ref grep init log ls-files ls-tree merge-base mv name-rev reflog reset restore "
    "rev-list rev-parse rm shortlog show show-branch show-ref stash status switch tag version whatchanged"
)
_SED_SCRIPT = re.compile(r"(\d+|\$)?(,(\d+|\$))?[pdq=]|s([/|#,])((?!\4).)*\4((?!\4).)*\4[gpiI0-9]*")
_NO_FILES: Final = _set("echo printf tr basename dirname seq expr")


def permitted(argv: Sequence[str], allow: Iterable[str], deny: Iterable[str], real: str = "") -> str | None:
    """Why a command may not run, None if it may. `real` is the name of the file that the program's name leads to."""
    rules = [rule.split() for rule in allow]
    if (denied := next((rule for rule in deny if _denies(rule.split(), argv)), None)) is not None:
        return f"the rule {denied!r} of shell.deny forbids it"
    if [*argv] in rules:
        return None
    if not any(_permits(rule, argv) for rule in rules):
        programs = sorted({rule[0] for rule in rules if rule})
        return f"no rule of shell.allow permits `{' '.join(argv[:2])[:80]}`; there are rules for {', '.join(programs)}"
    if (risk := _risk(argv)) or (risk := _launches(real)):
        return f"{risk}, which only a rule that is exactly this command may permit"
    return None


def _permits(rule: Sequence[str], argv: Sequence[str]) -> bool:
    while len(rule) > 1 and rule[-1] == "*":
        rule = rule[:-1]
    return 0 < len(rule) <= len(argv) and all(fnmatchcase(a, r) for r, a in zip(rule, argv, strict=False))


def _denies(rule: Sequence[str], argv: Sequence[str]) -> bool:
    while len(rule) > 1 and rule[-1] == "*":
        rule = rule[:-1]
    words = iter(word.casefold() for word in argv)
    first = next(words, "")
    if not rule or not fnmatchcase(first, rule[0].casefold()):
        return False
    return all(any(fnmatchcase(word, part.casefold()) for word in words) for part in rule[1:])


def _launches(program: str) -> str:
    name = program.casefold()
    if name in _LAUNCHERS or _VERSION.sub("", name) in _LAUNCHERS:
        return f"{program} can start any program or reach any file"
    return ""


def _risk(argv: Sequence[str]) -> str:
    """What makes a command able to do more than it says; empty if nothing is known."""
    program, args = argv[0], argv[1:]
    if program == "sed":
        return _sed(args)
    if launches := _launches(program):
        return launches
    if program == "git":
        return _git(args)
    if program == "uniq" and len([arg for arg in args if not arg.startswith(("-", "+"))]) > 1:
        return "a second name makes uniq write that file"
    if program == "xxd" and len([arg for arg in args if not arg.startswith("-")]) > 1:
        return "a second name makes xxd write that file"
    if program == "diff":
        escapes = _Escapes(_set("paginate"), "l" if "--no-dereference" in args else "lr")
        hint = "" if "--no-dereference" in args else " (-r needs --no-dereference: it would follow links)"
        return (found := _escape(escapes, args)) and found + hint
    if program not in _BY_PROGRAM and (code := next((arg for arg in args if re.match("-[ce]", arg)), "")):
        return f"it has {code[:40]}"
    return _escape(_BY_PROGRAM.get(program, _UNKNOWN), args)


def _escape(escapes: _Escapes, args: Iterable[str]) -> str:
    for arg in args:
        name = arg[2:].split("=", 1)[0]
        if arg in escapes.words:
            return f"it has {arg}"
        if arg.startswith("--") and name and name not in escapes.harmless:
            if any(option.startswith(name) for option in escapes.long):
                return f"it has --{name}"
        elif arg.startswith("-") and not arg.startswith("--") and any(letter in arg for letter in escapes.short):
            return f"it has {arg[:40]}"
    return ""


def _git(args: Sequence[str]) -> str:
    if not args or args[0] not in _GIT_COMMANDS:
        return f"git {args[0][:40] if args else ''} can start programs that its configuration names"
    if args[0] == "grep" and any(re.match(r"-[A-Za-z0-9]*O", arg) for arg in args[1:]):
        return "it has -O, a pager"
    if any(re.search(r"%\(?trailers|%G", arg) for arg in args):
        return "its format starts a program"
    return _escape(_GIT, args[1:])


def _sed(args: Sequence[str]) -> str:
    """A script that only prints, deletes or substitutes has no way to files and programs; others may."""
    rest = [arg for arg in args if arg not in ("-n", "-E", "-r", "-s", "--quiet", "--silent", "--")]
    if any(arg.startswith("-") for arg in rest):
        return "it has an option of sed that is not -n, -E, -r or -s"
    if not rest or not _SED_SCRIPT.fullmatch(rest[0]):
        return "its script is more than one line number, range or simple substitution"
    return ""


def paths_in(argv: Sequence[str]) -> Iterator[str]:
    """Everything in the arguments that the program might open as a file, also inside options and lists.

    For `grep` without option for patterns the first word that is no option is the pattern, and no file.
    """
    program = argv[0]
    if program in _NO_FILES:
        return
    pattern = _grep_pattern(argv)
    for at, arg in enumerate(argv[1:], 1):
        if at == pattern or (program == "cut" and re.fullmatch(r"(-d|--delimiter=)?/", arg)):
            continue
        if program == "sed" and _SED_SCRIPT.fullmatch(arg):
            continue
        yield arg
        yield from re.split(r"[=:,@;|\s]+", arg)[1:]
        if re.match("-[^-]", arg):  # -I/etc, -nf../x: whatever letter the value may stand behind
            yield from (arg[start:] for start in range(2, min(len(arg), 12)))
            if slash := re.search(r"\.{0,2}/.*", arg):
                yield slash[0]


def _grep_pattern(argv: Sequence[str]) -> int:
    """Where the pattern of a grep stands; 0 if it is not sure to be one."""
    if argv[0] not in ("grep", "egrep", "fgrep"):
        return 0
    for arg in argv[1:]:
        if arg.startswith("--"):
            name = arg[2:].split("=", 1)[0]
            if name and any(option.startswith(name) for option in ("regexp", "file", "exclude-from")):
                return 0
        elif arg.startswith("-") and re.search("[ef]", arg):
            return 0
    return next((at for at, arg in enumerate(argv[1:], 1) if not arg.startswith("-")), 0)
