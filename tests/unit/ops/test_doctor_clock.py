"""What `capataz doctor` says of the clock, and of channels on which nothing can be delivered."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ops.doctor import Verdict, _beat, _channels
from shared.settings import Settings
from shared.state import keys
from shared.state.ticks import KEPT_S, LastTick, last_tick
from tests.support.redis import redis_server


@pytest.mark.integration
def test_the_last_look_is_told(tmp_path: Path) -> None:
    settings = Settings()
    with redis_server(tmp_path / "s") as server, server.client() as client:
        now_ms = time.time() * 1000
        never = _beat(server.url, settings, now_ms)
        assert (never.verdict, never.text) == (Verdict.WARNING, "nobody has looked what is due")
        look = LastTick(at_ms=int(now_ms) - 3000, worker="w1")
        client.set(keys.TICK, look.model_dump_json(), ex=KEPT_S)
        assert last_tick(client) == look
        fresh = _beat(server.url, settings, now_ms)
        assert (fresh.verdict, fresh.source) == (Verdict.OK, "w1")
        late = _beat(server.url, settings, now_ms + 60_000)
        assert late.verdict is Verdict.WARNING
        assert late.text == "looked what is due 63 s ago"
        assert "start beat" in late.hint


def test_channels_that_lack_something_are_named() -> None:
    channels = {
        "bot": {"kind": "telegram", "chat": "1"},
        "hook": {"kind": "webhook", "url": "https://example.org"},
        "post": {"kind": "mail"},
    }
    settings = Settings.model_validate(
        {"delivery": {"users": {"owner": {"channels": channels}}}, "workflows": {"deliver": {"daily-brief": ["pager"]}}}
    )
    found = [check.text for check in _channels(settings, {})]
    assert [text.split(":")[1].split(";")[0].strip() for text in found] == [
        "channel bot",
        "channel post",
        "there is no channel pager",
    ]
    assert [check.text for check in _channels(settings, {"TELEGRAM_TOKEN": "t"}) if "bot" in check.text] == []
