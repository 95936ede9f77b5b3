"""What goes over the wire for each kind of channel, and what an answer means. Pure.

ntfy: https://docs.ntfy.sh/publish/#publish-as-json; Telegram: https://core.telegram.org/bots/api#sendmessage; Matrix:
https://spec.matrix.org/v1.11/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from shared.compress import snippet
from shared.delivery import cut
from shared.delivery_settings import Channel, MatrixChannel, NtfyChannel, TelegramChannel, WebhookChannel

NTFY_BYTES: Final = 4096
TELEGRAM_UNITS: Final = 4096
MATRIX_BYTES: Final = 40_000
"""Of the 65,536 that an event may have: JSON may take more for a character than UTF-8 does."""

TITLE_CHARS: Final = 120
_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True)
class Parcel:
    """What is delivered: a result of `run` in `session`. `id` is the same for every try, `at_ms` when it came about."""

    id: str
    principal: str
    session: str
    run: str
    title: str
    text: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request. `public`: its address is checked. `repeatable`: sent twice, it arrives once, because the other side
    knows it by its id."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    public: bool = False
    repeatable: bool = False


class Result(StrEnum):
    """How a try ended: arrived; not, but may later; not, and never will; or nobody knows."""

    SENT = "sent"
    LATER = "later"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a try, why, and after how many seconds the other side wants the next one."""

    result: Result
    why: str = ""
    after_s: float = 0.0


def repeatable(channel: Channel) -> bool:
    """True if a delivery on this channel may be tried again though nobody knows whether it arrived."""
    return isinstance(channel, WebhookChannel | MatrixChannel)


def outgoing(channel: Channel, parcel: Parcel, secret: str, now_s: int) -> Outgoing:
    """The request that delivers a parcel. Raises TypeError for mail, which is no request."""
    match channel:
        case WebhookChannel():
            return _webhook(channel, parcel, secret, now_s)
        case NtfyChannel():
            return _ntfy(channel, parcel, secret)
        case TelegramChannel():
            return _telegram(channel, parcel, secret)
        case MatrixChannel():
            return _matrix(channel, parcel, secret)
        case _:
            raise TypeError(f"a channel of kind {channel.kind} is no request")


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _bearer(token: str) -> dict[str, str]:
    json_type = {"Content-Type": "application/json"}
    return json_type | ({"Authorization": f"Bearer {token}"} if token else {})


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What `X-Capataz-Signature` holds: HMAC-SHA-256 over the time stamp, a dot and the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _webhook(channel: WebhookChannel, parcel: Parcel, secret: str, now_s: int) -> Outgoing:
    value = {
        "v": 1,
        "id": parcel.id,
        "user": parcel.principal,
        "session": parcel.session,
        "run": parcel.run,
        "title": parcel.title,
        "text": parcel.text,
        "at_ms": parcel.at_ms,
    }
    body, stamp = _json(value), str(now_s)
    headers = {"Content-Type": "application/json", "Idempotency-Key": parcel.id, "X-Capataz-Timestamp": stamp}
    if secret:
        headers["X-Capataz-Signature"] = signature(secret, stamp, body)
    return Outgoing("POST", channel.url, body, headers, public=True, repeatable=True)


def _ntfy(channel: NtfyChannel, parcel: Parcel, token: str) -> Outgoing:
    message = cut(parcel.text, NTFY_BYTES, parcel.session, unit="bytes")
    value = {"topic": channel.topic, "title": parcel.title[:TITLE_CHARS], "message": message}
    return Outgoing("POST", channel.url.rstrip("/") + "/", _json(value), _bearer(token))


def _telegram(channel: TelegramChannel, parcel: Parcel, token: str) -> Outgoing:
    text = cut(f"{parcel.title[:TITLE_CHARS]}\n\n{parcel.text}", TELEGRAM_UNITS, parcel.session, unit="utf16")
    value = {"chat_id": channel.chat, "text": text, "link_preview_options": {"is_disabled": True}}
    return Outgoing("POST", f"{channel.url.rstrip('/')}/bot{token}/sendMessage", _json(value), _bearer(""))


def _matrix(channel: MatrixChannel, parcel: Parcel, token: str) -> Outgoing:
    body = cut(f"{parcel.title[:TITLE_CHARS]}\n\n{parcel.text}", MATRIX_BYTES, parcel.session, unit="bytes")
    room, transaction = quote(channel.room, safe=""), quote(parcel.id, safe="")
    path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}"
    value = {"msgtype": "m.text", "body": body}
    return Outgoing("PUT", channel.url.rstrip("/") + path, _json(value), _bearer(token), repeatable=True)


def judged(out: Outgoing, status: int, headers: Mapping[str, str], body: bytes) -> Outcome:
    """What an answer means. Too many requests and a service that says it is not there have done nothing; after other
    trouble of a service only a request that it can tell apart is repeated."""
    if 200 <= status < 300:
        return Outcome(Result.SENT)
    why = f"it answered with status {status}{_said(body)}"
    if status in (408, 425, 429, 503):
        return Outcome(Result.LATER, why, _retry_after(headers, body))
    if status >= 500:
        return Outcome(Result.LATER if out.repeatable else Result.UNKNOWN, why)
    return Outcome(Result.REFUSED, why)


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _said(body: bytes) -> str:
    found = _parsed(body)
    text = next((found[name] for name in ("description", "error", "message") if isinstance(found.get(name), str)), "")
    return f": {snippet(text, _ERROR_CHARS)}" if text else ""


def _retry_after(headers: Mapping[str, str], body: bytes) -> float:
    """Seconds that the other side asks for, by header, or as Telegram and Matrix say it; 0 if it does not."""
    found = _parsed(body)
    parameters = found.get("parameters")
    told = [headers.get("retry-after"), parameters.get("retry_after") if isinstance(parameters, dict) else None]
    for value in told:
        if isinstance(value, int | float) or (isinstance(value, str) and value.isdigit()):
            return max(0.0, float(value))
    milliseconds = found.get("retry_after_ms")
    return max(0.0, milliseconds / 1000) if isinstance(milliseconds, int | float) else 0.0
