"""Everyday messages over the tools that ship, in both languages: what keywords alone settle, and how rightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.routing.router import Router
from shared.contract import Catalogue
from shared.encoder import PackagedEncoder
from shared.settings import Settings, WorkspaceSettings
from workers.declare import Registry

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[2] / "data" / "everyday.jsonl").read_text("utf-8").splitlines()
]


@pytest.fixture(scope="module")
def builtin(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    registry = Registry()
    registry.load_builtin()
    return registry.catalogue(Settings(workspace=WorkspaceSettings(dir=tmp_path_factory.mktemp("workspace"))))


def right(row: dict[str, Any], groups: tuple[str, ...]) -> bool:
    return groups == () if row["label"] is None else row["label"] in groups


def test_the_set_is_balanced() -> None:
    assert len(ROWS) == len({row["text"] for row in ROWS}) == 300
    assert sum(row["lang"] == "es" for row in ROWS) == 150
    labels = {"notes", "files", "web", "utility", "session", "reminders", "vision", None}
    assert all(sum(row["label"] == label for row in ROWS) >= 30 for label in labels)


@pytest.mark.parametrize("lang", ["es", "en"])
def test_keywords_alone_settle_four_in_five_and_rightly(builtin: Catalogue, lang: str) -> None:
    router, rows = Router(builtin), [row for row in ROWS if row["lang"] == lang]
    decided = [(row, router.route(row["text"])) for row in rows]
    settled = [(row, decision) for row, decision in decided if decision.layer == "keywords"]
    wrong = [row["text"] for row, decision in settled if not right(row, decision.groups)]
    assert len(settled) >= 0.8 * len(rows)
    assert len(wrong) <= 0.03 * len(settled), wrong
    assert sum(len(decision.groups) for _, decision in settled) <= 1.15 * len(settled)


def test_the_packaged_encoder_resolves_most_of_the_rest(builtin: Catalogue, tmp_path: Path) -> None:
    router = Router(builtin, PackagedEncoder(), tmp_path)
    rest = [row for row in ROWS if router.route_fast(row["text"]) is None]
    decided = [(row, router.route(row["text"])) for row in rest]
    certain = [(row, decision) for row, decision in decided if decision.layer == "centroids"]
    assert len(certain) >= 0.5 * len(rest)
    assert sum(right(row, decision.groups) for row, decision in certain) >= 0.8 * len(certain)
    (file,) = tmp_path.glob("*.npz")
    assert file.stat().st_size < 100_000
