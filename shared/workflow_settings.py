"""Settings of what runs by itself: `shared.settings.Settings.workflows`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from shared.errors import UserError
from shared.timing import read_line
from shared.tool_settings import Section


class HeartbeatSettings(Section):
    """When the agent may speak by itself, once `workflows.cron` gives `heartbeat` its times.

    Each of them is taken with `probability`, `per_day` of a day at most, and none from the hour `quiet_from` to
    `quiet_to`, by the clock of `workflows.timezone`. Empty `session`: that of the workflows.
    """

    probability: float = Field(default=0.3, ge=0, le=1)
    per_day: int = Field(default=3, ge=0)
    quiet_from: int = Field(default=22, ge=0, le=23)
    quiet_to: int = Field(default=9, ge=0, le=23)
    session: str = ""


class WorkflowSettings(Section):
    """Workflows that run by themselves. `cron` puts other times in the place of a workflow's own (`shared/timing.py`
    has the form; empty and `off`: none); results go to `session`, and on the channels of `deliver`, by workflow.

    Beat says every `tick_s` seconds that it is time to look. `archive_idle_days` is how long a session has been idle
    when `session-archive` writes its note.
    """

    timezone: str = "UTC"
    cron: dict[str, str] = Field(default_factory=dict)
    session: str = "daily"
    deliver: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    tick_s: float = Field(default=5.0, ge=1, le=60)
    archive_idle_days: int = Field(default=30, ge=1)
    heartbeat: HeartbeatSettings = HeartbeatSettings()

    @model_validator(mode="after")
    def _readable(self) -> Self:
        for name, line in self.cron.items():
            try:
                read_line(line, self.timezone)
            except UserError as error:
                raise ValueError(f"cron.{name}: {error}") from error
        return self
