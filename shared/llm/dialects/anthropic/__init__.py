"""Anthropic Messages."""

from shared.llm.dialects.anthropic.decode import AnthropicDecoder
from shared.llm.dialects.anthropic.encode import encode
from shared.llm.dialects.base import Dialect

DIALECT = Dialect(name="anthropic", encode=encode, decoder=AnthropicDecoder, auth="x-api-key")
