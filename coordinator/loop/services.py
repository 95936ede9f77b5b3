"""What every run of this process shares."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.context.agent import Agents
from coordinator.context.tools import ToolChooser
from coordinator.dispatch.directory import Directory
from coordinator.dispatch.publisher import Publisher
from coordinator.loop.attachments import Documents
from shared.artifacts import ArtifactStore
from shared.failover import Failover, Price
from shared.llm.client import ModelClient
from shared.models import Tiers
from shared.settings import Settings
from shared.sql.engine import Database
from shared.state.gate import Gate
from shared.state.session import SessionState


@dataclass(frozen=True)
class LoopServices:
    """Shared by all runs; all of it belongs to the process."""

    settings: Settings
    session_state: SessionState
    directory: Directory
    publisher: Publisher
    agents: Agents
    chooser: ToolChooser
    models: ModelClient
    tiers: Tiers
    gate: Gate
    failover: Failover
    price: Price
    database: Database
    artifacts: ArtifactStore
    documents: Documents
    epoch: str
