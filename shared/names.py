"""Names on the wire between coordinator and workers: queues, tasks, groups. With `contract.py` the whole contract."""

from __future__ import annotations

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

TASK_FIRE_WORKFLOW: Final = "capataz.fire_workflow"
"""Sent by beat. Arguments: workflow name, session id. Puts one inbox entry with the slot's id."""

TASK_PING: Final = "capataz.ping"
"""Argument: a reply name, or an empty text. Pushes the worker's id to that reply list; the liveness round trip."""

EXIT_DEAF: Final = 70
"""Exit code of a worker that ended because the broker's messages did not reach it any more."""

LOCAL_PRINCIPAL: Final = "owner"
"""The principal behind `capataz:inbox`, the single local owner."""


def worker_queue(worker: str) -> str:
    """The queue that only this worker consumes, for tools whose state lives in one process."""
    return f"worker.{worker}"
