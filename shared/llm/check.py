"""The repair pass before each request: what providers demand of a history, whatever happened to it. Pure.

A crash, a cancellation, a trim or a message that came in between may leave calls without results, results without
calls, or an end that providers refuse; one such history would fail on every later turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.llm.model import Block, ImageBlock, Message, TextBlock, ThinkingBlock, ToolCall, ToolResult

INTERRUPTED = "Error: this call was interrupted and has no result; its effect, if any, is not known."
CONTINUE = "Continue."
BEGINNING = "[The beginning of the conversation was left out.]"


def repair(messages: Sequence[Message], *, merge_user: bool = False) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """A history that providers accept, and notices of what was changed. Idempotent.

    Every call has its result in the message right after, in call order; a missing one is answered with an error, one
    without a call is left out. No message or text is empty. The first message is the user's and the last is not the
    assistant's. With `merge_user`, user messages that follow each other become one. Results are looked for up to
    the next assistant message only, as ids before that may be used again.
    """
    notices: list[str] = []
    out: list[Message] = []
    rest = [clean for message in messages if (clean := _clean(message, notices)) is not None]
    at = 0
    while at < len(rest):
        message = rest[at]
        at += 1
        if message.role != "assistant":
            if message.role == "user":
                out.append(message)
            else:
                notices.append(f"{len(message.blocks)} results without a call were left out")
            continue
        end = next((i for i in range(at, len(rest)) if rest[i].role == "assistant"), len(rest))
        between, at = rest[at:end], end
        out.append(message)
        results = _paired(message, [one for one in between if one.role == "tool"], notices)
        if results is not None:
            out.append(results)
        out += [one for one in between if one.role == "user"]
    if out and out[0].role != "user":
        notices.append("the history began without a user message")
        out.insert(0, Message(role="user", blocks=(TextBlock(text=BEGINNING),)))
    if out and out[-1].role == "assistant":
        notices.append("the history ended with an assistant message")
        out.append(Message(role="user", blocks=(TextBlock(text=CONTINUE),)))
    return tuple(_merged(out) if merge_user else out), tuple(notices)


def _clean(message: Message, notices: list[str]) -> Message | None:
    """The message with only what its role may hold and nothing empty; None if nothing is left."""
    blocks = message.blocks
    if message.role == "assistant":
        kept: list[Block] = []
        seen: set[str] = set()
        for block in blocks:
            if isinstance(block, ToolCall):
                if block.id in seen:
                    notices.append(f"the call id {block.id} stood twice in one message: the second call was left out")
                    continue
                seen.add(block.id)
            elif not isinstance(block, TextBlock | ThinkingBlock) or _is_blank(block):
                continue
            kept.append(block)
        if not any(isinstance(block, TextBlock | ToolCall) for block in kept):
            notices.append("an assistant message without text or calls was left out")
            return None
    elif message.role == "user":
        kept = [block for block in blocks if isinstance(block, TextBlock | ImageBlock) and not _is_blank(block)]
    else:
        kept = [block for block in blocks if isinstance(block, ToolResult)]
    if not kept:
        notices.append(f"an empty {message.role} message was left out")
        return None
    return message if len(kept) == len(blocks) else message.model_copy(update={"blocks": tuple(kept)})


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _paired(message: Message, candidates: list[Message], notices: list[str]) -> Message | None:
    """The results of a message's calls, in call order; None if it has no calls."""
    found: dict[str, ToolResult] = {}
    wanted = {call.id for call in message.calls}
    for block in (block for one in candidates for block in one.blocks if isinstance(block, ToolResult)):
        if block.call_id not in wanted or block.call_id in found:
            notices.append(f"a result for {block.call_id}, which has no open call here, was left out")
            continue
        found[block.call_id] = block
    if not wanted:
        return None
    results = []
    for call in message.calls:
        if call.id not in found:
            notices.append(f"the call {call.id} ({call.name}) had no result and was answered with an error")
        results.append(found.get(call.id) or ToolResult(call_id=call.id, text=INTERRUPTED, is_error=True))
    if len(candidates) == 1 and tuple(results) == candidates[0].blocks:
        return candidates[0]
    return Message(role="tool", blocks=tuple(results))


def _merged(messages: list[Message]) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        if out and message.role == "user" and out[-1].role == "user":
            out[-1] = out[-1].model_copy(update={"blocks": out[-1].blocks + message.blocks})
        else:
            out.append(message)
    return out
