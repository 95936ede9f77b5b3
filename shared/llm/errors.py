"""What can go wrong in a model call, told apart by what to do about it, and how answers map to it. Pure.

`from_response` classifies an HTTP answer, `from_error_object` an error that arrives inside a 200 stream. Bodies
follow the shapes of the OpenAI and Anthropic error objects; codes and phrases of compatible servers are known
where they say more than the status.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Literal

from shared.errors import OperatorError
from shared.llm.model import Usage


class LlmError(OperatorError):
    """A model call that gave no answer.

    `retryable`: the same call may succeed later. `retry_after`: seconds the provider asked for, or None.
    `partial_text`: visible text that arrived before the failure; never an answer. `usage`: what the failed call
    cost, as far as known. `status`: the HTTP status, or None.
    """

    code = "llm_error"
    default_hint: ClassVar[str] = ""
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        retryable: bool | None = None,
        retry_after: float | None = None,
        partial_text: str = "",
        status: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint or self.default_hint, code=code)
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.partial_text = partial_text
        self.status = status
        self.provider = ""
        self.usage: Usage | None = None


class ConnectFailed(LlmError):
    """No connection could be made: name not found, unreachable, TLS refused."""

    code = "connect_failed"
    default_hint = "check the provider's base_url, the network and the proxy settings"
    default_retryable = True


class Refused(ConnectFailed):
    """Nothing listens at the address."""

    code = "connect_refused"
    default_hint = "is the model server running, and is base_url its address?"


class AuthFailed(LlmError):
    """The key is missing, wrong, or may not use this model."""

    code = "auth_failed"
    default_hint = "check the API key of this provider and what it is allowed to use"


class BadRequest(LlmError):
    """The provider refuses the request as it is; sending it again cannot help."""

    code = "bad_request"
    default_hint = "the message says what it refuses; the provider's switches decide what is sent"


class ContextTooLong(BadRequest):
    """The prompt does not fit the model's window."""

    code = "context_too_long"
    default_hint = "compact the history, or use a model with a larger window"


class NotFound(LlmError):
    """The model or the endpoint does not exist there."""

    code = "not_found"
    default_hint = "check the model name and the provider's base_url"


class TooLarge(LlmError):
    """The request body is over the provider's limit in bytes."""

    code = "too_large"
    default_hint = "send fewer or smaller images, or compact the history"


class RateLimited(LlmError):
    """Too many requests or tokens in a time."""

    code = "rate_limited"
    default_hint = "wait, lower the provider's concurrency, or raise its limits"
    default_retryable = True


class Overloaded(LlmError):
    """The provider has no capacity at the moment, or is still loading the model."""

    code = "overloaded"
    default_hint = "wait, or add another provider to the tier"
    default_retryable = True


class ServerFault(LlmError):
    """The provider failed, or answered something that is not its protocol."""

    code = "server_fault"
    default_hint = "the fault is at the provider; try again or use another one"
    default_retryable = True


class ContentFiltered(LlmError):
    """The provider's filter refused prompt or answer."""

    code = "content_filtered"
    default_hint = "rephrase the message, or use another provider"


class CutStream(LlmError):
    """The connection ended before the answer did."""

    code = "cut_stream"
    default_hint = "the network or a proxy cut the stream; try again"
    default_retryable = True


class Resting(LlmError):
    """No model of the chain may be asked at the moment: all rest after failures, or have no free slot."""

    code = "models_resting"
    default_hint = "wait as long as it says; `capataz doctor` and the log tell what failed"


class BudgetSpent(LlmError):
    """The budget of the day, the user's or the installation's, has no room for the call. It was not made."""

    code = "budget_spent"
    default_hint = "wait for the next day (UTC), or raise the budget"


class PriceUnknown(LlmError):
    """A budget in dollars is in force and nobody knows what this model costs. The call was not made."""

    code = "price_unknown"
    default_hint = "add its price to the table of models.prices, or set budget.unpriced to allow"


TimeoutKind = Literal["connect", "first_token", "idle", "total"]


class Timeout(LlmError):
    """A deadline passed. `kind` says which: connect, first_token, idle (between pieces), total."""

    default_retryable = True

    def __init__(self, kind: TimeoutKind, seconds: float, *, partial_text: str = "") -> None:
        what = {
            "connect": "no connection",
            "first_token": "no first token",
            "idle": "the stream went silent",
            "total": "the answer was not complete",
        }[kind]
        super().__init__(
            f"{what} within {seconds:g} s",
            hint=f"raise models.{kind}_s if this provider is slow, or use another one",
            code=f"timeout_{kind}",
            partial_text=partial_text,
        )
        self.kind: TimeoutKind = kind


_CONTEXT = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|input is too long|too many (input )?tokens"
    r"|input token count.{0,40}exceed|reduce the length"
    r"|exceeds? the (model'?s )?(maximum|available)[^.]{0,20} (tokens|context)"
    r"|max_prompt_tokens|longer than the model",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content.?(filter|policy|management)|responsibleai|safety system|flagged|moderation", re.IGNORECASE
)
_QUOTA = re.compile(
    r"insufficient.?(quota|balance|credit|funds)|billing|payment required|credit balance", re.IGNORECASE
)
_OVERLOADED = re.compile(r"overload|at capacity|no available|loading model|temporarily unavailable", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model.?not.?found|not.?found.?error|no such model|model [^.]{0,120}(does not exist|not exist|not found)",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate.?limit|too many requests|resource.?exhausted|throttl", re.IGNORECASE)
_AUTH = re.compile(
    r"authentication|invalid.?api.?key|unauthori[sz]ed|permission.?(error|denied)|forbidden", re.IGNORECASE
)
_LARGE = re.compile(r"request.?too.?large|payload too large|entity too large", re.IGNORECASE)
_REQUEST = re.compile(r"invalid.?request|bad.?request|invalid.?argument|unprocessable", re.IGNORECASE)
_STATUS_WORD = re.compile(r"\b[1-5]\d\d\b")

