"""Windows of the week as people write them: `Mon-Fri 08:00-18:00 Europe/Helsinki`.

What counts is what a clock on the wall there shows, so a window moves with summer time: where the clocks
go back it lasts an hour longer, and an hour that they skip is in no window. One that ends before it
begins goes on past midnight and belongs to the day on which it began.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

EXPECTED = (
    'days, hours and a time zone, such as "Mon-Fri 08:00-18:00 Europe/Helsinki", "Sat,Sun 00:00-24:00 UTC" '
    'or "daily 22:00-06:00 UTC"'
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM = re.compile(r"(\S+) +(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d) +(\S+)", re.ASCII)
_WHOLE_DAY = 24 * 60
_HORIZON = 16  # days: a window that a change of the clocks swallows comes again a week later


class Window(msgspec.Struct, frozen=True):
    """Minutes after midnight, on these days of the week (Monday is 0)."""

    days: tuple[int, ...]
    begin: int
    end: int
    zone: str

    def covers(self, at: float) -> bool:
        wall = datetime.fromtimestamp(at, _zone(self.zone))
        minute, day = wall.hour * 60 + wall.minute, wall.weekday()
        if self.begin < self.end:
            return day in self.days and self.begin <= minute < self.end
        if minute >= self.begin:
            return day in self.days
        return minute < self.end and (day - 1) % 7 in self.days

    def changes_after(self, at: float) -> float | None:
        """When it opens or closes next; None: it never does."""
        now_is = self.covers(at)
        moments = sorted(moment for moment in self._moments(at) if moment > at)
        return next((moment for moment in moments if self.covers(moment) is not now_is), None)

    def _moments(self, at: float) -> Iterator[float]:
        """Every moment in the days to come at which it could open or close: its edges, and changed clocks."""
        zone = _zone(self.zone)
        today = datetime.fromtimestamp(at, zone).replace(
            hour=0, minute=0, second=0, microsecond=0, tzinfo=None
        )
        for day in range(-1, _HORIZON):
            midnight = today + timedelta(days=day)
            for minute in (self.begin, self.end):
                edge = midnight + timedelta(minutes=minute)
                yield from (edge.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
            noons = (midnight + timedelta(hours=12), midnight + timedelta(hours=36))
            before, after = (int(noon.replace(tzinfo=zone).timestamp()) for noon in noons)
            if _offset(before, zone) != _offset(after, zone):
                yield float(_changed(before, after, zone))


def parse_window(text: str) -> Window:
    """Raises ValueError, with what is wrong in words."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError("it is not of that form")
    named, first, first_minute, last, last_minute, zone = found.groups()
    begin = _minutes(first, first_minute)
    end = _minutes(last, last_minute)
    if begin in (end, _WHOLE_DAY):
        raise ValueError("it ends when it begins (a whole day is 00:00-24:00)")
    try:
        _zone(zone)
    except (KeyError, ValueError, OSError):  # an unknown name, one that is no name, a directory of names
        raise ValueError(f"{zone} is no time zone") from None
    return Window(days=tuple(sorted(_days(named))), begin=begin, end=end or _WHOLE_DAY, zone=zone)


def open_at(windows: Iterable[Window], at: float) -> bool:
    """Whether any of them is open."""
    return any(window.covers(at) for window in windows)


def change_after(windows: Iterable[Window], at: float) -> float | None:
    """When any of them opens or closes next."""
    moments = (window.changes_after(at) for window in windows)
    return min((moment for moment in moments if moment is not None), default=None)


def _minutes(hour: str, minute: str) -> int:
    minutes = int(hour) * 60 + int(minute)
    if int(minute) > 59 or minutes > _WHOLE_DAY:
        raise ValueError(f"{hour}:{minute} is no time of a day")
    return minutes


def _days(named: str) -> set[int]:
    days: set[int] = set()
    for part in named.lower().split(","):
        first, dash, last = part.partition("-")
        if part == "daily":
            days.update(range(7))
        elif first in _DAYS and (last in _DAYS or not dash):
            begin = _DAYS.index(first)
            length = (_DAYS.index(last) - begin) % 7 if dash else 0
            days.update((begin + n) % 7 for n in range(length + 1))
        else:
            raise ValueError(f"{part or named} is no day: Mon to Sun, or daily")
    return days


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _offset(at: int, zone: ZoneInfo) -> timedelta | None:
    return datetime.fromtimestamp(at, zone).utcoffset()


def _changed(before: int, after: int, zone: ZoneInfo) -> int:
    """The second at which the clocks were changed between these two."""
    first = _offset(before, zone)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if _offset(middle, zone) == first else (before, middle)
    return after
