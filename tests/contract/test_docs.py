"""README and ARCHITECTURE against the code: what they show runs as it stands, what they name exists."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis
import typer.main
from pydantic import BaseModel

from coordinator.context.prompt import INSTRUCTION_FILES
from ops import models
from ops.cli.main import app
from ops.supervisor import plan
from shared import settings as settings_module
from shared.client import Client
from shared.entries import Offered
from shared.llm.provider import providers_from
from shared.settings import Settings
from shared.state.scripting import SCRIPTS
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md")
TEXTS = {name: (ROOT / name).read_text("utf-8") for name in DOCUMENTS}

_FENCE = re.compile(r"(?:^\*\*`(?P<name>[^`]+)`\*\*\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_SPAN = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
_SUFFIXES = (".acl", ".lock", ".lua", ".md", ".py", ".toml", ".txt", ".yaml")
_MADE_BY_USERS = (".bench", ".capataz", "workspace", "agents")
_VOLATILE = re.compile(r"\w+day \d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\(UTC[+-]\d\d:\d\d\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; `name` is the file that it stands for, empty if it is none."""

    name: str
    language: str
    text: str


def blocks(document: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [Block(m["name"] or "", m["language"], m["text"]) for m in _FENCE.finditer(TEXTS[document])]


def code(document: str) -> list[str]:
    """Everything that is set as code: lines of fenced blocks, and spans."""
    lines = [line for block in blocks(document) for line in block.text.splitlines()]
    return lines + spans(document)


def spans(document: str) -> list[str]:
    """The code spans outside of fenced blocks."""
    return _SPAN.findall(_FENCE.sub("", TEXTS[document]))


FILES = {block.name: block.text for block in blocks("README.md") if block.name}


# What is named exists.


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert targets is not None
    named = {target for text in code(document) for target in re.findall(r"\bmake ([a-z]+)\b", text)}
    assert named
    assert named <= set(targets[1].split())


@cache
def commands() -> dict[str, set[str]]:
    """The commands of the command line, with their options."""
    found: dict[str, set[str]] = {}

    def visit(name: str, command: Any) -> None:
        if hasattr(command, "commands"):
            for word, child in command.commands.items():
                visit(f"{name} {word}".strip(), child)
        else:
            found[name] = {option for parameter in command.params for option in parameter.opts}

    visit("", typer.main.get_command(app))
    return found


def named_commands(text: str) -> Iterator[tuple[str, set[str]]]:
    """The commands in a piece of code, and the options behind each."""
    known = commands()
    for words, rest in re.findall(r"\bcapataz ([a-z]+(?: [a-z]+)?)([^`]*)", text):
        one, two = words.split(" ")[0], words
        yield (two if two in known else one), set(re.findall(r"(?<!\w)--[a-z-]+", rest.split("capataz ")[0]))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_and_their_options_exist(document: str) -> None:
    known = commands()
    named = [one for text in code(document) for one in named_commands(text)]
    assert named
    for command, options in named:
        assert command in known, f"{document} names `capataz {command}`"
        assert options <= known[command] | {"--help"}, f"{document}: capataz {command} {options - known[command]}"


def test_the_table_of_commands_is_complete() -> None:
    rows = [line for line in TEXTS["README.md"].splitlines() if line.startswith("| `capataz ")]
    known = commands()
    described = {}
    for row in rows:
        [(command, _), *_] = named_commands(row)
        described[command] = set(re.findall(r"--[a-z-]+", row))
    assert set(described) == set(known), "each command has a row in README.md"
    for command, options in described.items():
        assert options <= known[command], command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_exist(document: str) -> None:
    files = [
        span
        for span in spans(document)
        if _FILE.fullmatch(span)
        and (span.endswith(_SUFFIXES) or "/" in span)
        and span not in FILES
        and span not in INSTRUCTION_FILES
        and not span.startswith(_MADE_BY_USERS)
        and not re.fullmatch(r"[\w-]+/(?:name|NAME)", span)
    ]
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_the_rooms_exist() -> None:
    [rooms] = [block.text for block in blocks("ARCHITECTURE.md") if block.language == "text"]
    top, checked = "", 0
    for line in rooms.splitlines():
        names = []
        for word in line.split():
            if not re.fullmatch(r"\w+(?:\.py|/)", word):
                break
            names.append(word)
        if not line.startswith(" "):
            [top] = names
            names = [""]
        for name in names:
            checked += 1
            assert (ROOT / top / name).exists(), f"{top}{name}"
    assert checked > 20


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_their_anchors_lead_somewhere(document: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXTS[document]):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = ROOT / (path or document)
        assert target.is_file(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.M)
            slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_modules_that_are_started_exist(document: str) -> None:
    for text in code(document):
        for module in re.findall(r"\bpython -m ([\w.]+)", text):
            spec = importlib.util.find_spec(module)
            assert spec is not None, module
            if spec.submodule_search_locations:
                assert importlib.util.find_spec(f"{module}.__main__") is not None, module


@pytest.mark.parametrize("document", DOCUMENTS)
def test_settings_and_variables_are_known(document: str) -> None:
    variables = {v: "x" for text in code(document) for v in re.findall(r"\bCAPATAZ_[A-Z][A-Z_]*[A-Z]\b", text)}
    assert settings_module._unknown_env(variables) is None
    dotted = [span for span in spans(document) if re.fullmatch(r"[a-z_]+\.[a-z_]+(?: = \w+|=\w+)?", span)]
    for span in dotted:
        section, name = re.split(r"[ =]", span)[0].split(".")
        field = Settings.model_fields.get(section)
        if field is not None and not span.endswith(_SUFFIXES):
            assert isinstance(field.annotation, type)
            assert issubclass(field.annotation, BaseModel)
            assert name in field.annotation.model_fields, span


def test_settings_files_are_valid() -> None:
    examples = [block for block in blocks("README.md") if block.language == "toml"]
    assert len(examples) >= 3
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "a-key-for-this-test")
    for block in examples:
        settings = Settings(**tomllib.loads(block.text))
        providers = providers_from(settings.models, keys)
        named = {model.partition("/")[0] for chain in settings.models.tiers.values() for model in chain}
        assert named <= set(providers)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[\[<>=;\s]", line)[0] for line in project["dependencies"]}
    rows = re.findall(r"^\| ([\w, -]+) \|", TEXTS["ARCHITECTURE.md"], re.M)
    given = {name.strip() for row in rows for name in row.split(",")}
    assert names - given == set()


def test_every_script_is_explained() -> None:
    section = TEXTS["ARCHITECTURE.md"].split("### The scripts")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == set(SCRIPTS)


# What is shown runs.


@dataclass(frozen=True)
class Shown:
    """A system that was started in a folder with the README's files, and the model behind it."""

    folder: Path
    model: ModelServer
    env: dict[str, str]

    def run(self, *argv: str) -> str:
        """The standard output of a command in that folder, which must end well."""
        done = subprocess.run(
            argv, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def capataz(self, *args: str) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.run(*plan.python("ops.cli.main"), *args, "--json"))


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    folder = Path(tempfile.mkdtemp(prefix="cpz-docs-"))  # short: the Redis server listens on a socket in it
    try:
        for name, text in FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        with ModelServer(names=[str(folder / "scenario.yaml"), "default"]) as model:
            yield from _up(folder, model)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _up(folder: Path, model: ModelServer) -> Iterator[Shown]:
    definition = {"preset": models.REHEARSAL, "base_url": model.url}
    env = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
        **plan.import_path({}),
        **plan.model_env(models.REHEARSAL, definition, dict.fromkeys(models.TIERS, models.REHEARSAL)),
        "CAPATAZ_FLOWER__ENABLED": "false",
    }
    up = subprocess.Popen(
        [*plan.python("ops.cli.main"), "up"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert up.stdout is not None
    try:
        said = []
        for line in up.stdout:
            said.append(line)
            if line.startswith("ready in"):
                break
        else:
            pytest.fail("".join(said))
        threading.Thread(target=up.stdout.read, daemon=True).start()  # keeps the pipe from filling up
        yield Shown(folder, model, env)
    finally:
        up.terminate()
        try:
            up.wait(60)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()


def plain(text: str) -> str:
    """Text with times replaced, which differ from run to run."""
    return _VOLATILE.sub("TIME", text)


@pytest.mark.integration
def test_the_python_conversation_prints_what_the_readme_shows(shown: Shown) -> None:
    printed = [line.rstrip() for line in plain(shown.run(sys.executable, "hello.py")).splitlines()]
    [example] = [block.text for block in blocks("README.md") if "python hello.py" in block.text]
    expected = plain(example).splitlines()[1:]
    until = next(i for i, line in enumerate(expected) if line.startswith("text.delta"))
    assert until > 8
    assert printed[:5] == expected[:5]
    assert sorted(printed[:until]) == sorted(expected[:until])  # a worker may be quicker than the end of the stream
    assert printed[until].startswith("text.delta Rehearsal")  # in how many pieces the text comes is chance
    assert 'Saved note "buy oat milk"' in printed[-1]


@pytest.mark.integration
def test_the_redis_conversation_is_a_whole_client(shown: Shown) -> None:
    [example] = [block.text for block in blocks("README.md") if "alias rc=" in block.text]
    lines = example.splitlines()
    [alias] = [line for line in lines if "alias rc=" in line]
    [secret] = re.findall(r"\$\(cat (\S+)\)", example)
    [path] = re.findall(r"-s ([^\s']+)", alias)
    password = (shown.folder / secret).read_text().strip()
    asked = [shlex.split(line.removeprefix("$ rc ")) for line in lines if line.startswith("$ rc ")]
    with redis.Redis(
        unix_socket_path=str(shown.folder / path), password=password, decode_responses=True, socket_timeout=None
    ) as raw:
        submit, wait = asked
        assert re.fullmatch(r"\d+-\d+", raw.execute_command(*submit))
        key, value = raw.execute_command(*wait)
    assert key in lines
    reply, documented = json.loads(value), json.loads(lines[-1])
    assert set(reply) == set(documented)
    assert plain(reply["answer"]) == plain(documented["answer"])


@pytest.mark.integration
def test_the_tool_is_offered_called_and_answers(shown: Shown) -> None:
    names = [tool["name"] for tool in shown.capataz("tools")["tools"]]
    assert "iban_check" in names
    [example] = [block.text for block in blocks("README.md") if "--scenario scenario.yaml" in block.text]
    [question] = re.findall(r'capataz ask "(.+)"', example)
    expected = example.splitlines()[-1]
    assert shown.capataz("ask", question)["answer"] == expected
    wrong = question.replace("DE89", "DE88")
    assert shown.capataz("ask", wrong)["answer"] == expected.replace("true", "false")


@pytest.mark.integration
def test_the_agent_speaks_with_its_own_words_and_tools(shown: Shown) -> None:
    reply = shown.capataz("ask", "--agent", "banker", "check DE89 3704 0044 0532 0130 00")
    assert "true" in reply["answer"]
    systems = [r.body["messages"][0]["content"] for r in shown.model.requests]
    body = FILES["agents/banker.md"].split("---\n")[2].strip().replace("{model}", "rehearsal/rehearsal")
    assert any(system.startswith(body) for system in systems)
    client = Client.connect(json.loads((shown.folder / ".capataz" / "run.json").read_text())["redis_url"])
    [offered] = [e.value for e in client.history(reply["session"]) if isinstance(e.value, Offered)]
    client.close()
    assert offered.layer == "explicit"
    assert {"iban_check", "calculate"} <= set(offered.tools)
    assert "note_save" not in offered.tools


@pytest.mark.integration
def test_the_workflow_runs(shown: Shown) -> None:
    listed = {one["name"]: one for one in shown.capataz("workflow", "list")}
    assert listed["year-end"]["cron"] == "0 8 * * 1"
    reply = shown.capataz("workflow", "run", "year-end")
    assert re.fullmatch(r"Rehearsal: \d{1,3} days, use them well\.", reply["answer"])


@pytest.mark.integration
def test_the_workflow_with_a_branch_runs_both_ways(shown: Shown) -> None:
    assert shown.capataz("workflow", "run", "account-check")["answer"] == "The number is right."
    [line] = [line for line in code("README.md") if "workflow run account-check -p" in line]
    reply = shown.capataz(*shlex.split(line)[2:])
    assert reply["answer"] == "My account: please look at the number."
    record = shown.capataz("workflow", "record", reply["run"])
    assert {step["id"]: step["state"] for step in record["steps"]} == dict.fromkeys(
        ("account", "right", "letter", "report"), "done"
    )
