"""Whose mailbox a call works in, and how: one connection, in the executor, for as long as the call takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from zoneinfo import ZoneInfo

from shared.errors import ModelError
from shared.settings import Settings
from shared.tool_settings import MailAccount
from workers.context import ToolContext
from workers.tools.accounts import account_of, lacking
from workers.tools.mail_box import Fetched, Mailbox, opened
from workers.tools.mail_oauth import Login, access_token, forget_token, has_token
from workers.tools.mail_text import Mail, parse
from workers.tools.utility import find_zone

T = TypeVar("T")


def no_mail(settings: Settings) -> str | None:
    """Why there is no mail for anybody; None if there is."""
    return lacking("mail", settings.mail.accounts, ("imap_tools",))


def no_sending(settings: Settings) -> str | None:
    """Why nobody can send; None if somebody can."""
    if (reason := no_mail(settings)) is not None:
        return reason
    able = any(account.smtp_host for account in settings.mail.accounts.values())
    return None if able else "no mail account has a server to send with; set mail.accounts.owner.smtp_host"


async def blocking(ctx: ToolContext, work: Callable[[], T]) -> T:
    """Runs `work` in the executor for what blocks."""
    return await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, work)


async def in_box(ctx: ToolContext, work: Callable[[Mailbox], T]) -> T:
    """Runs `work` in the caller's mailbox, in the executor."""
    seconds = seconds_left(ctx)

    def run(account: MailAccount, login: Login) -> T:
        with opened(account, login, seconds) as box:
            return work(box)

    return await logged_in(ctx, run)


async def logged_in(ctx: ToolContext, work: Callable[[MailAccount, Login], T]) -> T:
    """Runs `work`, which logs in before it does anything, for the caller's account, in the executor.

    A kept access token that a server refuses is asked for anew, once.
    """
    account, password = account_of("mail", ctx.settings.mail.accounts, ctx.principal)
    user, oauth = account.user or account.address, account.oauth
    if oauth is None:
        return await blocking(ctx, lambda: work(account, Login(user, password)))
    kept = has_token(account, ctx.services.now())
    token = await access_token(ctx, account, oauth)
    try:
        return await blocking(ctx, lambda: work(account, Login(user, token, bearer=True)))
    except ModelError as error:
        if error.code != "auth_refused" or not kept:
            raise
    forget_token(account)
    fresh = await access_token(ctx, account, oauth)
    return await blocking(ctx, lambda: work(account, Login(user, fresh, bearer=True)))


def seconds_left(ctx: ToolContext) -> float:
    """How long one step on the wire may take."""
    return max(1.0, min(ctx.settings.mail.timeout_s, ctx.remaining_s))


def zone_of(ctx: ToolContext) -> ZoneInfo:
    """The user's time zone."""
    return find_zone(ctx.settings.workflows.timezone)


async def read_one(ctx: ToolContext, folder: str, uid: int, max_bytes: int) -> tuple[Fetched, Mail]:
    """One mail, or ModelError when the folder does not have it."""

    def work(box: Mailbox) -> Fetched | None:
        box.select(folder)
        return box.start_of(uid, max_bytes)

    found = await in_box(ctx, work)
    if found is None:
        raise ModelError(
            f"{folder} has no mail with uid {uid} (any more)",
            hint="mail_list and mail_search give uids; they hold for one folder",
            code="not_found",
        )
    return found, await blocking(ctx, lambda: parse(found.data))
