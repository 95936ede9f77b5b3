"""Which model a local system talks to: what is configured, else a key, else a local server, else the rehearsal.

The choice is pure over what a probe found. A probe asks a server for its list of models and believes it only if
the answer has the form of such a list. Model names change often, so none is fixed here: a provider's own list is
searched for the newest model of a modest class.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ops.supervisor.plan import model_env
from shared.llm.presets import PRESETS
from shared.llm.provider import Provider, providers_from
from shared.settings import ModelSettings

DEFAULT_TIER = "default"
TIERS = (DEFAULT_TIER,)
"""The tier that the chosen model serves when nothing is configured; all other tiers fall back to it."""

REHEARSAL = "rehearsal"

_PROBE_S = 3.0
_LOCAL_PROBE_S = 0.5
_MAX_LIST_BYTES = 8_000_000

_NOT_CHAT = re.compile(r"embed|whisper|tts|audio|image|guard|moderation|rerank|realtime|transcri|search", re.IGNORECASE)


WANTED: Mapping[str, tuple[str, ...]] = {
    "openai": (r"gpt-[\d.]+-mini", r"gpt-[\d.]+"),
    "anthropic": (r"claude-haiku-[\d-]+", r"claude-sonnet-[\d-]+"),
    "openrouter": (r"openai/gpt-[\d.]+-mini", r"anthropic/claude-haiku-[\d.]+"),
    "groq": (r"openai/gpt-oss-\d+b", r"llama-[\d.]+-.*"),
    "mistral": (r"mistral-(medium|small)-latest",),
    "deepseek": (r"deepseek-chat", r"deepseek-.*flash"),
    "gemini": (r"(models/)?gemini-[\d.]+-flash",),
    "nvidia": (r"openai/gpt-oss-\d+b", r"meta/llama-.*-instruct"),
}
"""Per preset, patterns of model ids, best first. A provider that is not named here serves its first chat model."""


@dataclass(frozen=True)
class Candidate:
    """A provider that may be usable. `source` says where it comes from; `local`: nobody said that it is there."""

    provider: Provider
    source: str
    local: bool = False
    configured: bool = False


@dataclass(frozen=True)
class Choice:
    """What to use. `name` is for people; `env` are settings for coordinator and workers.

    `notices` say why something that looked usable was passed over. `rehearsal`: no real model was found, and the
    scripted one must be started; its address is added by `rehearsal_env`.
    """

    name: str
    source: str
    env: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    rehearsal: bool = False


class ProbeError(Exception):
    """Why a server cannot be used; the text is for the operator."""


Probe = Callable[[Candidate], list[str]]
"""From a candidate to the ids of its models. Raises ProbeError."""


def candidates(models: ModelSettings, environ: Mapping[str, str]) -> list[Candidate]:
    """Configured providers, then those whose key is in the environment, then servers of this machine.

    Raises ConfigError for a configured provider that is not complete.
    """
    providers = providers_from(models, environ)
    found = [Candidate(providers[name], f"models.providers.{name}", configured=True) for name in models.providers]
    rest = [name for name in PRESETS if name in providers and name not in models.providers and name != REHEARSAL]
    for name in sorted(rest, key=lambda name: not PRESETS[name].key_env):  # stable: keys first
        preset = PRESETS[name]
        found.append(Candidate(providers[name], preset.key_env or preset.base_url, local=not preset.key_env))
    return found


def choose(models: ModelSettings, environ: Mapping[str, str], probe: Probe | None = None) -> Choice:
    """The first usable model: configured tiers, configured providers, keys, local servers, the rehearsal.

    A key that is refused, or whose provider does not answer, is passed over with a notice.
    """
    if models.tiers:
        tier = DEFAULT_TIER if DEFAULT_TIER in models.tiers else next(iter(models.tiers))
        chain = models.tiers[tier]
        return Choice(chain[0] if chain else tier, "settings")
    notices: list[str] = []
    for candidate in candidates(models, environ):
        name = candidate.provider.name
        try:
            model = pick((probe or list_models)(candidate), WANTED.get(name, ()))
        except ProbeError as error:
            if not candidate.local:  # a local server that is not there is the ordinary case
                notices.append(f"{candidate.source} is set, but {name} {error}")
            continue
        if model is None:
            notices.append(f"{name} offers no model that fits: name one in models.tiers")
            continue
        env = model_env(name, {} if candidate.configured else {"preset": name}, dict.fromkeys(TIERS, model))
        return Choice(f"{name}/{model}", candidate.source, env, tuple(notices))
    return Choice(REHEARSAL, "no model configured, no key set, no local server found", {}, tuple(notices), True)


def rehearsal_env(port: int) -> dict[str, str]:
    """Settings that point at a rehearsal server on a port of this machine."""
    definition = {"preset": REHEARSAL, "base_url": f"http://127.0.0.1:{port}/v1"}
    return model_env(REHEARSAL, definition, dict.fromkeys(TIERS, REHEARSAL))


def pick(ids: list[str], wanted: tuple[str, ...]) -> str | None:
    """The best id: of the first pattern that matches some, the one with the highest version numbers.

    Without patterns, the first id that is not plainly for something else than chat.
    """
    chat = [one for one in ids if not _NOT_CHAT.search(one)]
    if not wanted:
        return chat[0] if chat else None
    for pattern in wanted:
        if matching := [one for one in chat if re.fullmatch(pattern, one)]:
            return max(matching, key=_version)
    return None


def _version(model: str) -> tuple[tuple[int, ...], int]:
    """Orders ids by their numbers; of equal ones the shorter, which is the undated alias, comes out on top."""
    return tuple(int(number) for number in re.findall(r"\d+", model)), -len(model)


def list_models(candidate: Candidate) -> list[str]:
    """Asks a server which models it has. Raises ProbeError."""
    provider = candidate.provider
    key = provider.api_key.get_secret_value() if provider.api_key else ""
    headers = {"Accept": "application/json", "User-Agent": "capataz"}
    url = f"{provider.base_url}/models"
    if provider.dialect == "anthropic":
        url = f"{provider.base_url}/v1/models"
        headers |= {"x-api-key": key, "anthropic-version": "2023-06-01"}
    elif key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, headers=headers)
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]  # a key goes to the address it belongs to alone
    if candidate.local:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=_LOCAL_PROBE_S if candidate.local else _PROBE_S) as response:
            body = response.read(_MAX_LIST_BYTES)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise ProbeError(f"refuses it (HTTP {error.code})") from error
        raise ProbeError(f"answers HTTP {error.code}") from error
    except OSError as error:  # URLError and timeouts among them
        raise ProbeError(f"cannot be reached: {getattr(error, 'reason', error)}") from error
    return parse_models(body)


def parse_models(body: bytes) -> list[str]:
    """The ids of an OpenAI-style or Anthropic-style list of models. Raises ProbeError if it is none."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise ProbeError("does not answer with JSON") from error
    data = document.get("data") if isinstance(document, dict) else None
    if data is None and isinstance(document, dict) and document.get("object") == "list":
        return []  # Ollama without models
    if not isinstance(data, list) or not all(isinstance(one, dict) and isinstance(one.get("id"), str) for one in data):
        raise ProbeError("does not answer with a list of models")
    return [one["id"] for one in data]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error."""

    def redirect_request(self, *_args: object) -> None:
        """Refuses."""
        return
