"""The many ways in which people write training, rewritten into the notation of `workout.py`. Pure.

    bullets and labels     "- squat …", "1. squat …", "A1) squat …", "superset: …" lose them
    sets first             "3x8 bench 80kg", "4 series de 10 de sentadilla", "10k run 52:10": the exercise goes first
    weight first           "bench 80kg 3x8", "bench 40kg: 8, 8, 7", "bench 8/8/6 @ 80"
    times                  45', 25'30", 1h30, 25min30; "1:30 x 3" is 3x1:30
    effort                 "RIR 2" is rpe 8
    as many as went        "4x al fallo", "3xAMRAP" is 3xmax
    what has no place      rest, sides, ranges of repetitions, pace and pulse become notes: "(rest 90s)"

What is in brackets is a note already, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NUM = r"\d{1,6}(?:[.,]\d{1,3})?"
_UNIT = r"(?:kgs?|kilos?|k|lbs?|libras?|pounds?)"
_LETTER = r"[^\W\d_]"
_NAME = rf"{_LETTER}[^\d@+,;:(\n]*?"
_SECONDS = r"(?:segundos?|seconds?|secs?|segs?|s)"
_MINUTES = r"(?:minutos?|minutes?|mins?|min)"
_MOST = r"(?:al |hasta (?:el )?|to |until )?(?:fallo|failure|amrap|max(?:imo|imum)?|máx(?:imo)?|tope)"
_AMOUNT = rf"\d+(?::\d\d)? ?(?:{_SECONDS}|{_MINUTES})?"
_NOTED = (
    rf"(?:con |with )?(?:descansos?|descansando|rest(?:ing)?|pausas?)(?: de| of|:)? ?{_AMOUNT}(?!\w)",
    r"(?:/ ?|por |per |each |cada |a )(?:pierna|brazo|lado|leg|arm|side|hand|mano)s?(?!\w)",
    r"(?:a |at |@ ?)?\d{1,2}:\d{2} ?(?:/|por |per ) ?(?:km|mi|mile|k)(?!\w)",
    r"(?:a |at )?\d{2,3} ?(?:ppm|bpm)(?!\w)",
)
_REPS = r"\d{1,3}(?: ?[,/] ?\d{1,3})+"
_HEAVY = rf"^(?P<name>{_NAME})[\s:]+(?P<weight>{_NUM} ?{_UNIT})"
_UNSAID = "\0"
"""Stands for the unit that the caller says."""
_Rewrite = str | Callable[[re.Match[str]], str]


def _one_by_one(match: re.Match[str], weight: str) -> str:
    """One weight, and the repetitions of set after set."""
    return f"{match['name']} {weight} x {match['reps'].replace('/', ',')}"


def _rpe(reserve: str) -> str:
    """Repetitions in reserve as rate of perceived exertion, which is ten less them."""
    return f"rpe {10 - float(reserve.replace(',', '.')):g}"


# Of a line as a whole, in this order; anchored ones are about how it begins.
_START: tuple[tuple[re.Pattern[str], _Rewrite], ...] = tuple(
    (re.compile(pattern, re.I), by)
    for pattern, by in (
        (rf"^\s*(?:[-*•–—]|\d{{1,2}}[.)](?=\s)|[a-h]\d?[).:](?=\s)|[a-h]\d(?=\s))\s*(?={_LETTER}|\d)", ""),
        (r"^\s*(?:super ?sets?|super ?series?|bi-?series?|tri-?series?|giant sets?|circuitos?|circuits?)\s*:\s*", ""),
        (
            rf"^\s*(?P<sets>\d{{1,2}} ?(?:x|×|\*|por| series de| sets of) ?\d{{1,4}}(?: ?(?:reps?|repeticiones))?"
            rf"|{_NUM} ?(?:km|kms|k|mi|m))(?: de| of)? (?P<name>{_NAME})(?P<rest>\s*(?: con| with| at| a| in| en)?"
            rf"\s*(?:[@+(\d-].*)?)$",
            lambda match: f"{match['name']} {match['sets']} {match['rest'].strip()}".rstrip(),
        ),
        (rf"^(?P<name>{_NAME})\s+1 ?rm\b:?", r"\g<name> 1x1"),
        (
            rf"{_HEAVY}\s+(?P<sets>\d{{1,2}} ?[x×*] ?\d{{1,3}})(?![\d.])",
            r"\g<name> \g<sets> \g<weight>",
        ),
        (
            rf"{_HEAVY} ?[x×*] ?(?P<reps>\d{{1,3}}) ?[x×*] ?(?P<sets>\d{{1,2}})\b",
            r"\g<name> \g<sets>x\g<reps> \g<weight>",
        ),
        (
            rf"{_HEAVY}\s+(?P<reps>\d{{1,3}}) ?(?:reps?|repeticiones)\b",
            r"\g<name> \g<weight> x \g<reps>",
        ),
        (
            rf"{_HEAVY}(?:\s*:\s*|\s+)(?P<reps>{_REPS})(?![\d.:])",
            lambda match: _one_by_one(match, match["weight"]),
        ),
        (
            rf"^(?P<name>{_NAME})[\s:]+(?P<reps>{_REPS}) ?(?:@|con|with|at|a)? ?"
            rf"(?P<weight>{_NUM}) ?(?P<unit>{_UNIT})?(?![\d.:x×*])$",
            lambda match: _one_by_one(match, f"{match['weight']}{match['unit'] or _UNSAID}"),
        ),
    )
)  # fmt: skip
# Of the parts that are no notes.
_ANYWHERE: tuple[tuple[re.Pattern[str], _Rewrite], ...] = tuple(
    (re.compile(pattern, re.I), by)
    for pattern, by in (
        ("х", "x"),  # the Cyrillic letter
        (r"(\d)['′’](\d{2})(?:[\"″”]|''|(?!\d))", r"\1:\2"),
        (r"(\d)['′’](?!\w)", r"\1min"),
        (r"(\d)[\"″”](?!\w)", r"\1s"),
        (rf"\b(\d{{1,2}}) ?h ?([0-5]\d)(?: ?(?:{_MINUTES}|m)(?![a-z]))?(?![\d:]| ?(?:km|mi|{_UNIT}))", r"\1:\2:00"),
        (rf"\b(\d{{1,2}}) ?{_MINUTES} ?([0-5]\d)(?: ?{_SECONDS})?(?![\d:\w])", r"\1:\2"),
        (rf"\b(\d{{1,2}}:\d{{2}}|\d{{1,3}} ?{_SECONDS}) ?[x×*] ?(\d{{1,2}})(?![\d:])", r"\2x\1"),
        (rf"({_UNIT})(?=[x×*] ?\d)", r"\1 "),
        (r"\s+[–—-]\s+(?=\d)", " "),
        (rf"\s+[–—-]\s+({_LETTER}[^()]*)$", r" (\1)"),
        (r"(?:@ ?)?\brir ?(\d(?:[.,]5)?)\b|\b(\d(?:[.,]5)?) ?rir\b", lambda match: _rpe(match[1] or match[2])),
        (rf"\b(\d{{1,2}}) ?(?:x|×|\*|series|sets) ?{_MOST}\b", r"\1xmax"),
        (rf"(\b\d{{1,2}} ?[x×*] ?\d{{1,4}}) {_MOST}\b", r"\1 to failure"),
        (r"\b(?:al |hasta (?:el )?|until )(?:fallo|failure)\b", "to failure"),
        (rf"(?:con |with )?\+? ?({_NUM} ?{_UNIT}) (?:extra|de lastre|added|lastre)\b", r"+\1"),
        (rf",? ?({'|'.join(_NOTED)})", lambda match: f" ({match[1].lstrip('/ ')})"),
    )
)
_RANGE = re.compile(r"(\d{1,2} ?[x×*] ?)(\d{1,3}) ?[-–] ?(\d{1,3})(?=[ ,]|$)(?! ?[x×*])")
_NOTES = re.compile(r"(\([^()]*\))")
_TOGETHER = re.compile(rf"\s\+\s(?={_LETTER})")


def tidy(line: str, unit: str) -> str:
    """One line in the notation; `unit` is that of weights without one. What it does not know it leaves as it is."""
    parts = _NOTES.split(line)
    for at in range(0, len(parts), 2):
        for pattern, by in _ANYWHERE:
            parts[at] = pattern.sub(by, parts[at])
        parts[at] = _RANGE.sub(r"\1\2 (\2-\3 reps)", parts[at])
    text = "".join(parts)
    for pattern, by in _START:
        text = pattern.sub(by, text, count=1)
    return text.replace(_UNSAID, unit)


def lines(text: str) -> list[str]:
    """The lines of a text: by line breaks, semicolons, and a `+` between exercises."""
    return [part for line in re.split(r"[\n;]", text) for part in _TOGETHER.split(line)]
