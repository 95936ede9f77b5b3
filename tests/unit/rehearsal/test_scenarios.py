from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ops.rehearsal
from ops import demo
from ops.rehearsal.engine import Engine, Reply
from ops.rehearsal.request import Request, ToolResult, Turn
from ops.rehearsal.scenario import Then, When, load, parse
from ops.rehearsal.templates import _FILTERS, NOT_FOUND

README = (Path(ops.rehearsal.__file__).parent / "README.md").read_text("utf-8")
TOOLS = ("time_now", "calculate", "note_save", "file_read")
SHIPPED = Engine(load())


def reply(user: str, *results: ToolResult, step: int | None = None, system: str = "", tools: Any = TOOLS) -> Reply:
    done = (1 if results else 0) if step is None else step
    turn = Turn(user=user, step=done, results=results, latest=results)
    return SHIPPED.reply(Request(model="any", system=system, turn=turn, tools=tools))


def calls(user: str) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in reply(user).calls]


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("what time is it in Madrid", [("time_now", {"timezone": "Europe/Madrid"})]),
        ("¿Qué hora es en Tokio?", [("time_now", {"timezone": "Asia/Tokyo"})]),
        ("What time is it in Sydney today?", [("time_now", {"timezone": "Australia/Sydney"})]),
        ("what time is it in Gondor", [("time_now", {"timezone": "Gondor"})]),
        ("¿qué hora es?", [("time_now", {})]),
        ("what is 17*23", [("calculate", {"expression": "17*23"})]),
        ("cuánto es (2+3)*4?", [("calculate", {"expression": "(2+3)*4"})]),
        (
            "What time is it in New York and what is 17*23?",
            [("time_now", {"timezone": "America/New_York"}), ("calculate", {"expression": "17*23"})],
        ),
        (
            "¿Cuánto es 17*23 y qué hora es en Ciudad de México?",
            [("time_now", {"timezone": "America/Mexico_City"}), ("calculate", {"expression": "17*23"})],
        ),
        ("save a note titled Bread: buy bread", [("note_save", {"title": "Bread", "text": "buy bread"})]),
        ("guarda una nota: comprar pan", [("note_save", {"title": "comprar pan", "text": "comprar pan"})]),
        ("save a note: what time is it in Madrid", None),
        ("list my notes", [("note_list", {})]),
        ("¿qué notas tengo?", [("note_list", {})]),
        ("search my notes for bread", [("note_search", {"query": "bread"})]),
        ("busca en mis notas pan", [("note_search", {"query": "pan"})]),
        ("read the file docs/readme.md, please", [("file_read", {"path": "docs/readme.md"})]),
        ("lee el archivo leeme.md", [("file_read", {"path": "leeme.md"})]),
        ("list the files", [("file_list", {"path": "."})]),
        ("lista los archivos en la carpeta docs", [("file_list", {"path": "docs"})]),
        ("fetch https://example.com/a?b=c.", [("web_fetch", {"url": "https://example.com/a?b=c"})]),
        ("describe la imagen fotos/a.png", [("image_describe", {"path": "fotos/a.png"})]),
    ],
)
def test_the_default_scenario_calls_tools(user: str, expected: list[tuple[str, dict[str, Any]]] | None) -> None:
    found = calls(user)
    if expected is None:
        assert [name for name, _ in found] == ["note_save"]
    else:
        assert found == expected


@pytest.mark.parametrize("user", ["hi", "hola", "thanks!", "gracias", "what's the weather?", "no sé qué hacer, ¿y tú?"])
def test_talk_gets_no_calls_and_says_that_it_is_a_rehearsal(user: str) -> None:
    said = reply(user)
    assert not said.calls
    assert re.search("(?i)rehearsal|ensayo", said.text)


def test_results_are_handed_on_and_nothing_is_added() -> None:
    both = reply("time in Madrid and 17*23", ToolResult("time_now", "12:34"), ToolResult("calculate", "391"))
    assert "12:34" in both.text
    assert "391" in both.text
    assert not set(re.findall(r"\d+", both.text)) - {"12", "34", "391"}
    assert "ERROR: no such file" in reply("read a.md", ToolResult("file_read", "ERROR: no such file")).text


