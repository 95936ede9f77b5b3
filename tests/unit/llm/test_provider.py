from __future__ import annotations

import pytest

from shared.errors import ConfigError
from shared.llm.dialects import DIALECTS
from shared.llm.presets import PRESETS
from shared.llm.provider import parse_model, providers_from
from shared.settings import ModelSettings, ProviderSettings

SECRET = "sk-very-secret"


def settings(tiers: dict[str, tuple[str, ...]] | None = None, **providers: ProviderSettings) -> ModelSettings:
    return ModelSettings(providers=providers, tiers=tiers or {})


def test_models_are_split_at_the_first_slash() -> None:
    assert parse_model("openrouter/anthropic/claude-sonnet-4.5") == ("openrouter", "anthropic/claude-sonnet-4.5")
    for bad in ("", "x", "/x", "x/"):
        with pytest.raises(ConfigError):
            parse_model(bad)


def test_every_preset_is_complete() -> None:
    found = providers_from(settings(), {preset.key_env: SECRET for preset in PRESETS.values() if preset.key_env})
    assert set(found) == set(PRESETS)
    for name, provider in found.items():
        assert provider.dialect in DIALECTS
        assert (provider.api_key is not None) == bool(PRESETS[name].key_env)
        assert provider.base_url.startswith("https://") == bool(PRESETS[name].key_env)
    assert found["rehearsal"].rehearsal
    assert not found["openai"].rehearsal


def test_without_keys_there_are_only_servers_of_ones_own() -> None:
    assert set(providers_from(settings(), {})) == {"ollama", "llamacpp", "vllm", "lmstudio", "rehearsal"}


@pytest.mark.parametrize(
    "models",
    [
        settings(openai=ProviderSettings()),
        settings({"fast": ("openai/gpt-x",)}),
        settings(mine=ProviderSettings(preset="openai")),
    ],
)
def test_a_missing_key_names_its_variable(models: ModelSettings) -> None:
    for env in ({}, {"OPENAI_API_KEY": " "}):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            providers_from(models, env)


def test_a_key_never_shows() -> None:
    found = providers_from(settings(), {"OPENAI_API_KEY": SECRET})
    assert SECRET not in repr(found)
    assert SECRET not in str(found["openai"])
    assert SECRET not in found["openai"].model_dump_json()


def test_a_provider_of_ones_own() -> None:
    mine = ProviderSettings(
        base_url="http://gpu:8000/v1/", dialect="anthropic", headers={"X-Team": "a"}, switches={"max_tools": 5}
    )
    found = providers_from(settings(mine=mine), {})["mine"]
    assert (found.base_url, found.dialect, found.api_key) == ("http://gpu:8000/v1", "anthropic", None)
    assert found.switches.max_tools == 5
    assert found.headers == {"X-Team": "a"}
    assert found.preset == ""


def test_a_preset_with_changes() -> None:
    moved = ProviderSettings(preset="openai", base_url="http://proxy:1/v1", switches={"max_tools": None})
    found = providers_from(settings(p=moved), {})["p"]
    assert found.api_key is None  # another address, another key
    assert found.switches.max_tools is None
    assert found.switches.max_tokens_field == "max_completion_tokens"
    named = moved.model_copy(update={"api_key_env": "PROXY_KEY"})
    with pytest.raises(ConfigError, match="PROXY_KEY"):
        providers_from(settings(p=named), {})
    key = providers_from(settings(p=named), {"PROXY_KEY": SECRET})["p"].api_key
    assert key is not None
    assert key.get_secret_value() == SECRET


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (ProviderSettings(), "base_url"),
        (ProviderSettings(preset="nope"), "nope"),
        (ProviderSettings(base_url="gpu:8000"), "base_url"),
        (ProviderSettings(base_url="ftp://gpu/"), "base_url"),
        (ProviderSettings(base_url="http://gpu", switches={"max_tool": 1}), "max_tool"),
        (ProviderSettings(base_url="http://gpu", switches={"replay_reasoning": "maybe"}), "replay_reasoning"),
        (ProviderSettings(base_url="http://gpu", switches={"name_pattern": "["}), "name_pattern"),
    ],
)
def test_what_is_wrong_is_named(given: ProviderSettings, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        providers_from(settings(mine=given), {})
    assert "models.providers.mine" in str(caught.value)


def test_a_tier_of_an_unknown_provider() -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        providers_from(settings({"fast": ("nowhere/x",)}), {})
