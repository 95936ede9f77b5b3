"""OpenAI Chat Completions and the many servers that are compatible with it."""

from shared.llm.dialects.base import Dialect
from shared.llm.dialects.openai.decode import OpenAIDecoder
from shared.llm.dialects.openai.encode import encode

DIALECT = Dialect(name="openai", encode=encode, decoder=OpenAIDecoder)
