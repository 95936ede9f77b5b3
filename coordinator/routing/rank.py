"""Ranking of single tools, for catalogues too large to offer whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.routing.lexical import LexicalIndex, Scores
from coordinator.routing.text import name_tokens
from shared.contract import ToolSpec

_DESCRIPTION_CHARS = 300


def summary(tool: ToolSpec) -> str:
    """One line that says what the tool does: the words of its name and the start of its description."""
    return f"{' '.join(name_tokens(tool.name))}: {tool.description[:_DESCRIPTION_CHARS]}"


class ToolRanker:
    """Lexical scores of tools by name, description, keywords and examples; 1,000 tools in a fraction of a ms."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """Indexes the tools; scores come in their order."""
        sentences: list[str] = []
        owners: list[int] = []
        for at, tool in enumerate(tools):
            words = [phrase for phrases in tool.keywords.values() for phrase in phrases]
            own = [
                " ".join(name_tokens(tool.name)),
                tool.description[:_DESCRIPTION_CHARS],
                " ".join(words),
                *(example for examples in tool.examples.values() for example in examples),
            ]
            own = [sentence for sentence in own if sentence]
            sentences += own
            owners += [at] * len(own)
        self._index = LexicalIndex(sentences, owners, len(tools), by_words=True)

    def scores(self, words: Sequence[str]) -> Scores:
        """Scores in 0..1 of a message given as `tokens`, shape (tools,)."""
        return self._index.scores(words)
