"""The conversation told as plain text."""

from __future__ import annotations

from coordinator.context.plain import ASK, told
from shared.llm.model import Message, TextBlock, ToolCall, ToolResult


def test_everything_is_told_but_what_the_loop_itself_said() -> None:
    call = ToolCall(id="n1", name="calculate", arguments={"expression": "17*23"})
    messages = [
        Message(role="user", blocks=(TextBlock(text="What is 17*23?"),)),
        Message(role="assistant", blocks=(call,)),
        Message(role="tool", blocks=(ToolResult(call_id="n1", text="391"),)),
        Message(role="assistant", blocks=(call.model_copy(update={"id": "n2"}),)),
        Message(role="tool", blocks=(ToolResult(call_id="n2", text="Not run again"),)),
        Message(role="user", blocks=(TextBlock(text="You go in circles"),)),
    ]
    said = told(messages, {"Not run again", "You go in circles"})
    assert said.role == "user"
    assert "user: What is 17*23?" in said.text
    assert 'calculate with {"expression": "17*23"}' in said.text
    assert "(the tool answered: 391)" in said.text
    assert "Not run again" not in said.text
    assert "circles" not in said.text
    assert said.text.endswith(ASK)
    assert not said.calls
