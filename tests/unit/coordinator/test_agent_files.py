"""Agent files: what a good one gives, what is said about a bad one, and that it takes no other one down."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinator.context.agent import Agent, Agents, parse_agent
from shared.errors import ConfigError

GOOD = "---\nname: writer\ndescription: Writes\ntools: [notes, web]\nmax_steps: 5\n---\nYou write.\n"


def test_a_good_file() -> None:
    agent = parse_agent(GOOD, "writer.md")
    assert agent == Agent(name="writer", description="Writes", tools=("notes", "web"), max_steps=5, body="You write.")


def test_windows_line_ends_are_fine() -> None:
    assert parse_agent(GOOD.replace("\n", "\r\n"), "f").name == "writer"


def test_a_body_may_hold_rules_of_dashes() -> None:
    assert parse_agent("---\nname: a\n---\none\n\n---\n\ntwo\n", "f").body == "one\n\n---\n\ntwo"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("You write.\n", "f.md:1: no frontmatter"),
        ("---\nname: a\n", "f.md:1: no frontmatter"),
        ("---\nname: a\ntools: [x\n---\nbody", "f.md:"),
        ("---\nname: a\ntier: 'x\n---\nbody", "f.md:"),
        ("---\n- a\n- b\n---\nbody", "f.md:2: the frontmatter is not a map"),
        ("---\ndescription: x\n---\nbody", "name"),
        ("---\nname: a b\n---\nbody", "'a b'"),
        ("---\nname: a\ncolour: red\n---\nbody", "colour"),
        ("---\nname: a\nmax_steps: many\n---\nbody", "max_steps"),
        ("---\nname: a\ntemperature: 9\n---\nbody", "temperature"),
    ],
)
def test_a_bad_file_is_named_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_agent(text, "f.md")
    assert "f.md" in str(error.value)
    assert said in str(error.value)


def test_the_line_of_a_yaml_fault_is_that_of_the_file() -> None:
    with pytest.raises(ConfigError, match=r"f\.md:4: "):
        parse_agent("---\nname: a\ndescription: b\n\tbad: tab\n---\nbody", "f.md")


def test_the_line_of_a_wrong_value_is_named() -> None:
    with pytest.raises(ConfigError, match=r"f\.md:3: .*max_steps"):
        parse_agent("---\nname: a\nmax_steps: many\n---\nbody", "f.md")


@pytest.mark.parametrize("front", ["name: 2024-13-45", "name: a\x07b", "name: " + "[" * 5000])
def test_whatever_yaml_stumbles_over_is_reported(front: str) -> None:
    with pytest.raises(ConfigError):
        parse_agent(f"---\n{front}\n---\nbody", "f.md")


def test_the_built_in_agents_are_there_without_a_folder(tmp_path: Path) -> None:
    agents = Agents(tmp_path / "none")
    assert agents.names() == {"default"}
    assert agents.get("default").body
    assert agents.problems == []


def test_a_projects_file_wins_over_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("---\nname: default\n---\nMine.\n")
    assert Agents(tmp_path).get("default").body == "Mine."


def test_a_bad_file_is_reported_and_the_rest_load(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("no frontmatter")
    (tmp_path / "b.md").write_bytes(b"---\nname: b\n---\n\xff\xfe")
    (tmp_path / "c.md").write_text(GOOD)
    agents = Agents(tmp_path)
    assert agents.names() == {"default", "writer"}
    assert len(agents.problems) == 2
    assert any(str(tmp_path / "a.md") in problem for problem in agents.problems)


def test_a_folder_with_a_files_name_is_reported_and_the_rest_load(tmp_path: Path) -> None:
    (tmp_path / "a.md").mkdir()
    (tmp_path / "c.md").write_text(GOOD)
    agents = Agents(tmp_path)
    assert "writer" in agents.names()
    assert len(agents.problems) == 1


def test_a_file_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_bytes(b"---\nname: b\n---\n\xff\xfe")
    [problem] = Agents(tmp_path).problems
    assert "b.md" in problem


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "c.md"
    path.write_text(GOOD)
    agents = Agents(tmp_path)
    path.write_text(GOOD.replace("You write.", "You write well."))
    assert agents.get("writer").body == "You write well."
    path.write_text(GOOD.replace("You write.", "You write ill!.."))  # as long as before
    os.utime(path, (1, 1))
    assert agents.get("writer").body == "You write ill!.."
    path.write_text("broken")
    assert "writer" not in agents.names()
    assert agents.problems
    path.unlink()
    assert agents.names() == {"default"}
    assert agents.problems == []


def test_an_agent_that_has_gone_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="known: default"):
        Agents(tmp_path).get("cook")
