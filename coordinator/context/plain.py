"""A conversation told in plain text, for a last answer of models that go on calling tools where none are left. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from shared.llm.model import Message, TextBlock, ToolCall, ToolResult

ASK = "That is the conversation so far. Answer the user's last message now, in plain words, from what is known."


def told(messages: Sequence[Message], without: Collection[str] = ()) -> Message:
    """One user message that tells the whole conversation, calls and results included, and asks for the answer.

    Texts in `without`, such as what the loop itself and its guard said, are left out: small models repeat them.
    """
    lines = []
    for message in messages:
        for block in message.blocks:
            if isinstance(block, TextBlock) and block.text.strip() and block.text not in without:
                lines.append(f"{message.role}: {block.text}")
            elif isinstance(block, ToolCall):
                lines.append(f"(asked the tool {block.name} with {json.dumps(block.arguments, ensure_ascii=False)})")
            elif isinstance(block, ToolResult) and block.text not in without:
                lines.append(f"(the tool answered: {block.text})")
    return Message(role="user", blocks=(TextBlock(text="\n".join([*lines, "", ASK])),))
