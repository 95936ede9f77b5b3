"""HTTP calls to services that the operator has configured: their addresses are used as they are, their answers bounded.

What a user or a model names goes through the checked fetch instead.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from typing import Any

import httpx

from shared.compress import snippet
from shared.errors import ModelError
from workers.context import ToolContext

_ERROR_CHARS = 300
_ERROR_BYTES = 20_000


def key_of(variable: str) -> str:
    """The secret in an environment variable, empty if there is none."""
    return os.environ.get(variable, "").strip() if variable else ""


@dataclass(frozen=True)
class Service:
    """A configured service. `title` is what the model is told it is; `base_url` has no slash at its end."""

    title: str
    base_url: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Answer:
    """A successful answer; `media_type` is lower case without parameters."""

    media_type: str
    body: bytes

    def json(self, service: Service) -> Any:
        """The body as JSON. Raises ModelError when it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise malformed(service, "it is not JSON") from error


def malformed(service: Service, why: str) -> ModelError:
    """An answer that is not what the protocol says."""
    return ModelError(
        f"{service.title} gave an answer that cannot be used: {why}",
        hint="tell the user; the operator should check the address of the service",
        code="bad_response",
    )


async def call(
    ctx: ToolContext,
    service: Service,
    method: str,
    path: str,
    *,
    seconds: float,
    max_bytes: int,
    acts: bool = False,
    **request: Any,
) -> Answer:
    """One request; `request` are httpx's keyword arguments. `acts`: it changes something, so a lost answer is told so.

    Raises ModelError: unreachable, refused, too slow, too large, or any status from 400 on.
    """
    seconds = max(0.1, min(seconds, ctx.remaining_s))
    headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
    headers |= request.pop("headers", {})
    unsure = "; it may have been carried out all the same: check before you try again" if acts else ""
    try:
        async with (
            asyncio.timeout(seconds),
            ctx.services.http(timeout=httpx.Timeout(seconds)) as http,
            http.stream(method, service.base_url + path, headers=headers, **request) as response,
        ):
            failed = response.status_code >= 400
            body = await _bounded(response, service, _ERROR_BYTES if failed else max_bytes, cut=failed)
            if failed:
                raise _refused(service, response, body)
            return Answer(response.headers.get("content-type", "").split(";")[0].strip().lower(), body)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ModelError(
            f"{service.title} cannot be reached, so nothing was done",
            hint="tell the user; try again later",
            code="unreachable",
        ) from error
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ModelError(f"{service.title} did not answer within {seconds:g} s{unsure}", code="timed_out") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = type(error).__name__
        raise ModelError(f"the call to {service.title} broke off: {what}{unsure}", code="unreachable") from error


async def _bounded(response: httpx.Response, service: Service, most: int, *, cut: bool) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > most:
            if cut:
                return bytes(data[:most])
            raise ModelError(f"{service.title} sent more than {most} bytes", code="too_large")
    return bytes(data)


def _refused(service: Service, response: httpx.Response, body: bytes) -> ModelError:
    status = response.status_code
    said = _error_text(body)
    if service.key:
        said = said.replace(service.key, "***")
    told = f"{service.title} refused with status {status}{f': {said}' if said else ''}"
    if status in (401, 403):
        return ModelError(told, hint="its key is wrong or may not do this; tell the user", code="auth_refused")
    if status == 429:
        wait = response.headers.get("retry-after", "")
        when = f"in {wait} s" if wait.isdigit() else "later"
        return ModelError(told, hint=f"try again {when}", code="rate_limited")
    if status >= 500:
        return ModelError(told, hint="it has trouble of its own; try again later", code="service_failed")
    return ModelError(told, hint="change the arguments as it says", code="refused")


def _error_text(body: bytes) -> str:
    """What an error's body says: `error.message` or `message` of JSON, else plain text; markup says nothing."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else snippet(text, _ERROR_CHARS)
    if isinstance(found, dict):
        error = found.get("error", found)
        found = error.get("message", "") if isinstance(error, dict) else error
    return snippet(str(found), _ERROR_CHARS)
