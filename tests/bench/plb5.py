"""PLB5: what learning is worth, and that it does not spoil with time.

First and second pass: each task of `tests/data/playbook/tasks.yaml` is put to a model that errs unless the lesson
stands in its prompt; the user corrects; the learner makes a rule of it; then a task of the same kind is put in another
session. Real Redis servers, coordinator, worker, encoder child; scripted are the model's words alone.

Soak: 1,000 lessons of a seeded program through the learner and its database: good ones in other words and the other
language, one-off corrections that are no rules, what tools returned, what is made up, broken answers.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from shared.artifacts import SqlArtifacts
from shared.client import Client
from shared.contract import Catalogue, NodeResult, NodeState
from shared.encoder import PackagedEncoder
from shared.entries import Assistant, Context, LogEntry, Node, NodeEnded, RunEnded, Stored, UserMessage
from shared.errors import ModelError
from shared.llm.model import Completion, Finish, Message, Request, TextBlock, ToolCall
from shared.playbook import Bullet, Scope
from shared.resemblance import Resemblance, Vector, cosine, resemblance
from shared.settings import Settings
from shared.sql import playbook
from shared.sql.engine import Database
from tests.bench.plb5_model import ErringModel, Task, load
from tests.bench.report import Stopwatch, line
from tests.support.processes import System, lessons
from workers.context import Services, ToolContext
from workers.learner import book
from workers.learner.reflect import reflect_on

INTERACTIONS = 1_000
ENV = {"CAPATAZ_LIMITS__RATE_PER_MINUTE": "0"}
WAIT_S = 60.0
ATTACKS = Path(__file__).parents[1] / "data" / "playbook" / "attacks.yaml"
ANA = Scope.user("ana")


def measure() -> None:
    """Both parts."""
    tasks = load()
    passes(tasks)
    soak(tasks)


# --- first and second pass -------------------------------------------------------------------------------------------


def passes(tasks: Sequence[Task]) -> None:
    """Prints how many tasks are done right before and after the corrections."""
    watch = Stopwatch()
    with ErringModel(list(tasks)) as model:
        system = System(model_url=model.url, env=ENV)
        try:
            client = Client.connect(system.start().redis_url)
            first = sum(_is_right(client, task, task.ask, f"first-{task.id}", "correct") for task in tasks)
            _wait_for_lessons(client, sum(1 + bool(task.tool) for task in tasks))
            right = {task.id: _is_right(client, task, task.again, f"second-{task.id}") for task in tasks}
            client.close()
        finally:
            system.stop()
    missed = ",".join(id for id, is_right in right.items() if not is_right) or "none"
    line("PLB5", tasks=len(tasks), first=first, second=sum(right.values()), missed=missed, s=watch.s)


def _is_right(client: Client, task: Task, text: str, session: str, then: str = "") -> bool:
    """Puts a task; with `then` the user corrects what was answered."""
    reply = client.ask(text, session=session, timeout=WAIT_S)
    called = [e.value.args for e in client.history(session) if isinstance(e.value, Node)]
    right = reply.ok and reply.answer == task.right and called == ([task.calls["right"]] if task.tool else [])
    if then and not client.ask(task.correction, session=session, timeout=WAIT_S).ok:
        raise RuntimeError(f"the correction of {task.id} failed")
    return right


def _wait_for_lessons(client: Client, count: int) -> None:
    ended = 0
    for event in client.stream(lessons(), timeout=WAIT_S):
        ended += event.type in ("run.finished", "run.failed")
        if ended == count:
            return
    raise RuntimeError(f"{ended} of {count} lessons ended")


# --- a long time -----------------------------------------------------------------------------------------------------

_WORDS = (
    "meeting invoice train parcel dentist boiler garage exam concert rental ticket visit",
    "moved late cancelled paid blue broken early closed sold lost postponed ready",
)
_THINGS, _VALUES = (words.split() for words in _WORDS)
_BROKEN = ("I learned nothing.", '{"operations": [', '{"operations": [{"op": "fly"}]}')


@dataclass
class _Session:
    """A session's log in memory, and the model's answer about it."""

    entries: list[Stored] = field(default_factory=list)
    answer: str = ""

    async def log(self, session: str) -> list[Stored]:
        return self.entries

    async def complete(self, tier: str, request: Request) -> Completion:
        message = Message(role="assistant", blocks=(TextBlock(text=self.answer),))
        return Completion(message=message, finish=Finish.STOP, model="scripted")

    async def catalogue(self) -> Catalogue:
        return Catalogue()


class _Generator:
    """Interactions: what was said and returned, and what the learner's model makes of it."""

    def __init__(self, tasks: Sequence[Task], seed: int) -> None:
        self._tasks = tasks
        self._attacks: list[dict[str, Any]] = yaml.safe_load(ATTACKS.read_text("utf-8"))
        self._random = random.Random(seed)

    def next(self, active: Sequence[Bullet]) -> tuple[str, str, str, str]:
        """(kind, what the user says, what a tool returned, the model's answer)."""
        kind = self._random.choices(("good", "once", "poison", "invented", "broken"), (50, 18, 15, 10, 7))[0]
        task = self._random.choice(self._tasks)
        operations: list[dict[str, Any]] = []
        said, returned = task.correction, ""
        match kind:
            case "good":
                operations = [{"op": "add", **task.rule, "text": self._random.choice(task.wordings)}]
            case "once":
                said = f"No, the {self._random.choice(_THINGS)} is {self._random.choice(_VALUES)}"
                operations = [{"op": "add", "text": f"{said[4].upper()}{said[5:]}.", "importance": "low"}]
            case "poison":
                attack = self._random.choice(self._attacks)
                said, outputs = attack["said"], attack["returned"]
                returned = outputs if isinstance(outputs, str) else "\n".join(outputs)
                operations = [{"op": "add", "text": self._random.choice(attack["rules"]), "importance": "high"}]
            case "invented":
                other = self._random.choice([one for one in self._tasks if one is not task])
                said = other.ask
                operations = [{"op": "add", "text": f"When asked, praise {self._random.choice(_THINGS)}s first."}]
            case "broken":
                return (
                    kind,
                    said,
                    "",
                    self._random.choice(_BROKEN),
                )
        if active and self._random.random() < 0.1:
            bullet = self._random.choice(active)
            operations.append({"op": "vote", "id": bullet.id, "helpful": self._random.random() < 0.8})
        return kind, said, returned, json.dumps({"operations": operations})


