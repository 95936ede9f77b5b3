"""The layers of the router, one by one, over a small and a large catalogue."""

from __future__ import annotations

import pytest

from coordinator.routing.router import Decision, Router
from shared.contract import Catalogue, GroupSpec
from shared.encoder import Vectors
from shared.errors import OperatorError
from tests.unit.routing.support import MUSIC, NOTES, WEATHER, WordEncoder, catalogue, large, tool


def fast(text: str, *, sticky: tuple[str, ...] = (), explicit: tuple[str, ...] = ()) -> Decision:
    decision = Router(catalogue()).route_fast(text, sticky=sticky, explicit=explicit)
    assert decision is not None
    return decision


def test_keywords_choose_the_group_and_the_always_tools_come_along() -> None:
    decision = fast("¿qué tiempo hace?")
    assert (decision.layer, decision.groups) == ("keywords", ("weather",))
    assert decision.tools == ("find_tools", "weather_now", "weather_week")
    assert decision.scores == {"weather": 2.0}


def test_several_groups_may_win() -> None:
    assert fast("apunta el forecast").groups == ("notes", "weather")


@pytest.mark.parametrize("text", ["hola", "thanks a lot!", "👍"])
def test_small_talk_gets_the_always_tools_only(text: str) -> None:
    decision = fast(text)
    assert (decision.layer, decision.groups, decision.tools) == ("keywords", (), ("find_tools",))


@pytest.mark.parametrize("text", ["sí, hazlo", "yes, do it", "👍", "gracias", "¿y mañana?"])
def test_a_follow_up_keeps_the_groups_of_the_last_turns(text: str) -> None:
    decision = fast(text, sticky=("music",))
    assert (decision.layer, decision.groups) == ("sticky", ("music",))
    assert decision.tools == ("find_tools", "music_play", "music_stop")


def test_sticky_groups_stay_beside_new_ones_and_gone_ones_are_ignored() -> None:
    decision = fast("a song please", sticky=("weather", "no-longer-there"))
    assert (decision.layer, decision.groups) == ("keywords", ("weather", "music"))


def test_explicit_names_of_tools_and_groups_skip_routing() -> None:
    decision = fast("apunta esto", sticky=("weather",), explicit=("music", "weather_now", "nonsense"))
    assert decision.layer == "explicit"
    assert decision.tools == ("find_tools", "weather_now", "music_play", "music_stop")
    assert (decision.groups, decision.partial, decision.unknown) == (("music",), ("weather",), ("nonsense",))


def test_nothing_certain_in_a_small_catalogue_offers_all_of_it() -> None:
    decision = fast("el cuadro de las meninas")
    assert decision.layer == "all"
    assert decision.tools == tuple(t.name for t in catalogue().tools)
    assert decision.tokens_saved == 0


def test_nothing_certain_in_a_large_catalogue_offers_the_best_ranked() -> None:
    decision = Router(large(), max_tools=24).route("archive the branch of project 13")
    assert decision.layer == "all"
    assert len(decision.tools) == 24
    assert {"find_tools", "archive_branch_13", "archive_branch_113", "archive_branch_213"} <= set(decision.tools)
    assert decision.groups == ("core",)
    assert set(decision.partial) == {"server0", "server1", "server2"}


def test_a_group_too_large_is_cut_down_to_its_best_tools() -> None:
    decision = Router(large(), max_tools=24).route("on server1: merge the photo of project 55")
    assert (decision.layer, decision.partial) == ("keywords", ("server1",))
    assert len(decision.tools) == 24
    assert "merge_photo_55" in decision.tools


def test_something_new_is_offered_even_when_earlier_groups_fill_the_bound() -> None:
    decision = Router(catalogue(), max_tools=3).route("a song", sticky=("notes",))
    assert set(decision.tools) > {"note_save", "note_search", "find_tools"}
    assert decision.tools[-1].startswith("music_")


def test_tokens_saved_is_what_the_left_out_definitions_cost() -> None:
    router = Router(catalogue())
    one = router.route("weather", explicit=("weather",)).tokens_saved
    none = router.route("", explicit=("notes", "weather", "music")).tokens_saved
    assert none == 0
    assert one > 0


def test_keywords_of_many_groups_at_once_settle_nothing() -> None:
    groups = tuple(tool(f"{name}_run", name) for name in ("alfa", "bravo", "charlie", "delta"))
    router = Router(Catalogue(tools=groups))
    assert router.route("alfa bravo charlie").layer == "keywords"
    assert router.route("alfa bravo charlie delta").layer == "all"


def test_a_single_word_decides_only_where_the_message_is_like_its_group() -> None:
    assert fast("la lluvia").layer == "keywords"
    assert fast("find what i kept about the insurance album").layer == "all"
    assert fast("find what i kept about the insurance on that album, or another song").groups == ("notes", "music")


