"""The encoder behind an OpenAI-compatible embeddings endpoint (`POST {base_url}/embeddings`), and the choice of one.

The seam to httpx: whatever goes wrong comes out as OperatorError. All texts of a call travel in one request, up to what
servers take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import numpy as np
import numpy.typing as npt

from shared.encoder import Encoder, PackagedEncoder, Vectors, normalise
from shared.errors import ConfigError, OperatorError
from shared.llm.provider import Provider, parse_model, providers_from
from shared.settings import Settings

PACKAGED: Final = "packaged"
OFF: Final = "off"

DIM: Final = 512
"""Length of the vectors, whatever the model's is: so the derived data has the same size for all models."""

_INPUTS = 2048  # texts of one request, OpenAI's bound
_CHARS = 8_000  # of one text: the models read some thousand tokens, and servers refuse more
_TRIES = 3
_BACKOFF_S = 0.5
_LONGEST_WAIT_S = 5.0
_REST_S = 30.0
_TIMEOUT_S = 20.0
_QUERY_TIMEOUT_S = 2.0
_AGAIN = {408, 409, 425, 429, 500, 502, 503, 504}


def encoder_of(settings: Settings, env: Mapping[str, str]) -> Encoder | None:
    """The encoder that `routing.encoder` names; None for `off`.

    Raises ConfigError for a provider that is not there, or whose dialect has no embeddings.
    """
    chosen = settings.routing.encoder
    if chosen == OFF:
        return None
    if chosen == PACKAGED:
        return PackagedEncoder()
    name, model = parse_model(chosen)
    provider = providers_from(settings.models, env).get(name)
    if provider is None:
        raise ConfigError(
            f"routing.encoder names the provider {name!r}, which is not configured",
            hint="add models.providers.<name> or set its key, or use `packaged` or `off`",
        )
    if provider.dialect != "openai":
        raise ConfigError(
            f"routing.encoder: {name} has no embeddings",
            hint="name a provider with the dialect `openai`, or `packaged`",
        )
    return EndpointEncoder(provider, model)


class EndpointEncoder:
    """An `Encoder` over HTTP. Safe to share between threads; calls run one after the other.

    Attempts are bounded, with a pause that honours Retry-After; a single text, for which somebody waits, gets one short
    attempt. After a failure the endpoint rests for half a minute, in which calls fail at once, so that a server that is
    down holds nobody up. Vectors of another length are brought to `DIM`: longer ones by a fixed projection, which
    nearly keeps their angles, shorter ones by zeros.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        key = {"authorization": f"Bearer {provider.api_key.get_secret_value()}"} if provider.api_key else {}
        self._url = f"{provider.base_url}/embeddings"
        self._model = model
        self._client = httpx.Client(headers={**provider.headers, **key}, transport=transport)
        self._sleep = sleep
        self._clock = clock
        self._rests_until = 0.0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Address and model: another server's model of the same name may be another one."""
        return f"{self._url} {self._model}"

    @property
    def dim(self) -> int:
        """512, see `DIM`."""
        return DIM

    def encode(self, texts: list[str]) -> Vectors:
        """See `Encoder.encode`. Raises OperatorError (`embeddings_unavailable`, `embeddings_refused`)."""
        if not texts:
            return np.zeros((0, DIM), dtype=np.float32)
        with self._lock:
            if self._clock() < self._rests_until:
                raise self._unavailable("it failed a moment ago and rests")
            try:
                parts = [self._request(texts[at : at + _INPUTS]) for at in range(0, len(texts), _INPUTS)]
            except OperatorError:
                self._rests_until = self._clock() + _REST_S
                raise
        return normalise(_resized(np.concatenate(parts)))

    def close(self) -> None:
        """Closes idle connections."""
        self._client.close()

    def _request(self, texts: list[str]) -> npt.NDArray[np.float32]:
        body = {"model": self._model, "input": [text[:_CHARS] or " " for text in texts], "encoding_format": "float"}
        tries, timeout = (1, _QUERY_TIMEOUT_S) if len(texts) == 1 else (_TRIES, _TIMEOUT_S)
        for attempt in range(1, tries + 1):
            last = attempt == tries
            wait = _BACKOFF_S * 2 ** (attempt - 1)
            try:
                response = self._client.post(self._url, json=body, timeout=timeout)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if last:
                    raise self._unavailable(f"{type(error).__name__} {error}".strip()) from error
            else:
                if response.is_success:
                    return self._vectors(response, len(texts))
                if response.status_code not in _AGAIN:
                    raise OperatorError(
                        f"{self._url} refuses to embed with {self._model}: {_said(response)}",
                        hint="check the key and the model in routing.encoder, or set it to `packaged`",
                        code="embeddings_refused",
                    )
                if last:
                    raise self._unavailable(_said(response))
                wait = max(wait, _retry_after(response))
            self._sleep(min(wait, _LONGEST_WAIT_S))
        raise AssertionError("the last attempt returns or raises")

    def _vectors(self, response: httpx.Response, count: int) -> npt.NDArray[np.float32]:
        try:
            items: list[dict[str, Any]] = sorted(response.json()["data"], key=lambda item: int(item["index"]))
            rows = np.array([item["embedding"] for item in items], dtype=np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unavailable(f"its answer is not a list of embeddings: {error!r}") from error
        if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
            raise self._unavailable(f"it answered {count} texts with vectors of shape {rows.shape}")
        return rows

    def _unavailable(self, why: str) -> OperatorError:
        return OperatorError(
            f"{self._url} does not embed: {why}",
            hint="messages are routed by words meanwhile; see routing.encoder",
            code="embeddings_unavailable",
        )


def _said(response: httpx.Response) -> str:
    return f"{response.status_code} {response.text[:200]}".strip()


def _retry_after(response: httpx.Response) -> float:
    """Seconds of a Retry-After header, 0 without one that is a number."""
    try:
        return max(0.0, float(response.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


def _resized(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows of length `DIM`."""
    length = rows.shape[1]
    if length <= DIM:
        return np.pad(rows, ((0, 0), (0, DIM - length)))
    directions = np.random.default_rng(length).standard_normal((length, DIM), dtype=np.float32)
    return np.asarray(rows @ (directions / np.float32(np.sqrt(DIM))), dtype=np.float32)
