"""AgentDojo's tools as a user's own, loaded by a worker: each forwards to the environment of the session's case.

`BENCH_DOJO_URL` says where the environments are. Names have the suite in front, and each suite is a group.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, create_model

from shared.contract import ToolSpec
from shared.errors import ModelError
from tests.bench.injection.cases import Suite, ToolInfo
from tests.bench.injection.effects import EFFECTS
from workers.context import ToolContext
from workers.declare import Tool

URL = os.environ["BENCH_DOJO_URL"]
_http = httpx.AsyncClient(base_url=URL, timeout=60, trust_env=False)


def _arguments(name: str, schema: dict[str, Any]) -> type[BaseModel]:
    """Which arguments there are, and which must be given; their types are checked where the function is."""
    required = schema.get("required", ())
    fields: dict[str, Any] = {
        key: (Any, ... if key in required else value.get("default")) for key, value in schema["properties"].items()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def _forwarding(name: str) -> Callable[..., Awaitable[str]]:
    async def forward(ctx: ToolContext, **args: Any) -> str:
        response = await _http.post("/call", json={"case": ctx.session, "tool": name, "args": args})
        answer = response.raise_for_status().json()
        if answer["error"]:
            raise ModelError(answer["error"], code="dojo_error")
        return str(answer["text"])

    return forward


def declared(suite: str, info: ToolInfo) -> Tool:
    """The tool of ours for one of a suite's. Raises KeyError if nobody has said what effect it has."""
    name = f"{suite}_{info.name}"
    spec = ToolSpec(
        name=name,
        group=suite,
        description=" ".join(info.description.split()),
        parameters=info.parameters,
        effect=EFFECTS[info.name],
        timeout_s=60.0,
    )
    arguments = functools.cache(functools.partial(_arguments, name, info.parameters))
    return Tool(spec, _forwarding(info.name), arguments, __file__)


for _suite in httpx.get(f"{URL}/suites", timeout=60, trust_env=False).raise_for_status().json():
    for _tool in (declared(_suite["name"], info) for info in Suite.model_validate(_suite).tools):
        globals()[_tool.name] = _tool
