"""DAG6: what leaving out outputs that only fed others saves, on the research scenario over the shipped documents.

One turn reads all documents, those of reviews by names that other calls have found, and gives them by reference to a
report tool that returns their figures. `after` is the prompt of the model call behind that turn, in tokens of four
characters; `before` is the same prompt with the full outputs out of the log in place of the lines that stand for them.
`results_saved` is the same for the tool results alone. `facts` counts those of the demonstration's checklist that are
still in the prompt's tool results.

What is saved depends on how long the documents are, since the rest of a prompt (instructions, tools, calls) stays: the
shipped ones are as long as readable pages are, and the same is measured over abridged ones. `document_chars` is the
mean length of the documents.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

from ops.demo import DOCUMENTS, facts
from shared.client import Client
from shared.entries import Elided, NodeEnded, Stored
from tests.bench.report import line
from tests.bench.turns import ask, call, script, system
from tests.support.model_server import ModelServer

CHARS_PER_TOKEN = 4
REVIEWS = r"^reviews-.*\.md$"
NEEDED = ("file_read", "file_grep", "bench_report")
ABRIDGED = (1000, 500)


def calls() -> list[dict[str, Any]]:
    """Trends, five competitors, the names of their files of reviews, the reviews, and the report of all documents."""
    profiles = [f"competitor-{n}.md" for n in range(1, 6)]
    reads = [call("file_read", path=path) for path in ("trends.md", *profiles)]
    searches = [call("file_grep", pattern=REVIEWS, path=path) for path in profiles]
    reviews = [call("file_read", path=f"${n}.matches[0].text") for n in range(7, 12)]
    documents = [f"${n}.text" for n in (*range(1, 7), *range(12, 17))]
    return [*reads, *searches, *reviews, call("bench_report", title="Kitchen composters", documents=documents)]


def abridged(text: str, most: int) -> str:
    """A document of at most about `most` characters: its figures and the name of its reviews, and of the prose what has
    room. Shorter than figures and name it does not become."""
    head, *prose = text.split("\n## ")
    names = re.findall(REVIEWS, text, re.MULTILINE)
    kept = "\n".join([head.rstrip(), *names, ""])
    for section in prose:
        for row in f"## {section}".splitlines(keepends=True):
            if len(kept) + len(row) > most:
                return kept
            kept += row if not re.fullmatch(REVIEWS, row.strip()) else ""
    return kept


def _tool_texts(body: dict[str, Any]) -> list[str]:
    return [str(m["content"]) for m in body["messages"] if m["role"] == "tool"]


def _restored(body: dict[str, Any], entries: list[Stored]) -> dict[str, Any]:
    """The request with the outputs that were left out put back. Raises RuntimeError if one has no place in it."""
    results = {e.value.node: e.value.result.text for e in entries if isinstance(e.value, NodeEnded)}
    lines = {text: results[n] for e in entries if isinstance(e.value, Elided) for n, text in e.value.lines.items()}
    messages = []
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "tool":
            for short in [s for s in lines if s in content]:
                content = content.replace(short, lines.pop(short))
        messages.append({**message, "content": content})
    if lines:
        raise RuntimeError(f"{len(lines)} lines that stand for outputs are not in the prompt")
    return {**body, "messages": messages}


def _tokens(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // CHARS_PER_TOKEN


def measure() -> None:
    """Prints a line for the shipped documents, and one for each abridged form of them."""
    shipped = {path.name: path.read_text("utf-8") for path in DOCUMENTS.iterdir()}
    with tempfile.TemporaryDirectory(prefix="cpz-") as folder:
        workspace = Path(folder) / "workspace"
        with ModelServer(rules=script(calls())) as model, system(model.url, workspace=workspace) as running:
            client = Client.connect(running.redis_url)
            for most in (None, *ABRIDGED):
                short = shipped if most is None else {name: abridged(text, most) for name, text in shipped.items()}
                for name, text in short.items():
                    (workspace / name).write_text(text, "utf-8")
                session = f"elision-{most}"
                ask(client, session, text="research", nodes=len(calls()), tools=NEEDED)
                after = model.requests[-1].body
                _report(short, _restored(after, client.history(session)), after)


def _report(documents: dict[str, str], before: dict[str, Any], after: dict[str, Any]) -> None:
    told = "\n".join(_tool_texts(after))
    results = [_tokens(_tool_texts(body)) for body in (before, after)]
    line(
        "DAG6",
        document_chars=round(statistics.mean(len(t) for name, t in documents.items() if name != "AGENTS.md")),
        before=_tokens(before),
        after=_tokens(after),
        saved=1 - _tokens(after) / _tokens(before),
        facts=f"{sum(fact.stated_in(told) for fact in facts())}/{len(facts())}",
        results_saved=1 - results[1] / results[0],
    )
