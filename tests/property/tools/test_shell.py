"""Whatever a command line is: it is refused with a reason, or means to us what it would mean to a shell."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ModelError
from shared.settings import Settings
from tests.unit.tools.hostile import cases, populate
from workers.tools import shell
from workers.tools.shell_grammar import Pipeline, Word, parse
from workers.tools.shell_rules import permitted

pytestmark = pytest.mark.property


def parses(line: str) -> bool:
    try:
        parse(line)
    except ModelError:
        return False
    return "'" not in line or '"' not in line


SHELLISH = st.text(st.sampled_from("ab1 '\"|&;$`\\<>(){}[]*?!#~=/.-:,@%+^\n\t\0é；＆“\u200b\u2028"), max_size=40)
BENIGN = cases("shell_benign.txt")[""]
JUDGED = [line for line in cases("shell.txt")["default"] if parses(line)]
PATH_PARTS = st.lists(st.sampled_from(["..", ".", "a", "b", "", "..."]), min_size=1, max_size=8)


def parsed(line: str) -> tuple[Pipeline, ...] | None:
    try:
        return parse(line)
    except ModelError:
        return None


@given(SHELLISH | st.text(max_size=60))
def test_what_is_accepted_has_the_words_a_shell_would_see(line: str) -> None:
    found = parsed(line)
    if found is None:
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace = " "
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = [word.text for pipeline in found for command in pipeline.commands for word in command]
    assert words == [token for token in lexer if token not in ("|", "&&", ";")] or any(
        word in ("|", "&&", ";")
        for word in words  # quoted operators, which the lexer cannot tell apart
    )


@given(st.sampled_from(BENIGN), st.sampled_from("$`\\<>(){}!&\n\r\t\0\v\f；｜＆＞＜＄“”‘’\u2028\u00a0\u200b\u202e"))
def test_one_foreign_character_spoils_any_line(line: str, char: str) -> None:
    assert parsed(f"{line} {char}") is None
    assert parsed(f"{char}{line}") is None
    assert parsed(f"{line} {char} id") is None
    assert parsed(f"{line} a{char}b") is None


@given(st.sampled_from(BENIGN), st.sampled_from(["sh", "rm -rf x", "python3 x", "git push", "curl x", "X=1 ls", "./x"]))
def test_one_foreign_command_spoils_any_line(line: str, command: str) -> None:
    settings = Settings()
    for joined in (f"{line} | {command}", f"{line} && {command}", f"{line}; {command}", f"{command}; {line}"):
        found = parsed(joined)
        assert found is None or any(
            permitted([word.text for word in words], settings.shell.allow, ()) is not None
            for pipeline in found
            for words in pipeline.commands
        )


@given(st.sampled_from(JUDGED), st.sampled_from(BENIGN), st.integers(0, 2**32).map(Random))
def test_no_quoting_and_no_company_lets_a_hostile_command_through(line: str, other: str, random: Random) -> None:
    """Its words quoted in any way, between harmless commands: what is refused is what a command would do."""

    def written(word: Word) -> str:
        if word.pattern is not None:
            return word.text
        at = random.randint(0, len(word.text))
        return "".join(f"'{part}'" if "'" not in part else f'"{part}"' for part in (word.text[:at], word.text[at:]))

    again = "; ".join(
        " | ".join(f"{random.choice(['', ' '])}{' '.join(map(written, words))} " for words in pipeline.commands)
        for pipeline in parse(line)
    )
    before, after = random.choice([("", ""), (f"{other}; ", ""), (f"{other} && ", ""), ("", f"; {other}")])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        base = Path(folder) / "w"
        base.mkdir()
        populate(base)
        patch.setattr(shell, "_program", lambda settings, base, name: f"/usr/bin/{name}")
        with pytest.raises(ModelError):
            shell.prepare(Settings.model_validate({"workspace": {"dir": base}}), f"{before}{again}{after}", "")


@given(PATH_PARTS, st.sampled_from(["", "/", "-f", "--file=", "@", "x=", "x:", "a,", "-nf"]))
def test_no_path_leaves_the_workspace(parts: list[str], prefix: str) -> None:
    path = "/".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve() / "w"
        base.mkdir()
        settings = Settings.model_validate({"workspace": {"dir": base}, "shell": {"path": ("/bin",)}})
        try:
            shell.prepare(settings, f"cat '{prefix}{path}'", "")
        except ModelError:
            return
        assert Path(os.path.normpath(base / ("/" * (prefix == "/") + path))).is_relative_to(base)