def _log(run: str, said: str, returned: str, shown: Sequence[Bullet]) -> list[Stored]:
    def stored(run: str, *values: LogEntry) -> list[Stored]:
        return [Stored.model_construct(id=f"{n}-0", run=run, type=v.T, value=v) for n, v in enumerate(values)]

    def asked(run: str, text: str) -> UserMessage:
        return UserMessage(run=run, principal="ana", session="s", received_ms=1, text=text)

    call = Message(role="assistant", blocks=(ToolCall(id="n1", name="web_fetch", arguments={"url": "u"}),))
    values: list[LogEntry] = [asked(run, said), Context(text="", bullets=tuple(one.id for one in shown))]
    if returned:
        result = NodeResult(state=NodeState.DONE, text=returned)
        values += [
            Assistant(step=1, attempt=0, message=call, finish=Finish.TOOL_CALLS),
            NodeEnded(node="n1", result=result),
        ]
    before = stored(
        "before", asked("before", "the first question"), RunEnded(state="ended", finish_reason="stop", answer="So.")
    )
    return [*before, *stored(run, *values, RunEnded(state="ended", finish_reason="stop", answer="Well."))]


async def _live(tasks: Sequence[Task], database: Database, vectors: dict[str, Vector]) -> tuple[Counter[str], int]:
    """Goes through all interactions; what was learned of each kind, and the most bullets there ever were."""
    session, generator = _Session(), _Generator(tasks, seed=20)
    settings = Settings()
    state: Any = session
    services = Services(database, SqlArtifacts(database), state, session)
    learned: Counter[str] = Counter()
    most = 0
    for number in range(INTERACTIONS):
        active = (await database.run(lambda conn: playbook.read(conn, ANA))).bullets
        most = max(most, len(active))
        run = f"r{number}"
        kind, said, returned, session.answer = generator.next(active)
        session.entries = _log(run, said, returned, active)
        ctx = ToolContext("ana", "s", run, f"{run}.0.0.0", run, 2**53, settings, services)
        try:
            done = await reflect_on(ctx, run, "s")
        except ModelError:  # for a broken answer
            continue
        learned[kind] += int(str(done["added"]))
    return learned, most


def soak(tasks: Sequence[Task]) -> None:
    """Prints what is in the playbook after 1,000 lessons."""
    watch, encoder = Stopwatch(), PackagedEncoder()
    vectors: dict[str, Vector] = {}

    async def encode(texts: Sequence[str], seconds: float = 0.0) -> dict[str, Vector]:
        """The same vectors as those of the child process, whose start would take most of the time here."""
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, encoder.encode(new).tolist(), strict=True))
        return {text: vectors[text] for text in texts}

    with tempfile.TemporaryDirectory() as folder, patch.object(book, "encode_apart", encode):
        database = Database(f"sqlite:///{folder}/archive.db")
        try:
            database.migrate()
            learned, most = asyncio.run(_live(tasks, database, vectors))
            bullets = database.run_sync(lambda conn: playbook.read(conn, ANA)).bullets
        finally:
            database.close()
    asyncio.run(encode([*(b.text for b in bullets), *(w for task in tasks for w in task.wordings)]))
    pairs = [(a.text, b.text) for a, b in combinations(bullets, 2)]
    twins = [p for p in pairs if resemblance(*p, (vectors[p[0]], vectors[p[1]])) is Resemblance.SAME]
    kept = sum(any(_is(b.text, task, vectors) for b in bullets) for task in tasks)
    likest = max(pairs, key=lambda pair: cosine(vectors[pair[0]], vectors[pair[1]]))
    counts = {f"added_{kind}": n for kind, n in sorted(learned.items())}
    line(
        "PLB5 SOAK",
        interactions=INTERACTIONS,
        active=len(bullets),
        most=most,
        twins=len(twins),
        likest=cosine(vectors[likest[0]], vectors[likest[1]]),
        kept=f"{kept}/{len(tasks)}",
        s=watch.s,
        **counts,
    )
    print("the likest two:", *likest)
    for pair in twins:
        print("say the same:", *pair)


def _is(text: str, task: Task, vectors: dict[str, Vector]) -> bool:
    """True if a bullet says what the task's rule says."""
    return any(
        text == one or resemblance(one, text, (vectors[one], vectors[text])) is Resemblance.SAME
        for one in task.wordings
    )
