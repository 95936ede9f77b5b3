"""PERF6: memory (PSS) of the whole small profile with Flower, idle, with the encoder, and with 50 runs; cold start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shared.client import Client
from shared.errors import StateUnavailable
from tests.bench.report import Stopwatch, line, pss_mb
from tests.support.model_server import ModelServer

LOAD = 50
AMBIGUOUS = "is it far from the harbour on foot"
RULES: list[dict[str, Any]] = [
    {"when": {"user": "^load"}, "then": {"text": "word " * 60, "stream_ms": 4000}},
    {"then": {"text": "hello"}},
]


def _env(folder: Path, url: str) -> dict[str, str]:
    keep = ("PATH", "HOME", "LANG", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    provider = {"bench": {"preset": "rehearsal", "base_url": url}}
    config = folder / "capataz.toml"
    config.touch()
    return {
        **{k: os.environ[k] for k in keep if k in os.environ},
        "CAPATAZ_CONFIG": str(config),
        "CAPATAZ_DATA__DIR": str(folder / "data"),
        "CAPATAZ_WORKSPACE__DIR": str(folder / "workspace"),
        "CAPATAZ_MODELS__PROVIDERS": json.dumps(provider),
        "CAPATAZ_MODELS__TIERS": json.dumps({"default": ["bench/rehearsal"]}),
    }


def _client(folder: Path, up: subprocess.Popen[bytes]) -> Client:
    """A client as soon as the state Redis answers."""
    run_file = folder / "data" / "run.json"
    while up.poll() is None:
        try:
            url = json.loads(run_file.read_text())["redis_url"]
            client = Client.connect(url)
            client.ping()
        except (OSError, ValueError, KeyError, StateUnavailable):
            time.sleep(0.02)
        else:
            return client
    raise RuntimeError(f"`capataz up` ended with {up.returncode}")


def _settle(client: Client, seconds: float) -> None:
    """Waits for workers, then until imports and first heartbeats are over."""
    while not client.workers():
        time.sleep(0.1)
    time.sleep(seconds)


def measure() -> None:
    """Prints three lines."""
    with ModelServer(rules=RULES) as model, tempfile.TemporaryDirectory(prefix="cpz-") as text:
        folder = Path(text)
        watch = Stopwatch()
        command = [sys.executable, "-m", "ops.cli.main", "up", "--profile", "small"]
        up = subprocess.Popen(command, env=_env(folder, model.url), stdout=subprocess.DEVNULL)
        try:
            client = _client(folder, up)
            client.ask("hello", session="cold", timeout=60)
            cold = watch.s
            _settle(client, 5.0)
            line("PERF6", profile="small", state="idle", pss_mb=pss_mb(up.pid), cold_start_s=cold)
            for n in range(120):
                client.ask(AMBIGUOUS, session=f"e{n}", timeout=30)
                routed = next(e for e in client.stream(f"e{n}", timeout=5) if e.type == "routed")
                if routed.data["layer"] == "centroids":
                    break
                time.sleep(0.5)
            else:
                raise RuntimeError(f"no encoder was asked about {AMBIGUOUS!r}")
            line("PERF6", profile="small", state="encoder", pss_mb=pss_mb(up.pid), cold_start_s=cold)
            sent = [client.submit(f"load {n}", session=f"l{n}") for n in range(LOAD)]
            model.wait_for_requests(LOAD, 30)
            time.sleep(1.0)
            line("PERF6", profile="small", state="load50", pss_mb=pss_mb(up.pid), cold_start_s=cold)
            replies: list[Any] = [client.wait(s, 60) for s in sent]
            if not all(r.ok for r in replies):
                raise RuntimeError("a run under load failed")
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(30)
