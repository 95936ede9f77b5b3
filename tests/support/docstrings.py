"""Paragraphs that explain and claim nothing: the docstrings of Python's standard library, as it is installed here."""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_PACKAGES = ("asyncio", "collections", "concurrent", "email", "http", "importlib", "json", "logging", "urllib", "xml")
_CODE = re.compile(r">>>|::|[{}=|<]|--|^\s*[-*]|\(\)\s*->")
_LENGTH = range(40, 600)


@cache
def paragraphs(count: int) -> tuple[str, ...]:
    """So many whole sentences or more of them together, each once, in an order that depends on their words alone."""
    found = {text for path in _sources() for text in _of(path)}
    return tuple(sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())[:count])


def _sources() -> list[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    return [*library.glob("*.py"), *(path for name in _PACKAGES for path in (library / name).rglob("*.py"))]


def _of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        for paragraph in re.split(r"\n\s*\n", (isinstance(node, _DOCUMENTED) and ast.get_docstring(node)) or ""):
            text = " ".join(paragraph.split())
            if len(text) in _LENGTH and text.endswith(".") and not _CODE.search(paragraph):
                yield text
