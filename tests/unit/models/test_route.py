"""The table of rules: what is known of a message, and the tier that it goes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from coordinator.models.picker import bill_group, groups_of, prompt_tokens
from coordinator.models.route import Need, Route, choose
from shared.contract import Effect, ToolSpec
from shared.errors import ConfigError
from shared.llm.model import Message, TextBlock
from shared.models import Choice, Tiers
from shared.settings import ModelFacts, ModelSettings, ProviderSettings, RouteSettings

LOCAL = ProviderSettings(base_url="http://127.0.0.1:1/v1")
BLIND = ProviderSettings(base_url="http://127.0.0.1:2/v1", switches={"images": False})
TIERS = {
    "default": ("blind/main", "local/spare"),
    "fast": ("local/small",),
    "long": ("local/wide",),
    "vision": ("local/eyes",),
    "learner": ("local/cheap",),
}
RULES = RouteSettings(groups={"utility": "fast", "notes": "fast", "web": "long"}, agents={"scout": "fast"})


def models(tiers: Mapping[str, tuple[str, ...]] | None = None, **fields: object) -> ModelSettings:
    values = {"tiers": TIERS if tiers is None else tiers, "providers": {"local": LOCAL, "blind": BLIND}, **fields}
    return ModelSettings.model_validate(values)


def route(need: Need, settings: ModelSettings | None = None, rules: RouteSettings = RULES) -> Route:
    return choose(need, Tiers(settings or models(), {}), rules, lambda choice: choice.model == "spare")


PAGES_40 = 40 * 750
"""Tokens of forty pages of text, at some 500 words a page."""

TABLE: dict[str, tuple[Need, str, str]] = {
    "nothing is known": (Need(), "default", "blind/main"),
    "what time is it": (Need(groups=("utility",)), "fast", "local/small"),
    "two groups of one tier": (Need(groups=("utility", "notes")), "fast", "local/small"),
    "groups of two tiers": (Need(groups=("utility", "web")), "default", "blind/main"),
    "a group without a tier": (Need(groups=("utility", "mail")), "default", "blind/main"),
    "a 40-page PDF in the context": (Need(tokens=PAGES_40), "long", "local/wide"),
    "a long prompt for a quick tool": (Need(tokens=PAGES_40, groups=("utility",)), "long", "local/wide"),
    "a short prompt": (Need(tokens=1_000), "default", "blind/main"),
    "an image": (Need(images=True), "vision", "local/eyes"),
    "an image for a quick tool that sees": (Need(images=True, groups=("utility",)), "fast", "local/small"),
    "an image and a long prompt": (Need(images=True, tokens=PAGES_40), "vision", "local/eyes"),
    "an agent's tier": (Need(agent="a", agent_tier="learner"), "learner", "local/cheap"),
    "an agent's model": (Need(agent="a", agent_model="local/own"), "agent", "local/own"),
    "an agent by configuration": (Need(agent="scout"), "fast", "local/small"),
    "an agent's tier above its configuration": (Need(agent="scout", agent_tier="learner"), "learner", "local/cheap"),
    "an agent above the tools": (Need(agent="scout", groups=("web",)), "fast", "local/small"),
    "an agent's tier that holds no long prompt": (Need(agent_tier="learner", tokens=PAGES_40), "long", "local/wide"),
    "a forced model": (Need(forced="blind/x", images=True, tokens=PAGES_40), "forced", "blind/x"),
    "a forced tier": (Need(forced="learner", groups=("utility",)), "learner", "local/cheap"),
    "a budget is spent": (Need(spent="used up", groups=("utility",)), "none", ""),
    "a budget is spent, whatever was forced": (Need(spent="used up", forced="local/x"), "none", ""),
    "dollars are spent": (Need(spent="used up", spent_dollars=True), "default", "local/spare"),
    "dollars are spent and all cost": (Need(spent="used up", spent_dollars=True, forced="fast"), "none", ""),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table(name: str) -> None:
    need, tier, model = TABLE[name]
    found = route(need)
    assert (found.tier, found.model) == (tier, model)
    assert found.why


def test_the_reason_names_what_decided() -> None:
    assert "utility" in route(Need(groups=("utility",))).why
    assert str(PAGES_40) in route(Need(tokens=PAGES_40)).why
    assert "blind/main cannot see" in route(Need(images=True)).why
    assert route(Need(spent="your budget is used up")).why == "your budget is used up"


@pytest.mark.parametrize("tier", ["fast", "long", "vision"])
def test_a_tier_that_is_not_configured_is_the_default_one(tier: str) -> None:
    few = models({"default": ("local/main",)})
    need = {"fast": Need(groups=("utility",)), "long": Need(tokens=PAGES_40), "vision": Need(images=True)}[tier]
    assert route(need, few).tier == "default"
    forced = route(Need(forced=tier), few)
    assert (forced.tier, forced.model) == ("default", "local/main")
    assert "not configured" in forced.why


def test_without_a_vision_tier_a_link_that_sees_comes_first() -> None:
    few = models({"default": ("blind/main", "local/spare")})
    assert [c.name for c in route(Need(images=True), few).chain] == ["local/spare"]
    none = models({"default": ("blind/main",)})
    assert route(Need(images=True), none).model == "blind/main", "the vision tools are still there"


def test_a_model_may_be_blind_though_its_provider_takes_images() -> None:
    settings = models({"default": ("local/text-1",), "vision": ("local/eyes",)}, about={"local/text-*": {"images": 0}})
    assert route(Need(images=True), settings).tier == "vision"


def test_windows_decide_where_they_are_known() -> None:
    about = {"local/small": ModelFacts(window=8_000), "local/big": ModelFacts(window=64_000)}
    chain = {"default": ("local/small", "local/big")}
    settings = models(chain, about=about)
    assert route(Need(tokens=1_000), settings).model == "local/small"
    assert [c.name for c in route(Need(tokens=9_000), settings).chain] == ["local/big"]
    with_long = models({**chain, "long": ("local/wide",)}, about=about)
    assert route(Need(tokens=9_000), with_long).tier == "long", "its first model cannot hold it"
    assert [c.name for c in route(Need(tokens=70_000), settings).chain] == ["local/small", "local/big"], "try all"


def test_rules_can_be_switched_off() -> None:
    rules = RouteSettings(groups={}, images="", long="")
    assert route(Need(groups=("utility",), tokens=PAGES_40), rules=rules).tier == "default"
    assert route(Need(images=True), rules=rules).model == "local/spare"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (models({"default": ()}), "models.tiers.default is empty"),
        (models({"default": ("local/a", "local/b", "local/a")}), "names a model twice"),
        (models({"default": ("local/a",)}, routes={"groups": {"web": "fsat"}}), "models.routes.groups.web"),
        (models({"default": ("local/a",)}, routes={"long": "lnog"}), "models.routes.long"),
        (models({"default": ("nobody/a",)}), "nobody"),
        (models({"default": ("local",)}), "provider/model"),
    ],
)
def test_what_cannot_work_is_found_at_start(settings: ModelSettings, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Tiers(settings, {})


def test_a_forced_model_of_an_unknown_provider_is_named() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        route(Need(forced="nobody/x"))


def test_without_any_tier_the_hint_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"models\.tiers\.default"):
        Tiers(models({}), {}).chain("fast")


def spec(name: str, group: str, *, always: bool = False) -> ToolSpec:
    return ToolSpec(
        name=name, group=group, description="d" * 400, parameters={"a": 1}, effect=Effect.READ, always=always
    )


def test_groups_of_tools_without_those_that_are_always_there() -> None:
    tools = [spec("a", "x"), spec("b", "y"), spec("c", "x"), spec("find_tools", "session", always=True)]
    assert groups_of(tools) == ("x", "y")
    assert bill_group(("x", "y")) == "x+y"
    assert bill_group(()) == "none"
    assert bill_group(("a", "b", "c", "d")) == "several"


def test_a_prompt_is_all_that_is_sent() -> None:
    message = Message(role="user", blocks=(TextBlock(text="m" * 4_000),))
    assert 2_100 < prompt_tokens("s" * 4_000, [message], [spec("a", "x")]) < 2_200


def test_a_choice_knows_its_window() -> None:
    found = Tiers(models(about={"local/small": {"window": 10}}), {}).chain("fast")[0]
    assert found.holds(9)
    assert not found.holds(10)
    assert replace(found, window=0).holds(10**9)
    assert isinstance(found, Choice)