def test_a_word_that_says_too_little_decides_where_the_message_is_clearly_like_its_group() -> None:
    hinted = MUSIC.model_copy(update={"keywords": {"en": ("~jazz",)}})
    router = Router(catalogue().model_copy(update={"groups": (NOTES, WEATHER, hinted)}))
    assert router.route("play some soft jazz").groups == ("music",)
    assert router.route("keep the cake recipe of the jazz bar").layer == "all"
    assert fast("play some soft tunes").layer == "all"


def test_what_a_model_knows_by_itself_needs_no_tools() -> None:
    decision = fast("translate this to french")
    assert (decision.layer, decision.groups) == ("keywords", ())
    assert fast("translate my note to french").groups == ("notes",)


def test_a_long_message_is_judged_by_its_ends() -> None:
    router = Router(catalogue())
    filler = "zzz " * 2000
    assert router.route(f"what is the weather {filler}").groups == ("weather",)
    assert router.route(f"{filler} what is the weather").groups == ("weather",)
    assert router.route(f"{filler} weather {filler}").layer == "all"


def test_the_fast_phase_answers_none_only_where_the_encoder_would_help() -> None:
    encoder = WordEncoder()
    router = Router(catalogue(), encoder)
    assert router.route_fast("pon jazz suave en el altavoz") is None
    assert router.route_fast("la lluvia") is not None
    assert router.route_fast("hola") is not None
    assert router.route_fast("") is not None
    assert encoder.calls == []


def test_centroids_find_what_no_keyword_names() -> None:
    router = Router(catalogue(), WordEncoder())
    decision = router.route("sube el volumen del jazz en el altavoz")
    assert (decision.layer, decision.groups) == ("centroids", ("music",))
    assert decision.scores["music"] == max(decision.scores.values()) > 0


def test_centroids_abstain_from_what_no_group_is_about() -> None:
    decision = Router(catalogue(), WordEncoder()).route("how do black holes and jet engines work")
    assert decision.layer == "all"
    assert max(decision.scores.values()) < 0


def test_small_talk_by_meaning_gets_no_group() -> None:
    decision = Router(catalogue(), WordEncoder()).route("hoy estoy un poco cansado, menudo día llevo")
    assert (decision.layer, decision.groups, decision.tools) == ("centroids", (), ("find_tools",))


def test_an_empty_catalogue_gives_an_empty_decision() -> None:
    decision = Router(Catalogue(), WordEncoder()).route("algo que hacer")
    assert (decision.layer, decision.tools) == ("all", ())


class BrokenEncoder(WordEncoder):
    def encode(self, texts: list[str]) -> Vectors:
        raise OperatorError("the endpoint is down")


def test_an_encoder_out_of_order_leaves_the_message_uncertain(caplog: pytest.LogCaptureFixture) -> None:
    decision = Router(catalogue(), BrokenEncoder()).route("sube el volumen del jazz en el altavoz")
    assert (decision.layer, len(decision.tools)) == ("all", 7)
    assert "the endpoint is down" in caplog.text


def test_a_group_that_the_message_is_clearly_more_like_comes_beside_the_named_one() -> None:
    decision = fast("pon algo de jazz suave en el altavoz y apunta")
    assert (decision.layer, decision.groups) == ("keywords", ("notes", "music"))
    assert decision.scores == {"notes": 1.0}
    assert fast("apunta la matrícula del coche").groups == ("notes",)


def test_what_is_all_small_talk_is_that_whatever_its_words_name() -> None:
    greeting = GroupSpec(name="help", title="Help", keywords={"en": ("thanks for your help",)})
    router = Router(Catalogue(tools=(tool("help_me", "help"),), groups=(greeting,)))
    assert router.route("great, thanks for your help").groups == ()
    assert router.route("thanks for your help with the tax form").groups == ("help",)


def test_a_named_group_that_is_too_large_is_ranked_by_meaning_where_that_is_known() -> None:
    spoken = "server1: merge the photo"
    encoder = WordEncoder()
    router = Router(large(), encoder)
    assert router.route_fast(spoken) is None
    assert Router(large()).route_fast(spoken) is not None
    decision = router.route(spoken)
    assert (decision.layer, decision.partial, len(decision.tools)) == ("keywords", ("server1",), 24)
    assert encoder.calls[-1] == [spoken]
    broken = Router(large(), BrokenEncoder()).route(spoken)
    assert (broken.layer, broken.partial) == ("keywords", ("server1",))


@pytest.mark.parametrize(
    "text", ["¿y en Sevilla?", "and in London?", "mejor el martes", "no, make it five", "the second one"]
)
def test_what_takes_up_the_turn_before_is_a_follow_up_only_where_there_was_one(text: str) -> None:
    assert fast(text, sticky=("music",)).layer == "sticky"
    assert fast(text).layer != "sticky"
