"""What a ReAct run does next, decided from its fold alone. Pure: after a crash it decides the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from coordinator.loop.claims.run import marked, nudge_text, unfounded
from coordinator.loop.guard import LoopGuard, ending_text, loop_ended
from coordinator.loop.prose import is_call
from shared.entries import Assistant, Node
from shared.fold import RunFold
from shared.llm.model import Finish
from shared.messages import Budget
from shared.settings import BudgetSettings

MOST_CONTINUATIONS = 3
MOST_BROKEN = 3
FORCED = ("budget_steps", "budget_seconds", "budget_tokens", "budget_dollars", "broken_calls", "empty_answers", "loop")
"""Reasons of nudges after which the model gets one last call without tools."""


@dataclass(frozen=True)
class CallModel:
    """Ask the model; `forced`: without tools, for a last answer."""

    forced: bool = False


@dataclass(frozen=True)
class Collect:
    """Bring the results of these nodes home."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Tell:
    """Say something to the model first."""

    reason: str
    text: str


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    finish_reason: str
    answer: str
    state: Literal["ended", "failed"] = "ended"
    doubted: str = field(default="", compare=False)
    """Why the answer is marked, if it is."""


Action = CallModel | Collect | Tell | Finished


@dataclass(frozen=True)
class Limits:
    """The bounds in force; zero tokens or dollars mean none."""

    steps: int
    seconds: float
    tokens: int
    dollars: Decimal

    @classmethod
    def of(cls, default: BudgetSettings, wanted: Budget) -> Limits:
        """The run's own wishes above the defaults; a wish never raises a default bound of money or tokens."""
        tokens = min(filter(None, (wanted.tokens, default.tokens)), default=0)
        dollars = min(filter(None, (wanted.dollars, default.dollars)), default=0.0)
        return cls(wanted.steps or default.steps, wanted.seconds or default.seconds, tokens, Decimal(str(dollars)))


def spent(run: RunFold, limits: Limits, age_s: float) -> str:
    """Which budget is used up, as a finish reason; empty if none."""
    if run.steps >= limits.steps:
        return "budget_steps"
    if age_s >= limits.seconds:
        return "budget_seconds"
    if limits.tokens and run.usage.total >= limits.tokens:
        return "budget_tokens"
    if limits.dollars and run.cost is not None and run.cost >= limits.dollars:
        return "budget_dollars"
    return ""


BUDGET_TEXT = (
    "The budget of this run is used up ({reason}). Tools can no longer be called. Give the best answer now from "
    "what is known, and say what could not be done."
)
CONTINUE_TEXT = "Your answer was cut off by the output limit. Continue exactly where it stopped, without repeating."
CALL_AS_TEXT = (
    "You wrote a tool call as text; nothing was run. Call the tool itself if you need it, or answer in plain words."
)
PLAIN = "plain_answer"
"""Reason of the nudge after which the model is shown the conversation as plain text, without tools."""
PLAIN_TEXT = "No tools are left to call. Answer in plain words."
EMPTY_TEXT = "Your last message was empty. Answer the user, or call a tool."


def decide(run: RunFold, limits: Limits, age_s: float, before: Iterable[RunFold] = ()) -> Action:
    """The next action. `age_s`: seconds since the run started. `before`: the runs of the session that had ended."""
    if run.open_nodes:
        return Collect(tuple(run.open_nodes))
    forced = _forced(run)
    if run.last == Assistant.T and not run.assistants[-1].message.calls:
        action = _after_answer(run, forced)
        return _held(action, run, before, last_word=bool(forced or spent(run, limits, age_s)))
    if forced:
        return CallModel(forced=True)
    if loop_ended(run):
        return Tell("loop", ending_text(LoopGuard.of(run).report))
    if reason := spent(run, limits, age_s):
        return Tell(reason, BUDGET_TEXT.format(reason=reason.removeprefix("budget_")))
    if _broken_in_a_row(run) >= MOST_BROKEN:
        return Tell("broken_calls", "Your tool calls keep arriving incomplete. Answer without tools now.")
    return CallModel()


def _forced(run: RunFold) -> str:
    return next((n.reason for n in reversed(run.nudges) if n.reason in FORCED), "")


def _after_answer(run: RunFold, forced: str) -> Action:
    last = run.assistants[-1]
    if last.finish is Finish.CONTENT_FILTER:
        return Finished("content_filter", answer_text(run), "failed")
    cut = last.finish is Finish.LENGTH
    if cut and _continuations(run) < MOST_CONTINUATIONS:
        return Tell("continue", CONTINUE_TEXT)
    answer = answer_text(run)
    if is_call(answer):
        if not forced and not any(n.reason == "call_as_text" for n in run.nudges):
            return Tell("call_as_text", CALL_AS_TEXT)
        answer = ""  # no answer, at any rate
    if not answer.strip() and not cut:
        if forced and any(n.reason == PLAIN for n in run.nudges):
            return Finished(forced, "", "failed")
        if forced:  # it called tools that are not there any more, or said nothing
            return Tell("plain_answer", PLAIN_TEXT)
        if any(n.reason == "empty" for n in run.nudges):
            return Tell("empty_answers", BUDGET_TEXT.format(reason="empty answers"))
        return Tell("empty", EMPTY_TEXT)
    return Finished(forced or ("length" if cut else "stop"), answer)


def _held(action: Action, run: RunFold, before: Iterable[RunFold], *, last_word: bool) -> Action:
    """The end of a run, held against its deeds: a claim without one is sent back once, and marked if it stays."""
    if not isinstance(action, Finished) or action.state != "ended" or run.terms is None or not run.terms.claims:
        return action
    if not (claims := unfounded(run, action.answer, before)):
        return action
    if (
        not last_word
        and action.finish_reason == "stop"
        and not any(n.reason == "unsupported_claim" for n in run.nudges)
    ):
        return Tell("unsupported_claim", nudge_text(claims))
    doubted = f"no tool did what the answer says: {claims[0].text}"
    return replace(action, answer=marked(action.answer, claims), doubted=doubted)


def _continuations(run: RunFold) -> int:
    return sum(n.reason == "continue" for n in run.nudges)


def _broken_in_a_row(run: RunFold) -> int:
    """How many steps up to the newest one had calls that did not arrive whole."""
    broken = set(run.broken_steps)
    count = 0
    while run.steps - count in broken:
        count += 1
    return count


def answer_text(run: RunFold) -> str:
    """The answer: the text of the last assistant message, with the pieces that it continues in front."""
    parts: list[str] = []
    for assistant in reversed(run.assistants):
        if parts and assistant.finish is not Finish.LENGTH:
            break
        if assistant.message.calls:
            break
        parts.append(assistant.message.text)
    return "".join(reversed(parts))
