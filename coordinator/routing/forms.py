"""Sentences in both of their forms: as they stand, and as questions."""

from __future__ import annotations

from shared.encoder import Encoder, PackagedEncoder, Vectors, normalise


class BothForms:
    """The mean of what a sentence means as it stands and with a question mark at its end.

    The packaged encoder hears the mark, and people leave it out as often as not: "weather tomorrow", "what is the
    weather tomorrow?". Both forms of examples and of messages are compared, in one call.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def name(self) -> str:
        """The encoder's, marked."""
        return f"{self._encoder.name}+?"

    @property
    def dim(self) -> int:
        """The encoder's."""
        return self._encoder.dim

    def encode(self, texts: list[str]) -> Vectors:
        """One unit vector per text, shape (len(texts), dim)."""
        both = self._encoder.encode([*texts, *(f"{text.rstrip('?!. ')}?" for text in texts)])
        return normalise(both[: len(texts)] + both[len(texts) :])


def in_forms(encoder: Encoder) -> Encoder:
    """The encoder with both forms where that helps: the packaged one. Those of providers are asked once a sentence."""
    return BothForms(encoder) if isinstance(encoder, PackagedEncoder) else encoder
