"""The run's row in SQL and its message, so that a lost Redis cannot hide it.

Written while the model is asked for the first time. The run logs and sends nothing before (`Handle.pledge`).
"""

from __future__ import annotations

import time

from sqlalchemy import Connection

from coordinator.handle import Handle
from shared.entries import UserMessage
from shared.sql import archive, runs


def record(conn: Connection, handle: Handle, epoch: str) -> None:
    """Writes the row; a run that was taken over has one already, and keeps it."""
    message = handle.message
    row = runs.Run(
        id=handle.lease.run,
        session=handle.lease.session,
        principal=message.principal,
        agent=message.agent,
        epoch=epoch,
        created_ms=message.received_ms,
        started_ms=handle.run.started_ms or int(time.time() * 1000),
        question=runs.question_of(message.text, message.workflow),
        replies=handle.replies,
    )
    runs.start_run(conn, row)
    data = message.model_dump(mode="json", exclude_defaults=True)
    entry = archive.ArchivedEntry(handle.run.opened, row.id, UserMessage.T, 1, data)
    archive.add_entries(conn, row.session, [entry])
