"""Which processes live without a heartbeat: paused, or with an event loop that is stuck. Pure: times are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

START_S = 120.0
"""How long a process may take until its first heartbeat, in seconds."""
MOST_STEP_S = 2.0
"""What one look counts at most: when nobody has looked for a while, nobody knows what there was to see."""


@dataclass
class _Pulse:
    pid: int
    beaten: bool = False
    silent_s: float = 0.0


class Pulses:
    """Counts the silence of running processes, look by look; `stuck_s` seconds of it are too much."""

    def __init__(self, stuck_s: float) -> None:
        self._stuck_s = stuck_s
        self._pulses: dict[str, _Pulse] = {}
        self._looked: float | None = None

    def look(self, now: float, seen: Mapping[str, tuple[int, bool]] | None) -> dict[str, float]:
        """The names of those to be replaced, with the seconds they have been silent.

        `now` is of any monotonic clock. `seen` has for each running process its pid and whether its heartbeat is
        fresh; None if the state could not be read: then everybody's silence begins anew.
        """
        step = 0.0 if self._looked is None else min(now - self._looked, MOST_STEP_S)
        self._looked = now
        if seen is None:
            for pulse in self._pulses.values():
                pulse.silent_s = 0.0
            return {}
        self._pulses = {name: self._looked_at(name, pid, beats, step) for name, (pid, beats) in seen.items()}
        return {name: pulse.silent_s for name, pulse in self._pulses.items() if self._stuck(pulse)}

    def _looked_at(self, name: str, pid: int, beats: bool, step: float) -> _Pulse:
        old = self._pulses.get(name)
        if old is None or old.pid != pid:  # another process of that name
            return _Pulse(pid, beats)
        return _Pulse(pid, old.beaten or beats, 0.0 if beats else old.silent_s + step)

    def _stuck(self, pulse: _Pulse) -> bool:
        return pulse.silent_s > (self._stuck_s if pulse.beaten else max(START_S, self._stuck_s))
