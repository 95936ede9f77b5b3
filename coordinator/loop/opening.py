"""How a run opens: its row, what it is told of the world, its tools, the terms that bind it, its system prompt.

What a run that is taken over has in its log already is not made again; the system prompt is put together anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Literal
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from coordinator.context.agent import Agent
from coordinator.context.instructions import read_instructions
from coordinator.context.playbook import meanings_of, split, that_matter
from coordinator.context.prompt import fill, system_prompt, tail, talk
from coordinator.graph.turn import REFERENCES_PROMPT
from coordinator.handle import Handle
from coordinator.loop.decide import Limits
from coordinator.loop.permit import Permit
from coordinator.loop.record import record
from coordinator.loop.services import LoopServices
from coordinator.models.images import VISION_GROUP, is_image
from coordinator.models.picker import ModelPicker
from coordinator.models.route import Route
from coordinator.routing.router import Decision
from shared.entries import Context, Offered, Terms
from shared.playbook import Bullet, Scope
from shared.sql import grants, playbook
from shared.state.changes import Change
from shared.state.session import Fact

Calls = Literal["references", "plan", "flat"]
"""How the calls of a turn may depend on each other."""


MESSAGE_CHARS = 2_000
"""How much of a message is compared with the playbook."""


@dataclass(frozen=True)
class _Found:
    """What was read for the tail: the time, the session's facts, the chosen tools, the text of documents."""

    now: datetime
    facts: Mapping[str, Fact]
    decision: Decision
    documents: str


@dataclass
class Opening:
    """What one run opens with. `read` comes first; then the model that speaks for the run is known."""

    handle: Handle
    services: LoopServices
    agent: Agent
    models: ModelPicker
    permit: Permit
    limits: Limits
    decision: Decision | None = field(default=None, init=False)
    """The tools that were chosen; None if the log says it already."""
    _change: Change = field(default_factory=Change, init=False)
    _situational: list[Bullet] = field(default_factory=list, init=False)
    _bullets: list[Bullet] = field(default_factory=list, init=False)
    _instructions: Mapping[str, str] = field(default_factory=dict, init=False)

    async def read(self) -> None:
        """Reads what is needed, and has the row written meanwhile: nothing acts on the model's answer before."""
        self.handle.pledge(self.services.database.run(self._record))
        recalled, self._instructions, found = await asyncio.gather(
            self.services.database.read(self._recall),
            asyncio.to_thread(read_instructions, self.services.settings.workspace.dir),
            self._look(),
        )
        self._bullets, self._situational = split(recalled)
        if found is not None:
            await self._tell(found)

    def calls(self) -> Calls:
        """How the calls of a turn may depend on each other; the same for the whole run."""
        if (terms := self.handle.run.terms) is not None:
            return terms.calls
        if self.agent.calls != "auto":
            return self.agent.calls
        home = self.services.tiers.choice(self.models.home)
        return "references" if home.provider.switches.graph_calls else "flat"

    def system(self, calls: Calls) -> str:
        """The system prompt."""
        workspace = str(self.services.settings.workspace.dir)
        body = fill(self.agent.body, {"model": self.models.home, "workspace": workspace, "agent": self.agent.name})
        if calls == "references":
            body = f"{body}\n\n{REFERENCES_PROMPT}"
        return system_prompt(body, self._instructions, self._bullets)

    async def log(self, decision: Decision, calls: Calls, route: Route) -> None:
        """Logs what the run begins with, and says which tools and models it has."""
        change = self._change
        change.entries.append(self._terms(calls))
        change.event(
            "routed",
            layer=decision.layer,
            groups=decision.groups,
            tools=decision.tools,
            scores=decision.scores,
            tokens_saved=decision.tokens_saved,
            tier=route.tier,
            model=route.model,
            why=route.why,
        )
        await self.handle.commit_soon(change)

    def _record(self, conn: Connection) -> None:
        record(conn, self.handle, self.services.epoch)

    def _recall(self, conn: Connection) -> list[Bullet]:
        """What was learned and permitted for this run."""
        principal = self.handle.message.principal
        self.permit.standing = grants.grants_of(conn, principal)
        if not self.services.settings.playbook.enabled:
            return []
        return playbook.active(conn, [Scope.everyone(), Scope.user(principal), Scope.agent(principal, self.agent.name)])

    async def _look(self) -> _Found | None:
        """What the tail is made of, and the tools; None if the log has them."""
        message, services = self.handle.message, self.services
        if self.handle.run.has_context:
            return None
        facts = await services.session_state.facts(self.handle.lease.session)
        now = datetime.now(ZoneInfo(services.settings.workflows.timezone))
        decision = await services.chooser.choose(
            message.text, sticky=self._kept_groups(), explicit=message.tools or self.agent.tools
        )
        return _Found(now, facts, decision, await services.documents.read(message.principal, message.attachments))

    async def _tell(self, found: _Found) -> None:
        """Puts the tail and the tools into the change that opens the run."""
        message, change, facts = self.handle.message, self._change, found.facts
        matter = await self._that_matter(found.decision)
        if found.documents:
            change.entries.append(Context(text=found.documents))
        shown = tail(found.now, {name: fact.value for name, fact in facts.items()}, matter)
        if message.parent and (said := talk(self.handle.session.messages)):
            shown = f"{said}\n{shown}"
        versions = {name: fact.version for name, fact in facts.items()}
        bullets = tuple(bullet.id for bullet in (*self._bullets, *matter))
        change.entries.append(Context(text=shown, facts=versions, bullets=bullets))
        decision = self.decision = found.decision
        change.entries.append(Offered(layer=decision.layer, groups=decision.groups, tools=decision.tools))

    async def _that_matter(self, decision: Decision) -> list[Bullet]:
        """The situational bullets for this message, judged by meaning if the encoder happens to be loaded."""
        if not self._situational:
            return []
        text = self.handle.message.text[:MESSAGE_CHARS]
        texts = chain.from_iterable(map(meanings_of, self._situational))
        vectors = await self.services.chooser.meanings([text, *texts])
        groups = () if decision.layer == "all" else decision.groups
        return that_matter(self._situational, text, groups, vectors)

    def _kept_groups(self) -> tuple[str, ...]:
        """Groups of the last turns; with a picture those that look at it, since later turns have its handle alone."""
        seen = [VISION_GROUP] if any(map(is_image, self.handle.message.attachments)) else []
        return tuple(dict.fromkeys([*self.handle.thread.offered_groups, *seen]))

    def _terms(self, calls: Calls) -> Terms:
        limits = self.limits
        return Terms(
            calls=calls,
            calls_per_turn=self.services.settings.coordinator.calls_per_turn,
            steps=limits.steps,
            seconds=limits.seconds,
            tokens=limits.tokens,
            dollars=str(limits.dollars),
            claims=self.services.settings.coordinator.claims_guard,
        )
