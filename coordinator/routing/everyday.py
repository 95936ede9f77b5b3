"""Routing of everyday messages: what each layer resolves of a labelled set, how rightly, and what that spares.

A file holds one JSON object a line: `text`, `lang`, `groups` (all that the message needs; empty: small talk; null: no
tool is for it), `also` (groups that may come along; none if left out), and `held_out`, true for messages that nobody
looked at while words and examples were chosen.

A decision is right if every group that the message needs is offered, and at most one beside these and `also`; for small
talk if none is.
What the layer `all` offers is a ranking, so there a tool of each needed group is enough.

`python -m coordinator.routing.everyday measure|explain …` reads the catalogue as JSON from standard input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from coordinator.routing.router import Decision, Router
from shared.contract import Catalogue
from shared.encoder import Encoder, PackagedEncoder
from shared.errors import CapatazError, UserError

_DATA = Path(__file__).parents[2] / "tests" / "data" / "routing"
SHIPPED = (_DATA / "everyday.jsonl", _DATA / "everyday_fresh.jsonl")
"""Messages that words and examples were chosen by, and others that were written and kept apart after that."""

_EXTRA_GROUPS = 1
_LAYERS = ("keywords", "centroids", "all", "*")


@dataclass(frozen=True)
class Message:
    """A line of a file. `groups` None: out of scope."""

    text: str
    lang: str
    groups: frozenset[str] | None
    held_out: bool = False
    also: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One line of the result: a layer over the messages of a part and language (`*`: all of them).

    `share` is the percentage of the messages that the layer resolves, `right` of them rightly; `groups` and `tools` are
    means of what is offered; `spared` is the percentage of the tokens of all tools' definitions; `us` the median time
    of a decision in microseconds. None where there is nothing to measure.
    """

    part: str
    lang: str
    layer: str
    messages: int
    share: float | None
    right: float | None
    groups: float | None
    tools: float | None
    spared: float | None
    us: float | None


@dataclass(frozen=True)
class _Outcome:
    message: Message
    decision: Decision
    seconds: float


def read(path: Path) -> list[Message]:
    """The messages of a file. Raises UserError naming file and line when one is not as described."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", hint="name a JSONL file with labelled messages") from error
    return [_message(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _message(path: Path, number: int, line: str) -> Message:
    try:
        value = json.loads(line)
        groups = value["groups"]
        if not isinstance(value["text"], str) or not (groups is None or isinstance(groups, list)):
            raise TypeError("`text` is a string, `groups` a list or null")
        named = None if groups is None else frozenset(map(str, groups))
        also = frozenset(map(str, value.get("also") or ()))
        return Message(value["text"], str(value["lang"]), named, value.get("held_out") is True, also)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}:{number} is not a labelled message: {error!r}",
            hint='one JSON object a line with "text", "lang" and "groups" (a list or null)',
        ) from error


def is_right(message: Message, decision: Decision) -> bool:
    """Whether the decision serves the message; see the module's description."""
    needed = message.groups or frozenset()
    if decision.layer == "all":
        return needed <= {*decision.groups, *decision.partial}
    offered = {*decision.groups, *decision.partial}
    extra = 0 if message.groups == frozenset() else _EXTRA_GROUPS
    return needed <= offered and len(offered - needed - message.also) <= extra


def measure(router: Router, messages: Sequence[Message]) -> list[Row]:
    """A row for each layer, over all messages, those that were seen or held out where there are both, each language."""
    outcomes = [_route(router, message) for message in messages]
    parts = {
        "*": outcomes,
        "seen": [one for one in outcomes if not one.message.held_out],
        "held out": [one for one in outcomes if one.message.held_out],
    }
    rows = []
    for part, chosen in parts.items():
        if part != "*" and len(chosen) == len(outcomes):
            continue
        for lang in ("*", *dict.fromkeys(one.message.lang for one in chosen)):
            spoken = [one for one in chosen if lang in ("*", one.message.lang)]
            rows += [_row(router.tokens, part, lang, layer, spoken) for layer in _LAYERS if spoken]
    return rows


def _route(router: Router, message: Message) -> _Outcome:
    start = time.perf_counter()
    decision = router.route(message.text)
    return _Outcome(message, decision, time.perf_counter() - start)


def _row(tokens: int, part: str, lang: str, layer: str, outcomes: Sequence[_Outcome]) -> Row:
    mine = [one for one in outcomes if layer in ("*", one.decision.layer)]
    decisions = [one.decision for one in mine]
    return Row(
        part,
        lang,
        layer,
        messages=len(mine),
        share=round(100 * len(mine) / len(outcomes), 1),
        right=_mean((100 * is_right(one.message, one.decision) for one in mine), 1),
        groups=_mean((len(one.groups) + len(one.partial) for one in decisions), 2),
        tools=_mean((len(one.tools) for one in decisions), 1),
        spared=_mean((100 * one.tokens_saved / max(tokens, 1) for one in decisions), 1),
        us=round(1e6 * float(np.median([one.seconds for one in mine])), 1) if mine else None,
    )


def _mean(values: Iterable[float], digits: int) -> float | None:
    found = list(values)
    return round(sum(found) / len(found), digits) if found else None


def explain(router: Router, text: str, sticky: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a message gets and why: the decision, the words that spoke, and the tokens of all tools."""
    decision = router.route(text, sticky=sticky)
    words = [{"phrase": phrase, "groups": groups} for phrase, groups in router.spoken(text)]
    return {**asdict(decision), "tokens_of_all": router.tokens, "words": words}


def _explained(found: dict[str, Any]) -> str:
    scores = ", ".join(f"{name} {score:g}" for name, score in found["scores"].items()) or "-"
    words = "; ".join(f"{one['phrase']} → {', '.join(one['groups'])}" for one in found["words"]) or "-"
    whole = found["tokens_of_all"]
    lines = {
        "layer": found["layer"],
        "groups": ", ".join([*found["groups"], *(f"{name} (in part)" for name in found["partial"])]) or "none",
        "scores": scores,
        "words": words,
        "tools": f"{len(found['tools'])}: {', '.join(found['tools'])}",
        "tokens": f"about {whole - found['tokens_saved']} of {whole}, {found['tokens_saved']} saved",
    }
    return "\n".join(f"{name:<8}{value}" for name, value in lines.items())


def _table(rows: Sequence[Row]) -> str:
    head = [field.name for field in fields(Row)]
    cells = [head, *(["-" if value is None else str(value) for value in asdict(row).values()] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="capataz route", description="Routing of everyday messages.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--words-only", action="store_true", help="without the sentence encoder")
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("files", nargs="*", type=Path, default=SHIPPED)
    explained = commands.add_parser("explain")
    explained.add_argument("text")
    explained.add_argument("--after", action="append", default=[], metavar="GROUP")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """The command: prints a table or an explanation, or JSON. Exit code 2 for what cannot be used."""
    chosen = _arguments(argv)
    encoder: Encoder | None = None if chosen.words_only else PackagedEncoder()
    try:
        router = Router(Catalogue.model_validate_json(sys.stdin.buffer.read()), encoder)
        if chosen.command == "explain":
            found = explain(router, chosen.text, tuple(chosen.after))
            print(json.dumps(found, ensure_ascii=False, indent=1) if chosen.json else _explained(found))
        else:
            rows = measure(router, [message for file in chosen.files for message in read(file)])
            print(json.dumps([asdict(row) for row in rows], indent=1) if chosen.json else _table(rows))
    except ValidationError as error:
        print(f"standard input is not a catalogue: {error}", file=sys.stderr)
        return 2
    except CapatazError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
