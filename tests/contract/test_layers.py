"""What modules say of themselves against the contracts of import-linter, which `make lint` checks."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
_PURE = re.compile(r"\bPure\b")


def _contracts() -> dict[str, list[str]]:
    """The modules that each contract of the kind `forbidden` is about, by its name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    return {one["name"]: one["source_modules"] for one in settings["contracts"] if one["type"] == "forbidden"}


PURE = _contracts()["pure logic knows no sockets, queues or databases"]


def _says_pure() -> list[str]:
    """The modules of the product whose first line calls them pure."""
    found = []
    for package in ("shared", "coordinator", "workers", "ops"):
        for file in sorted((ROOT / package).rglob("*.py")):
            lines = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").splitlines()
            if lines and _PURE.search(lines[0]):
                found.append(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return found


@pytest.mark.parametrize("module", _says_pure())
def test_what_is_called_pure_is_held_to_it(module: str) -> None:
    assert any(module == one or module.startswith(f"{one}.") for one in PURE), (
        "add it to the contract in pyproject.toml"
    )


@pytest.mark.parametrize("module", PURE)
def test_what_is_held_to_it_exists(module: str) -> None:
    path = ROOT / module.replace(".", "/")
    assert path.is_dir() or path.with_suffix(".py").is_file()
