"""Nodes that wait for a person, a time or a subagent: how such a wait begins and how it ends. Pure."""

from __future__ import annotations

from typing import Any

from coordinator.loop.permit import denied
from shared.contract import NodeError, NodeResult, NodeState
from shared.entries import Decided, Waiting
from shared.fold import RunFold
from shared.messages import QueuedMessage
from shared.state.changes import Change


def announce(change: Change, wait: Waiting, child: QueuedMessage | None, path: tuple[str, ...]) -> None:
    """Adds to `change` the public event of a wait that begins; `path` are the agents down to the one that waits."""
    node, tool, text, until_ms = wait.node, wait.tool, wait.text, wait.until_ms
    match wait.kind:
        case "approval":
            change.event(
                "approval.requested",
                node=node,
                tool=tool,
                args=wait.args,
                args_hash=wait.args_hash,
                rules=wait.rules,
                text=text,
                until_ms=until_ms,
                path=path,
            )
        case "question":
            change.event(
                "question.asked",
                node=node,
                text=text,
                options=wait.options,
                recommended=wait.recommended,
                until_ms=until_ms,
                path=path,
            )
        case "agent" if child is not None:
            change.event("subagent.started", node=node, run=child.run, agent=child.agent, text=text, path=child.path)


def take(mail: dict[str, Any], run: RunFold, agent: str, by: str, now_ms: int, change: Change) -> bool:
    """Adds to `change` what a control entry of the user `by` decides; False if nothing in the run waits for it."""
    kind, wait = mail.get("kind"), _meant(mail, run, change)
    if wait is None:
        return False
    if kind in ("approve", "deny") and wait.kind == "approval":
        change.entries.append(decided := _decided(wait, kind == "approve", mail, agent, by))
        _follow(decided, now_ms, change)
        return True
    if kind == "answer" and wait.kind == "question":
        change.ends.append((wait.node, wait.tool, answered(wait, str(mail.get("text", "")), now_ms)))
        return True
    return False


def _meant(mail: dict[str, Any], run: RunFold, change: Change) -> Waiting | None:
    """The wait that an entry names; without a node, the only one of its kind. What entries before it have decided in
    the same change waits no more."""
    kind = "question" if mail.get("kind") == "answer" else "approval"
    over = {e.node for e in change.entries if isinstance(e, Decided)} | {node for node, _, _ in change.ends}
    found = [w for w in run.open_waits.values() if w.kind == kind and w.node not in over]
    if node := mail.get("node"):
        return next((w for w in found if w.node == node), None)
    return found[0] if len(found) == 1 else None


def _decided(wait: Waiting, allowed: bool, mail: dict[str, Any], agent: str, by: str) -> Decided:
    return Decided(
        node=wait.node,
        tool=wait.tool,
        args_hash=wait.args_hash,
        allowed=allowed,
        scope=mail.get("scope", "once"),
        rules=wait.rules,
        agent=agent,
        by=by,
        text=str(mail.get("text", "")),
    )


def _follow(decided: Decided, now_ms: int, change: Change) -> None:
    """What a decision brings: an event, and the end of a node that may not run."""
    change.event(
        "approval.decided",
        node=decided.node,
        tool=decided.tool,
        allowed=decided.allowed,
        scope=decided.scope,
        by=decided.by,
        text=decided.text,
    )
    if not decided.allowed:
        why = "the user said no" + (f": {decided.text}" if decided.text else "")
        result = denied(decided.tool, why).model_copy(update={"ended_ms": now_ms})
        change.ends.append((decided.node, decided.tool, result))


def answered(wait: Waiting, text: str, now_ms: int) -> NodeResult:
    """The result of a question. The number of an option stands for the option."""
    answer = text.strip()
    number = int(answer) if answer.isdecimal() and len(answer) <= 2 else 0
    if 1 <= number <= len(wait.options):
        answer = wait.options[number - 1]
    return NodeResult(state=NodeState.DONE, text=f"The user answered: {answer}", value=answer, ended_ms=now_ms)


def expired(run: RunFold, now_ms: int) -> list[tuple[str, str, NodeResult]]:
    """The ends of waits whose time has come."""
    due = [w for w in run.open_waits.values() if w.until_ms and w.until_ms <= now_ms]
    return [(w.node, w.tool, _over(w).model_copy(update={"ended_ms": now_ms})) for w in due]


def _over(wait: Waiting) -> NodeResult:
    if wait.kind == "timer":
        return NodeResult(state=NodeState.DONE, text="The time is up.")
    if wait.kind == "approval":
        return denied(wait.tool, "nobody approved it in time", "approval_expired")
    text = "Nobody answered in time. Go on with what you would recommend, and say so, or say what you need to know."
    return NodeResult(state=NodeState.TIMED_OUT, text=text, error=NodeError(code="no_answer", message=text))


def next_ms(run: RunFold) -> int:
    """When the next wait ends by itself, in Unix milliseconds; 0 for never."""
    return min((w.until_ms for w in run.open_waits.values() if w.until_ms), default=0)


def only_people(run: RunFold) -> bool:
    """True if the run waits for people or times alone, which is not to count as its own time."""
    return all(w.kind != "agent" for w in run.open_waits.values())
