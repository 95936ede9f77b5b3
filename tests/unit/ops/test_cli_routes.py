"""`capataz route`: the coordinator's routing over a catalogue, from the command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from ops.supervisor import plan


def route(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The command where no system runs."""
    names = ("PATH", "HOME", "LANG")
    env = {name: os.environ[name] for name in names if name in os.environ} | plan.import_path({})
    return subprocess.run(
        [*plan.python("ops.cli.main"), "route", *args],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_message_is_explained_over_what_a_worker_here_would_offer(tmp_path: Path) -> None:
    done = route(tmp_path, "explain", "--words-only", "--json", "--after", "gym", "--", "-- avísame mañana")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["layer"], found["groups"]) == ("keywords", ["reminders", "gym"])
    assert {"reminder_add", "gym_log", "find_tools"} <= set(found["tools"])
    assert not any(name.startswith("mail_") for name in found["tools"])


def test_all_tools_are_the_ground_where_that_is_asked_for(tmp_path: Path) -> None:
    done = route(tmp_path, "explain", "--words-only", "--json", "--all", "turn the telly off")
    assert json.loads(done.stdout)["groups"] == ["tv"]


def test_everyday_messages_are_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"text": "any new mail?", "lang": "en", "groups": ["mail"]}\n', "utf-8")
    done = route(tmp_path, "everyday", "--words-only", "--json", "mine.jsonl")
    assert done.returncode == 0, done.stderr
    [words] = [row for row in json.loads(done.stdout) if (row["layer"], row["lang"]) == ("keywords", "*")]
    assert (words["messages"], words["right"]) == (1, 100.0)
    wrong = route(tmp_path, "everyday", "--words-only", "none.jsonl")
    assert wrong.returncode == 2
    assert "none.jsonl cannot be read" in wrong.stderr
