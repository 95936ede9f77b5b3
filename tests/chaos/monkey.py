"""Who hurts what and when: a schedule from a seed, and the small supervisor that carries it out and heals again."""

from __future__ import annotations

import heapq
import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from ops.supervisor.heartbeats import Alive
from tests.support.processes import Proc, System
from tests.support.redis import TestRedis

Deed = Literal["kill", "pause", "terminate"]

PROCESSES = ("coordinator-1", "coordinator-2", "worker-1", "worker-2", "beat")
SERVERS = ("state", "broker")
RESTART_S = 0.5
"""How long a process that ended by itself stays down."""
TICK_S = 0.05


@dataclass(frozen=True, order=True)
class Act:
    """At `at` seconds `deed` is done to `target`, for `lasts` seconds."""

    at: float
    target: str
    deed: Deed
    lasts: float


def schedule(seed: int, seconds: float) -> list[Act]:
    """Acts over that time, some at the same moment as others. The same seed gives the same schedule. Pure."""
    rng = random.Random(seed)
    acts: list[Act] = []
    at = 1.0
    while at < seconds:
        acts.append(_act(rng, at))
        at += rng.choice((0.0, rng.uniform(0.3, 2.0), rng.uniform(2.0, 6.0)))
    return acts


def _act(rng: random.Random, at: float) -> Act:
    target = rng.choices(
        (*PROCESSES, *SERVERS),
        weights=(4, 4, 4, 4, 1, 3, 2),
    )[0]
    deed: Deed = "kill" if rng.random() < 0.55 else "pause"
    if target in PROCESSES and rng.random() < 0.1:
        deed = "terminate"
    if deed == "pause":
        lasts = rng.uniform(1.0, 8.0) if rng.random() < 0.8 else rng.uniform(8.0, 12.0)
        if target in SERVERS:
            lasts = min(lasts, 8.0)
    else:
        lasts = rng.uniform(0.1, 2.0)
    return Act(int(at * 100) / 100, target, deed, round(lasts, 2))


@dataclass
class Monkey:
    """Plays a schedule on a system, from the main thread: whatever it starts dies with that thread.

    `hurt` are the process ids that were killed, paused or told to end; `lost` how often a process ended by itself.
    """

    system: System
    acts: Sequence[Act]
    hurt: set[int] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    _down: dict[str, float] = field(default_factory=dict)
    _paused: set[str] = field(default_factory=set)

    def play(self) -> None:
        """Returns when the last act is over and all that it hurt runs again."""
        began, order = time.monotonic(), itertools.count()
        due: list[tuple[float, int, Callable[[], None]]] = []
        for act in self.acts:
            begin: Callable[[], None] = partial(self._begin, act, due, order, began)
            heapq.heappush(due, (act.at, next(order), begin))
        while due or self._down or self._paused:
            now = time.monotonic() - began
            while due and due[0][0] <= now:
                heapq.heappop(due)[2]()
            self._start_again()
            time.sleep(TICK_S)

    def _begin(
        self, act: Act, due: list[tuple[float, int, Callable[[], None]]], order: itertools.count[int], began: float
    ) -> None:
        if act.target in self._down or act.target in self._paused:
            return
        self.done[f"{act.deed} {act.target.partition('-')[0]}"] += 1
        now = time.monotonic() - began
        if act.deed == "pause":
            self._paused.add(act.target)
            self._pause(act.target)
            heapq.heappush(due, (now + act.lasts, next(order), lambda: self._resume(act.target)))
        else:
            self._down[act.target] = time.monotonic() + act.lasts
            self._end(act.target, signal.SIGKILL if act.deed == "kill" else signal.SIGTERM)

    def _pause(self, target: str) -> None:
        thing = self._find(target)
        if isinstance(thing, TestRedis):
            thing.pause()
        elif thing.alive:
            self.hurt.add(thing.pid)
            self.system.pause(thing)

    def _resume(self, target: str) -> None:
        self._paused.discard(target)
        thing = self._find(target)
        if isinstance(thing, TestRedis):
            thing.resume()
        elif thing.alive:
            self.system.resume(thing)

    def _end(self, target: str, signum: signal.Signals) -> None:
        thing = self._find(target)
        if isinstance(thing, TestRedis):
            thing.kill()
        elif thing.alive:
            self.hurt.add(thing.pid)
            if signum is signal.SIGKILL:
                self.system.kill(thing)
            else:
                thing.popen.terminate()

    def _start_again(self) -> None:
        """Starts what has been down for long enough, and notices what ended by itself."""
        now = time.monotonic()
        for target in (*PROCESSES, *SERVERS):
            thing = self._find(target)
            running = thing.pid is not None if isinstance(thing, TestRedis) else thing.alive
            if running:
                continue  # a process that was told to end takes its time
            if target not in self._down:
                self.lost[target] += 1
                self._down[target] = now + RESTART_S
            if now >= self._down[target]:
                del self._down[target]
                thing.start()

    def _find(self, target: str) -> Proc | TestRedis:
        match target:
            case "state":
                return self.system.state
            case "broker":
                return self.system.broker
            case _:
                procs = (*self.system.coordinators, *self.system.workers, *self.system.others)
                return next(p for p in procs if p.name == target)


def steady(system: System, live: Alive) -> bool:
    """True if every coordinator and worker of the system has a heartbeat."""
    return all(live.has(p.pid) for p in (*system.coordinators, *system.workers))
