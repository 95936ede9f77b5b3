"""The numbers that scripts need, as the JSON that they take."""

from __future__ import annotations

import json

from shared.settings import LimitSettings


def script_config(limits: LimitSettings) -> str:
    """The `cfg` argument of the scripts."""
    return json.dumps(
        {
            "events_kept": limits.events_kept,
            "session_ttl_s": limits.session_ttl_s,
            "run_ttl_s": limits.run_ttl_s,
            "reply_ttl_s": limits.reply_ttl_s,
            "dedupe_ttl_s": limits.dedupe_ttl_s,
            "session_queue": limits.session_queue,
            "waiting": limits.waiting,
            "running": limits.running,
            "rate_per_minute": limits.rate_per_minute,
            "queue_age_s": limits.queue_age_s,
            "memory_percent": limits.memory_percent,
        }
    )
