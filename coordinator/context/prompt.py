"""The prompt: a system part whose bytes stay the same, and the tail that is new with each message. Pure.

Order: agent body, instruction files, playbook. Then history. The tail (date and time, facts, bullets that matter for
this message) is logged behind the user's message once and stays there, so that earlier bytes of the conversation never
change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from coordinator.context.playbook import line
from shared.llm.model import Message, TextBlock
from shared.playbook import Bullet

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
FACT_CHARS = 300
TALK_CHARS = 6000
"""How much of the talk a subagent is told."""
_PLACE = re.compile(r"\{([a-z_]+)\}")


def fill(body: str, values: Mapping[str, str]) -> str:
    """The template with `{name}` replaced; other braces stay, and what is put in is never filled again."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), body)


def system_prompt(body: str, instructions: Mapping[str, str], bullets: Sequence[Bullet]) -> str:
    """The stable part. `instructions`: file name to text. `bullets` in their stable order."""
    parts = [body.strip()]
    for name, text in instructions.items():
        parts.append(f"# {name}\n{text.strip()}")
    if bullets:
        parts.append("# Playbook: what was learned from earlier work\n" + "\n".join(map(line, bullets)))
    return "\n\n".join(parts) + "\n"


def fact_lines(facts: Mapping[str, object]) -> list[str]:
    """A line per shared fact, long values cut."""
    lines = []
    for name in sorted(facts):
        text = json.dumps(facts[name], ensure_ascii=False)
        lines.append(f"- {name}: {text if len(text) <= FACT_CHARS else text[:FACT_CHARS] + '…'}")
    return lines


def news(facts: Mapping[str, object]) -> str:
    """What others have set meanwhile."""
    return "\n".join(["<context>", "Shared facts that others have set meanwhile:", *fact_lines(facts), "</context>"])


def talk(messages: Sequence[Message]) -> str:
    """The newest part of a conversation as plain text, for an agent that was not in it: what was said, without calls
    and results. Empty if nothing was."""
    lines: list[str] = []
    left = TALK_CHARS
    for message in reversed(messages):
        said = "" if message.role == "tool" else _said(message)
        if not said:
            continue
        who = "User" if message.role == "user" else "Assistant"
        lines.append(f"{who}: {said if len(said) <= left else '…' + said[len(said) - left :]}")
        left -= len(said)
        if left <= 0:
            break
    if not lines:
        return ""
    return "\n".join(["<context>", "The talk so far, for you to know:", *reversed(lines), "</context>"])


def _said(message: Message) -> str:
    texts = [b.text for b in message.blocks if isinstance(b, TextBlock) and not b.text.startswith("<context>")]
    return "\n".join(t.strip() for t in texts if t.strip())


def tail(now: datetime, facts: Mapping[str, object], bullets: Sequence[Bullet] = ()) -> str:
    """The changing part. `now` is aware, in the user's zone; `bullets` are those that matter for this message."""
    lines = ["<context>", f"Now: {now:%A} {now:%Y-%m-%d %H:%M} {now.tzname()} (UTC{now:%z})"]
    if facts:
        lines += ["Shared facts of this session:", *fact_lines(facts)]
    if bullets:
        lines += ["From the playbook, as it may matter here:", *map(line, bullets)]
    lines.append("</context>")
    return "\n".join(lines)
