"""The models of one run: what is known of it, put to the rules of `route`."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from coordinator.context.agent import Agent
from coordinator.handle import Handle
from coordinator.models.images import is_image
from coordinator.models.route import Need, Route, choose
from shared.contract import Catalogue, ToolSpec
from shared.errors import ConfigError
from shared.failover import Price, budget_spent
from shared.llm.model import Message, Usage
from shared.llm.usage import estimate_message, estimate_text
from shared.models import Choice, Tiers
from shared.settings import RouteSettings
from shared.state.gate import Gate, Verdict

MOST_NAMED = 3
"""A bill under more groups than this says `several`."""


class ModelPicker:
    """Chooses a route for each step of a run, anew each time: a prompt that has grown may need another tier."""

    def __init__(self, handle: Handle, agent: Agent, tiers: Tiers, rules: RouteSettings, gate: Gate, price: Price):
        self._handle = handle
        self._tiers = tiers
        self._rules = rules
        self._gate = gate
        self._price = price
        self._spent: Verdict | None = None
        self._need = Need(
            forced=handle.message.model,
            agent=agent.name,
            agent_model=agent.model,
            agent_tier=agent.tier,
            images=any(map(is_image, handle.message.attachments)),
        )

    @property
    def home(self) -> str:
        """The model that speaks for the run in its system prompt, whatever single steps need."""
        need = replace(self._need, images=False)
        return choose(need, self._tiers, self._rules, self._free).model

    def prefer(self, model: str) -> str:
        """Asks for the session's model, a tier or `provider/model` (empty: for none), from the next route on. A
        message that names one itself keeps it. Returns why it is not used; empty if it is."""
        problem = ""
        try:
            if "/" in model:
                self._tiers.choice(model)
        except ConfigError as error:
            model, problem = "", f"the session's model is not used: {error}"
        self._need = replace(self._need, forced=self._handle.message.model or model)
        return problem

    async def look_at_budgets(self) -> None:
        """Reads once what today's calls cost. Raises StateUnavailable."""
        self._spent = await self._gate.spent(self._handle.message.principal)

    def route(self, system: str, messages: Sequence[Message], tools: Collection[str], catalogue: Catalogue) -> Route:
        """The models for a step with this prompt. `tools` are names of those that were chosen for the message."""
        chosen = [tool for tool in catalogue.tools if tool.name in tools]
        need = replace(self._need, groups=groups_of(chosen))
        if self._tiers.sized:
            need = replace(need, tokens=prompt_tokens(system, messages, chosen))
        if self._spent is not None:
            why = budget_spent(self._spent).message
            need = replace(need, spent=why, spent_dollars=self._spent.why.endswith("nano"))
        return choose(need, self._tiers, self._rules, self._free)

    def check(self, route: Route) -> None:
        """Raises BudgetSpent for a route that leads nowhere."""
        if not route.chain and self._spent is not None:
            raise budget_spent(self._spent)

    def _free(self, choice: Choice) -> bool:
        return self._price(choice, Usage(input=1, output=1)) == 0


def groups_of(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """The groups of the tools that were chosen, in catalogue order; those that are always offered say nothing."""
    return tuple(dict.fromkeys(tool.group for tool in tools if not tool.always))


def bill_group(groups: Sequence[str]) -> str:
    """What calls with tools of these groups are billed under."""
    return "+".join(groups) if 0 < len(groups) <= MOST_NAMED else "several" if groups else "none"


def prompt_tokens(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """A guess at the size of a prompt."""
    definitions = "".join(tool.description + json.dumps(tool.parameters, ensure_ascii=False) for tool in tools)
    return estimate_text(system) + estimate_text(definitions) + sum(map(estimate_message, messages))
