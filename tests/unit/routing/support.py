"""A small catalogue, and an encoder that needs no weights: equal words give near vectors."""

from __future__ import annotations

import hashlib

import numpy as np

from coordinator.routing.text import stems
from shared.contract import Catalogue, Effect, GroupSpec, ToolSpec
from shared.encoder import Vectors, normalise


class WordEncoder:
    """Sums a fixed random vector per word stem. Counts its calls."""

    def __init__(self, name: str = "words") -> None:
        self.name = name
        self.dim = 64
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str]) -> Vectors:
        self.calls.append(list(texts))
        return normalise([sum((_of(word) for word in stems(text)), np.full(64, 1e-3)) for text in texts])


def _of(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=64)


def tool(name: str, group: str, description: str = "", *, always: bool = False) -> ToolSpec:
    return ToolSpec(
        name=name,
        group=group,
        description=description or name,
        parameters={"type": "object", "properties": {}},
        effect=Effect.READ,
        always=always,
    )


NOTES = GroupSpec(
    name="notes",
    title="Notes",
    keywords={"es": ("nota", "apunta", "lista de la compra"), "en": ("note", "write down")},
    examples={
        "es": ("apunta la matrícula del coche", "guarda la receta del bizcocho", "busca lo que guardé del seguro"),
        "en": ("write the licence plate down", "keep the cake recipe", "find what i kept about the insurance"),
    },
)
WEATHER = GroupSpec(
    name="weather",
    title="Weather",
    keywords={"es": ("tiempo hace", "lluvia"), "en": ("weather", "forecast")},
    examples={
        "es": ("va a llover mañana en la sierra", "cuántos grados hará el domingo", "hace viento en la costa"),
        "en": ("will it rain tomorrow in the hills", "how many degrees on sunday", "is it windy on the coast"),
    },
)
MUSIC = GroupSpec(
    name="music",
    title="Music",
    keywords={"es": ("canción", "nota musical"), "en": ("song", "album")},
    examples={
        "es": ("pon algo de jazz suave", "sube el volumen del altavoz", "salta al siguiente tema"),
        "en": ("play some soft jazz", "turn the speaker volume up", "skip to the next track"),
    },
)


def catalogue() -> Catalogue:
    """Seven tools in three groups, one of them always offered."""
    return Catalogue(
        tools=(
            tool("note_save", "notes", "Saves a note"),
            tool("note_search", "notes", "Searches the notes"),
            tool("find_tools", "notes", "Finds tools by what they do", always=True),
            tool("weather_now", "weather", "The weather at a place"),
            tool("weather_week", "weather", "The forecast of a week"),
            tool("music_play", "music", "Plays music"),
            tool("music_stop", "music", "Stops the music"),
        ),
        groups=(NOTES, WEATHER, MUSIC),
    )


def large(count: int = 300, groups: int = 3) -> Catalogue:
    """`count` tools of servers that describe nothing but the tools themselves; one tool is always offered."""
    nouns = ("invoice", "branch", "ticket", "calendar", "customer", "photo", "payment", "server", "book", "route")
    verbs = ("create", "delete", "list", "archive", "export", "merge", "share", "lock", "rename", "approve")
    tools = [tool("find_tools", "core", "Finds tools", always=True)]
    for at in range(count):
        verb, noun = verbs[at % 10], nouns[at // 10 % 10]
        name, purpose = f"{verb}_{noun}_{at}", f"{verb.title()} the {noun} of project {at}"
        tools.append(tool(name, f"server{at % groups}", purpose))
    return Catalogue(tools=tuple(tools))
