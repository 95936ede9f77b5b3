"""Mailboxes without passwords: access tokens by refresh token (RFC 6749, section 6), shown to servers as XOAUTH2.

An access token is kept in memory until shortly before it ends. Some providers replace the refresh token when it is
used; the newest is kept in the account's `token_file`, which several workers may share.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import httpx
import structlog

from shared.compress import snippet
from shared.errors import ModelError
from shared.tool_settings import MailAccount, MailOAuth
from workers.context import ToolContext

log = structlog.get_logger(__name__)

_EARLY_S: Final = 120
"""So much before its end a token is no longer used: a call may take a while."""
_USUAL_LIFE_S: Final = 3600
_MAX_ANSWER: Final = 100_000
_CHARS: Final = 200


@dataclass(frozen=True)
class Login:
    """How a server is told who comes: `secret` is the password or, with `bearer`, an access token."""

    user: str
    secret: str = field(repr=False)
    bearer: bool = False

    @property
    def xoauth2(self) -> str:
        """The response of the SASL mechanism XOAUTH2."""
        return f"user={self.user}\x01auth=Bearer {self.secret}\x01\x01"


@dataclass
class _Kept:
    """What is known of an account: its access token, until when (Unix seconds), and a refresh token that came later
    than the configured one."""

    token: str = ""
    until: float = 0.0
    refresh: str = ""


_KEPT: dict[tuple[str, MailOAuth], _Kept] = {}
"""By mailbox and by all that its access rests on: what one account was given is never another's."""


def _kept(account: MailAccount, oauth: MailOAuth) -> _Kept:
    return _KEPT.setdefault((account.user or account.address, oauth), _Kept())


def has_token(account: MailAccount, now: float) -> bool:
    """True if an access token is kept that may still be used."""
    return account.oauth is not None and now < _kept(account, account.oauth).until


def forget_token(account: MailAccount) -> None:
    """Drops the access token that is kept, so that the next is a new one."""
    if account.oauth is not None:
        _kept(account, account.oauth).until = 0.0


async def access_token(ctx: ToolContext, account: MailAccount, oauth: MailOAuth) -> str:
    """A token that is valid for a while, asked for if need be. Raises ModelError that says who must do what."""
    kept, now = _kept(account, oauth), ctx.services.now()
    if now < kept.until:
        return kept.token
    refresh = _newest(oauth) or kept.refresh or os.environ.get(oauth.refresh_token_env, "")
    status, found = await _asked(ctx, oauth, refresh)
    newer = _newest(oauth)
    if found.get("error") == "invalid_grant" and newer not in ("", refresh):  # another worker was faster
        refresh = newer
        status, found = await _asked(ctx, oauth, refresh)
    token = found.get("access_token")
    if status >= 400 or not isinstance(token, str) or not token:
        _refused(oauth, status, found)
    kept.token, kept.until = token, now + _life(found) - _EARLY_S
    replaced = found.get("refresh_token")
    if isinstance(replaced, str) and replaced not in ("", refresh):
        kept.refresh = replaced
        _keep(oauth, replaced)
    return token


def _life(found: dict[str, Any]) -> float:
    try:
        return float(found.get("expires_in", _USUAL_LIFE_S))
    except (TypeError, ValueError):
        return _USUAL_LIFE_S


def _newest(oauth: MailOAuth) -> str:
    """The refresh token in the file; empty if there is none."""
    if oauth.token_file is None:
        return ""
    try:
        return oauth.token_file.read_text("utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeError) as error:
        raise ModelError(
            f"the file with the refresh token, {oauth.token_file}, cannot be read: {error}",
            hint="tell the user; the operator corrects token_file of the mail account",
            code="not_configured",
        ) from error


def _keep(oauth: MailOAuth, refresh: str) -> None:
    if oauth.token_file is None:
        log.warning(
            "the refresh token of a mail account was replaced and is kept in memory only; set token_file",
            variable=oauth.refresh_token_env,
        )
        return
    try:
        _write_private(oauth.token_file, refresh)
    except OSError as error:
        log.error(
            "the new refresh token of a mail account cannot be kept", file=str(oauth.token_file), error=str(error)
        )


def _write_private(path: Path, text: str) -> None:
    """Replaces a file that only its owner may read, at once."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


async def _asked(ctx: ToolContext, oauth: MailOAuth, refresh: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the token endpoint's answer."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": oauth.client_id}
    if oauth.client_secret_env:
        form["client_secret"] = os.environ.get(oauth.client_secret_env, "")
    if oauth.asked_scope:
        form["scope"] = oauth.asked_scope
    server = urlsplit(oauth.endpoint).hostname
    seconds = max(1.0, min(ctx.settings.mail.timeout_s, ctx.remaining_s))
    try:
        async with ctx.services.http(timeout=httpx.Timeout(seconds), follow_redirects=False) as http:
            response = await http.post(oauth.endpoint, data=form, headers={"Accept": "application/json"})
    except httpx.HTTPError as error:
        raise ModelError(
            f"{server}, which gives access to mailboxes, cannot be reached ({type(error).__name__}); nothing was done",
            hint="try again later",
            code="unreachable",
        ) from error
    try:
        found = json.loads(response.content[:_MAX_ANSWER])
    except (ValueError, RecursionError):
        found = None
    return response.status_code, found if isinstance(found, dict) else {}


def _refused(oauth: MailOAuth, status: int, found: dict[str, Any]) -> NoReturn:
    """Says what the endpoint's error means for whom; never what was sent."""
    server, code = urlsplit(oauth.endpoint).hostname, str(found.get("error", ""))[:60]
    said = snippet(str(found.get("error_description") or code or f"status {status}"), _CHARS)
    if code == "invalid_grant":
        raise ModelError(
            f"{server} gives no access to the mailbox any more ({said}); nothing was done",
            hint="tell the user: consent was withdrawn or has ended; the operator gives it anew and sets "
            f"{oauth.refresh_token_env}" + (f" (and removes {oauth.token_file})" if oauth.token_file else ""),
            code="auth_refused",
        )
    if code in ("invalid_client", "unauthorized_client", "invalid_scope", "invalid_request"):
        raise ModelError(
            f"{server} does not accept this installation as a mail client ({said}); nothing was done",
            hint="tell the user: the operator checks client_id, client_secret_env and scope of the mail account",
            code="auth_refused",
        )
    if status == 429 or status >= 500:
        raise ModelError(
            f"{server} gives no access at the moment ({said}); nothing was done",
            hint="try again later",
            code="unreachable",
        )
    raise ModelError(
        f"{server} gave no access token ({said}); nothing was done",
        hint="tell the user: the operator checks token_url and the registration of the mail client",
        code="bad_response",
    )
