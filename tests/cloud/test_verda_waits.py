"""How long an answer asks to be left in peace, however it says so."""

from __future__ import annotations

import pytest

from controller.cloud.verda.waits import LONGEST_WAIT_S, retry_after
from controller.cloud.verda.wire import Answer

NOW = 1_794_996_000.0  # Wed, 18 Nov 2026 10:00:00 GMT


def answered(header: str, date: str = "") -> Answer:
    return Answer(429, {"retry-after": header, "date": date}, "")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("37", 37.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Wed, 18 Nov 2026 10:00:30 GMT", 30.0),
        ("Wed, 18 Nov 2026 09:00:00 GMT", 0.0),
        ("999999999", 3600.0),
        ("Wed, 18 Nov 2099 10:00:00 GMT", 3600.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", None),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after(answered(header), now=NOW) == seconds


@pytest.mark.parametrize(
    "header", ["999999999", "Wed, 21 Oct 2099 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"]
)
def test_a_retry_after_of_years_is_an_accident_and_means_an_hour(header: str) -> None:
    assert retry_after(answered(header), now=NOW) == LONGEST_WAIT_S


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Wed, 18 Nov 2026 10:30:00 GMT", 30.0),  # our clock is half an hour behind
        ("Wed, 18 Nov 2026 10:30:40 GMT", 0.0),
        ("Wed, 18 Nov 2026 08:00:00 GMT", LONGEST_WAIT_S),
        ("yesterday", 1830.0),
        ("", 1830.0),
    ],
)
def test_a_date_is_measured_by_the_clock_of_its_answer(date: str, seconds: float) -> None:
    assert retry_after(answered("Wed, 18 Nov 2026 10:30:30 GMT", date), NOW) == seconds


def test_seconds_need_no_clock() -> None:
    assert retry_after(answered("12", "Wed, 18 Nov 2099 10:00:00 GMT"), NOW) == 12.0