def test_every_shipped_answer_says_that_it_is_a_rehearsal() -> None:
    for rule in load().rules:
        said = rule.then.text or json.dumps(rule.then.json_text)
        if not rule.then.calls and said != '{"operations": []}':
            assert re.search("(?i)rehearsal|ensayo", said), rule.name


def test_the_steps_of_the_system_get_what_they_need() -> None:
    trace = "user: the time?\ncall time_now {}\nresult 12:34"
    learned = json.loads(reply(trace, system="You reflect on a trace.", tools=()).text)
    [operation] = learned["operations"]
    assert operation["op"] == "add"
    assert operation["text"].startswith("When time_now was used")
    assert operation["importance"] == "low"
    assert json.loads(reply("nothing", system="You reflect.", tools=()).text) == {"operations": []}
    brief = reply("Summarise for the morning:\n- buy bread\n- call Ana", tools=())
    assert "buy bread, call Ana" in brief.text
    assert "some text" in reply("some text", system="Summarize it.", tools=()).text


def document(path: str) -> str:
    return (demo.DOCUMENTS / path).read_text("utf-8")


def research(show: Any) -> tuple[str, str, int]:
    """Plays the research with the shipped documents; returns note, answer and the number of calls."""
    results: list[ToolResult] = []
    matches: list[str] = []
    note = ""
    for step in range(10):
        turn = Turn(user=demo.prompt(), step=step, results=tuple(results))
        said = SHIPPED.reply(Request(model="any", turn=turn, tools=TOOLS))
        if not said.calls:
            return note, said.text, len(results)
        for call in said.calls:
            arguments = json.loads(call.arguments)
            if call.name == "note_save":
                note = arguments["text"]
                results.append(ToolResult("note_save", "saved as n1"))
            elif call.name == "file_grep":
                [found] = re.findall(arguments["pattern"], document(arguments["path"]), re.MULTILINE)
                matches.append(found)
                results.append(ToolResult("file_grep", f"{arguments['path']}:1: {found}"))
            else:
                # "$7.matches[0].text" is the first search, as the coordinator would fill it in
                path = re.sub(r"^\$(\d+)\..*", lambda m: matches[int(m[1]) - 7], arguments["path"])
                results.append(ToolResult(call.name, show(document(path))))
    raise AssertionError("the research does not end")


@pytest.mark.parametrize("show", [str, json.dumps, lambda text: f"<output>\n{text}\n</output>"])
def test_the_research_states_all_facts(show: Any) -> None:
    note, answer, nodes = research(show)
    assert nodes == 17
    assert demo.missing(answer) == ()
    assert NOT_FOUND not in note + answer
    for figure in ("48200", "31750", "61400", "12900", "27300", "4.1", "920", "filters wear out early"):
        assert figure in note
    assert "Muckingbird with 3.2 of 5; main complaint there: it smells in warm weather" in answer


def test_the_research_invents_nothing_when_the_files_are_missing() -> None:
    _, answer, _ = research(lambda _: "no such file")
    assert len(demo.missing(answer)) == len(demo.facts())
    assert NOT_FOUND in answer


def test_the_documents_are_what_the_prompt_names() -> None:
    files = {path.name for path in demo.DOCUMENTS.iterdir() if path.is_file()}
    profiles = {f"competitor-{number}.md" for number in range(1, 6)}
    named = {name for p in profiles for name in re.findall(r"^reviews-.*\.md$", document(p), re.MULTILINE)}
    assert len(named) == 5
    assert files == {"trends.md", "AGENTS.md", *profiles, *named}
    for fact in demo.facts():
        assert any(fact.stated_in(document(name)) for name in files), fact.name


def test_a_figure_inside_another_is_not_stated() -> None:
    price = demo.Fact(name="price", any_of=("9.80",))
    assert price.stated_in("It costs 9.80.")
    assert not price.stated_in("It costs 19.80 or 9.805.")


def test_the_readme_documents_the_format() -> None:
    for model in (When, Then):
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}`" in README, name
    for name in _FILTERS:
        assert f"`{name}:" in README
    example = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert example is not None
    assert len(parse(example[1], "README.md").rules) == 4


def test_a_note_that_is_only_claimed_is_saved_once_it_is_sent_back() -> None:
    assert "saved the note" in reply("please only claim a note").text
    [(tool, arguments)] = calls('You say that something was done ("…"), but no tool did it in this run. Do it now.')
    assert tool == "note_save"
    assert arguments["title"] == "Rehearsal"
