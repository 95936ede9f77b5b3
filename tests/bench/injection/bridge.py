"""The environments' process, seen from the measurement."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from pydantic import TypeAdapter

from tests.bench.injection.cases import Case, Outcome, Play, Suite

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".bench" / "agentdojo"
NEEDS = "agentdojo==0.1.35"
_SUITES = TypeAdapter(list[Suite])


def python() -> Path:
    """The interpreter of a virtual environment with AgentDojo, made at first use: it is no dependency of ours.

    Raises subprocess.CalledProcessError if it cannot be installed.
    """
    stamp, interpreter = FOLDER / "installed.txt", FOLDER / "bin" / "python"
    if not (stamp.is_file() and stamp.read_text("utf-8") == NEEDS):
        print(f"installing {NEEDS} into {FOLDER.relative_to(ROOT)}", file=sys.stderr, flush=True)
        venv.create(FOLDER, clear=True, with_pip=True)
        install = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NEEDS]
        subprocess.run(install, check=True)
        stamp.write_text(NEEDS, "utf-8")
    return interpreter


class Bridge:
    """Runs the process while its context is open."""

    def __init__(self) -> None:
        self.url = ""
        self._popen: subprocess.Popen[bytes] | None = None
        self._http = httpx.AsyncClient(timeout=120, trust_env=False)

    async def suites(self) -> list[Suite]:
        """All suites."""
        return _SUITES.validate_python(await self._get("/suites"))

    async def open(self, case: Case) -> Play:
        """Makes the environment of a case."""
        return Play.model_validate(await self._post("/open", case.model_dump()))

    async def close(self, case: Case, answer: str) -> Outcome:
        """Checks the environment of a case, with the answer that the user got, and forgets it."""
        return Outcome.model_validate(await self._post("/close", {"case": case.id, "answer": answer}))

    async def _get(self, path: str) -> Any:
        response = await self._http.get(self.url + path)
        return response.raise_for_status().json()

    async def _post(self, path: str, body: Any) -> Any:
        response = await self._http.post(self.url + path, json=body)
        return response.raise_for_status().json()

    async def __aenter__(self) -> Bridge:
        command = [str(python()), "-m", "tests.bench.injection.dojo"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe)  # noqa: ASYNC220 - nothing else runs yet
        assert self._popen.stdout is not None
        port = self._popen.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the environments' process ended with {self._popen.wait()}; its error stands above")
        self.url = f"http://127.0.0.1:{int(port)}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
