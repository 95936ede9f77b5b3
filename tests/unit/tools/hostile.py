"""The collections of hostile and harmless inputs, and the workspace that they are about."""

from __future__ import annotations

import re
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "hostile"


def cases(name: str) -> dict[str, list[str]]:
    """The lines of a collection by section; before the first section it is named ''."""
    found: dict[str, list[str]] = {"": []}
    section = ""
    for line in (DATA / name).read_text("utf-8").split("\n"):
        if line in ("[default]", "[any]"):
            section = line.strip("[]")
            found[section] = []
        elif line and not line.startswith("# "):
            found[section].append(re.sub("⟦([0-9A-F]+)⟧", lambda found: chr(int(found[1], 16)), line))
    return {name: lines for name, lines in found.items() if lines}


def populate(workspace: Path) -> None:
    """Files, folders and links of a workspace; the links `out` and `outdir` lead outside it."""
    (workspace / "sub").mkdir()
    for path in ("a.txt", "b.txt", "sub/c.txt", "with blank.txt", "año.txt", "names"):
        (workspace / path).write_text(f"one {path}\ntwo\nTODO three\n", "utf-8")
    outside = workspace.parent / "secret.txt"
    outside.write_text("secret", "utf-8")
    (workspace / "out").symlink_to(outside)
    (workspace / "outdir").symlink_to(workspace.parent)
    (workspace / "within").symlink_to(workspace / "a.txt")
