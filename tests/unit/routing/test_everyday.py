"""Everyday messages over all tools that ship, in both languages: what layers settle, how rightly, what it spares."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from coordinator.routing import everyday
from coordinator.routing.everyday import SHIPPED, Message, Row, explain, is_right, measure, read
from coordinator.routing.router import Decision, Layer, Router
from shared.encoder import PackagedEncoder
from shared.errors import UserError
from tests.support.catalogue import builtin

LABELLED = Path(__file__).parents[2] / "data" / "everyday.jsonl"
"""Another set, of seven groups, with one label each."""


def shipped() -> list[Message]:
    return [message for file in SHIPPED for message in read(file)]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return measure(Router(builtin()), shipped())


def row(rows: list[Row], layer: str, part: str = "*", lang: str = "*") -> Row:
    [found] = [one for one in rows if (one.part, one.lang, one.layer) == (part, lang, layer)]
    return found


def test_the_shipped_sets_are_of_two_languages_and_one_was_held_out() -> None:
    seen, held_out = (read(file) for file in SHIPPED)
    assert len(seen) == len({one.text for one in seen}) == 300
    assert len(held_out) == len({one.text for one in held_out}) == 200
    assert not any(one.held_out for one in seen)
    assert all(one.held_out for one in held_out)
    for messages in (seen, held_out):
        assert {one.lang for one in messages} == {"es", "en"}
        named = {name for one in messages for name in one.groups or ()}
        assert named == {group.name for group in builtin().groups}


@pytest.mark.parametrize(
    ("part", "lang", "share", "right"),
    [("seen", "*", 97, 99), ("held out", "*", 95, 97), ("held out", "es", 95, 97), ("held out", "en", 95, 96)],
)
def test_words_alone_settle_four_in_five(rows: list[Row], part: str, lang: str, share: float, right: float) -> None:
    found = row(rows, "keywords", part, lang)
    assert found.share is not None
    assert found.share >= share
    assert found.right is not None
    assert found.right >= right
    assert found.groups is not None
    assert found.groups <= 1.4
    assert found.spared is not None
    assert found.spared >= 85


def test_small_talk_gets_no_heap_of_tools() -> None:
    router = Router(builtin())
    always = {tool.name for tool in builtin().tools if tool.always}
    talk = [one for one in shipped() if one.groups == frozenset()]
    served = [set(router.route(one.text).tools) for one in talk]
    assert sum(tools == always for tools in served) >= 0.85 * len(talk)


@pytest.mark.parametrize("lang", ["es", "en"])
def test_words_settle_the_set_of_seven_groups_rightly(lang: str) -> None:
    router = Router(builtin())
    labelled = [json.loads(line) for line in LABELLED.read_text("utf-8").splitlines()]
    messages = [
        Message(one["text"], one["lang"], frozenset([one["label"]] if one["label"] else []))
        for one in labelled
        if one["lang"] == lang
    ]
    found = row(measure(router, messages), "keywords")
    assert found.share is not None
    assert found.share >= 90
    assert found.right is not None
    assert found.right >= 97


def test_examples_are_found_by_the_words_of_their_group() -> None:
    router = Router(builtin())
    spoken = [
        (group.name, sentence)
        for group in builtin().groups
        for sentences in group.examples.values()
        for sentence in sentences
    ]
    missed = [
        (name, text)
        for name, text in spoken
        if (found := router.route(text)).layer == "keywords" and name not in found.groups
    ]
    assert len(missed) <= 0.03 * len(spoken), missed


def test_the_packaged_encoder_resolves_half_of_the_rest(tmp_path: Path) -> None:
    router = Router(builtin(), PackagedEncoder(), tmp_path)
    rows = measure(router, shipped())
    certain, open_ = row(rows, "centroids"), row(rows, "all")
    assert certain.share is not None
    assert open_.share is not None
    assert certain.share >= 0.5 * (certain.share + open_.share)


def decision(*groups: str, layer: Layer = "keywords", partial: tuple[str, ...] = ()) -> Decision:
    return Decision(layer, groups, (), {}, 0, partial)


@pytest.mark.parametrize(
    ("needed", "made", "right"),
    [
        (["mail"], decision("mail"), True),
        (["mail"], decision("mail", "web"), True),
        (["mail"], decision("mail", "web", "tv"), False),
        (["mail", "web"], decision("mail"), False),
        (["mail"], decision(partial=("mail",)), True),
        ([], decision(), True),
        ([], decision("mail"), False),
        ([], decision(layer="all", partial=("mail",)), True),
        (None, decision("mail"), True),
        (None, decision("mail", "web"), False),
        (["mail"], decision("web", "tv", layer="all", partial=("mail", "notes")), True),
        (["mail"], decision("web", layer="all"), False),
    ],
)
def test_what_counts_as_right(needed: list[str] | None, made: Decision, right: bool) -> None:
    groups = None if needed is None else frozenset(needed)
    assert is_right(Message("", "en", groups), made) is right


def test_groups_that_may_come_along_are_not_too_many(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a", "lang": "en", "groups": ["mail"], "also": ["tv"]}\n', "utf-8")
    [message] = read(file)
    assert is_right(message, decision("mail", "web", "tv"))
    assert not is_right(message, decision("mail", "web", "gym"))
    assert not is_right(message, decision("tv"))


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"text": "a", "lang": "en"}',
        '{"text": 1, "lang": "en", "groups": []}',
        '{"text": "a", "lang": "en", "groups": "mail"}',
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "hi", "lang": "en", "groups": []}\n' + line, "utf-8")
    with pytest.raises(UserError, match=r"rows\.jsonl:2 "):
        read(file)
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "none.jsonl")


def test_a_decision_is_explained() -> None:
    found = explain(Router(builtin()), "recuérdame el viernes llamar a Ana")
    assert (found["layer"], found["groups"]) == ("keywords", ("reminders",))
    assert {"phrase": "recuerda …", "groups": ("reminders",)} in found["words"]
    assert 0 < found["tokens_saved"] < found["tokens_of_all"]
    assert explain(Router(builtin()), "sí, hazlo", ("mail",))["groups"] == ("mail",)


def test_the_command_reads_the_catalogue_and_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(*args: str, given: bytes = builtin().model_dump_json().encode()) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = everyday.main(["--words-only", *args])
        out, err = capsys.readouterr()
        return code, out or err

    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "any new mail?", "lang": "en", "groups": ["mail"]}\n', "utf-8")
    code, printed = run("--json", "measure", str(file))
    assert code == 0
    [found] = [one for one in json.loads(printed) if (one["layer"], one["lang"]) == ("keywords", "*")]
    assert (found["messages"], found["share"], found["right"]) == (1, 100.0, 100.0)
    assert run("measure", str(file))[1].splitlines()[0].split()[:3] == ["part", "lang", "layer"]
    assert "groups  tv" in run("explain", "turn the telly off")[1]
    assert run("measure", str(tmp_path / "none"))[0] == 2
    assert run("measure", str(file), given=b"{")[0] == 2
