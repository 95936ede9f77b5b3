"""One try to deliver a parcel on a channel. Never raises for what the other side does: that is the outcome."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from typing import Any

import httpx

from shared.compress import snippet
from shared.delivery_settings import Channel, MailChannel
from shared.errors import ModelError
from workers.context import ToolContext
from workers.delivery.outgoing import Outcome, Outgoing, Parcel, Result, judged, outgoing
from workers.tools import mail_send as mails
from workers.tools.accounts import account_of
from workers.tools.mail_account import logged_in, seconds_left, zone_of
from workers.tools.mail_text import Address
from workers.tools.public_net import PublicTransport, Reach

_ANSWER_BYTES = 10_000
_SUBJECT_CHARS = 200
_MAYBE_LATER = ("unreachable", "timed_out")


async def send(ctx: ToolContext, channel: Channel, parcel: Parcel) -> Outcome:
    """Tries once."""
    if isinstance(channel, MailChannel):
        return await _mail(ctx, channel, parcel)
    secret = os.environ.get(channel.secret, "").strip() if channel.secret else ""
    return await _request(ctx, outgoing(channel, parcel, secret, int(ctx.services.now())))


async def _request(ctx: ToolContext, out: Outgoing) -> Outcome:
    seconds = max(0.1, min(ctx.settings.delivery.timeout_s, ctx.remaining_s))
    options: dict[str, Any] = {"timeout": httpx.Timeout(seconds), "follow_redirects": False}
    if out.public:
        reach = Reach(ctx.settings.web.allow_private, ctx.settings.web.ports)
        options |= {"transport": PublicTransport(reach), "trust_env": False}
    # Addresses stay out of what is told: one of them holds a token.
    unclear = Result.LATER if out.repeatable else Result.UNKNOWN
    try:
        async with (
            asyncio.timeout(seconds),
            ctx.services.http(**options) as client,
            client.stream(out.method, out.url, content=out.body, headers=dict(out.headers)) as response,
        ):
            return judged(out, response.status_code, response.headers, await _start_of(response))
    except ModelError as error:  # its address was refused before anything was sent
        return Outcome(Result.LATER if error.code == "unreachable" else Result.REFUSED, error.message)
    except (httpx.ConnectError, httpx.ConnectTimeout):
        return Outcome(Result.LATER, "it cannot be reached")
    except (TimeoutError, httpx.TimeoutException):
        return Outcome(unclear, f"it did not answer within {seconds:g} s")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Outcome(unclear, f"the connection broke off ({type(error).__name__})")


async def _start_of(response: httpx.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) >= _ANSWER_BYTES:
            break
    return bytes(data[:_ANSWER_BYTES])


async def _mail(ctx: ToolContext, channel: MailChannel, parcel: Parcel) -> Outcome:
    try:
        account, _ = account_of("mail", ctx.settings.mail.accounts, ctx.principal)
        draft = mails.Draft(
            subject=snippet(" ".join(parcel.title.split()), _SUBJECT_CHARS),
            body=parcel.text,
            to=mails.addresses([channel.to or account.address], "the channel's address"),
        )
        sender = Address(account.name, account.address)
        mail = mails.written(draft, sender, parcel.id, datetime.fromtimestamp(parcel.at_ms / 1000, zone_of(ctx)))
        seconds = seconds_left(ctx)
        await logged_in(ctx, lambda who, login: mails.send(who, login, mail, draft.recipients, seconds))
    except ModelError as error:
        if error.code == "outcome_unknown":
            return Outcome(Result.UNKNOWN, error.message)
        # A server that refuses for now has a hint for later; all else that can pass has one of these codes.
        passing = error.code in _MAYBE_LATER or (error.code == "refused" and "later" in error.hint)
        return Outcome(Result.LATER if passing else Result.REFUSED, error.message)
    return Outcome(Result.SENT)
