"""Providers: where a model lives, which dialect it speaks and what it is particular about.

`providers_from` builds them from the settings, on top of the presets of `presets.py`. Keys come from the
environment only and never show in a repr.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from shared.errors import ConfigError
from shared.llm.presets import PRESETS
from shared.llm.switches import Preset, Switches
from shared.settings import ModelSettings, ProviderSettings


class Provider(BaseModel):
    """One place that serves models. `base_url` without trailing slash; `api_key` None for servers without keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    dialect: str
    base_url: str
    api_key: SecretStr | None = Field(default=None, repr=False)
    switches: Switches = Switches()
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    preset: str = ""
    """The preset it was made from: what prices are listed under."""
    concurrency: int = 0
    """Calls at once of the whole installation; 0 is no bound."""

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base_url must be an http or https address, not {value!r}")
        return value.rstrip("/")

    @property
    def rehearsal(self) -> bool:
        """True if what it answers is a rehearsal and must be shown as one."""
        return self.preset == "rehearsal" or self.name == "rehearsal"


def parse_model(reference: str) -> tuple[str, str]:
    """`provider/model` -> (provider, model), split at the first slash: model names may hold more of them."""
    provider, slash, model = reference.partition("/")
    if not (provider and slash and model):
        raise ConfigError(f"{reference!r} is not provider/model", hint="for example anthropic/claude-sonnet-4-5")
    return provider, model


def providers_from(settings: ModelSettings, env: Mapping[str, str]) -> dict[str, Provider]:
    """All usable providers by name.

    Configured ones and those that a tier names must be complete: a missing key is a ConfigError that names the
    variable. Beside them every preset is there that needs no key or whose key is in `env`, so that a model can
    be named without configuring its provider.
    """
    wanted = dict(settings.providers)
    for chain in settings.tiers.values():
        for reference in chain:
            name, _ = parse_model(reference)
            if name not in wanted and name not in PRESETS:
                raise ConfigError(f"a tier names the provider {name!r}, which is not configured", hint=_known())
            wanted.setdefault(name, ProviderSettings())
    found = {name: _build(name, given, env) for name, given in wanted.items()}
    for name, preset in PRESETS.items():
        if name not in found and (not preset.key_env or env.get(preset.key_env)):
            found[name] = _build(name, ProviderSettings(), env)
    return found


def _known() -> str:
    return f"add models.providers.<name>, or use one of {', '.join(PRESETS)}"


def _build(name: str, given: ProviderSettings, env: Mapping[str, str]) -> Provider:
    where = f"models.providers.{name}"
    preset = PRESETS.get(given.preset or name)
    if preset is None and given.preset:
        raise ConfigError(f"{where}.preset: unknown preset {given.preset!r}", hint=_known())
    if preset is None and not given.base_url:
        raise ConfigError(f"{where}.base_url is missing", hint=_known())
    base = preset or Preset(base_url=given.base_url)
    # Another address is another server: it needs a key only if its settings say so.
    moved = bool(given.base_url) and urlsplit(given.base_url).netloc != urlsplit(base.base_url).netloc
    key_env = given.api_key_env or ("" if moved and not env.get(base.key_env) else base.key_env)
    key = env.get(key_env, "").strip() if key_env else ""
    if key_env and not key:
        raise ConfigError(f"{where}: the environment variable {key_env} is not set", hint="it holds the API key")
    try:
        switches = Switches.model_validate({**base.switches.model_dump(), **given.switches})
        return Provider(
            name=name,
            dialect=given.dialect or base.dialect,
            base_url=given.base_url or base.base_url,
            api_key=SecretStr(key) if key else None,
            switches=switches,
            headers=given.headers,
            preset=(given.preset or name) if preset else "",
            concurrency=given.concurrency,
        )
    except ValidationError as error:
        first = error.errors()[0]
        key_path = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{where}: {key_path}: {first['msg']}", hint="see Switches for the known names") from error
