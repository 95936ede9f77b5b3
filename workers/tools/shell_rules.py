"""Whether one command may run: rules over its words, and what no rule lets through by the way. Pure.

A rule is words, of which each is a glob over the word at its place: `git log` speaks about every command that begins
with these two, `ls` (or `ls *`) about every `ls`. To permit, the words must match as they are; to deny, case does not
count, other words may stand between, and long options may be cut short or have a value, so that `git push` also denies
`git -C x push`, and `git log --all` denies `git log --al`.

Some commands can do anything: interpreters, what starts other programs, options that name a program to run or a list of
files to open, or that follow links. No rule permits these by a prefix or a glob: only one that is, word for word, the
command itself. Such a rule has no glob, since there may be a file that is called like it. And since nobody knows what
all programs can do, a glob in the place of the program (`*`, `g*`) speaks only about those whose options are known
here; others must be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from workers.tools.shell_programs import launches, names


@dataclass(frozen=True)
class _Escapes:
    """Options that need a rule of their own: `long` without dashes, `short` letters, `words` as they are."""

    long: frozenset[str] = frozenset()
    short: str = ""
    words: frozenset[str] = frozenset()
    value: str = ""
    """Letters behind which the rest of the word is their value, and no letters any more."""
    harmless: frozenset[str] = frozenset()
    """Whole options that are beginnings of one in `long`, which GNU programs would take for it otherwise."""


_SUMS: Final = _Escapes(names("check"), "c")
_UNKNOWN: Final = _Escapes(
    names(
        "checkpoint-action command compress-program dereference editor eval exec exec-batch exec-path expression "
        "ext-diff files-from files0-from filter follow follow-links follow-symlinks init-file interpreter load "
        "open-files-in-pager pager plugin pre preprocessor receive-pack require rsh rsh-command shell to-command "
        "upload-pack use-compress-program"
    ),
    words=names("-exec -execdir -ok -okdir -delete"),
)
_TELLING = re.compile(
    r"--(?!no-)([a-z]+-)*(browser|cmd|command|editor|eval|exec|hook|interpreter|pager|plugins?|preload|rsh|script|shell"
    r"|viewer)(-[a-z]+)*(=.*)?|-exec=.*",
    re.I | re.S,
)
"""What options of a program that is not known are called when they name something to run."""
_PLAIN: Final = names(
    "basename cat cmp column comm cut dirname echo egrep expr fgrep fmt fold grep head id join mkdir nl od paste "
    "printf pwd readlink realpath rev rm rmdir seq tac tail tee test touch tr true uname uniq whoami xxd"
)
_BY_PROGRAM: Final[dict[str, _Escapes]] = {
    "chmod": _Escapes(names("dereference"), "LH"),
    **dict.fromkeys(names("b2sum cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum"), _SUMS),
    "cp": _Escapes(names("backup dereference keep-directory-symlink parents suffix symbolic-link"), "LHSbs", value="t"),
    "date": _Escapes(names("set"), "s", value="dfIr"),
    "diff": _Escapes(names("paginate"), "l"),
    "du": _Escapes(names("dereference dereference-args files0-from"), "DHL"),
    "file": _Escapes(names("compile files-from magic-file uncompress"), "fmCzZ"),
    "find": _Escapes(
        words=names("-exec -execdir -ok -okdir -delete -fls -fprint -fprint0 -fprintf -files0-from -follow -L -H")
    ),
    "ls": _Escapes(names("dereference dereference-command-line dereference-command-line-symlink-to-dir"), "LH"),
    "mv": _Escapes(names("backup suffix"), "Sb", value="t"),
    "rg": _Escapes(names("follow hostname-bin pre pre-glob search-zip"), "Lz"),
    "shuf": _Escapes(names("output random-source"), "o"),
    "sort": _Escapes(names("compress-program files0-from output random-source temporary-directory"), "oT"),
    "stat": _Escapes(names("dereference"), "L"),
    "tree": _Escapes(names("fromfile fromtabfile gitfile infofile"), "loR"),
    "wc": _Escapes(names("files0-from")),
    **dict.fromkeys(_PLAIN, _Escapes()),
}
_GIT: Final = _Escapes(
    names(
        "alternate-refs config-env contents diff-merges exec exec-path ext-diff filters git-dir help ignore-revs-file "
        "ignore-submodules no-index open-files-in-pager output output-directory paginate pathspec-from-file "
        "receive-pack recurse-submodules remerge-diff separate-git-dir show-signature submodule template textconv "
        "upload-pack work-tree"
    ),
    harmless=names("text"),
)
_GIT_COMMANDS: Final = names(
    "add annotate blame branch cat-file check-ignore checkout commit count-objects describe diff diff-files "
    "diff-index diff-tree for-each-ref grep init log ls-files ls-tree merge-base mv name-rev reflog reset restore "
    "rev-list rev-parse rm shortlog show show-branch show-ref stash status switch tag version whatchanged"
)
_GIT_WRITERS: Final = names("add checkout commit init mv reset restore rm stash switch")
_SED_ADDRESS: Final = r"(\d+|\$|/(?:[^/\\]|\\[^/])+/)"
_SED_SCRIPT = re.compile(
    rf"({_SED_ADDRESS}(,{_SED_ADDRESS})?)?!?[pdq=]|s(?P<by>[/|#,])((?!(?P=by)).)*(?P=by)((?!(?P=by)).)*(?P=by)[gpiI0-9]*"
)
_SED_FLAGS: Final = names("-n -E -r -s --quiet --silent --")
_NO_FILES: Final = names("echo printf tr basename dirname seq expr")
_KNOWN: Final = frozenset(_BY_PROGRAM) | names("git sed")
_WRITERS: Final = names("chmod cp mkdir mv rm rmdir tee touch")
_DATE_VALUES = re.compile(r"-[uR]*[dfr]|--(date|file|reference)")
_WRITES_SECOND: Final = {
    "uniq": re.compile(r"-[cdDiuz]*[fsw]|--(skip-fields|skip-chars|check-chars)"),
    "xxd": re.compile(r"-([cglnos]|cols|len|seek)"),
}
"""Programs whose second operand is written, with the options whose value is the next word."""
_GREPS: Final = names("grep egrep fgrep")
_GREP_VALUES: Final = names(
    "after-context before-context binary-files devices directories exclude exclude-dir include label max-count"
)
_GREP_FLAGS: Final = names(
    "basic-regexp byte-offset color colour context count extended-regexp files-with-matches files-without-match "
    "fixed-strings ignore-case initial-tab invert-match line-buffered line-number line-regexp no-filename "
    "no-ignore-case no-messages null null-data only-matching perl-regexp quiet recursive silent text with-filename "
    "word-regexp"
)
_DIFF_FLAG = re.compile(r"-[rquNaybBEidwstTpc]+|--(recursive|brief|new-file|text|side-by-side|unified)|--[a-z-]+=.*")
_DELIMITERS: Final = {
    "column": r"(-[so]|--separator=|--output-separator=)?/",
    "cut": r"(-d|--delimiter=|--output-delimiter=)?/",
    "join": "(-t)?/",
    "paste": r"(-d|--delimiters=)?/",
    "sort": r"(-t|--field-separator=)?/",
}
_SEPARATORS = re.compile(r"[=:,@;|\s]+")
_ALL_SEPARATORS = re.compile(r"""[=:,@;|\s"'()\[\]{}<>]+""")
_MAX_NAME: Final = 4_096


