"""Wire dialects. Each is a folder with an encoder and a decoder, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from shared.errors import ConfigError
from shared.llm.check import repair
from shared.llm.dialects import anthropic, openai
from shared.llm.dialects.base import Decoder, Dialect, Encoded
from shared.llm.model import Request
from shared.llm.provider import Provider

DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in (openai.DIALECT, anthropic.DIALECT)}


def dialect_of(name: str) -> Dialect:
    """The dialect of that name. Raises ConfigError for an unknown one."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise ConfigError(f"unknown dialect {name!r}", hint=f"known are {', '.join(DIALECTS)}") from None


def prepare(provider: Provider, request: Request) -> Encoded:
    """What would be sent: the request with its history repaired, in the provider's dialect."""
    messages, notices = repair(request.messages, merge_user=provider.switches.merge_user)
    encoded = dialect_of(provider.dialect).encode(provider, request.model_copy(update={"messages": messages}))
    return replace(encoded, notices=notices + encoded.notices)


__all__ = ["DIALECTS", "Decoder", "Dialect", "Encoded", "dialect_of", "prepare"]
