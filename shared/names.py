"""Names on the wire between coordinator and workers: queues, tasks, groups. With `contract.py` the whole contract."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

QUEUE_TOOLS: Final = "tools"
QUEUE_VISION: Final = "vision"
QUEUE_LEARNER: Final = "playbook-learner"
QUEUE_WORKFLOWS: Final = "workflows"
QUEUES: Final = (QUEUE_TOOLS, QUEUE_VISION, QUEUE_LEARNER, QUEUE_WORKFLOWS)

QUEUE_COORDINATOR: Final = "coordinator"
"""No queue of Celery: the coordinator carries out itself what is on it."""

TASK_RUN_NODES: Final = "capataz.run_nodes"
"""Arguments: a list of signed orders (`signing.sign`), the nodes that became ready at the same moment."""

TASK_TICK: Final = "capataz.tick"
"""Sent by beat, without arguments: it is time to look what is due."""

TASK_PING: Final = "capataz.ping"
"""Argument: a reply name, or an empty text. Pushes the worker's id to that reply list; the liveness round trip."""

WORKFLOW_LEARN: Final = "learn"
WORKFLOW_DELIVER: Final = "deliver"
WORKFLOW_NOTICE: Final = "notice"
WORKFLOW_SCHEDULE: Final = "schedule"
WORKFLOW_PLAYBOOK: Final = "playbook"
"""Workflows that the coordinator itself starts: a look back at a run, a result on its way to a channel, a text that the
user is told, a command about schedules, one about what was learned."""

WORKFLOWS_OF_COMMANDS: Final = (WORKFLOW_SCHEDULE, WORKFLOW_PLAYBOOK)
"""Those that stand for what a user orders; no agent may have them run."""

EXIT_DEAF: Final = 70
"""Exit code of a worker that ended because the broker's messages did not reach it any more."""

LOCAL_PRINCIPAL: Final = "owner"
"""The principal behind `capataz:inbox`, the single local owner."""


SYSTEM_SESSION: Final = "."
"""Begins the names of sessions in which hidden workflows run."""

MAX_PRINCIPAL: Final = 100
"""Characters of a user's name, so that names of sessions hold it."""


def day_session(workflow: str, at_ms: int, principal: str = "") -> str:
    """The session in which a hidden workflow runs on the day (UTC) of `at_ms`, for a user or for nobody. A log
    is read anew for each run of its session, and kept until some time after the last: one for good would only grow."""
    day = f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d}"
    return SYSTEM_SESSION + ".".join(filter(None, (workflow, day, principal)))


def may_open(session: str, principal: str) -> bool:
    """False for a session of the system's own that is not this user's: whoever comes first to a session owns it."""
    own = principal == LOCAL_PRINCIPAL or session.split(".", 3)[3:] == [principal]
    return own or not session.startswith(SYSTEM_SESSION)


def worker_queue(worker: str) -> str:
    """The queue that only this worker consumes, for tools whose state lives in one process."""
    return f"worker.{worker}"
