"""The encoder of Chat Completions: neutral request in, JSON body out. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from shared.llm.dialects.base import Encoded, effort_of, offer, system_text
from shared.llm.dialects.openai.reasoning import replay_fields, replay_part
from shared.llm.model import (
    ImageBlock,
    Message,
    Opaque,
    Request,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from shared.llm.names import WireIds, WireNames
from shared.llm.provider import Provider
from shared.llm.switches import Switches
from shared.llm.text import writable

PATH = "/chat/completions"
_NO_OUTPUT = "(no output)"
_UNSEEN = "[an image, which this model cannot see]"


def encode(provider: Provider, request: Request) -> Encoded:
    """The request for `provider`. Messages must be paired already (`check.repair`)."""
    switches = provider.switches
    offered = offer(provider, request)
    tools = [_tool(tool, wire, switches) for tool, wire in offered.tools]
    body: dict[str, Any] = {"model": request.model, "messages": _messages(provider, request, offered.names)}
    if switches.stream:
        body["stream"] = True
        if switches.stream_usage:
            body["stream_options"] = {"include_usage": True}
    if tools and request.tool_choice != "none":
        # A last answer goes without the definitions: small models call in prose what they still see, and servers
        # of this dialect do not all know "none".
        body["tools"] = tools
        body["tool_choice"] = switches.required_word if request.tool_choice == "required" else request.tool_choice
        if switches.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = switches.parallel_tool_calls
    if request.max_tokens is not None:
        body[switches.max_tokens_field] = request.max_tokens
    for key, value in (("temperature", request.temperature), ("top_p", request.top_p)):
        if value is not None:
            body[key] = value
    body |= _thinking(request, switches)
    body |= _structured(request, switches)
    body |= switches.extra
    return Encoded(PATH, body, {}, offered.names, offered.notices)


def _messages(provider: Provider, request: Request, names: WireNames) -> list[dict[str, Any]]:
    switches = provider.switches
    out: list[dict[str, Any]] = []
    if system := system_text(request, switches.structured):
        out.append({"role": switches.system_role, "content": writable(system)})
    ids = WireIds(provider.name, switches.id_style)
    current: dict[str, str] = {}
    # Everything behind the last message of the user belongs to the tool loop that is still open.
    last_user = max((at for at, message in enumerate(request.messages) if message.role == "user"), default=-1)
    patterns = switches.unsigned_calls.items()
    unsigned = next((mark for pattern, mark in patterns if re.search(pattern, request.model)), {})
    for at, message in enumerate(request.messages):
        if message.role == "user":
            _add_user(out, _user_content(message, switches), switches)
        elif message.role == "assistant":
            current = ids.assign(message)
            out.append(_assistant(message, provider, names, current, open_loop=at > last_user, unsigned=unsigned))
        else:
            _add_results(out, message, current, switches)
    return out


def _user_content(message: Message, switches: Switches) -> str | list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, TextBlock) and block.text:
            parts.append({"type": "text", "text": writable(block.text)})
        elif isinstance(block, ImageBlock):
            parts.append(_image(block) if switches.images else {"type": "text", "text": _UNSEEN})
    return _simplest(parts)


def _simplest(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Plain text where there is only text: every server reads it."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def _add_user(out: list[dict[str, Any]], content: str | list[dict[str, Any]], switches: Switches) -> None:
    if switches.merge_user and out and out[-1]["role"] == "user":
        parts = [*_as_parts(out[-1]["content"]), *_as_parts(content)]
        out[-1] = {"role": "user", "content": _simplest(parts)}
    else:
        out.append({"role": "user", "content": content})


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _image(block: ImageBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}}


def _assistant(
    message: Message, provider: Provider, names: WireNames, ids: dict[str, str], *, open_loop: bool, unsigned: Opaque
) -> dict[str, Any]:
    mode = provider.switches.replay_reasoning
    own = message.origin == provider.name
    thinking = next((block for block in message.blocks if isinstance(block, ThinkingBlock)), None)
    content: str | list[dict[str, Any]] | None = writable(message.text) or None
    if (part := replay_part(thinking, mode=mode, own=own, open_loop=open_loop)) is not None:
        content = [part, *_as_parts(content or "")] if content else [part]
    out: dict[str, Any] = {"role": "assistant", "content": content}
    out |= replay_fields(
        thinking, mode=mode, own=own, open_loop=open_loop, default_field=provider.switches.reasoning_field
    )
    if own:
        out |= message.opaque
    if message.calls:
        out["tool_calls"] = [_call(call, names, ids[call.id], call.opaque if own else {}) for call in message.calls]
        if not own:  # a provider that demands its signature on the first call of a message
            out["tool_calls"][0] |= unsigned
    elif content is None:
        out["content"] = ""
    return out


def _call(call: ToolCall, names: WireNames, wire_id: str, opaque: Opaque) -> dict[str, Any]:
    extra = dict(opaque)
    inner = extra.pop("function", None)
    function: dict[str, Any] = dict(inner) if isinstance(inner, dict) else {}
    function["name"] = names.wire(call.name) or "unnamed_tool"
    function["arguments"] = json.dumps(call.arguments, ensure_ascii=False)
    return {**extra, "id": wire_id, "type": "function", "function": function}


def _add_results(out: list[dict[str, Any]], message: Message, ids: dict[str, str], switches: Switches) -> None:
    """One message per result; images follow in a user message, as a tool message cannot hold any."""
    images: list[dict[str, Any]] = []
    for block in message.blocks:
        if not isinstance(block, ToolResult) or block.call_id not in ids:
            continue
        text = writable(block.text) or _NO_OUTPUT
        if block.is_error and not text.lower().startswith("error"):
            text = f"Error: {text}"
        if block.images and not switches.images:
            text += f"\n{_UNSEEN}"
        elif block.images:
            images.append({"type": "text", "text": f"Images that the call {ids[block.call_id]} returned:"})
            images += [_image(image) for image in block.images]
        out.append({"role": "tool", "tool_call_id": ids[block.call_id], "content": text})
    if images:
        out.append({"role": "user", "content": images})


def _tool(tool: ToolDefinition, wire: str, switches: Switches) -> dict[str, Any]:
    function: dict[str, Any] = {"name": wire, "description": tool.description, "parameters": tool.parameters}
    if switches.strict_schemas and is_strict(tool.parameters):
        function["strict"] = True
    return {"type": "function", "function": function}


def is_strict(schema: Any) -> bool:
    """True if a schema qualifies for strict mode: every object closed and all its properties required."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    kind = schema.get("type")
    if kind == "object" or properties is not None or (isinstance(kind, list) and "object" in kind):
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties or ()):
            return False
        if not all(map(is_strict, (properties or {}).values())):
            return False
    definitions = [*_values(schema, "$defs"), *_values(schema, "definitions")]
    return all(map(is_strict, [schema.get("items"), schema.get("anyOf"), *definitions]))


def _values(schema: dict[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return list(found.values()) if isinstance(found, dict) else []


def _thinking(request: Request, switches: Switches) -> dict[str, Any]:
    effort, budget = request.effort, request.thinking_budget
    if (effort is None and budget is None) or switches.reasoning_style == "none":
        return {}
    off = budget == 0 and effort is None
    word = effort or effort_of(budget or 0)
    style = switches.reasoning_style
    if style == "openrouter":
        return {"reasoning": {"enabled": False} if off else {"max_tokens": budget} if budget else {"effort": word}}
    if style == "deepseek":
        return (
            {"thinking": {"type": "disabled"}} if off else {"thinking": {"type": "enabled"}, "reasoning_effort": word}
        )
    if style == "gemini" and budget is not None:
        config = {"thinking_budget": budget, "include_thoughts": True}
        return {"extra_body": {"google": {"thinking_config": config}}}
    return {} if off else {"reasoning_effort": word}


def _structured(request: Request, switches: Switches) -> dict[str, Any]:
    if request.json_schema is None or switches.structured == "none":
        return {}
    if switches.structured == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema = {"name": "answer", "schema": request.json_schema, "strict": is_strict(request.json_schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