def permitted(argv: Sequence[str], allow: Iterable[str], deny: Iterable[str], real: str = "") -> str | None:
    """Why a command may not run, None if it may. `real` is the name of the file that the program's name leads to."""
    rules = [rule.split() for rule in allow]
    if (denied := next((rule for rule in deny if _denies(rule.split(), argv)), None)) is not None:
        return f"the rule {denied!r} of shell.deny forbids it"
    if exact(argv, allow):
        return None
    if not any(_permits(rule, argv) for rule in rules):
        if argv[0] not in _KNOWN and any(_matches(rule, argv) for rule in rules):
            return f"patterns in shell.allow speak only about programs that are known here; a rule must name {argv[0]}"
        programs = sorted({rule[0] for rule in rules if rule})
        return f"no rule of shell.allow permits `{' '.join(argv[:2])[:80]}`; there are rules for {', '.join(programs)}"
    if risk := _risk(argv) or _launches(real):
        return f"{risk}, which only a rule that is exactly this command may permit"
    return None


def exact(argv: Sequence[str], allow: Iterable[str]) -> bool:
    """Whether a rule is, word for word, this command; a pattern is none, since files may be called like one."""
    return any(rule.split() == [*argv] and not re.search(r"[*?\[]", rule) for rule in allow)


def _permits(rule: Sequence[str], argv: Sequence[str]) -> bool:
    return (argv[0] in _KNOWN or rule[:1] == [argv[0]]) and _matches(rule, argv)


