from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from ops.trace.html import page
from ops.trace.layout import layout
from ops.trace.picture import Bar, Picture
from ops.trace.style import COLOURS, MARKS, TERMINAL_MARKS
from ops.trace.svg import svg
from ops.trace.text import render
from ops.trace.values import Timeline
from shared.contract import NodeState
from shared.entries import Nudge
from tests.unit.trace.support import Story, crowd, failures, name, node

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title></script><script>alert(1)</script>\x00\x1b[2J\u202e]]>&amp;\"'--><svg onload=x>\ud800\uffff"


def hostile(text: str) -> Timeline:
    """A run in which every text that somebody else writes is `text`."""
    told = Story(text)
    odd = node(1, 1, text).model_copy(update={"args": {text[:20]: [text]}})
    told.step(1, 10, 50, 100, text, [node(1, 0, text, key=text), odd])
    told.end(150, name(1, 0), NodeState.FAILED, start=110, worker=text, text=text)
    told.end(160, name(1, 1), start=110, worker=text, text=text)
    told.log(170, Nudge(reason="loop", text=text))
    told.event(180, "notice", code=text, text=text)
    told.finish(200, text, error={"code": "c", "message": text})
    return told.timeline()


class _Page(HTMLParser):
    """Which elements and attributes a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs


def parsed(document: str) -> _Page:
    found = _Page()
    found.feed(document)
    return found


def printed(timeline: Timeline, width: int) -> str:
    out = StringIO()
    render(timeline, Console(file=out, width=width))
    return out.getvalue()


def check_safe(timeline: Timeline) -> None:
    root = ET.fromstring(svg(timeline).encode())  # the bytes of a file: raises where XML is not well-formed
    assert root.tag == f"{SVG}svg"
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        *("svg", "style", "rect", "g", "text", "title", "line", "path", "polygon")
    }
    seen = parsed(page(timeline))
    assert not {"script", "iframe", "img", "link", "object"} & set(seen.names)
    assert not [key for key, value in seen.attributes if key.startswith("on") or "javascript:" in (value or "")]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", printed(timeline, 120))


def test_hostile_texts_are_only_texts() -> None:
    timeline = hostile(HOSTILE)
    check_safe(timeline)
    assert "<script>alert(1)" in "".join(ET.fromstring(svg(timeline).encode()).itertext()), "shown, not run"


def test_json_of_events_with_halves_of_characters() -> None:
    told = Story()
    told.event(10, "notice", code="x", text="half \ud800 of one")
    found = json.loads(told.timeline().model_dump_json())
    assert found["marks"][0]["text"] == "half ? of one"


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(), min_size=1, max_size=60))
def test_any_text_leaves_the_documents_whole(text: str) -> None:
    check_safe(hostile(text))


def test_nothing_comes_from_outside() -> None:
    for document in (svg(failures().timeline()), page(failures().timeline())):
        outside = re.sub(
            r"<title>.*?</title>|<code>.*?</code>|<text.*?</text>|<pre>.*?</pre>", "", document, flags=re.S
        )
        assert re.findall(r"https?://[^\"\s<]+", outside) in ([], ["http://www.w3.org/2000/svg"])
        assert "url(" not in document
    assert "default-src &#x27;none&#x27;" in page(failures().timeline())


def test_states_differ_by_mark_and_not_by_colour_alone() -> None:
    states = [s.value for s in NodeState]
    assert len({MARKS[s] for s in states}) == len(states)
    assert len({TERMINAL_MARKS[s] for s in states}) == len(states)
    assert set(COLOURS) == set(MARKS) == set(TERMINAL_MARKS)
    root = ET.fromstring(svg(failures().timeline()))
    for group in root.iter(f"{SVG}g"):
        css = (group.get("class") or "").split()
        if css[:1] == ["label"] and css[1] not in ("model", "broken"):
            mark = next(e for e in group.iter(f"{SVG}path"))
            assert mark.get("d") == MARKS[css[1]]


def lanes_of(picture: Picture) -> dict[float, list[Bar]]:
    lanes: dict[float, list[Bar]] = {}
    for bar in picture.bars:
        lanes.setdefault(bar.y, []).append(bar)
    return lanes


@pytest.mark.parametrize("told", [failures(), crowd(200), crowd(30, 8), crowd(300, 64, 3)])
def test_bars_are_inside_the_picture_and_do_not_overlap(told: Story) -> None:
    timeline = told.timeline()
    picture = layout(timeline)
    assert {b.id for b in picture.bars} == {*(n.id for n in timeline.nodes), *(s.id for s in timeline.steps)}
    for bars in lanes_of(picture).values():
        ordered = sorted(bars, key=lambda b: b.x0)
        for a, b in pairwise(ordered):
            assert a.x1 <= b.x0, (a, b)
    for bar in picture.bars:
        assert picture.left - 0.01 <= bar.x0 < bar.x1 <= picture.right + 0.01
        assert bar.y + bar.height <= picture.height
        assert bar.tip


def test_two_hundred_nodes_stay_readable() -> None:
    picture = layout(crowd(200, 32).timeline())
    nodes = [b for b in picture.bars if not b.id.startswith("step:")]
    assert len({b.y for b in nodes}) <= 40, "as many lanes as ran at once, not one for each node"
    assert picture.height < 800
    assert sum(b.label is not None for b in nodes) > 150
    assert sum(len(b.label.text) >= 5 for b in nodes if b.label) > 100
    (section,) = (s for s in picture.sections if s.title == "step 1")
    assert section.load is not None
    most = re.search(r"at most (\d+) nodes ran", section.load.tip)
    assert most is not None
    assert 25 < int(most[1]) <= 32


def test_few_nodes_have_their_whole_labels() -> None:
    timeline = failures().timeline()
    picture = layout(timeline)
    for bar in picture.bars:
        if not bar.id.startswith("step:"):
            assert bar.label is not None
            assert "…" not in bar.label.text
            assert bar.label.text.split()[0] == next(n.tool for n in timeline.nodes if n.id == bar.id)


def test_waiting_and_running_have_their_own_tone_and_length() -> None:
    told = Story()
    told.step(1, 0, None, 100, calls=[node(1, 0)])
    told.end(1000, name(1, 0), start=400, worker="w")
    told.finish(1000)
    picture = layout(told.timeline())
    bar = next(b for b in picture.bars if b.id == name(1, 0))
    assert [s.tone for s in bar.segments] == ["wait", "run"]
    wait, run = (s.x1 - s.x0 for s in bar.segments)
    assert run / wait == pytest.approx(600 / 300)


def test_links_for_needs_and_for_the_critical_path() -> None:
    timeline = failures().timeline()
    links = layout(timeline).links
    assert sum(link.critical for link in links) == len(timeline.critical) - 1
    on_path = set(pairwise(timeline.critical))
    needs = [(need, n.id) for n in timeline.nodes for need in n.needs]
    assert sum(not link.critical for link in links) == len([pair for pair in needs if pair not in on_path])


def test_many_steps_share_lanes_and_widen_the_picture() -> None:
    told = Story()
    at = 0
    for number in range(1, 41):
        told.step(number, at + 5, None, at + 300, calls=[node(number, 0, key=number)])
        told.end(at + 500, name(number, 0), start=at + 310, worker="w")
        at += 500
    told.finish(at)
    picture = layout(told.timeline())
    assert [s.title for s in picture.sections] == ["model", "nodes"]
    assert picture.width > 2000
    assert len({b.y for b in picture.bars}) <= 6, "nodes of different steps share lanes"


def test_a_run_of_no_length_and_nothing_in_it() -> None:
    told = Story("")
    for timeline in (told.timeline(), crowd(1, 1).timeline()):
        check_safe(timeline)
        assert printed(timeline, 80)


@pytest.mark.parametrize("width", [60, 80, 130, 240])
def test_the_terminal_form_keeps_to_its_width(width: int) -> None:
    lines = printed(failures().timeline(), width).splitlines()
    assert max(len(line) for line in lines) <= width
    text = "\n".join(lines)
    assert "mail_send" in text
    assert "3 suppliers" in text or "suppliers" in text
    if width >= 80:
        assert "█" in text
        assert "░" in text


def test_the_terminal_form_in_order_of_time_with_the_critical_path() -> None:
    lines = printed(failures().timeline(), 140).splitlines()
    first = next(i for i, line in enumerate(lines) if "step 1" in line)
    second = next(i for i, line in enumerate(lines) if "step 2" in line)
    send = next(i for i, line in enumerate(lines) if "mail_send" in line)
    assert first < send < second
    assert lines[send].startswith("▌?")
    assert next(line for line in lines if "calculate" in line).startswith(" ✓")
