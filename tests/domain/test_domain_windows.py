"""Windows of the week: what a clock on the wall shows, over midnight and over changes of the clocks."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.windows import Window, change_after, open_at, parse_window

WORK = "Mon-Fri 08:00-18:00 Europe/Helsinki"
HELSINKI = "Europe/Helsinki"


def at(text: str, zone: str = HELSINKI, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("text", "window"),
    [
        (WORK, Window((0, 1, 2, 3, 4), 480, 1080, HELSINKI)),
        ("sat,SUN 00:00-24:00 UTC", Window((5, 6), 0, 1440, "UTC")),
        ("daily 22:00-06:00 UTC", Window((0, 1, 2, 3, 4, 5, 6), 1320, 360, "UTC")),
        ("Fri-Mon 9:30-10:15 UTC", Window((0, 4, 5, 6), 570, 615, "UTC")),
        ("Mon,Wed-Thu 22:00-00:00 UTC", Window((0, 2, 3), 1320, 1440, "UTC")),
    ],
)
def test_what_people_write(text: str, window: Window) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not of that form"),
        ("08:00-18:00 UTC", "not of that form"),
        ("Mon-Fri 08:00-18:00", "not of that form"),
        ("Mon 8-18 UTC", "not of that form"),
        ("Mon 08:00-18:00 +02:00", "no time zone"),
        ("Mon 08:00-18:00 Europe", "no time zone"),
        ("Mon 08:00-18:00 ../../etc/passwd", "no time zone"),
        ("Mon 08:00-18:00 Finland/Oulu", "no time zone"),
        ("Moo 08:00-18:00 UTC", "moo is no day"),
        ("Mon- 08:00-18:00 UTC", "mon- is no day"),
        ("Mon,, 08:00-18:00 UTC", "is no day"),
        ("Mon 08:60-18:00 UTC", "08:60 is no time"),
        ("Mon 08:00-24:01 UTC", "24:01 is no time"),
        ("Mon 08:00-08:00 UTC", "ends when it begins"),
        ("Mon 24:00-08:00 UTC", "ends when it begins"),
    ],
)
def test_what_is_no_window_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_window(text)


@pytest.mark.parametrize(
    ("text", "moment", "open_"),
    [
        (WORK, "2027-01-15T07:59:59", False),  # a Friday
        (WORK, "2027-01-15T08:00", True),
        (WORK, "2027-01-15T17:59:59", True),
        (WORK, "2027-01-15T18:00", False),
        (WORK, "2027-01-16T12:00", False),
        ("Fri 22:00-06:00 Europe/Helsinki", "2027-01-15T23:00", True),
        ("Fri 22:00-06:00 Europe/Helsinki", "2027-01-16T05:59", True),
        ("Fri 22:00-06:00 Europe/Helsinki", "2027-01-16T06:00", False),
        ("Fri 22:00-06:00 Europe/Helsinki", "2027-01-15T05:00", False),  # that would be Thursday's
        ("Sun 22:00-06:00 Europe/Helsinki", "2027-01-18T01:00", True),  # the week goes round
        ("daily 00:00-24:00 Europe/Helsinki", "2027-01-15T00:00", True),
    ],
)
def test_when_it_is_open(text: str, moment: str, open_: bool) -> None:
    assert parse_window(text).covers(at(moment)) is open_


@pytest.mark.parametrize(
    ("text", "now", "change"),
    [
        (WORK, at("2027-01-15T07:00"), at("2027-01-15T08:00")),
        (WORK, at("2027-01-15T08:00"), at("2027-01-15T18:00")),
        (WORK, at("2027-01-15T18:00"), at("2027-01-18T08:00")),
        ("daily 00:00-24:00 UTC", at("2027-01-15T18:00"), None),
        # Each day ends when the next one begins: nothing changes before the week-end does.
        ("Mon-Fri 00:00-24:00 Europe/Helsinki", at("2027-01-13T12:00"), at("2027-01-16T00:00")),
        # In the night to 28 March 2027 the clocks go from 03:00 to 04:00, on 31 October from 04:00 to 03:00.
        (WORK, at("2027-03-26T18:00"), at("2027-03-29T08:00")),
        ("Sun 03:10-03:50 Europe/Helsinki", at("2027-03-28T01:00"), at("2027-04-04T03:10")),
        ("Sun 03:30-05:00 Europe/Helsinki", at("2027-03-28T01:00"), at("2027-03-28T04:00")),
        ("Sun 01:00-03:30 Europe/Helsinki", at("2027-03-28T01:00"), at("2027-03-28T04:00")),
        ("Sun 03:10-03:50 Europe/Helsinki", at("2027-10-31T03:00"), at("2027-10-31T03:10")),
        ("Sun 03:10-03:50 Europe/Helsinki", at("2027-10-31T03:10"), at("2027-10-31T03:50")),
        ("Sun 03:10-03:50 Europe/Helsinki", at("2027-10-31T03:50"), at("2027-10-31T03:10", fold=1)),
        ("Sun 02:00-03:30 Europe/Helsinki", at("2027-10-31T03:30"), at("2027-10-31T03:00", fold=1)),
    ],
)
def test_when_it_changes_next(text: str, now: float, change: float | None) -> None:
    assert parse_window(text).changes_after(now) == change


def test_the_same_window_is_an_hour_earlier_in_universal_time_in_summer() -> None:
    window = parse_window(WORK)
    assert window.covers(at("2027-01-15T06:00", "UTC"))
    assert not window.covers(at("2027-01-15T05:59", "UTC"))
    assert window.covers(at("2027-07-15T05:00", "UTC"))
    assert not window.covers(at("2027-07-15T15:00", "UTC"))


def test_several_windows_are_open_when_one_is_and_change_with_the_first_that_does() -> None:
    windows = (parse_window(WORK), parse_window("Fri 12:00-20:00 Europe/Helsinki"))
    assert open_at(windows, at("2027-01-15T19:00"))
    assert not open_at((), 0.0)
    assert change_after(windows, at("2027-01-15T10:00")) == at("2027-01-15T12:00")
    assert change_after((), 0.0) is None


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from([HELSINKI, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.sampled_from(["daily", "Sun", "Mon-Fri", "Sat,Sun"]),
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.integers(int(at("2026-12-01T00:00")), int(at("2027-12-01T00:00"))),
)
def test_nothing_changes_before_the_moment_that_is_told_and_it_does_then(
    zone: str, days: str, begin: int, end: int, now: int
) -> None:
    if begin == end:
        return
    window = parse_window(f"{days} {begin // 60}:{begin % 60:02}-{end // 60}:{end % 60:02} {zone}")
    change = window.changes_after(now)
    assert change is not None
    assert window.covers(change) is not window.covers(now)
    steps = range(now, int(change), max(60, (int(change) - now) // 400))
    assert {window.covers(step) for step in steps} <= {window.covers(now)}
    assert window.covers(change - 1) is window.covers(now)
