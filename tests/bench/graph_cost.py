"""What the graph itself costs: the same independent calls from an agent with flat calls and from one with references.

References bring a longer prompt, two reserved properties of every tool, and the search of all arguments for them.
Both agents take turns on one system; the numbers are what a turn takes beyond the model's time and the tools'.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from shared.client import Client
from tests.bench.overhead import MODEL_S, TOOL_S, rules
from tests.bench.report import Stopwatch, line, median_ms
from tests.bench.turns import ask, system
from tests.support.model_server import ModelServer

FORMS = ("flat", "references")
SIZES = (1, 4, 5)
ROUNDS = 12


def _measure(client: Client, n: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {form: [] for form in FORMS}
    for number in range(ROUNDS + 2):
        for form in FORMS:
            watch = Stopwatch()
            ask(client, f"{form}-{n}-{number}", agent=form)
            if number >= 2:
                seconds[form].append(watch.s - MODEL_S - TOOL_S)
    return {form: median_ms(found) for form, found in seconds.items()}


def measure() -> None:
    """Prints one line for each number of calls."""
    with tempfile.TemporaryDirectory(prefix="cpz-") as folder, ModelServer(rules=rules(1)) as model:
        for form in FORMS:
            (Path(folder) / f"{form}.md").write_text(f"---\nname: {form}\ncalls: {form}\n---\nYou are a benchmark.")
        with system(model.url, COORDINATOR__AGENTS_DIR=folder) as running:
            client = Client.connect(running.redis_url)
            for n in SIZES:
                model.script(rules(n))
                found = _measure(client, n)
                line("GRAPHCOST", n=n, flat_ms=found["flat"], references_ms=found["references"])
