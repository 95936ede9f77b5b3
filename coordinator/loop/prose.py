"""Recognises a tool call that a model wrote as text in place of calling. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCE = re.compile(r"\A```[a-z_]*\s*\n(?P<body>.*?)\n?```\Z", re.DOTALL)
_TAG = re.compile(r"\A<(?P<tag>tool_call|function_call|tool_use)>(?P<body>.*?)(?:</(?P=tag)>)?\Z", re.DOTALL)
_ARGUMENTS = ("arguments", "parameters", "args", "input")


def is_call(text: str) -> bool:
    """True if the whole text is one or more calls in JSON, bare, fenced or tagged; prose around them makes it prose."""
    body = text.strip()
    for wrapping in (_FENCE, _TAG):
        if (match := wrapping.match(body)) is not None:
            body = match["body"].strip()
    if not body.startswith(("{", "[")):
        return False
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    calls = value if isinstance(value, list) else [value]
    return bool(calls) and all(_is_call(call) for call in calls)


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    inner = value.get("function", value)
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return False
    return any(isinstance(inner.get(key), dict | str) for key in _ARGUMENTS)
