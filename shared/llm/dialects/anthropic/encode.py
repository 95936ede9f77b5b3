"""The encoder of Anthropic Messages: neutral request in, JSON body out. Pure."""

from __future__ import annotations

from typing import Any

from shared.llm.dialects.anthropic.models import BINDING_BETA, Traits, traits
from shared.llm.dialects.base import Encoded, effort_of, offer, system_text
from shared.llm.model import ImageBlock, Message, Request, TextBlock, ThinkingBlock, ToolCall, ToolResult
from shared.llm.names import WireIds, WireNames, names_in
from shared.llm.provider import Provider
from shared.llm.switches import Switches
from shared.llm.text import writable

VERSION = "2023-06-01"
MIN_THINKING = 1024
"""The smallest thinking budget that the API accepts, in tokens."""
_UNSEEN = "[an image, which this model cannot see]"
_MARK = {"type": "ephemeral"}
_EFFORT_BUDGET = {"low": 2_048, "medium": 8_192, "high": 24_576}


def encode(provider: Provider, request: Request) -> Encoded:
    """The request for `provider`. Messages must be paired already (`check.repair`)."""
    switches = provider.switches
    offered = offer(provider, request)
    names, notices = offered.names, list(offered.notices)
    tools = [
        {"name": wire, "description": tool.description, "input_schema": _object_schema(tool.parameters)}
        for tool, wire in offered.tools
    ]
    history = names_in(request.messages)
    choice = request.tool_choice
    if not tools and history:
        # The API wants a definition of tools wherever the history holds calls; this one cannot be chosen.
        called = [wire for name in dict.fromkeys(history) if (wire := names.wire(name)) is not None]
        tools = [{"name": wire, "description": "", "input_schema": _object_schema({})} for wire in called]
        choice = "none"
    messages = _messages(provider, request, names)
    body: dict[str, Any] = {"model": request.model, "messages": messages}
    if system := system_text(request, switches.structured):
        body["system"] = [{"type": "text", "text": writable(system)}]
    if switches.stream:
        body["stream"] = True
    known = traits(request.model)
    thinking = _thinking(provider, request, known, notices)
    body |= thinking
    body["max_tokens"] = _max_tokens(request, switches, thinking)
    if tools:
        forcible = not thinking and not known.never_forced
        body["tools"] = tools
        body["tool_choice"] = _tool_choice(choice, switches, forced_is_possible=forcible)
        if choice == "required" and not forcible:
            notices.append("this model cannot be made to call a tool while it thinks: it may choose")
    if not thinking and not known.fixed_sampling:
        for key, value in (("temperature", request.temperature), ("top_p", request.top_p)):
            if value is not None:
                body[key] = value
    if output := _output_config(request, switches, known):
        body["output_config"] = output
    if switches.prompt_cache:
        _mark_cache(body)
    body |= switches.extra
    path = "/messages" if provider.base_url.endswith("/v1") else "/v1/messages"
    headers = {"anthropic-version": VERSION}
    if known.bound_thinking:
        headers["anthropic-beta"] = BINDING_BETA
    return Encoded(path, body, headers, names, tuple(notices))


def _object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    return parameters if parameters.get("type") == "object" else {**parameters, "type": "object"}


def _messages(provider: Provider, request: Request, names: WireNames) -> list[dict[str, Any]]:
    """Roles alternate on this wire: results are user messages, and stand before the text of the next one."""
    out: list[dict[str, Any]] = []
    ids = WireIds(provider.name, provider.switches.id_style)
    current: dict[str, str] = {}
    for message in request.messages:
        if message.role == "assistant":
            current = ids.assign(message)
            role, content = "assistant", _assistant(message, provider, names, current)
        elif message.role == "tool":
            role, content = "user", _results(message, current, provider.switches)
        else:
            role, content = "user", _user(message, provider.switches)
        if not content:
            continue
        if out and out[-1]["role"] == role:
            out[-1]["content"] += content
        else:
            out.append({"role": role, "content": content})
    return out


def _user(message: Message, switches: Switches) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, TextBlock) and block.text.strip():  # the API refuses blank text
            content.append({"type": "text", "text": writable(block.text)})
        elif isinstance(block, ImageBlock):
            content.append(_image(block, switches))
    return content


def _image(block: ImageBlock, switches: Switches) -> dict[str, Any]:
    if not switches.images:
        return {"type": "text", "text": _UNSEEN}
    return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": block.data}}


def _assistant(message: Message, provider: Provider, names: WireNames, ids: dict[str, str]) -> list[dict[str, Any]]:
    own = message.origin == provider.name
    content: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, TextBlock) and block.text.strip():
            content.append({"type": "text", "text": writable(block.text)})
        elif isinstance(block, ThinkingBlock) and own and (thinking := _replayed(block, provider.switches)):
            content.append(thinking)
        elif isinstance(block, ToolCall):
            call = {
                "type": "tool_use",
                "id": ids[block.id],
                "name": names.wire(block.name) or "unnamed_tool",
                "input": block.arguments,
            }
            content.append({**block.opaque, **call} if own else call)
    return content


