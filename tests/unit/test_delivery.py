"""Which channels a result goes to, what is missing for one, and how long texts are cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.delivery import Unit, channels_of, check_channels, cut, lacking
from shared.errors import UserError
from shared.messages import Message, as_fields, parse_entry
from shared.settings import LimitSettings, Settings

CHANNELS: dict[str, Any] = {
    "phone": {"kind": "ntfy", "topic": "mine", "token_env": "NTFY"},
    "bot": {"kind": "telegram", "chat": "42"},
    "room": {"kind": "matrix", "room": "!a:example.org", "url": "https://example.org"},
    "hook": {"kind": "webhook", "url": "https://example.org/hook"},
    "post": {"kind": "mail"},
}


def settings(**sections: Any) -> Settings:
    users = {"owner": {"default": ["session", "phone"], "channels": CHANNELS}, "ana": {}}
    return Settings(**{"delivery": {"users": users}, **sections})


def test_what_is_named_wins_over_the_workflow_and_that_over_the_user() -> None:
    found = settings(workflows={"deliver": {"brief": ["bot", "session"]}})
    assert channels_of(found, "owner") == ("phone",)
    assert channels_of(found, "owner", (), "brief") == ("bot",)
    assert channels_of(found, "owner", ("hook", "hook", "room"), "brief") == ("hook", "room")
    assert channels_of(found, "owner", ("session",), "brief") == ()
    assert channels_of(found, "ana") == channels_of(found, "eva") == ()


@pytest.mark.parametrize(
    ("name", "environ", "lacks"),
    [
        ("phone", {}, "NTFY"),
        ("phone", {"NTFY": "t"}, None),
        ("bot", {}, "TELEGRAM_TOKEN"),
        ("room", {}, "MATRIX_TOKEN"),
        ("hook", {}, None),
        ("post", {}, "mail.accounts.owner.smtp_host"),
        ("pager", {}, "no channel pager"),
    ],
)
def test_what_is_missing_for_a_channel_is_named(name: str, environ: dict[str, str], lacks: str | None) -> None:
    found = lacking(settings(), "owner", name, environ)
    assert (found is None) if lacks is None else (found is not None and lacks in found)


def test_a_channel_that_cannot_work_is_refused_before_it_is_used() -> None:
    check_channels(settings(), "owner", ("session", "hook"), {})
    with pytest.raises(UserError, match=r"TELEGRAM_TOKEN.*session, phone, bot"):
        check_channels(settings(), "owner", ("hook", "bot"), {})
    check_channels(settings(), "owner", ("bot",), None)  # where the worker's environment is not known
    with pytest.raises(UserError, match="no channel pager"):
        check_channels(settings(), "owner", ("pager",), None)


def test_mail_needs_the_secret_of_its_account() -> None:
    account = {"address": "a@example.org", "imap_host": "h", "smtp_host": "h"}
    found = settings(mail={"accounts": {"owner": account}})
    assert "MAIL_PASSWORD" in str(lacking(found, "owner", "post", {}))
    assert lacking(found, "owner", "post", {"MAIL_PASSWORD": "x"}) is None


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({"default": ["phone"]}, "none of the channels"),
        ({"channels": {"session": {"kind": "mail"}}}, "cannot be called session"),
        ({"channels": {"a b": {"kind": "mail"}}}, "pattern"),
        ({"channels": {"x": {"kind": "pigeon"}}}, "pigeon"),
        ({"channels": {"x": {"kind": "ntfy", "topic": "a/b"}}}, "topic"),
        ({"channels": {"x": {"kind": "matrix", "room": "#alias:h", "url": "https://h"}}}, "room"),
    ],
)
def test_settings_that_cannot_work_are_refused(user: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate({"delivery": {"users": {"owner": user}}})


def _size(text: str, unit: Unit) -> int:
    if unit == "chars":
        return len(text)
    return len(text.encode("utf-8")) if unit == "bytes" else len(text.encode("utf-16-le")) // 2


@pytest.mark.property
@given(st.text(alphabet="a1 é€😀\n", max_size=300), st.integers(80, 260), st.sampled_from(["chars", "bytes", "utf16"]))
def test_a_text_is_cut_to_what_a_channel_takes(text: str, most: int, unit: Unit) -> None:
    found = cut(text, most, "s1", unit=unit)
    assert _size(found, unit) <= most
    if _size(text, unit) <= most:
        assert found == text
    else:
        kept, _, note = found.rpartition("\n[… cut")
        assert text.startswith(kept)
        assert "session s1" in note


def test_channels_travel_as_words() -> None:
    entry = parse_entry({"kind": "message", "session": "s", "text": "x", "deliver": "phone, hook"}, LimitSettings())
    assert isinstance(entry, Message)
    assert entry.deliver == ("phone", "hook")
    assert parse_entry(as_fields(entry), LimitSettings()) == entry
    many = " ".join(f"c{n}" for n in range(11))
    for wrong, problem in ((many, "more than 10 channels"), ("a/b", "deliver")):
        with pytest.raises(UserError, match=problem):
            parse_entry({"kind": "message", "session": "s", "text": "x", "deliver": wrong}, LimitSettings())
