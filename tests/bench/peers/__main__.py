"""`python -m tests.bench.peers [ENGINE …]`: PERF1 for other engines and for this one, one after the other.

Every engine gets the same turn from the same scripted server: N calls of an asynchronous 50 ms tool, first token after
40 ms, 60 ms of stream, twice a turn. Others run in a virtual environment of their own under `.bench/`, made at first
use with the versions pinned here; one that cannot be installed is passed over with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench import overhead
from tests.bench.peers.turn import Orders, Row, message
from tests.bench.report import Stopwatch, line
from tests.support.model_server import ModelServer

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".bench"
OURS = "capataz"
_LONGEST_S = 600


@dataclass(frozen=True)
class Engine:
    """One engine: the module that runs it, what its environment needs (nothing: this one), further arguments."""

    name: str
    module: str
    needs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


_LANGGRAPH = ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2", "langchain-openai==1.7.4")
ENGINES = (
    Engine("bare", "bare_engine"),
    Engine("agno", "agno_engine", ("agno==3.1.10", "openai==3.57.0")),
    Engine("openai-agents", "openai_agents_engine", ("openai-agents==0.24.0", "openai==3.57.0")),
    Engine("langgraph", "langgraph_engine", _LANGGRAPH),
    Engine("langgraph-sqlite", "langgraph_engine", _LANGGRAPH, ("sqlite",)),
    Engine("pydantic-ai", "pydantic_ai_engine", ("pydantic-ai-slim[openai]==2.68.0", "openai==3.57.0")),
)


class Skipped(Exception):
    """An engine cannot be measured here; the text says why."""


def python_of(needs: Sequence[str]) -> Path:
    """The interpreter of an environment with exactly these packages, made if there is none. Raises Skipped."""
    if not needs:
        return Path(sys.executable)
    folder = FOLDER / needs[0].partition("==")[0].partition("[")[0]
    stamp, python = folder / "installed.txt", folder / "bin" / "python"
    wanted = "\n".join(needs)
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return python
    print(f"installing {', '.join(needs)} into {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs], dict(os.environ))
    stamp.write_text(wanted, "utf-8")
    return python


def _run(command: Sequence[str], env: dict[str, str]) -> str:
    """The output of a process. Raises Skipped with the last line of what it complained about."""
    try:
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise Skipped(f"{command[0]} did not end within {_LONGEST_S} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Skipped(last)
    return done.stdout


def measure(engine: Engine, url: str) -> list[Row]:
    """Runs one engine in a process of its own. Raises Skipped."""
    least_s = overhead.MODEL_S + overhead.TOOL_S
    orders = Orders(url, overhead.SIZES, overhead.WARM_UP, overhead.ROUNDS, least_s)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none", "LANGSMITH_TRACING": "false"}
    command = [str(python_of(engine.needs)), "-m", f"tests.bench.peers.{engine.module}", orders.dump()]
    return [Row(**json.loads(text)) for text in _run([*command, *engine.arguments], env).splitlines()]


def main() -> None:
    """Measures the engines named, or all and this one."""
    known = [OURS, *(engine.name for engine in ENGINES)]
    wanted = sys.argv[1:] or known
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"unknown engine {unknown[0]}; known are {', '.join(known)}")
    watch = Stopwatch()
    rules = [rule for n in overhead.SIZES for rule in overhead.rules(n, f"^{message(n)}$")]
    with ModelServer(rules=rules) as model:
        for engine in ENGINES:
            if engine.name not in wanted:
                continue
            try:
                for row in measure(engine, model.url):
                    line("PERF1", engine=engine.name, **asdict(row))
            except Skipped as error:
                print(f"SKIP PERF1 engine={engine.name}: {error}", flush=True)
    if OURS in wanted:
        overhead.measure("strict", engine=OURS)
        overhead.measure("relaxed", engine=OURS)
    print(f"bench-peers: {watch.s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