MAX_DETAIL = 600
"""Characters of a provider's own words that a message keeps."""


def from_response(
    status: int, headers: Mapping[str, str], body: bytes, *, now: float, media_type: str = ""
) -> LlmError:
    """The error for an HTTP answer that is not a 200. `headers` with lower-case names; `now` in Unix seconds."""
    text = body.decode("utf-8", "replace").strip()
    word, detail, wait = _read_body(text, media_type)
    if 300 <= status < 400:
        return NotFound(
            f"HTTP {status}: the address redirects to {headers.get('location', 'elsewhere')}", status=status
        )
    kind, code, retryable = _classify(status, word, detail)
    message = f"HTTP {status}: {detail}" if detail else f"HTTP {status} without a reason"
    after = retry_after(headers, now)
    return _build(kind, message, code=code, retryable=retryable, after=wait if after is None else after, status=status)


def from_error_object(error: Any) -> LlmError:
    """The error for an error object inside a 200 answer or stream: `{"code", "type", "message"}`, or a text."""
    word, detail, wait = _read_error(error)
    found = _STATUS_WORD.search(word)
    status = int(found.group()) if found else 0
    kind, code, retryable = _classify(status, word, detail)
    return _build(
        kind,
        f"error inside the stream: {detail or word or 'no reason given'}",
        code=code,
        retryable=retryable,
        after=wait,
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `retry-after-ms` or Retry-After (RFC 9110 §10.2.3: seconds or a date), or None."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        raw = headers.get(name, "").strip()
        if not raw:
            continue
        try:
            seconds = float(raw) / unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(raw).timestamp() - now
            except (ValueError, TypeError, OverflowError, OSError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _build(
    kind: type[LlmError],
    message: str,
    *,
    code: str,
    retryable: bool | None,
    after: float | None,
    status: int | None = None,
) -> LlmError:
    hint = "the account has no credit left; top it up or use another provider" if code == "quota_exhausted" else ""
    return kind(message, code=code, retryable=retryable, retry_after=after, hint=hint, status=status)


def _classify(status: int, word: str, detail: str) -> tuple[type[LlmError], str, bool | None]:
    """(class, code or "", retryable or None). Words say more than a status, except where they are ambiguous."""
    said = f"{word} {detail}"
    client_side = status == 0 or 400 <= status < 500
    if status == 402 or (client_side and _QUOTA.search(said)):
        return RateLimited, "quota_exhausted", False
    if client_side and status not in (401, 403, 429):
        if _CONTEXT.search(said):
            return ContextTooLong, "", None
        if _FILTER.search(said):
            return ContentFiltered, "", None
    by_status = _BY_STATUS.get(status)
    if by_status is not None:
        retryable = False if status == 501 else None
        return by_status, "", retryable
    for pattern, kind in _BY_WORD:
        if (
            pattern.search(word)
            or (status == 0 and pattern.search(detail))
            or (pattern is _NO_MODEL and pattern.search(said))
        ):
            return kind, "", None
    if 400 <= status < 500:
        return BadRequest, "", None
    return ServerFault, "", None


_BY_STATUS: Mapping[int, type[LlmError]] = {
    401: AuthFailed,
    403: AuthFailed,
    404: NotFound,
    405: NotFound,
    408: ServerFault,
    409: Overloaded,
    413: TooLarge,
    425: Overloaded,
    429: RateLimited,
    498: Overloaded,  # Groq: flex capacity exceeded
    500: ServerFault,
    501: ServerFault,
    502: ServerFault,
    503: Overloaded,
    504: ServerFault,
    529: Overloaded,  # Anthropic
}
_BY_WORD: tuple[tuple[re.Pattern[str], type[LlmError]], ...] = (
    (_NO_MODEL, NotFound),
    (_OVERLOADED, Overloaded),
    (_RATE, RateLimited),
    (_LARGE, TooLarge),
    (_AUTH, AuthFailed),
    (_REQUEST, BadRequest),
)


def _read_body(text: str, media_type: str) -> tuple[str, str, float | None]:
    """(type or code, message, seconds to wait) of an error body in any shape, HTML included."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if "html" in media_type or text[:1] == "<":
            title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
            return "", _short(title.group(1) if title else "an HTML page instead of an answer"), None
        return "", _short(text), None
    if isinstance(value, list) and value:  # Gemini wraps its errors in a list
        value = value[0]
    if isinstance(value, dict):
        return _read_error(value.get("error", value))
    return "", _short(text), None


def _read_error(error: Any) -> tuple[str, str, float | None]:
    if not isinstance(error, dict):
        return "", _short(str(error)) if error else "", None
    words = [str(error[key]) for key in ("type", "code", "status") if isinstance(error.get(key), str | int)]
    message = error.get("message") or error.get("detail") or error.get("error") or ""
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):  # a gateway quotes the provider behind it
        message = f"{message}: {metadata['raw']}"
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    return " ".join(words), _short(text), _retry_info(error.get("details"))


def _retry_info(details: Any) -> float | None:
    """google.rpc.RetryInfo: `{"retryDelay": "34s"}` among the details."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (match := re.fullmatch(r"(\d+(?:\.\d+)?)s", delay)):
            return float(match.group(1))
    return None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_DETAIL else text[:MAX_DETAIL] + "…"
