"""What routing by words is made of, against the plain way to say the same."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.routing.keywords import KeywordIndex
from coordinator.routing.lexical import LexicalIndex, features
from coordinator.routing.offer import Mask, Offer
from coordinator.routing.reading import read
from coordinator.routing.text import tokens
from tests.unit.routing.support import tool

pytestmark = pytest.mark.property

PIECES = st.sampled_from(
    [
        "at",
        "a",
        "las",
        "la",
        "six",
        "seis",
        "that",
        "what's",
        "5",
        "x",
        ".",
        "/",
        "r/a",
        "www.",
        "n.md",
        "@",
        "<day>",
        "%",
    ]
)
TEXTS = st.text(max_size=30) | st.lists(PIECES, max_size=8).flatmap(
    lambda pieces: st.sampled_from(["", " ", "\n"]).map(lambda between: between.join(pieces))
)


@given(TEXTS)
def test_a_text_without_forms_is_read_the_short_way_to_the_same_end(text: str) -> None:
    assert read(f"<day> {text}") == ("<day>", *read(text))  # a form in front makes it go the long way
    assert read(text, tokens(text)) == read(text)


LETTERS = st.lists(st.sampled_from("abcd"), max_size=10)
RUNS = st.lists(st.sampled_from(["a", "b", "a b", "b c", "a b c", "c c", "c d a"]), min_size=1, max_size=5, unique=True)
GAPPED = RUNS | st.lists(st.sampled_from(["a", "a b", "a … c", "b c … d", "a b … b"]), min_size=1, unique=True)


@given(GAPPED, LETTERS)
def test_phrases_are_found_as_a_look_at_each_word_finds_them(phrases: list[str], words: list[str]) -> None:
    index = KeywordIndex([(phrase, phrase) for phrase in phrases])
    starting = [KeywordIndex([(phrase, phrase)]) for phrase in phrases]
    starts = [any(one.starts(words[at:]) for one in starting) for at in range(len(words))]
    assert [index.starts(words, at) for at in range(len(words))] == starts
    assert index.speaks(words) == any(starts) == bool(index.match(words))
    assert index.owners(words) == set(index.match(words))


@given(RUNS, LETTERS)
def test_covers_are_the_beginnings_that_phrases_make_up(phrases: list[str], words: list[str]) -> None:
    whole = re.compile("(?:" + "|".join(f"{phrase} " for phrase in phrases) + ")*")
    covers = KeywordIndex([("owner", phrase) for phrase in phrases]).covers(words)
    beginnings = accumulate(words, lambda said, word: f"{said}{word} ", initial="")
    assert [cover is not None for cover in covers] == [whole.fullmatch(said) is not None for said in beginnings]


SENTENCES = st.lists(st.sampled_from(["nota", "notas", "lista", "list", "the", "zzz"]), min_size=1, max_size=6)


@given(st.lists(SENTENCES.map(" ".join), min_size=1, max_size=5), SENTENCES)
def test_a_message_scores_as_the_sum_over_what_it_shares_with_each_class(
    sentences: list[str], words: list[str]
) -> None:
    bags = [features(tokens(sentence)) for sentence in sentences]
    holding = Counter(feature for bag in bags for feature in bag)

    def weighed(bag: dict[str, float]) -> dict[str, float]:
        idf = {feature: 1 + math.log((1 + len(bags)) / (1 + holding[feature])) for feature in bag}
        length = math.sqrt(sum((tf * idf[feature]) ** 2 for feature, tf in bag.items()))
        return {feature: tf * idf[feature] / length for feature, tf in bag.items()}

    said = weighed(features(words))
    plain = [sum(share * said.get(feature, 0.0) for feature, share in weighed(bag).items()) for bag in bags]
    index = LexicalIndex(sentences, range(len(sentences)), len(sentences))
    first, again = index.scores(words), index.scores(words)
    assert first.tolist() == pytest.approx(plain, abs=1e-5)
    assert first.tolist() == again.tolist()  # looked up the first time, remembered the second


GROUPS = ("a", "b", "c")
KINDS = st.lists(st.tuples(st.sampled_from(GROUPS), st.booleans()), min_size=1, max_size=40)
PLACES = st.sets(st.integers(0, 39))


def names(offer: Offer, mask: Mask) -> list[str]:
    return list(offer.listed(mask)[0])


@given(KINDS, PLACES, PLACES, st.lists(st.integers(0, 3), min_size=40, max_size=40), st.integers(1, 10))
def test_masks_are_sets_of_tools(
    kinds: list[tuple[str, bool]], offered: set[int], asked: set[int], ranks: list[int], count: int
) -> None:
    tools = [tool(f"t{at}", group, "Does it", always=always) for at, (group, always) in enumerate(kinds)]
    offer = Offer(tools, GROUPS)
    order = [one.name for one in tools]
    taken, wanted = ({order[at] for at in places if at < len(tools)} for places in (offered, asked))
    mask, asked_mask = offer.named(sorted(taken)), offer.named(sorted(wanted))
    assert names(offer, mask) == [name for name in order if name in taken]
    assert names(offer, offer.always) == [one.name for one in tools if one.always]
    assert names(offer, offer.mask(["a", "c", "gone"])) == [one.name for one in tools if one.group != "b"]
    assert names(offer, offer.whole) == order
    each = {name: offer.tokens - offer.listed(offer.named([name]))[1] for name in order}
    assert offer.listed(mask)[1] == sum(each.values()) - sum(each[name] for name in taken)

    members = {group: {one.name for one in tools if one.group == group} for group in GROUPS}
    whole = tuple(group for group in GROUPS if members[group] & wanted and members[group] <= taken)
    part = tuple(
        group for group in GROUPS if members[group] & wanted and set() < members[group] & taken < members[group]
    )
    assert offer.split(mask, asked_mask) == (whole, part)

    rank = dict(zip(order, ranks, strict=False))
    best = sorted((name for name in order if name in taken), key=lambda name: -rank[name])[:count]
    found = offer.best(mask, np.array(ranks[: len(tools)], np.float64), count)
    assert names(offer, found) == [name for name in order if name in best]
    assert offer.spread({"b": 3.0}, 0.5).tolist() == [1.5 if group == "b" else 0.0 for group, _ in kinds]
