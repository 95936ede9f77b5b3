"""What a TV can do, whatever speaks to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.tools.tv_keys import Key


@dataclass(frozen=True)
class Status:
    """What a TV says of itself; None is not known. `volume` is 0 to 100."""

    on: bool | None
    volume: int | None = None
    muted: bool | None = None
    source: str | None = None
    sources: tuple[str, ...] = ()
    channel: str | None = None
    model: str | None = None


class TvSet(Protocol):
    """One TV. All methods raise ModelError."""

    async def status(self) -> Status:
        """Asks it. One that does not answer is off, as far as anybody can tell."""
        ...

    async def press(self, keys: Sequence[Key]) -> None:
        """Presses keys in order."""
        ...

    async def set_volume(self, level: int) -> None:
        """Sets the volume, 0 to 100."""
        ...

    async def step_volume(self, steps: int) -> None:
        """Louder by so many steps, or quieter if negative."""
        ...

    async def set_muted(self, muted: bool) -> None:
        """Takes the sound away or gives it back."""
        ...

    async def set_source(self, name: str) -> str:
        """Switches to an input and returns its name as the TV has it."""
        ...

    async def set_power(self, on: bool) -> bool:
        """Switches it on or off; False if it was so already."""
        ...
