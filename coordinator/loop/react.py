"""The ReAct loop of one run: reason, act, observe, answer.

Each round asks `decide` what comes next and carries it out; every result is logged before the next question, so a
coordinator that takes the run over goes on from the last completed step.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from coordinator.context.agent import Agent
from coordinator.context.instructions import read_instructions
from coordinator.context.prompt import fill, system_prompt, tail
from coordinator.dispatch.collector import Collector
from coordinator.handle import Handle
from coordinator.loop import decide as d
from coordinator.loop.ending import Outcome
from coordinator.loop.model_call import Answer, call_model
from coordinator.loop.planning import Plan, broken_text, plan_calls
from coordinator.loop.record import record
from coordinator.loop.services import LoopServices
from shared.contract import ToolSpec
from shared.entries import Assistant, Context, Node, Nudge, Offered
from shared.llm.check import repair
from shared.llm.model import Message, Request, ToolCall, ToolDefinition, Usage
from shared.models import Choice
from shared.playbook import Bullet, Scope
from shared.sql import playbook
from shared.state.changes import Change

FIND_TOOLS = "find_tools"


class ReactRun:
    """One run of an agent."""

    def __init__(self, handle: Handle, services: LoopServices) -> None:
        self._handle = handle
        self._services = services
        self._collector = Collector(handle, services.publisher, services.directory)
        self._agent: Agent = services.agents.get(handle.message.agent)
        self._limits = d.Limits.of(self._budget_defaults(), handle.message.budget)
        self._system = ""

    def _budget_defaults(self) -> Any:
        budget = self._services.settings.budget
        steps = self._agent.max_steps
        return budget if steps is None else budget.model_copy(update={"steps": min(steps, budget.steps)})

    @property
    def collector(self) -> Collector:
        """The run's outstanding nodes."""
        return self._collector

    async def run(self) -> Outcome:
        """Runs to an outcome. Raises RunCancelled, LeaseLost, OperatorError."""
        await self._prepare()
        while True:
            await self._handle.take_steers()
            match d.decide(self._handle.run, self._limits, self._age_s()):
                case d.Collect(nodes):
                    await self._collect(nodes)
                case d.Tell(reason, text):
                    await self._tell(reason, text)
                case d.CallModel(forced):
                    await self._step(forced)
                case d.Finished(reason, answer, state):
                    return Outcome(state, reason, answer)

    def _age_s(self) -> float:
        return time.time() - self._handle.run.started_ms / 1000

    async def _prepare(self) -> None:
        """The system prompt, and at the start of the run its tail and its tools."""
        agent, settings = self._agent, self._services.settings
        (bullets, instructions), opening = await asyncio.gather(
            asyncio.gather(
                self._services.database.run(self._record_and_recall),
                asyncio.to_thread(read_instructions, settings.workspace.dir),
            ),
            self._opening(),
        )
        values = {"model": self._chain()[0].name, "workspace": str(settings.workspace.dir), "agent": agent.name}
        self._system = system_prompt(fill(agent.body, values), instructions, bullets)
        if opening is not None:
            await self._handle.commit_soon(opening)

    def _record_and_recall(self, conn: Connection) -> list[Bullet]:
        """The run's row, and what was learned for it: one transaction."""
        record(conn, self._handle, self._services.epoch)
        if not self._services.settings.playbook.enabled:
            return []
        principal = self._handle.message.principal
        scopes = [Scope.everyone(), Scope.user(principal), Scope.agent(principal, self._agent.name)]
        return playbook.active(conn, scopes)

    async def _opening(self) -> Change | None:
        """What a run begins with: its tail and its tools. None if its log has them already."""
        message, services = self._handle.message, self._services
        if self._handle.run.has_context:
            return None
        if not services.directory.workers:
            await services.directory.refresh()  # the first message of a system that has just started
        facts = await services.session_state.facts(self._handle.lease.session)
        now = datetime.now(ZoneInfo(services.settings.workflows.timezone))
        decision = await services.chooser.choose(
            message.text,
            sticky=tuple(self._handle.session.offered_groups),
            explicit=message.tools or self._agent.tools,
        )
        change = Change()
        change.entries.append(Context(text=tail(now, {name: fact.value for name, fact in facts.items()})))
        change.entries.append(Offered(layer=decision.layer, groups=decision.groups, tools=decision.tools))
        change.event(
            "routed",
            layer=decision.layer,
            groups=decision.groups,
            tools=decision.tools,
            scores=decision.scores,
            tokens_saved=decision.tokens_saved,
            model=self._chain()[0].name,
        )
        return change

    def _chain(self) -> tuple[Choice, ...]:
        """The models for this run: a forced one, the agent's, or its tier's chain."""
        wanted = self._handle.message.model or self._agent.model
        if "/" in wanted:
            return (self._services.tiers.choice(wanted),)
        return self._services.tiers.chain(wanted or self._agent.tier)

    def _offered(self) -> list[ToolSpec]:
        """Tools of this step in catalogue order: what was chosen for the session before stays."""
        session, run = self._handle.session, self._handle.run
        return [
            t
            for t in self._services.directory.catalogue.tools
            if t.always or t.name in run.offered or t.name in session.offered_tools or t.group in session.offered_groups
        ]

    async def _step(self, forced: bool) -> None:
        """One model call, logged together with the nodes that it asks for."""
        offered = self._offered()
        messages, notices = repair(tuple(self._handle.session.messages))
        request = Request(
            model="",
            system=self._system,
            messages=messages,
            tools=tuple(
                ToolDefinition(name=t.name, description=t.description, parameters=t.parameters) for t in offered
            ),
            # A last answer keeps the definitions, so that the cached prefix of the prompt still counts.
            tool_choice="none" if forced else "auto",
            max_tokens=self._agent.max_tokens,
            temperature=self._agent.temperature,
            top_p=self._agent.top_p,
            thinking_budget=self._agent.thinking_budget,
        )
        for notice in notices:
            self._handle.events.write("notice", code="repaired", text=notice)
        step = self._handle.run.steps + 1
        answer = await call_model(self._handle, self._services, request, self._chain(), step)
        await self._log_answer(answer, step, forced)

    async def _log_answer(self, answer: Answer, step: int, forced: bool) -> None:
        completion = answer.completion
        message = without_calls(completion.message) if forced else completion.message
        plan = plan_calls(
            message,
            run=self._handle.lease.run,
            step=step,
            attempt=answer.attempt,
            find=self._services.directory.tool,
            now_ms=int(time.time() * 1000),
            most=self._services.settings.coordinator.calls_per_turn,
        )
        await self._handle.commit(self._change(answer, plan, step, forced))

    def _change(self, answer: Answer, plan: Plan, step: int, forced: bool) -> Change:
        completion, choice = answer.completion, answer.choice
        usage = completion.usage or Usage(estimated=True)
        cost: Decimal | None = self._services.price(choice, usage)
        entry = Assistant(
            step=step,
            attempt=answer.attempt,
            message=plan.message,
            finish=completion.finish,
            raw_finish=completion.raw_finish,
            usage=usage,
            provider=choice.provider.name,
            model=choice.model,
            cost=None if cost is None else str(cost),
        )
        change = Change(entries=[entry], nodes=plan.nodes, ends=plan.refused)
        for node in plan.nodes:
            change.event("node.planned", **planned_event(node))
        change.event("usage", step=step, model=choice.name, cost=entry.cost, **usage.model_dump(mode="json"))
        if completion.broken and not forced:
            change.event("notice", code="broken_call", text=broken_text(completion.broken))
            # The nudge follows the results of the whole calls, wherever it stands in the log.
            change.entries.append(Nudge(reason="broken_call", text=broken_text(completion.broken)))
        return change

    async def _tell(self, reason: str, text: str) -> None:
        change = Change(entries=[Nudge(reason=reason, text=text)])
        change.event("notice", code=reason, text=text)
        await self._handle.commit(change)

    async def _collect(self, nodes: tuple[Node, ...]) -> None:
        """Runs the turn's nodes, at most `width` of them at once."""
        width = self._services.settings.coordinator.width
        waiting = [n for n in nodes if n.node not in self._collector.outstanding]
        while waiting or self._collector.outstanding:
            while waiting and len(self._collector.outstanding) < width:
                self._collector.send(waiting.pop(0))
            await self._collector.wait()
        await self._open_found(nodes)

    async def _open_found(self, nodes: tuple[Node, ...]) -> None:
        """Tools that find_tools named are offered from the next step on."""
        found: list[str] = []
        for node in nodes:
            result = self._handle.run.results.get(node.node)
            if node.tool == FIND_TOOLS and result is not None and isinstance(result.value, dict):
                names = result.value.get("tools")
                found.extend(n for n in names if isinstance(n, str)) if isinstance(names, list) else None
        if new := [n for n in dict.fromkeys(found) if n not in self._handle.session.offered_tools]:
            await self._handle.commit(Change(entries=[Offered(layer=FIND_TOOLS, tools=tuple(new))]))


def without_calls(message: Message) -> Message:
    """The message with its tool calls taken out: a last answer may not call."""
    return message.model_copy(update={"blocks": tuple(b for b in message.blocks if not isinstance(b, ToolCall))})


def planned_event(node: Node) -> dict[str, Any]:
    """The data of a node.planned event."""
    return {
        "node": node.node,
        "step": node.step,
        "position": node.position,
        "tool": node.tool,
        "args": node.args,
        "effect": node.effect,
        "needs": node.needs,
    }