def _matches(rule: Sequence[str], argv: Sequence[str]) -> bool:
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
    return all(any(_says(word, part.casefold()) for word in words) for part in rule[1:])


def _says(word: str, part: str) -> bool:
    """Whether a word is what a rule denies: long options may be cut short, and have a value behind them."""
    name = word.partition("=")[0]
    return fnmatchcase(word, part) or (len(name) > 2 and word.startswith("--") and part.startswith(name))


def _launches(program: str) -> str:
    return f"{program} can start any program or reach any file" if launches(program) else ""


def _risk(argv: Sequence[str]) -> str:
    """What makes a command able to do more than it says; empty if nothing is known."""
    program, args = argv[0], argv[1:]
    if program == "sed":
        return _sed(args)
    if launches := _launches(program):
        return launches
    if program == "git":
        return _git(args)
    if program in _WRITES_SECOND and len(_operands(args, _WRITES_SECOND[program])) > 1:
        return f"a second name makes {program} write that file"
    if program == "date" and any(not one.startswith("+") for one in _operands(args, _DATE_VALUES)):
        return "a word that is no +format sets the clock"
    if program not in _BY_PROGRAM and (code := next((arg for arg in args if _tells(arg)), "")):
        return f"it has {code[:40]}"
    return _escape(_BY_PROGRAM.get(program, _UNKNOWN), args)


def _tells(word: str) -> bool:
    """Whether a word tells a program that is not known what to run, or where more words stand."""
    return re.match("-[ce]|@.", word) is not None or _TELLING.fullmatch(word) is not None


def _operands(args: Sequence[str], values: re.Pattern[str]) -> list[str]:
    """The words that are no options, and not the value of one that `values` matches."""
    found: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return [*found, *words]
        if values.fullmatch(word):
            next(words, None)
        elif word == "-" or not word.startswith("-"):
            found.append(word)
    return found


def _dereferences_not(args: Sequence[str]) -> bool:
    """Whether diff surely reads --no-dereference as the option, and not as a name or as another option's value."""
    options = args[: args.index("--")] if "--" in args else args
    before = ["", *options]
    return any(
        arg == "--no-dereference" and (not last.startswith("-") or _DIFF_FLAG.fullmatch(last) is not None)
        for last, arg in zip(before, options, strict=False)
    )


def _escape(escapes: _Escapes, args: Iterable[str]) -> str:
    for arg in args:
        name = arg[2:].split("=", 1)[0]
        if arg in escapes.words:
            return f"it has {arg}"
        if arg.startswith("--") and name and name not in escapes.harmless:
            if any(option.startswith(name) for option in escapes.long):
                return f"it has --{name}"
        elif arg.startswith("-") and not arg.startswith("--") and any(letter in escapes.short for letter in arg):
            first = next(letter for letter in arg if letter in escapes.short + escapes.value)
            if first in escapes.short:
                return f"it has {arg[:40]}"
    return ""


