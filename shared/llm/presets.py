"""Presets: addresses, key variables and known particulars of public providers and local servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.llm.switches import Preset, Switches

# Chat templates of local models raise on two user messages in a row, and their small models gain nothing from
# `reasoning_effort`, which some of the servers refuse.
_LOCAL: Final = Switches(merge_user=True, reasoning_style="none", graph_calls=False)

# Gemini 3 and later refuse a call without a signature of theirs; this is their documented way to say that there
# is none, for calls that another model made.
_UNSIGNED: Final = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}

PRESETS: Final[Mapping[str, Preset]] = {
    "openai": Preset(
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        switches=Switches(max_tools=128, max_tokens_field="max_completion_tokens", strict_schemas=True),
    ),
    "anthropic": Preset(
        dialect="anthropic",
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        switches=Switches(merge_user=True),
    ),
    "openrouter": Preset(
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        switches=Switches(reasoning_style="openrouter", reasoning_field="reasoning"),
    ),
    "groq": Preset(
        base_url="https://api.groq.com/openai/v1",
        key_env="GROQ_API_KEY",
        switches=Switches(
            max_tools=128,
            max_tokens_field="max_completion_tokens",
            reasoning_field="reasoning",
            replay_reasoning="never",
        ),
    ),
    "nvidia": Preset(
        base_url="https://integrate.api.nvidia.com/v1",
        key_env="NVIDIA_API_KEY",
        switches=Switches(merge_user=True, reasoning_style="none"),
    ),
    "mistral": Preset(
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        switches=Switches(
            id_style="nine", required_word="any", stream_usage=False, reasoning_style="none", merge_user=True
        ),
    ),
    "deepseek": Preset(
        base_url="https://api.deepseek.com/v1",
        key_env="DEEPSEEK_API_KEY",
        switches=Switches(
            max_tools=128, replay_reasoning="always", reasoning_style="deepseek", structured="json_object", images=False
        ),
    ),
    "gemini": Preset(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env="GEMINI_API_KEY",
        switches=Switches(
            max_tools=128,
            reasoning_style="gemini",
            name_pattern=r"[A-Za-z_][A-Za-z0-9_-]{0,63}",
            unsigned_calls={r"gemini-([3-9]|\d\d)": _UNSIGNED},
        ),
    ),
    "ollama": Preset(base_url="http://127.0.0.1:11434/v1", switches=_LOCAL),
    "llamacpp": Preset(base_url="http://127.0.0.1:8080/v1", switches=_LOCAL),
    "vllm": Preset(base_url="http://127.0.0.1:8000/v1", switches=_LOCAL),
    "lmstudio": Preset(base_url="http://127.0.0.1:1234/v1", switches=_LOCAL),
    "rehearsal": Preset(base_url="http://127.0.0.1:8765/v1"),
}
