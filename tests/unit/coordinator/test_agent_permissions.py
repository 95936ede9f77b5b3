"""What an agent file says about permissions and subagents."""

from __future__ import annotations

import pytest

from coordinator.context.agent import parse_agent
from shared.errors import ConfigError
from shared.permissions import Policy, Rule

FILE = """---
name: writer
subagents: [researcher]
permissions:
  default: deny
  rules:
    - action: allow
      groups: [notes]
    - {action: deny, tools: [note_delete], reason: keep them}
---
You write.
"""


def test_permissions_and_subagents() -> None:
    agent = parse_agent(FILE, "writer.md")
    assert agent.subagents == ("researcher",)
    assert agent.permissions == Policy(
        default="deny",
        rules=(
            Rule(action="allow", groups=("notes",)),
            Rule(action="deny", tools=("note_delete",), reason="keep them"),
        ),
    )


def test_without_them_an_agent_narrows_nothing_and_starts_nobody() -> None:
    agent = parse_agent("---\nname: a\n---\nb", "a.md")
    assert (agent.permissions, agent.subagents) == (Policy(), ())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("default: deny", "default: never", r"w\.md:5: permissions\.default"),
        ("action: allow", "action: alow", r"w\.md:7: permissions\.rules\.0\.action"),
        ("groups: [notes]", "groups: notes", r"w\.md:8: permissions\.rules\.0\.groups"),
        ("action: deny, ", "", r"w\.md:9: permissions\.rules\.1\.action"),
        ("reason: keep them", "why: x", r"w\.md:9: permissions\.rules\.1\.why"),
        ("subagents: [researcher]", "subagents: researcher", r"w\.md:3: subagents"),
        ("permissions:\n", "permissions: none\nbody:\n", r"w\.md"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(old: str, new: str, said: str) -> None:
    assert FILE.count(old) == 1
    with pytest.raises(ConfigError, match=said):
        parse_agent(FILE.replace(old, new), "w.md")