def _git(args: Sequence[str]) -> str:
    if not args or args[0] not in _GIT_COMMANDS:
        return f"git {args[0][:40] if args else ''} can start programs that its configuration names"
    if args[0] == "grep" and any(re.match(r"-[A-Za-z0-9]*O", arg) for arg in args[1:]):
        return "it has -O, a pager"
    if any(re.search(r"%[-+ ]?(G|\(\*?([a-z]+:)?(trailers|signature))", arg) for arg in args):
        return "its format starts a program"
    return _escape(_GIT, args[1:])


def _sed(args: Sequence[str]) -> str:
    """A script that only prints, deletes or substitutes has no way to files and programs; others may."""
    rest = [arg for arg in args if arg not in _SED_FLAGS]
    if any(arg.startswith("-") for arg in rest):
        return "it has an option of sed that is not -n, -E, -r or -s"
    if not rest or not _SED_SCRIPT.fullmatch(rest[0]):
        return "its script is more than one address with p, d, q or =, or one simple substitution"
    return ""


def follows(argv: Sequence[str]) -> Literal["", "all", "same"]:
    """Which links in folders that it is given a program reads or writes through: all, or those named like a source."""
    if argv[0] == "diff":
        return "" if _dereferences_not(argv[1:]) else "all"
    if argv[0] in _GREPS:
        return "all" if any(re.match("--de|-[^-]*R", arg) for arg in argv[1:]) else ""
    if argv[0] != "cp":
        return ""
    merges = any(re.match("-[^-]*T|--no-t", arg) for arg in argv[1:])
    return "all" if merges else "same"


def writes(argv: Sequence[str]) -> bool:
    """Whether the program may change the files that it is given; of what is not known, that is assumed."""
    if argv[0] == "git":
        return len(argv) > 1 and argv[1] in _GIT_WRITERS
    return argv[0] not in _KNOWN or argv[0] in _WRITERS


def paths_in(argv: Sequence[str]) -> Iterator[str]:
    """Everything in the arguments that the program might open as a file, also inside options and lists.

    For `grep` without option for patterns the first word that is no option is the pattern, and no file; the script of
    `sed` and a lone slash as delimiter are none either.
    """
    program = argv[0]
    if program in _NO_FILES:
        return
    skipped = _script(argv)
    if program in _GREPS and len(_grepped(argv)) < 2:
        yield "."  # where it may look if no place is named
    separators = _SEPARATORS if program in _KNOWN else _ALL_SEPARATORS
    for at, arg in enumerate(argv[1:], 1):
        if at == skipped or (program in _DELIMITERS and re.fullmatch(_DELIMITERS[program], arg)):
            continue
        yield arg
        for found in separators.finditer(arg):
            rest = arg[found.end() :]
            yield rest
            yield separators.split(rest, maxsplit=1)[0]
        if re.match("-[^-]", arg):  # -I/etc, -nf../x: whatever letter the value may stand behind
            yield from (arg[start:] for start in range(2, min(len(arg), _MAX_NAME)))
            if slash := re.search(r"\.{0,2}/.*", arg):
                yield slash[0]


def _script(argv: Sequence[str]) -> int:
    """Where the pattern of a grep or the script of a sed stands; 0 if it is not sure to be one."""
    if argv[0] == "sed":
        return next((at for at, arg in enumerate(argv[1:], 1) if arg not in _SED_FLAGS), 0)
    return next(iter(_grepped(argv)), 0) if argv[0] in _GREPS else 0


def _grepped(argv: Sequence[str]) -> list[int]:
    """The places of a grep's operands, read as getopt does; none where an option has the patterns, or may have."""
    found: list[int] = []
    at = 1
    while at < len(argv):
        arg = argv[at]
        if arg == "--":
            return [*found, *range(at + 1, len(argv))]
        if arg.startswith("--"):
            name, equals, _ = arg[2:].partition("=")
            if name not in _GREP_VALUES and name not in _GREP_FLAGS:
                return []
            at += name in _GREP_VALUES and not equals
        elif arg.startswith("-") and len(arg) > 1:
            letter = re.search("[efABCDXdm]", arg)
            if letter and letter[0] in "ef":
                return []
            at += letter is not None and letter.end() == len(arg)
        else:
            found.append(at)
        at += 1
    return found
