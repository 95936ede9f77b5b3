"""Where results go besides their session: which channels, what is missing for one, how much it takes. Pure.

A channel is one of a user's in `[delivery.users.<user>.channels]`; `session` names none, because every result is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from shared.delivery_settings import Channel, MailChannel
from shared.errors import UserError
from shared.settings import Settings

SESSION: Final = "session"
Unit = Literal["chars", "bytes", "utf16"]

MAX_TEXT: Final = 20_000
"""Characters of a result that are kept for delivery."""

NOTE: Final = "\n[… cut; the whole is in the session {session}]"


def channels_of(settings: Settings, principal: str, named: Sequence[str] = (), workflow: str = "") -> tuple[str, ...]:
    """The channels on which a result is delivered: those `named`, else those of the workflow, else the user's."""
    user = settings.delivery.users.get(principal)
    chosen = named or settings.workflows.deliver.get(workflow) or (user.default if user else ())
    return tuple(dict.fromkeys(one for one in chosen if one != SESSION))


def channel(settings: Settings, principal: str, name: str) -> Channel | None:
    """The user's channel of that name."""
    user = settings.delivery.users.get(principal)
    return user.channels.get(name) if user else None


def lacking(settings: Settings, principal: str, name: str, environ: Mapping[str, str] | None) -> str | None:
    """Why nothing can be delivered on a user's channel, for whoever can set it up; None if it can.

    `environ` is the worker's environment, which has the secrets; None where it is not known.
    """
    one = channel(settings, principal, name)
    if one is None:
        return f"there is no channel {name}; set delivery.users.{principal}.channels.{name}"
    if isinstance(one, MailChannel):
        account = settings.mail.accounts.get(principal)
        if account is None or not account.smtp_host:
            return f"channel {name}: there is no account to send mail with; set mail.accounts.{principal}.smtp_host"
        variables = account.secret_envs if account.smtp_auth else ()
    else:
        variables = (one.secret,) if one.secret else ()
    unset = next((one for one in variables if environ is not None and not environ.get(one)), None)
    return None if unset is None else f"channel {name}: set the environment variable {unset}"


def check_channels(settings: Settings, principal: str, names: Sequence[str], environ: Mapping[str, str] | None) -> None:
    """Raises UserError that says what is missing for the first of the channels on which nothing can be delivered."""
    for name in names:
        if name != SESSION and (why := lacking(settings, principal, name, environ)):
            user = settings.delivery.users.get(principal)
            known = ", ".join((SESSION, *(user.channels if user else ())))
            raise UserError(f"nothing can be delivered there: {why}", hint=f"channels of this user: {known}")


def cut(text: str, most: int, session: str, *, unit: Unit = "chars") -> str:
    """The text within `most` units (characters, bytes of UTF-8, units of UTF-16), with a note where the rest is if it
    does not fit. Never ends within a character."""
    if unit == "chars":
        if len(text) <= most:
            return text
        note = NOTE.format(session=session)
        return text[: max(0, most - len(note))] + note
    encoding, width = ("utf-8", 1) if unit == "bytes" else ("utf-16-le", 2)
    data = text.encode(encoding, "replace")
    if len(data) <= most * width:
        return text
    note = NOTE.format(session=session)
    room = most * width - len(note.encode(encoding))
    return data[: max(0, room)].decode(encoding, "ignore") + note
