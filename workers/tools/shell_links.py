"""Links in folders, for programs that go through them: `diff` and `grep` read what they lead to, `cp` writes there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from workers.tools.shell_grammar import refused

_MAX_LOOKED_AT: Final = 50_000


def refuse(base: Path, folder: Path, words: Iterable[str], *, every: bool) -> None:
    """Raises ModelError if a folder among `words` (seen from `folder`, below `base`) has a link that leads out.

    Every link in it counts, also behind links, or those at the places that other words would take in it.
    """
    places = {word: os.path.realpath(base / folder / word) for word in words}
    for top in {place for place in places.values() if os.path.isdir(place)}:
        others = [word for word, place in places.items() if place != top]
        for path in _links(Path(top), beyond=True) if every else _taken(Path(top), others):
            if not Path(os.path.realpath(path)).is_relative_to(base):
                raise refused(
                    f"the link {os.path.relpath(path, base)} leads outside the workspace, and this would go through it",
                    hint="leave it out; diff with --no-dereference and grep with -r follow none",
                )


def _taken(top: Path, words: Iterable[str]) -> Iterator[Path]:
    for word in words:
        name = word.rstrip("/").rpartition("/")[2]
        path = top if name in ("", ".", "..") else top / name  # a folder's content takes places in all of it
        if path.is_symlink():
            yield path
        elif path.is_dir():
            yield from _links(path, beyond=False)


def _links(top: Path, *, beyond: bool) -> Iterator[Path]:
    """The links below a folder; with `beyond` also those below the folders that they lead to, one after the other."""
    seen, pending, known = 0, [top], {top}
    while pending:
        for where, folders, files in os.walk(pending.pop()):
            seen += len(folders) + len(files)
            if seen > _MAX_LOOKED_AT:
                raise refused(f"there is too much in {top.name} to look for links", hint="name a smaller folder")
            for path in (path for name in (*folders, *files) if (path := Path(where, name)).is_symlink()):
                yield path
                real = Path(os.path.realpath(path))
                if beyond and real not in known and real.is_dir():
                    known.add(real)
                    pending.append(real)
