"""What a command line of `shell_run` may be. Pure: text in, words out; nothing is run, expanded or looked up here.

    line     = pipeline { ("&&" | ";") pipeline }
    pipeline = command { "|" command }
    command  = program { " " word }
    program  = a letter or digit, then letters, digits and . _ + -       (ASCII; no path, no NAME=value)
    word     = piece { piece }
    piece    = bare | "'" text "'" | '"' text '"'
    bare     = letters and digits (of any script), and  _ - . / : , @ % + = ^ ~ # * ? [ ]

There is no shell: `|`, `&&` and `;` are carried out by us, and `*`, `?`, `[…]` outside quotes are file names that we
look up inside the workspace. Everything else that would mean something to a shell is refused rather than passed on as
text, so that a line never does less, or something else, than what its writer meant: variables and substitutions,
backticks, backslashes, redirections and here-documents, subshells and groups, `&`, `||`, `|&`, braces, comments,
history (any `!` but in `[!…]`, and at the end of a word, where it has none), home folders, assignments, line breaks and
all other control characters. Characters that look like operators but are none (full width, typographic) are refused
outside quotes, invisible ones everywhere. Inside single quotes everything visible stands for itself; inside double
quotes `$`, backtick and a backslash before `$ ` " \\` are refused.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from shared.errors import ModelError

MAX_CHARS: Final = 8_000
MAX_WORDS: Final = 500
MAX_COMMANDS: Final = 16

_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BARE: Final = frozenset("_-./:,@%+=^~#")
_GLOB: Final = frozenset("*?[]")
_WORDS = (
    ". alias bg bind break builtin caller case cd command compgen complete continue coproc declare disown do done elif "
    "else enable esac eval exec exit export fc fg fi for function getopts hash history if in jobs let local logout "
    "mapfile popd pushd read readarray readonly return select set shift shopt source then times trap type typeset "
    "ulimit umask unalias unset until wait while"
)
_BUILTINS: Final = frozenset(_WORDS.split())
_WHY: Final = {
    "$": "variables and substitutions are not expanded; put a literal $ in single quotes",
    "`": "substitutions are not carried out; put a literal ` in single quotes",
    "\\": "backslashes are not escapes here; use quotes",
    "<": "there is no redirection; give text as stdin, or name the file as an argument",
    ">": "there is no redirection; write files with file_write",
    "(": "there are no subshells; put a literal ( in quotes",
    ")": "there are no subshells; put a literal ) in quotes",
    "{": "braces are not expanded; put a literal { in quotes",
    "}": "braces are not expanded; put a literal } in quotes",
    "!": "negation and history are not known; put a literal ! in quotes",
    "&": "nothing runs in the background; only && joins commands",
}

_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))
)
"""Letters and marks that show nothing. The two variation selectors for text and emoji are none of them."""

After = Literal["", "&&", ";"]


@dataclass(frozen=True)
class Word:
    """One word: its text, and the same as a file name pattern (quoted parts escaped), or None if it is none."""

    text: str
    pattern: str | None = None


@dataclass(frozen=True)
class Pipeline:
    """Commands that feed each other. `after` says how it follows the one before: `&&` only if that ended with 0."""

    commands: tuple[tuple[Word, ...], ...]
    after: After = ""


@dataclass(frozen=True)
class _Operator:
    text: str


def refused(why: str, hint: str = "") -> ModelError:
    """A line that is not run."""
    return ModelError(f"the command was not run: {why}", hint=hint, code="command_refused")


def parse(line: str) -> tuple[Pipeline, ...]:
    """The pipelines of a command line, in order. Raises ModelError that says what is not allowed."""
    if len(line) > MAX_CHARS:
        raise refused(f"it has {len(line)} characters; the limit is {MAX_CHARS}")
    pipelines: list[Pipeline] = []
    commands: list[tuple[Word, ...]] = []
    words: list[Word] = []
    after: After = ""
    for token in [*_tokens(line), _Operator("")]:
        if isinstance(token, Word):
            words.append(token)
            continue
        if not words:
            where = f"before {token.text}" if token.text else "at the end"
            raise refused(f"a command is missing {where}" if line.strip() else "it is empty")
        commands.append(_command(words))
        words = []
        if token.text != "|":
            pipelines.append(Pipeline(tuple(commands), after))
            commands = []
            after = "&&" if token.text == "&&" else ";"
    if sum(len(pipeline.commands) for pipeline in pipelines) > MAX_COMMANDS:
        raise refused(f"more than {MAX_COMMANDS} commands in one line")
    return tuple(pipelines)


def _command(words: list[Word]) -> tuple[Word, ...]:
    program = words[0]
    if len(words) > MAX_WORDS:
        raise refused(f"more than {MAX_WORDS} words in one command")
    if _ASSIGNMENT.match(program.text):
        raise refused("variables cannot be set", hint="leave the assignment out")
    if program.text in _BUILTINS:
        hint = "use the cwd argument" if program.text in ("cd", "pushd", "popd") else "there is no shell behind this"
        raise refused(f"{program.text} is part of a shell", hint=hint)
    if program.pattern is not None or not _PROGRAM.fullmatch(program.text):
        raise refused(f"{program.text[:80]!r} is not a program name", hint="name the program without a path")
    return tuple(words)


class _Scan:
    """The words of a line, character by character."""

    def __init__(self, line: str) -> None:
        self.line, self.at = line, 0
        self.text: list[str] = []
        self.pattern: list[str] = []
        self.open = self.globs = False

    def add(self, char: str, *, glob: bool = False) -> None:
        self.open = True
        self.globs |= glob
        self.text.append(char)
        self.pattern.append(f"[{char}]" if char in "*?[" and not glob else char)

    def word(self) -> list[Word]:
        """The word that has just ended, if there was one."""
        if not self.open:
            return []
        found = Word("".join(self.text), "".join(self.pattern) if self.globs else None)
        self.text, self.pattern, self.open, self.globs = [], [], False, False
        return [found]


def _tokens(line: str) -> list[Word | _Operator]:
    scan = _Scan(line)
    out: list[Word | _Operator] = []
    while scan.at < len(line):
        char = line[scan.at]
        if char == " ":
            out += scan.word()
        elif char in "|;&":
            out += scan.word()
            out.append(_operator(line, scan.at))
            scan.at += len(line[scan.at : scan.at + 2]) - 1 if char == "&" else 0
        elif char in "'\"":
            _quoted(scan, char)
        else:
            _bare(scan, char)
        scan.at += 1
    return out + scan.word()


def _operator(line: str, at: int) -> _Operator:
    pair = line[at : at + 2]
    if pair == "&&":
        return _Operator(pair)
    if line[at] == "&" or pair in ("||", "|&", ";;", ";&", "|;", ";|"):
        raise refused(f"{pair if len(pair.strip()) == 2 else '&'} is not known here", hint=_WHY["&"])
    return _Operator(line[at])


def _visible(char: str) -> None:
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or char in _UNSEEN:
        raise refused(f"it holds the control or invisible character U+{ord(char):04X}", hint="one line of plain text")


def _bare(scan: _Scan, char: str) -> None:
    _visible(char)
    if char in _WHY and not (char == "!" and _plain(scan)):
        raise refused(f"unquoted {char}", hint=_WHY[char])
    before = scan.text[-1] if scan.text else ""
    if char == "#" and not scan.open:
        raise refused("comments are not known", hint="put a literal # in quotes")
    if char == "~" and before in ("", "=", ":"):
        raise refused("home folders are not known", hint="use a path relative to the workspace")
    if char in _GLOB:
        scan.add(char, glob=True)
    elif char in _BARE or char == "!" or (char.isalnum() and unicodedata.normalize("NFKC", char) == char):
        scan.add(char)
    else:
        raise refused(f"unquoted {char!r} (U+{ord(char):04X})", hint="put it in quotes if it is meant as text")


def _plain(scan: _Scan) -> bool:
    """Whether a `!` here is no history to a shell: it negates a set of characters, or ends a word."""
    return scan.pattern[-1:] == ["["] or (scan.open and scan.line[scan.at + 1 : scan.at + 2] in ("", " "))


def _quoted(scan: _Scan, quote: str) -> None:
    end = scan.line.find(quote, scan.at + 1)
    inside = scan.line[scan.at + 1 : end] if end >= 0 else ""
    if quote == '"' and (found := re.search(r"[$`]|\\[$`\"\\]|\\$", inside)):
        raise refused(f"{found[0][0]} in double quotes", hint=_WHY[found[0][0]])
    if end < 0:
        raise refused(f"a {quote} is not closed", hint="quotes come in pairs")
    scan.open = True  # '' is a word too
    for char in inside:
        _visible(char)
        scan.add(char)
    scan.at = end
