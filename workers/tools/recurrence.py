"""What repeats: a value that is an RRULE, a cron line, words, and knows its next time. Pure; `repeats.py` reads it.

A day that a month does not have is passed over, as RFC 5545 has it. A local time that the clocks skip is moved forward
by the gap; one that happens twice happens once, the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from workers.tools.days import nth_weekday
from workers.tools.timewords import WhenError
from workers.tools.when import settle

Freq = Literal["minutely", "hourly", "daily", "weekly", "monthly", "yearly"]

_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NTH_NAMES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_GROUPS = {(0, 1, 2, 3, 4): "weekday", (5, 6): "weekend"}
_UNIT_NAMES = {
    "minutely": "minute", "hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year",
}  # fmt: skip
_HORIZON_DAYS = 366 * 30


@dataclass(frozen=True)
class Repeat:
    """When something happens again and again.

    `times` are wall-clock times of the days that fit (none for minutely and hourly, which are elapsed time since the
    anchor). `weekdays` count from Monday 0; with monthly `nth` (1 to 5, -1 the last) chooses one of them. `month_days`
    count from 1, -1 is the last; with yearly `month` is theirs. `until` is the last day.
    """

    freq: Freq
    interval: int = 1
    times: tuple[time, ...] = ()
    weekdays: tuple[int, ...] = ()
    nth: int = 0
    month_days: tuple[int, ...] = ()
    month: int = 0
    until: date | None = None

    def rule(self) -> str:
        """The value of an RRULE; all its times are local."""
        parts = [f"FREQ={self.freq.upper()}"]
        if self.interval > 1:
            parts.append(f"INTERVAL={self.interval}")
        if self.until:
            parts.append(f"UNTIL={self.until:%Y%m%d}T235959")
        if self.month:
            parts.append(f"BYMONTH={self.month}")
        if self.month_days:
            parts.append(f"BYMONTHDAY={','.join(map(str, self.month_days))}")
        if self.weekdays:
            parts.append("BYDAY=" + ",".join(f"{self.nth or ''}{_CODES[day]}" for day in self.weekdays))
        if self.times:
            parts.append(f"BYHOUR={','.join(str(at.hour) for at in self.times)};BYMINUTE={self.times[0].minute}")
        return ";".join(parts)

    def cron(self) -> str | None:
        """The same as a cron line (with `#` for the nth weekday and `L` for the last); None if cron cannot say it."""
        if self.interval > 1 or self.until or self.freq == "minutely" or not self.times:
            return None
        clock_part = f"{self.times[0].minute} {','.join(str(at.hour) for at in self.times)}"
        days = ",".join("L" if day == -1 else str(day) for day in self.month_days) or "*"
        suffix = "" if not self.nth else "L" if self.nth == -1 else f"#{self.nth}"
        weekdays = ",".join(f"{(day + 1) % 7}{suffix}" for day in self.weekdays) or "*"
        return f"{clock_part} {days} {self.month or '*'} {weekdays}"

    def words(self) -> str:
        """The same in English, as `parse_repeat` reads it."""
        unit = _UNIT_NAMES[self.freq]
        every = f"every {unit}" if self.interval == 1 else f"every {self.interval} {unit}s"
        weekdays = " and ".join(_NAMES[day] for day in self.weekdays)
        if self.nth:
            text = f"the {_NTH_NAMES[self.nth]} {weekdays} of every month"
        elif self.freq == "weekly" and self.interval == 1:
            text = f"every {_GROUPS.get(self.weekdays, weekdays)}"
        elif self.weekdays:
            text = f"{every} on {weekdays}"
        elif self.month_days == (-1,):
            text = f"the last day of {every}" if self.interval == 1 else f"{every} on the last day"
        elif self.freq == "yearly":
            text = f"{every} on {_MONTH_NAMES[self.month - 1]} {self.month_days[0]}"
        elif self.month_days:
            text = f"{every} on the {' and '.join(map(str, self.month_days))}"
        else:
            text = every
        at = f" at {' and '.join(f'{one:%H:%M}' for one in self.times)}" if self.times else ""
        return f"{text}{at}{f' until {self.until}' if self.until else ''}"

    def next_after(self, anchor: datetime, after: datetime) -> datetime | None:
        """The first occurrence behind `after` (both aware, one zone) of a series that began at `anchor`.

        Any occurrence may be the anchor of those that follow it. None when `until` has passed.
        """
        if self.freq in ("minutely", "hourly"):
            found = self._elapsed(anchor, after)
            return None if self.until and found.date() > self.until else found
        day = max(anchor.date(), after.date())
        for ahead in range(_HORIZON_DAYS):
            one = day + timedelta(days=ahead)
            if self.until and one > self.until:
                return None
            if not self._fits(one, anchor.date()):
                continue
            for at in self.times:
                moment = settle(one, at, anchor).at
                if moment > after and moment >= anchor:
                    return moment
        return None

    def _elapsed(self, anchor: datetime, after: datetime) -> datetime:
        unit = timedelta(minutes=1) if self.freq == "minutely" else timedelta(hours=1)
        step = unit * self.interval
        start = anchor.astimezone(UTC)
        count = max(0, (after.astimezone(UTC) - start) // step + 1)
        return (start + count * step).astimezone(anchor.tzinfo)

    def _fits(self, day: date, anchor: date) -> bool:
        if self.freq == "daily":
            return (day - anchor).days % self.interval == 0
        if self.freq == "weekly":
            monday = [one - timedelta(days=one.weekday()) for one in (day, anchor)]
            return day.weekday() in self.weekdays and (monday[0] - monday[1]).days // 7 % self.interval == 0
        apart = (day.year - anchor.year) * 12 + day.month - anchor.month
        if self.freq == "yearly" and (day.month != self.month or (day.year - anchor.year) % self.interval):
            return False
        if self.freq == "monthly" and apart % self.interval:
            return False
        if self.nth:
            return any(nth_weekday(day.year, day.month, self.nth, one) == day for one in self.weekdays)
        last = (day + timedelta(days=1)).month != day.month
        return day.day in self.month_days or (last and -1 in self.month_days)


def from_rule(text: str) -> Repeat:
    """The repetition of an RRULE that `Repeat.rule` wrote. Raises WhenError for another."""
    try:
        parts = dict(part.split("=", 1) for part in text.split(";"))
        days = re.findall(r"(-?\d)?([A-Z]{2})", parts.get("BYDAY", ""))
        minute = int(parts.get("BYMINUTE", 0))
        until = parts.get("UNTIL")
        freq = parts["FREQ"].lower()
        if freq not in _UNIT_NAMES:
            raise ValueError(freq)
        return Repeat(
            freq=freq,  # type: ignore[arg-type]
            interval=int(parts.get("INTERVAL", 1)),
            times=tuple(time(int(hour), minute) for hour in parts["BYHOUR"].split(",")) if "BYHOUR" in parts else (),
            weekdays=tuple(_CODES.index(code) for _, code in days),
            nth=int(days[0][0] or 0) if days else 0,
            month_days=tuple(int(day) for day in parts["BYMONTHDAY"].split(",")) if "BYMONTHDAY" in parts else (),
            month=int(parts.get("BYMONTH", 0)),
            until=datetime.strptime(until, "%Y%m%dT235959").date() if until else None,
        )
    except (KeyError, ValueError) as error:
        raise WhenError(f"{text[:100]!r} is no repetition that is known here") from error
