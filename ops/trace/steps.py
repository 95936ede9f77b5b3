"""The model steps of a run from its log and events. Pure."""

from __future__ import annotations

from ops.trace.logged import Answered, Logged
from ops.trace.observed import Observed
from ops.trace.values import HEAD, Attempt, Step
from shared.entries import Assistant, RunEnded
from shared.llm.model import ThinkingBlock


def steps_of(logged: Logged, seen: Observed) -> tuple[Step, ...]:
    """All steps in order, also one that has no answer yet."""
    steps = {number: _unanswered(number, tries, logged.ended) for number, tries in seen.attempts.items()}
    for answer in logged.answers:
        steps[answer.entry.step] = _answered(answer, seen.attempts.get(answer.entry.step, []))
    return tuple(steps[number] for number in sorted(steps))


def _answered(answer: Answered, tries: list[Attempt]) -> Step:
    entry = answer.entry
    attempts = [a for a in tries if a.started_ms <= answer.ms]
    exact = bool(attempts)
    attempts = attempts or _inferred(answer)
    last = attempts[-1]
    first = last.first_ms
    if first is None and entry.first_ms:  # a stream of nothing but calls has no deltas
        first = min(last.started_ms + entry.first_ms, answer.ms)
    attempts[-1] = last.model_copy(update={"ended_ms": answer.ms, "failed": "", "first_ms": first})
    thinking = "\n".join(b.text for b in entry.message.blocks if isinstance(b, ThinkingBlock))
    usage, cost = entry.all_usage, entry.all_cost
    return Step(
        number=entry.step,
        attempts=tuple(attempts),
        model=_model(entry),
        finish=entry.raw_finish or entry.finish,
        text=entry.message.text[:HEAD],
        thinking=thinking[:HEAD],
        calls=len(entry.message.calls),
        tokens_in=usage.input + usage.cache_read + usage.cache_write,
        tokens_out=usage.output + usage.reasoning,
        cost=None if cost is None else format(cost, "f"),
        exact=exact,
    )


def _model(entry: Assistant) -> str:
    return f"{entry.provider}/{entry.model}"


def _inferred(answer: Answered) -> list[Attempt]:
    """Attempts from their logged lengths: the last one ends with the entry, the others follow what came before."""
    entry, begin = answer.entry, min(answer.earliest, answer.ms)
    last = max(begin, answer.ms - entry.took_ms) if entry.took_ms else begin
    attempts = []
    for retry in entry.retries:
        end = min(begin + retry.took_ms, last)
        model = f"{retry.provider}/{retry.model}"
        attempts.append(
            Attempt(number=retry.attempt, model=model, started_ms=begin, ended_ms=end, failed=retry.code or "failed")
        )
        begin = end
    return [*attempts, Attempt(number=entry.attempt, model=_model(entry), started_ms=last)]


def _unanswered(number: int, tries: list[Attempt], ended: tuple[int, RunEnded] | None) -> Step:
    """A step without an assistant message: it streams still, or its run ended first."""
    attempts = list(tries)
    if ended is not None and attempts[-1].ended_ms is None:
        attempts[-1] = attempts[-1].model_copy(update={"ended_ms": ended[0], "failed": "the run ended first"})
    return Step(number=number, attempts=tuple(attempts), model=attempts[-1].model)
