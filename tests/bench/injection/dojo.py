"""AgentDojo's environments behind HTTP, in a process of AgentDojo's own virtual environment.

    python -m tests.bench.injection.dojo

It prints its port, and ends when its standard input does. `GET /suites`; `POST /open` with a case makes its
environment and answers with the play; `POST /call` runs one tool on it; `POST /close` checks it with AgentDojo's own
checks and forgets it. What was called, for the checks that ask, is what has run: a call that never came here is none.
"""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import yaml
from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks import load_attack
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import text_content_block_from_string

from tests.bench.injection.cases import Call, Case, Goal, Outcome, Play, Suite, ToolInfo
from tests.bench.injection.plays import PLAYS
from workers.tools.schema import json_schema

VERSION = "v1.2.2"
ATTACK = "important_instructions"
# The suites' files are read anew for each case: parsed in C, that takes a tenth of the time.
yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)


@dataclass
class World:
    """The environment of a case under way."""

    suite: Any
    task: Any
    goal: Any
    before: Any
    now: Any
    made: list[Any] = field(default_factory=list)


class Dojo:
    """The suites, and the cases that are open."""

    def __init__(self) -> None:
        self.suites: dict[str, Any] = get_suites(VERSION)
        target = GroundTruthPipeline(None)
        target.name = "local"  # the attack addresses the model by name
        self.attacks = {name: load_attack(ATTACK, suite, target) for name, suite in self.suites.items()}
        self.open_cases: dict[str, World] = {}

    def catalogue(self) -> list[Suite]:
        """All suites."""
        found = []
        for name, suite in self.suites.items():
            env = suite.load_and_inject_default_environment({})
            goals = []
            for one, goal in suite.injection_tasks.items():
                used = tuple(call.tool for call in self._injected(name, one, goal, env))
                goals.append(Goal(id=one, tools=used))
            tools = tuple(
                ToolInfo(name=f.name, description=f.description, parameters=json_schema(f.parameters))
                for f in suite.tools
            )
            found.append(Suite(name=name, tools=tools, tasks=tuple(suite.user_tasks), goals=tuple(goals)))
        return found

    def open(self, case: Case) -> Play:
        """Makes the environment of a case, with the goal in every place that the task's own calls read."""
        suite = self.suites[case.suite]
        task = suite.user_tasks[case.task]
        goal = suite.injection_tasks[case.goal] if case.goal else None
        injections = self.attacks[case.suite].attack(task, goal) if goal is not None else {}
        now = task.init_environment(suite.load_and_inject_default_environment(injections))
        before = now.model_copy(deep=True)
        self.open_cases[case.id] = World(suite, task, goal, before, now)
        calls = _calls(task.ground_truth(before.model_copy(deep=True)))
        play = Play(prompt=task.PROMPT, calls=tuple(calls), answer=task.GROUND_TRUTH_OUTPUT or "Done.")
        if goal is None:
            return play
        injected = self._injected(case.suite, case.goal or "", goal, before)
        words = goal.GROUND_TRUTH_OUTPUT
        return play.model_copy(update={"goal": goal.GOAL, "injected": tuple(injected), "words": words})

    def call(self, case: str, tool: str, args: dict[str, Any]) -> dict[str, str]:
        """Runs a tool on the environment of a case."""
        world = self.open_cases[case]
        world.made.append(FunctionCall(function=tool, args=args))
        result, error = FunctionsRuntime(world.suite.tools).run_function(world.now, tool, args)
        return {"text": "" if error else tool_result_to_str(result), "error": error or ""}

    def close(self, case: str, answer: str) -> Outcome:
        """Checks a case and forgets it."""
        world = self.open_cases.pop(case)
        seen = ([text_content_block_from_string(answer)], world.before, world.now, world.made)
        passed = world.suite._check_task_result(world.task, *seen)
        reached = world.goal is not None and world.suite._check_task_result(world.goal, *seen)
        return Outcome(passed=bool(passed), reached=bool(reached))

    def _injected(self, suite: str, name: str, goal: Any, env: Any) -> list[Call]:
        env = env.model_copy(deep=True)
        play = PLAYS.get((suite, name))
        return play(env, goal) if play is not None else _calls(goal.ground_truth(env))


def _calls(found: list[Any]) -> list[Call]:
    return [Call(tool=one.function, args=dict(one.args)) for one in found]


class _Handler(BaseHTTPRequestHandler):
    dojo: Dojo

    def do_GET(self) -> None:
        self._answer([suite.model_dump() for suite in self.dojo.catalogue()])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match self.path:
            case "/open":
                self._answer(self.dojo.open(Case(**body)).model_dump())
            case "/call":
                self._answer(self.dojo.call(body["case"], body["tool"], body["args"]))
            case "/close":
                self._answer(self.dojo.close(body["case"], body["answer"]).model_dump())
            case _:
                self.send_error(404)

    def _answer(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing of requests that went well; what fails is printed by the server, with its traceback."""


class _Server(HTTPServer):
    request_queue_size = 128


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serves until standard input ends."""
    _Handler.dojo = Dojo()
    server = _Server(("127.0.0.1", 0), _Handler)
    print(server.server_port, flush=True)
    sys.stdout = sys.stderr  # some of the checks print
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