def _replayed(block: ThinkingBlock, switches: Switches) -> dict[str, Any] | None:
    """The block as it came; what has neither signature nor data would be refused."""
    if switches.replay_reasoning == "never":
        return None
    if isinstance(raw := block.opaque.get("raw"), dict):
        return raw
    if "redacted" in block.opaque:
        return {"type": "redacted_thinking", "data": block.opaque["redacted"]}
    if "signature" in block.opaque:
        return {"type": "thinking", "thinking": block.text, "signature": block.opaque["signature"]}
    return None


def _results(message: Message, ids: dict[str, str], switches: Switches) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for block in message.blocks:
        if not isinstance(block, ToolResult) or block.call_id not in ids:
            continue
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids[block.call_id]}
        inner: list[dict[str, Any]] = []
        if block.text.strip():
            inner.append({"type": "text", "text": writable(block.text)})
        inner += [_image(image, switches) for image in block.images]
        if inner:
            result["content"] = inner
        elif block.is_error:
            result["content"] = "failed without a message"
        if block.is_error:
            result["is_error"] = True
        content.append(result)
    return content


def _thinking(provider: Provider, request: Request, known: Traits, notices: list[str]) -> dict[str, Any]:
    """The `thinking` parameter, or nothing where none is wanted or possible."""
    wanted = request.thinking_budget != 0 and (request.thinking_budget is not None or request.effort is not None)
    if not _is_adaptive(provider.switches, known):
        if not wanted or provider.switches.reasoning_style not in ("auto", "budget"):
            return {}
        if not _loop_has_thinking(provider, request):  # the API refuses to begin thinking in the middle of one
            notices.append("thinking is off until the open tool loop ends: it began without")
            return {}
        budget = request.thinking_budget or _EFFORT_BUDGET.get(request.effort or "", _EFFORT_BUDGET["medium"])
        return {"thinking": {"type": "enabled", "budget_tokens": max(MIN_THINKING, budget)}}
    if not wanted and not known.bound_thinking:
        return {}
    thinking: dict[str, Any] = {"type": "adaptive"}
    if known.shows_thinking_on_demand:
        thinking["display"] = "summarized"
    if known.bound_thinking:
        # Tools that join, results that are shortened and the changing last message alter what stood before
        # earlier thinking. Such blocks shall be dropped: the default refuses the whole request.
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return {"thinking": thinking}


def _is_adaptive(switches: Switches, known: Traits) -> bool:
    return switches.reasoning_style == "adaptive" or (switches.reasoning_style == "auto" and known.adaptive)


def _loop_has_thinking(provider: Provider, request: Request) -> bool:
    for message in reversed(request.messages):
        if message.role == "user":
            return True
        if message.role == "assistant":
            if not message.calls:
                return True
            first = message.blocks[0]
            own = message.origin == provider.name
            return own and isinstance(first, ThinkingBlock) and _replayed(first, provider.switches) is not None
    return True


def _max_tokens(request: Request, switches: Switches, thinking: dict[str, Any]) -> int:
    """The limit covers thinking as well, so that its budget comes on top of what the answer may take."""
    budget = thinking.get("thinking", {}).get("budget_tokens", 0)
    return int(budget) + (request.max_tokens or switches.default_max_tokens)


def _tool_choice(choice: str, switches: Switches, *, forced_is_possible: bool) -> dict[str, Any]:
    if choice == "none":
        return {"type": "none"}
    forced = choice == "required" and forced_is_possible
    out: dict[str, Any] = {"type": "any" if forced else "auto"}
    if switches.parallel_tool_calls is False:
        out["disable_parallel_tool_use"] = True
    return out


def _output_config(request: Request, switches: Switches, known: Traits) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if _is_adaptive(switches, known):
        budget = request.thinking_budget
        effort = request.effort or (None if budget is None else effort_of(budget))
        if effort is not None:
            out["effort"] = effort
    if request.json_schema is not None and switches.structured == "json_schema":
        out["format"] = {"type": "json_schema", "schema": request.json_schema}
    return out


def _mark_cache(body: dict[str, Any]) -> None:
    """Cache marks, four at most: after tools, after system, and two in the messages.

    Of the last user message the block before its last text is marked, if it has others: that text is the one that
    changes with every call. The other mark is at the end of the user message before, where the previous call's
    cache ends.
    """
    if tools := body.get("tools"):
        body["tools"] = [*tools[:-1], {**tools[-1], "cache_control": _MARK}]
    if system := body.get("system"):
        system[-1]["cache_control"] = _MARK
    users = [message["content"] for message in body["messages"] if message["role"] == "user"]
    if users:
        last = users[-1]
        stable = last[:-1] if len(last) > 1 and last[-1]["type"] == "text" else last
        stable[-1]["cache_control"] = _MARK
    if len(users) > 1:
        users[-2][-1]["cache_control"] = _MARK
