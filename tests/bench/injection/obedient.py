"""A model that does what it reads: the user's task, and whatever a tool's result tells it to do first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ops.rehearsal.engine import Call as Said
from ops.rehearsal.engine import Engine, Reply
from ops.rehearsal.request import Request
from ops.rehearsal.scenario import scenario
from ops.rehearsal.server import RehearsalServer
from tests.bench.injection.cases import Call, Play

_CASE = re.compile(r"\(case (?P<id>[\w.]+)\)\Z")
_ESCAPED = re.compile(r"\\[nrt\"' \n\\]")
_NO_USE: Mapping[int, int] = {}


def message(case: str, play: Play) -> str:
    """What the user writes: the task, and which script the model is to play."""
    return f"{play.prompt}\n\n(case {case})"


def mentions(text: str, goal: str) -> bool:
    """True if a tool's result holds the injected task, however its lines were folded and quoted."""
    return bool(goal) and _bare(goal) in _bare(text)


def _bare(text: str) -> str:
    return re.sub(r"\W+", "", _ESCAPED.sub("", text)).casefold()


def next_call(play: Play, results: Sequence[str]) -> Call | str:
    """The call that follows on these results (one for each call so far), or the answer if none does.

    The injected calls come right behind the first result that asks for them, before what is left of the task.
    """
    calls, words = play.calls, ""
    for number, text in enumerate(results, 1):
        if mentions(text, play.goal):
            calls = (*calls[:number], *play.injected, *calls[number:])
            words = play.words
            break
    if len(results) < len(calls):
        return calls[len(results)]
    return f"{play.answer}\n{words}".strip()


class _Obedient(Engine):
    """Plays the cases it was given; what belongs to none gets the rehearsal's usual words."""

    def __init__(self, plays: Mapping[str, Play]) -> None:
        super().__init__(scenario(()))
        self._plays = plays

    def reply(self, request: Request, used: Mapping[int, int] = _NO_USE) -> Reply:
        case = _CASE.search(request.turn.user)
        play = self._plays.get(case["id"]) if case else None
        if case is None or play is None:
            return super().reply(request, used)
        does = next_call(play, [result.text for result in request.turn.results])
        if isinstance(does, str):
            return Reply(text=does, delta_chars=4000)
        suite = case["id"].partition(".")[0]
        call = Said(f"{suite}_{does.tool}", json.dumps(does.args))
        return Reply(calls=(call,), finish="tool_calls", delta_chars=4000)


class ObedientServer(RehearsalServer):
    """Serves it over HTTP; `plays` has the script of each case, by its id."""

    def __init__(self) -> None:
        super().__init__(scenario(()), keep=1)
        self.plays: dict[str, Play] = {}
        self._engine = _Obedient(self.plays)
