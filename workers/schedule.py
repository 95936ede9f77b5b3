"""From a beat tick to one inbox entry: the slot that is due gives the entry its id, so a slot fires once."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from shared.client import Client
from shared.settings import Settings


def due_slot(cron: str, timezone: str, now: datetime) -> datetime:
    """The newest instant at or before `now` (aware) at which `cron` is due in `timezone`; in UTC, whole minutes.

    Local times that a clock change skips or repeats are dealt with as cron does (cronsim follows Debian's cron).
    """
    local = now.astimezone(ZoneInfo(timezone)).replace(second=0, microsecond=0)
    candidate = next(CronSim(cron, local, reverse=True))
    forward = CronSim(cron, candidate)
    following = next(forward)
    return (following if following <= local else candidate).astimezone(UTC)


def slot_id(name: str, slot: datetime) -> str:
    """The message id of a workflow's slot."""
    return f"{name}@{slot:%Y-%m-%dT%H:%MZ}"


def fire(settings: Settings, name: str, session: str, cron: str, timezone: str) -> str:
    """Submits the workflow for the slot that is due now; any number of times, it runs once. Returns the id.

    Without a session it runs in one of its own for the day, so that no log grows for ever.
    """
    slot = due_slot(cron, timezone, datetime.now(UTC))
    message_id = slot_id(name, slot)
    client = Client.connect(settings.redis.url)
    try:
        client.submit_workflow(name, session=session or f"{name}.{slot:%Y-%m-%d}", id=message_id)
    finally:
        client.close()
    return message_id
