"""Folding and decisions under generated messages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.routing.keywords import KeywordIndex
from coordinator.routing.reading import read
from coordinator.routing.router import Router
from coordinator.routing.text import fold, stem, tokens
from tests.unit.routing.support import WordEncoder, catalogue, large

pytestmark = pytest.mark.property

SMALL, LARGE = catalogue(), large(120)
ROUTERS = {
    "plain": (SMALL, Router(SMALL)),
    "encoder": (SMALL, Router(SMALL, WordEncoder())),
    "large": (LARGE, Router(LARGE)),
    "large, encoder": (LARGE, Router(LARGE, WordEncoder())),
}
WORDS = st.sampled_from(
    ["nota", "apunta", "weather", "song", "hola", "sí", "hazlo", "jazz", "invoice", "server1", "merge", "ñandú", "zzz"]
)
TEXTS = st.text(max_size=60) | st.lists(WORDS, max_size=12).map(" ".join)
GROUPS = st.lists(st.sampled_from(["notes", "weather", "music", "server0", "server2", "gone"]), max_size=3).map(tuple)
NAMES = st.lists(st.sampled_from(["notes", "music_play", "merge_branch_15", "server1", "gone"]), max_size=3).map(tuple)


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text())
def test_tokens_are_folded_and_survive_joining(text: str) -> None:
    found = tokens(text)
    assert tokens(" ".join(found)) == found
    assert all(token and token == fold(token) for token in found)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20))
def test_a_stem_is_a_start_of_its_word(word: str) -> None:
    assert stem(word)
    assert word.startswith(stem(word))


PHRASES = st.lists(
    st.sampled_from(["nota", "send|write", "…", "mail", "<day>", "friday", "5x5", "a", "b"]), min_size=1, max_size=5
).map(" ".join)


@given(st.text(max_size=30), st.text(max_size=30).filter(lambda text: not set(text) & {"~", "|", "…"}), st.text())
def test_a_phrase_is_found_wherever_it_stands(before: str, phrase: str, after: str) -> None:
    words = [*read(before), *read(phrase), *read(after)]
    segments = read(" ".join(phrase.split()))
    found = KeywordIndex([("owner", phrase)]).match([*read(before), *segments, *read(after)])
    assert ("owner" in found) == bool(segments), words


@given(PHRASES, st.lists(st.sampled_from(["nota", "send", "write", "mail", "friday", "a", "b", "5x5"]), max_size=12))
def test_a_phrase_matches_its_alternatives_in_order_with_bounded_gaps(phrase: str, said: list[str]) -> None:
    """Against a plain search by regular expression."""
    words = [word for text in said for word in read(text)]
    parts = [
        "(?:" + "|".join(re.escape(read(a)[0]) for a in part.split("|")) + ") "
        for part in phrase.split()
        if part != "…"
    ]
    if not parts:
        assert KeywordIndex([("owner", phrase)]).match(words) == {}
        return
    pattern, gap = "", False
    for part in phrase.split():
        if part == "…":
            gap = pattern != ""
            continue
        pattern += (r"(?:\S+ ){0,6}" if gap else "") + parts.pop(0)
        gap = False
    spoken = "".join(f"{word} " for word in words)
    expected = re.search(rf"(?<!\S){pattern}", spoken) is not None
    found = KeywordIndex([("owner", phrase)]).match(words)
    # A run of tokens is taken where it first fits, so a later place that would fit better is not tried.
    assert not found or expected
    if "…" not in phrase:
        assert bool(found) == expected


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(ROUTERS)), TEXTS, GROUPS, NAMES)
def test_decisions_hold_their_promises(
    which: str, text: str, sticky: tuple[str, ...], explicit: tuple[str, ...]
) -> None:
    offered, router = ROUTERS[which]
    decision = router.route(text, sticky=sticky, explicit=explicit)
    tools, order = set(decision.tools), [tool.name for tool in offered.tools]
    members = {group: {t.name for t in offered.tools if t.group == group} for group in {t.group for t in offered.tools}}
    assert "find_tools" in tools
    assert list(decision.tools) == [name for name in order if name in tools]
    assert all(members[group] <= tools for group in decision.groups)
    assert all(0 < len(members[group] & tools) < len(members[group]) for group in decision.partial)
    assert decision.tokens_saved >= 0
    assert (decision.tokens_saved == 0) == (len(tools) == len(order))
    if explicit:
        assert decision.layer == "explicit"
        assert set(decision.unknown) == {n for n in explicit if n not in members and n not in order}
        return
    kept = {name for group in sticky if group in members for name in members[group]}
    assert kept <= tools
    assert len(tools) <= max(24, len(kept) + 1 + 6)
    assert decision == router.route(text, sticky=sticky, explicit=explicit)
    if (quick := router.route_fast(text, sticky=sticky)) is not None:
        assert quick == decision


@settings(max_examples=100, deadline=None)
@given(TEXTS, GROUPS)
def test_more_sticky_groups_never_take_tools_away_from_a_small_catalogue(text: str, sticky: tuple[str, ...]) -> None:
    router = ROUTERS["plain"][1]
    alone, beside = router.route(text), router.route(text, sticky=sticky)
    if beside.layer == alone.layer:
        assert set(alone.tools) <= set(beside.tools)
