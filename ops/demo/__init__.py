"""The research demonstration: a workspace of documents, the prompt, and the facts that a right answer holds.

Market, products and figures are invented. `facts.json` lists facts, each with the spellings that count.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

_FOLDER = Path(__file__).parent

DOCUMENTS = _FOLDER / "documents"
"""The folder whose files are copied into the workspace."""


class Fact(BaseModel):
    """Something a right answer says. One spelling of `any_of` is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    any_of: tuple[str, ...]

    def stated_in(self, answer: str) -> bool:
        """True if `answer` holds one of the spellings, in any case and not as a part of a longer word or number."""
        return any(
            re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(spelling)}(?!\w)(?![.,]\d)", answer, re.IGNORECASE)
            for spelling in self.any_of
        )


class _Facts(BaseModel):
    facts: tuple[Fact, ...]


def prompt() -> str:
    """The message that starts the research."""
    return (_FOLDER / "prompt.txt").read_text("utf-8").strip()


def facts() -> tuple[Fact, ...]:
    """The facts that a right answer holds."""
    return _Facts.model_validate_json((_FOLDER / "facts.json").read_bytes()).facts


def missing(answer: str) -> tuple[Fact, ...]:
    """The facts that `answer` does not state."""
    return tuple(fact for fact in facts() if not fact.stated_in(answer))
