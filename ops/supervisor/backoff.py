"""When to start a process again that ended by itself. Pure: times are passed in, in seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

LOUD_DEATHS = 5
LOUD_WINDOW_S = 60.0


@dataclass(frozen=True)
class Verdict:
    """Start it again after `delay_s`. `loud`: it dies so often that somebody should look."""

    delay_s: float
    loud: bool


@dataclass
class Backoff:
    """Exponential: `first_s`, doubled at each death, at most `most_s`; forgotten after a life of `calm_s`."""

    first_s: float = 0.25
    most_s: float = 30.0
    calm_s: float = 60.0
    _streak: int = 0
    _deaths: deque[float] = field(default_factory=deque)

    def died(self, now: float, lived_s: float) -> Verdict:
        """Notes a death at `now` (any monotonic clock) after a life of `lived_s`."""
        if lived_s >= self.calm_s:
            self._streak = 0
        self._streak += 1
        self._deaths.append(now)
        while self._deaths[0] <= now - LOUD_WINDOW_S:
            self._deaths.popleft()
        exponent = min(self._streak - 1, 32)  # beyond that `most_s` has long been reached
        return Verdict(min(self.most_s, self.first_s * 2.0**exponent), len(self._deaths) >= LOUD_DEATHS)
