"""The choice of tools while the encoder cannot be used, and once it can."""

from __future__ import annotations

import asyncio
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.context import tools
from coordinator.context.tools import ToolChooser
from coordinator.dispatch.directory import Directory
from shared.encoder import Vectors
from shared.errors import OperatorError
from tests.unit.routing.support import WordEncoder, catalogue

UNCERTAIN = "sube el volumen del jazz en el altavoz"


class Endpoint(WordEncoder):
    """Down until `up` is set."""

    up = False

    def encode(self, texts: list[str]) -> Vectors:
        if not self.up:
            raise OperatorError("the endpoint is down")
        return super().encode(texts)


def chooser(encoder: Endpoint, folder: Path) -> ToolChooser:
    directory = SimpleNamespace(digest=("one",), catalogue=catalogue())
    return ToolChooser(cast(Directory, directory), encoder, folder, 24)


async def layer(chosen: ToolChooser) -> str:
    """The layer that decides about an uncertain message once the encoder has been tried."""
    await chosen.choose(UNCERTAIN, sticky=(), explicit=())
    warm: Any = chosen._warm
    await asyncio.to_thread(futures.wait, [warm])
    return (await chosen.choose(UNCERTAIN, sticky=(), explicit=())).layer


def test_an_encoder_that_came_back_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Endpoint()
    chosen = chooser(encoder, tmp_path)

    async def talk() -> None:
        assert await layer(chosen) == "all"
        encoder.up = True
        assert await layer(chosen) == "all", "it rests"
        monkeypatch.setattr(chosen, "_warm_again", 0.0)
        assert await layer(chosen) == "centroids"

    try:
        asyncio.run(talk())
    finally:
        chosen.close()
    assert tools.WARM_AGAIN_S >= 30
