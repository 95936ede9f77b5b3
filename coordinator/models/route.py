"""Which tier answers a step, and why: a table of rules over what is known of the message. Pure.

The first rule that applies decides: a model that the user forces; a budget that is spent; the agent's own model; its
tier, by its file or by `models.routes.agents`; the tier of the message's tool groups, if all of them have the same;
else the default tier. Two needs go above all but a forced model: images go to a tier that sees, a prompt that is long
to one that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.models import DEFAULT_TIER, Choice, Tiers, fitting
from shared.settings import RouteSettings

FORCED = "forced"
NONE = "none"


@dataclass(frozen=True)
class Need:
    """What a step asks of a model.

    `forced`: what the user named, a tier or `provider/model`. `groups` are those of the tools that were chosen for the
    message; `tokens` is the size of the prompt, by our guess. `spent` names a budget of the day that is used up; with
    `spent_dollars` models that cost nothing may still be asked.
    """

    forced: str = ""
    agent: str = ""
    agent_model: str = ""
    agent_tier: str = ""
    groups: tuple[str, ...] = ()
    images: bool = False
    tokens: int = 0
    spent: str = ""
    spent_dollars: bool = False


@dataclass(frozen=True)
class Route:
    """The choice: a tier's name, its links in order, and why. Tier `none` has no links: nothing may be asked.

    `forced` and `agent` are not tiers: a single model was named.
    """

    tier: str
    chain: tuple[Choice, ...]
    why: str

    @property
    def model(self) -> str:
        """The model that is asked first, empty if none."""
        return self.chain[0].name if self.chain else ""


def choose(need: Need, tiers: Tiers, rules: RouteSettings, free: Callable[[Choice], bool]) -> Route:
    """The route. `free` tells models that cost nothing. Raises ConfigError for a model that nobody serves."""
    route = _wanted(need, tiers, rules)
    if not need.spent:
        return route
    left = tuple(choice for choice in route.chain if need.spent_dollars and free(choice))
    if left:
        return Route(route.tier, left, f"{route.why}; {need.spent}, so that only models without a price are asked")
    return Route(NONE, (), need.spent)


def _wanted(need: Need, tiers: Tiers, rules: RouteSettings) -> Route:
    if need.forced:
        if "/" in need.forced:
            return Route(FORCED, (tiers.choice(need.forced),), f"the user named {need.forced}")
        return _tier(need.forced, "the user named this tier", need, tiers)
    base = _base(need, tiers, rules)
    if need.images and not base.chain[0].sees:
        if rules.images and tiers.has(rules.images):
            return _tier(rules.images, f"there are images, and {base.model} cannot see", need, tiers)
        return _fit(base, f"{base.why}; of its models one that can see", need)
    if rules.long and tiers.has(rules.long) and base.tier != rules.long:
        window = base.chain[0].window
        if need.tokens > rules.long_above or (window and need.tokens >= window):
            return _tier(rules.long, f"the prompt has about {need.tokens} tokens", need, tiers)
    return _fit(base, base.why, need)


def _base(need: Need, tiers: Tiers, rules: RouteSettings) -> Route:
    """By agent or tools, before anything that the prompt itself demands."""
    if "/" in need.agent_model:
        return Route("agent", (tiers.choice(need.agent_model),), f"the agent {need.agent} has a model of its own")
    if wish := need.agent_model or (need.agent_tier if need.agent_tier != DEFAULT_TIER else ""):
        return _tier(wish, f"the agent {need.agent} asks for this tier", need, tiers)
    if wish := rules.agents.get(need.agent, ""):
        return _tier(wish, f"models.routes.agents has {need.agent}", need, tiers)
    wishes = {rules.groups.get(group, "") for group in need.groups}
    if len(wishes) == 1 and (wish := wishes.pop()):
        return _tier(wish, f"all its tools are of {', '.join(need.groups)}", need, tiers)
    return _tier(DEFAULT_TIER, "no rule asks for another", need, tiers)


def _tier(tier: str, why: str, need: Need, tiers: Tiers) -> Route:
    if tiers.has(tier) or tier == DEFAULT_TIER:
        return Route(tier, tiers.chain(tier), why)
    return Route(DEFAULT_TIER, tiers.chain(DEFAULT_TIER), f"{why}: {tier}, which is not configured")


def _fit(route: Route, why: str, need: Need) -> Route:
    return Route(route.tier, fitting(route.chain, images=need.images, tokens=need.tokens), why)
