"""The model of PLB5: it errs in each task unless what it has to know stands in its prompt, and makes of a correction
the rule that its task has. An OpenAI-compatible server in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from aiohttp import web

TASKS = Path(__file__).parents[1] / "data" / "playbook" / "tasks.yaml"
REFLECTS = "You reflect on one finished run"
_LEARNED = re.compile(
    r"# Playbook: what was learned from earlier work\n(?:- .*\n?)*|From the playbook, as .*\n(?:- .*\n?)*"
)


@dataclass(frozen=True)
class Task:
    """One task of the file; see its head."""

    id: str
    ask: str
    again: str
    wrong: str
    right: str
    correction: str
    rule: dict[str, str]
    knows: str
    others: tuple[str, ...] = ()
    tool: str = ""
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def wordings(self) -> tuple[str, ...]:
        """The rule in all its words."""
        return (self.rule["text"], *self.others)


def load() -> list[Task]:
    """The shipped tasks."""
    return [Task(**{**row, "others": tuple(row.get("others", ()))}) for row in yaml.safe_load(TASKS.read_text("utf-8"))]


def text_of(content: Any) -> str:
    """A message's text, in either form of the dialect."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


class ErringModel:
    """Use as a context manager; `url` is its base URL, with `/v1`."""

    def __init__(self, tasks: list[Task]) -> None:
        self._tasks = tasks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="erring-model", daemon=True)
        self._runner: web.AppRunner | None = None
        self.url = ""
        self.reflections = 0

    def __enter__(self) -> ErringModel:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=16_000_000)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        body = await http.json()
        message, finish = self._message(body["messages"])
        used = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
            return web.json_response({"id": "c", "object": "chat.completion", "choices": [choice], "usage": used})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        for delta, end in ((message, None), ({}, finish)):
            event = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        await response.write(f"data: {json.dumps({'choices': [], 'usage': used})}\n\ndata: [DONE]\n\n".encode())
        return response

    def _message(self, messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
        system = text_of(messages[0]["content"]) if messages[0]["role"] == "system" else ""
        at = max(n for n, one in enumerate(messages) if one["role"] == "user")
        asked = text_of(messages[at]["content"])
        if system.startswith(REFLECTS):
            self.reflections += 1
            return {"content": json.dumps(self._lesson(asked))}, "stop"
        task = next((one for one in self._tasks if asked.startswith((one.ask, one.again))), None)
        if task is None:
            return {"content": "Understood."}, "stop"
        learned = "".join(found[0] for found in _LEARNED.finditer(f"{system}\n{asked}"))
        how = "right" if re.search(task.knows, learned) else "wrong"
        if task.tool and len(messages) == at + 1:
            arguments = json.dumps(task.calls[how])
            call = {"index": 0, "id": "c1", "type": "function", "function": {"name": task.tool, "arguments": arguments}}
            return {"tool_calls": [call]}, "tool_calls"
        return {"content": task.right if how == "right" else task.wrong}, "stop"

    def _lesson(self, trace: str) -> dict[str, Any]:
        """The rule of the task whose correction the user wrote in this run."""
        said = next((one for one in self._tasks if f"USER: {one.correction}" in trace), None)
        return {"operations": [{"op": "add", **said.rule}] if said else []}
