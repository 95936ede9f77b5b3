import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.supervisor import plan, run_file
from shared.errors import OperatorError

_HOLD = """
import sys, pathlib
from ops.supervisor import run_file
with run_file.lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def _info(pid: int = 1) -> run_file.RunInfo:
    return run_file.RunInfo(pid, 5, "redis://:secret@h/0", "b", "rehearsal", processes={"worker-1": 7})


def test_round_trip_private_and_gone_after_the_lock(tmp_path: Path) -> None:
    with run_file.lock(tmp_path):
        run_file.write(tmp_path, _info())
        assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "run.json").exists()
    assert run_file.owner(tmp_path) is None


def test_a_second_system_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **plan.import_path(os.environ)},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert run_file.owner(tmp_path) == holder.pid
        assert run_file.read(tmp_path) is None
        run_file.write(tmp_path, _info(holder.pid))
        assert run_file.read(tmp_path) == _info(holder.pid)
        with pytest.raises(OperatorError, match=f"pid {holder.pid}"), run_file.lock(tmp_path):
            pass
        assert run_file.read(tmp_path) is not None, "being refused must not disturb the owner"
    finally:
        holder.kill()
        holder.wait()
    assert run_file.owner(tmp_path) is None
    assert run_file.read(tmp_path) is None, "a file left behind by a killed supervisor is not believed"


def test_a_newer_versions_fields_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "owner", lambda _dir: 1)
    (tmp_path / "run.json").write_text(
        json.dumps({"pid": 1, "started_ms": 2, "redis_url": "r", "broker_url": "b", "model": "m", "later": 1})
    )
    found = run_file.read(tmp_path)
    assert found is not None
    assert found.redis_url == "r"
