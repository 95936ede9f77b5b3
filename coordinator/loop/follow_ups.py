"""What follows a run: its lesson, its deliveries, and word of a delivery that could not be made. Messages of hidden
workflows, which `finish` queues with the end of the run, so that none of it is lost and none of it is in the way."""

from __future__ import annotations

import time

from coordinator.handle import Handle
from coordinator.loop.services import LoopServices
from shared.compress import snippet
from shared.contract import NodeState
from shared.corrections import lesson
from shared.delivery import MAX_TEXT, cut
from shared.ids import run_id
from shared.messages import ErrorInfo, QueuedMessage
from shared.names import WORKFLOW_DELIVER, WORKFLOW_LEARN, WORKFLOW_NOTICE, day_session
from shared.schedules import note_and_prompt

_TITLE_CHARS = 80
_NO_LESSON = ("cancelled", "lost")


def follow_ups(
    handle: Handle, services: LoopServices, state: str, answer: str, error: ErrorInfo | None
) -> list[QueuedMessage]:
    """The messages that go with the end of a run, by its state, answer and error."""
    if handle.message.parent:
        return []
    found = [_lesson(handle, services, state), *_deliveries(handle, services, state, answer, error)]
    found.append(_undelivered(handle, services, state, error))
    return [one for one in found if one is not None]


def _lesson(handle: Handle, services: LoopServices, state: str) -> QueuedMessage | None:
    """The message that lets the learner look at this run, if there is something to learn from."""
    message = handle.message
    if not services.settings.playbook.enabled or message.kind != "message" or state in _NO_LESSON:
        return None
    ran = any(r.state not in (NodeState.REFUSED, NodeState.CANCELLED) for r in handle.run.results.values())
    if not ran and not lesson(message.text, _last_answer(handle)):
        return None
    params = {"run": handle.lease.run, "session": handle.lease.session}
    return _hidden(handle, services, WORKFLOW_LEARN, params)


def _last_answer(handle: Handle) -> str:
    """What the session's run before this one answered; empty if there was none."""
    runs = handle.session.runs
    before = list(runs)[: list(runs).index(handle.lease.run)]
    ended = (one.ended for one in map(runs.__getitem__, reversed(before)) if one.message and not one.message.parent)
    return next((end.answer for end in ended if end is not None), "")


def _deliveries(
    handle: Handle, services: LoopServices, state: str, answer: str, error: ErrorInfo | None
) -> list[QueuedMessage | None]:
    """One message for each channel that the run's message names; none of a run that was cancelled or said nothing."""
    text = answer if error is None else failure_text(error, answer)
    if state == "cancelled" or not text.strip():
        return []
    message, session = handle.message, handle.lease.session
    known = services.directory.workflow(message.workflow)
    note, prompt = note_and_prompt(message.text)
    title = known.title if known else snippet(prompt, _TITLE_CHARS)
    if note and not known:  # a workflow's is part of its answer
        text = f"[{note}]\n\n{text}"
    params = {
        "run": handle.lease.run,
        "session": session,
        "title": title or session,
        "text": cut(text, MAX_TEXT, session),
    }
    return [
        _hidden(
            handle,
            services,
            WORKFLOW_DELIVER,
            {**params, "channel": one, "delivery": f"{handle.lease.run}.{one}"},
        )
        for one in message.deliver
    ]


def _undelivered(handle: Handle, services: LoopServices, state: str, error: ErrorInfo | None) -> QueuedMessage | None:
    """Word, in the session of the result, of a delivery whose own run failed."""
    message = handle.message
    if message.workflow != WORKFLOW_DELIVER or state != "failed" or error is None:
        return None
    session, channel = message.params.get("session"), message.params.get("channel")
    if not isinstance(session, str) or services.directory.workflow(WORKFLOW_NOTICE) is None:
        return None
    text = f"The result could perhaps not be delivered on the channel {channel}: {error.message}"
    return _queued(handle, WORKFLOW_NOTICE, session, {"text": text})


def failure_text(error: ErrorInfo, answer: str) -> str:
    """What is delivered of a run that failed: why, and what it said until then."""
    hint = f" ({error.hint})" if error.hint else ""
    return f"It failed: {error.message}{hint}" + (f"\n\n{answer}" if answer.strip() else "")


def _hidden(handle: Handle, services: LoopServices, workflow: str, params: dict[str, str]) -> QueuedMessage | None:
    """A message for a hidden workflow, in the user's session of the day for it; None if no worker offers it."""
    if services.directory.workflow(workflow) is None:
        return None
    return _queued(handle, workflow, day_session(workflow, _now_ms(), handle.message.principal), params)


def _queued(handle: Handle, workflow: str, session: str, params: dict[str, str]) -> QueuedMessage:
    return QueuedMessage(
        run=run_id(),
        principal=handle.message.principal,
        session=session,
        received_ms=_now_ms(),
        kind="workflow",
        workflow=workflow,
        params={**params},
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
