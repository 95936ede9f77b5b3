"""The ReAct loop of one run: reason, act, observe, answer.

Each round asks `decide` what comes next and carries it out; every result is logged before the next question, so a
coordinator that takes the run over goes on from the last completed step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from coordinator.context.agent import Agent
from coordinator.context.plain import told
from coordinator.context.prompt import news
from coordinator.dispatch.collector import Collector
from coordinator.handle import Handle
from coordinator.loop import decide as d
from coordinator.loop.admit import Admission
from coordinator.loop.claims.run import earlier
from coordinator.loop.early import EarlyStart, planned_event
from coordinator.loop.ending import Outcome
from coordinator.loop.guard import LOOP_ENDED, REPEATED, Call, LoopGuard
from coordinator.loop.model_call import Answer, assistant_entry, call_model
from coordinator.loop.opening import Calls, Opening
from coordinator.loop.permit import Permit, grants_of
from coordinator.loop.planning import Plan, broken_text, plan_calls, stop_loops, unadopted
from coordinator.loop.services import LoopServices
from coordinator.loop.toolbox import FIND_TOOLS, Toolbox
from coordinator.loop.turn import Turn
from coordinator.loop.waits import take
from coordinator.models.picker import ModelPicker
from coordinator.models.route import Route
from shared.contract import ToolSpec
from shared.entries import Assistant, Decided, News, Nudge, Offered
from shared.errors import ArchiveUnavailable
from shared.ids import run_of
from shared.llm.check import repair
from shared.llm.model import Message, Request, ToolCall
from shared.messages import Budget, Switches
from shared.names import QUEUE_COORDINATOR
from shared.sql import grants
from shared.state.changes import Change


class ReactRun:
    """One run of an agent."""

    def __init__(self, handle: Handle, services: LoopServices) -> None:
        self._handle = handle
        self._services = services
        self._agent: Agent = services.agents.get(handle.message.agent)
        path = handle.message.path or (self._agent.name,)
        self._collector = Collector(handle, services.publisher, services.directory, path)
        self._tools = Toolbox.of(handle, services.directory, self._agent, services.agents)
        self._permit = self._rules(path)
        self._limits = d.Limits.of(self._budget_defaults(), handle.message.budget)
        self._models = ModelPicker(
            handle, self._agent, services.tiers, services.settings.models.routes, services.gate, services.price
        )
        self._calls: Calls = "flat"
        self._switches = Switches()
        self._looked = False
        self._system = ""
        self._tier = ""
        self._guard: LoopGuard | None = None

    def _rules(self, path: tuple[str, ...]) -> Permit:
        agents, rules = self._services.agents, self._services.settings.permissions
        chain = [agents.get(name) for name in path]
        return Permit.of(self._handle.message, chain, rules, rules.headless, self._handle.session.granted)

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
        await self._handle.race(self._services.directory.ready())  # also of a run that was taken over
        await self._prepare()
        while True:
            await self._take_mail()
            match self._next():
                case d.Collect():
                    await self._collect()
                case d.Tell(reason, text):
                    await self._tell(reason, text)
                case d.CallModel(forced):
                    await self._step(forced)
                case d.Finished(reason, answer, state, doubted):
                    await self._handle.kept()
                    if doubted:
                        self._handle.events.write("notice", code="unconfirmed", text=doubted)
                    return Outcome(state, reason, answer)

    def _next(self) -> d.Action:
        run = self._handle.run
        return d.decide(run, self._limits, self._age_s(), earlier(self._handle.session, run.run))

    async def _take_mail(self) -> None:
        """Logs what control entries bring. What was allowed for good is kept beyond the session."""
        principal, run, agent = self._handle.message.principal, self._handle.run, self._agent.name
        now_ms = int(time.time() * 1000)
        change = await self._handle.take_mail(lambda mail, change: take(mail, run, agent, principal, now_ms, change))
        kept = [e for e in change.entries if isinstance(e, Decided) and e.scope == "always"] if change else []
        if given := [grant for decided in kept for grant in grants_of(decided, principal)]:
            try:
                await self._services.database.run(
                    lambda conn: [grants.add_grant(conn, g, now_ms=now_ms) for g in given]
                )
            except ArchiveUnavailable as error:
                self._handle.events.write("notice", code=error.code, text=f"allowed for this session only: {error}")

    @property
    def _run_ends_ms(self) -> int:
        """When the run's time is up, in Unix milliseconds."""
        return self._handle.run.started_ms + self._handle.lease.waited_ms + int(self._limits.seconds * 1000)

    def _age_s(self) -> float:
        return time.time() - (self._handle.run.started_ms + self._handle.lease.waited_ms) / 1000

    def _budget_left(self) -> Budget:
        """What a subagent may use: what this run has left."""
        run, limits = self._handle.run, self._limits
        dollars = float(limits.dollars - (run.cost or 0)) if limits.dollars else None
        return Budget(
            seconds=max(1.0, min(limits.seconds - self._age_s(), 7 * 86400.0)),
            tokens=max(1, limits.tokens - run.usage.total) if limits.tokens else None,
            dollars=max(0.000001, dollars) if dollars is not None else None,
        )

    async def _prepare(self) -> None:
        """The system prompt, and at the start of the run its tail and its tools. Raises BudgetSpent if no model may
        be asked."""
        opening = Opening(self._handle, self._services, self._agent, self._models, self._permit, self._limits)
        await asyncio.gather(opening.read(), self._models.look_at_budgets(), self._look())
        self._calls = opening.calls()
        self._system = opening.system(self._calls)
        if (decision := opening.decision) is not None:
            route = self._route(decision.tools)
            await opening.log(decision, self._calls, route)
            self._models.check(route)

    async def _look(self) -> None:
        """Reads how the session goes on, which anybody may have changed since the last step."""
        self._looked = True
        before, self._switches = self._switches, await self._services.session_state.switches(self._handle.lease.session)
        if self._switches.model != before.model and (problem := self._models.prefer(self._switches.model or "")):
            self._handle.events.write("notice", code="unknown_model", text=problem)

    def _route(self, tools: Collection[str]) -> Route:
        """The models for the next step; `tools` were chosen for the message. A change of tier is told."""
        catalogue = self._services.directory.catalogue
        route = self._models.route(self._system, self._handle.thread.messages, tools, catalogue)
        if self._tier not in ("", route.tier):
            text = f"going on with the tier {route.tier} ({route.model}): {route.why}"
            self._handle.events.write("notice", code="rerouted", text=text, model=route.model)
        self._tier = route.tier
        return route

    def _held(self, spec: ToolSpec, args: dict[str, Any]) -> bool:
        """True for a call that cannot simply be sent: it waits for something, or may not run."""
        return spec.queue == QUEUE_COORDINATOR or self._permit.verdict(spec, args).action != "allow"

    async def _step(self, forced: bool) -> None:
        """One model call, logged together with the nodes that it asks for."""
        if not self._looked:
            await self._look()
        self._looked = False
        await self._tell_news()
        messages, notices = repair(tuple(self._handle.thread.messages))
        plain = forced and any(n.reason == d.PLAIN for n in self._handle.run.nudges)
        request = Request(
            model="",
            system=self._system,
            messages=(told(messages, self._own_words()),) if plain else messages,
            tools=() if plain else self._tools.definitions(self._calls),
            # The dialect decides whether a last answer keeps the definitions for the sake of the cached prefix.
            tool_choice="none" if forced else "auto",
            max_tokens=self._agent.max_tokens,
            temperature=self._agent.temperature,
            top_p=self._agent.top_p,
            thinking_budget=self._agent.thinking_budget,
        )
        for notice in notices:
            self._handle.events.write("notice", code="repaired", text=notice)
        step = self._handle.run.steps + 1
        route = self._route(self._handle.run.offered)
        early = None if forced or not self._services.settings.coordinator.early_start else self._early(step)
        answer = await call_model(
            self._handle, self._services, request, route, step, self._tools.bill(), early, self._switches
        )
        await self._log_answer(answer, step, forced)

    def _early(self, step: int) -> Callable[[int], EarlyStart]:
        """What starts calls of an attempt of this step while its model still streams."""
        services = self._services

        def start(attempt: int) -> EarlyStart:
            width, find = services.settings.coordinator.width, self._tools.find
            guard = self._loop_guard()
            return EarlyStart(
                self._handle, self._collector, guard, find, self._held, step=step, attempt=attempt, width=width
            )

        return start

    async def _log_answer(self, answer: Answer, step: int, forced: bool) -> None:
        completion = answer.completion
        message = without_calls(completion.message) if forced else completion.message
        plan = plan_calls(
            message,
            run=self._handle.lease.run,
            step=step,
            attempt=answer.attempt,
            find=self._tools.find,
            held=self._held,
            now_ms=int(time.time() * 1000),
            most=self._services.settings.coordinator.calls_per_turn,
            references=self._calls != "flat",
            known=unadopted(self._handle.run, step),
            run_ends_ms=self._run_ends_ms,
        )
        stop_loops(plan, self._loop_guard(), self._handle.run)
        change = self._change(answer, plan, step, forced)
        if not plan.nodes and not answer.completion.broken:
            self._handle.carry(change)  # an answer travels with the end of its run
        else:
            await self._handle.commit(change)
        if plan.nodes and not self._handle.run.open_nodes:
            await self._collect()  # all of them were refused, or had been started early and are done

    def _change(self, answer: Answer, plan: Plan, step: int, forced: bool) -> Change:
        completion, choice, usage = answer.completion, answer.choice, answer.usage
        entry = assistant_entry(answer, plan.message, step, tier=self._tier, group=self._tools.bill())
        # Nodes that were started while the model streamed are in the log already; the message adopts them.
        new = [n for n in plan.nodes if n.node not in self._handle.run.nodes]
        change = Change(entries=[entry], nodes=new, ends=plan.refused)
        for node in new:
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

    def _own_words(self) -> set[str]:
        """What the loop and its guard, and no tool, have told the model in this run."""
        run = self._handle.run
        guarded = {r.text for r in run.results.values() if r.error and r.error.code in (REPEATED, LOOP_ENDED)}
        return guarded | {n.text for n in run.nudges}

    def _loop_guard(self) -> LoopGuard:
        """The loop guard as it stands after all steps so far."""
        if self._guard is None:
            self._guard = LoopGuard.of(self._handle.run)
        return self._guard

    async def _collect(self) -> None:
        """Carries the turn's graph out."""
        run = self._handle.run
        last = run.assistants[-1]
        turn = Turn(
            self._handle,
            self._services,
            self._collector,
            last,
            references=self._calls != "flat",
            find=self._tools.find,
            admission=self._admission(),
            take_mail=self._take_mail,
            run_ends_ms=self._run_ends_ms,
        )
        await turn.run()
        self._observe(last)
        await self._open_found(last.message.calls)

    def _admission(self) -> Admission:
        settings = self._services.settings
        return Admission(
            message=self._handle.message,
            path=self._collector.path,
            permit=self._permit,
            agents=self._services.agents,
            budget=self._budget_left,
            depth=settings.coordinator.agent_depth,
            expiry_s=settings.permissions.expiry_s,
            zone=ZoneInfo(settings.workflows.timezone),
        )

    async def _tell_news(self) -> None:
        """Tells the model what others of the session have set since it last looked: a parent, a sibling, a child."""
        handle, run = self._handle, self._handle.run
        if not handle.message.parent and all(w.kind != "agent" for w in run.waiting.values()):
            return
        facts = await self._services.session_state.facts(handle.lease.session)
        new = {n: f for n, f in facts.items() if f.version > run.facts_seen.get(n, 0) and run_of(f.by) != run.run}
        if new:
            text = news({name: fact.value for name, fact in new.items()})
            await handle.commit(Change(entries=[News(text=text, facts={n: f.version for n, f in new.items()})]))

    def _observe(self, last: Assistant) -> None:
        """Feeds the guard, if there is one yet, with what came of the turn; a new one reads it from the log."""
        if self._guard is not None:
            run = self._handle.run
            rows = [(run.nodes[c.id], run.results[c.id]) for c in last.message.calls]
            self._guard.observe((Call.of(n.tool, n.args, n.effect, judged=not n.needs), r) for n, r in rows)

    async def _open_found(self, calls: Sequence[ToolCall]) -> None:
        """Tools that find_tools named are offered from the next step on."""
        if new := self._tools.found(calls):
            await self._handle.commit(Change(entries=[Offered(layer=FIND_TOOLS, tools=new)]))


def without_calls(message: Message) -> Message:
    """The message with its tool calls taken out: a last answer may not call."""
    return message.model_copy(update={"blocks": tuple(b for b in message.blocks if not isinstance(b, ToolCall))})
