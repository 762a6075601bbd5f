"""What is held against an offer, for how long, and what ends it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Offer
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.fleet.refusals import Refusals
from tests.fleet.fakes import A1

A2 = replace(A1, name="2A100.44V", gpus=2)
OFFERS = tuple(
    Offer(type=k, location=place, market="on-demand") for k in (A1, A2) for place in ("FIN-01", "FIN-02")
)
HERE = OFFERS[0].key


def refusals() -> Refusals:
    return Refusals(Deadlines())


@pytest.mark.parametrize(
    ("reason", "kept_away"),
    [
        (Reason.NO_CAPACITY, 1), (Reason.JOIN_DEADLINE, 1), (Reason.QUOTA, 2), (Reason.IMAGE_NOT_SUPPORTED, 2),
        (Reason.BAD_REQUEST, 2), (Reason.NO_FUNDS, 4), (Reason.UNAUTHORISED, 4), (Reason.RATE_LIMITED, 4),
    ],
)  # fmt: skip
def test_a_refusal_keeps_away_from_as_much_as_it_speaks_of(reason: Reason, kept_away: int) -> None:
    known = refusals()
    known.add(HERE, reason, "no", 0.0)
    assert len(known.active(OFFERS, 1.0)) == kept_away
    assert known.active(OFFERS, 181.0) == ()


def test_an_invalid_request_is_held_against_the_type_and_a_second_type_proves_that_it_is_the_request() -> (
    None
):
    """A type that has just left the catalogue must not keep the others away; a wrong key must, or all are tried."""
    known = refusals()
    known.add(HERE, Reason.BAD_REQUEST, "Invalid instance type", 0.0)
    assert {r.offer.split("/")[0] for r in known.active(OFFERS, 1.0)} == {"1A100.22V"}
    known.add("2A100.44V/FIN-01/on-demand", Reason.BAD_REQUEST, "Invalid ssh-key ID", 1.0)
    assert len(known.active(OFFERS, 2.0)) == 4
    known.accepted("2A100.44V/FIN-01/on-demand")
    assert {r.offer.split("/")[0] for r in known.active(OFFERS, 3.0)} == {"1A100.22V"}


def test_the_back_off_doubles_from_three_minutes_to_thirty() -> None:
    known, now, delays = refusals(), 0.0, []
    for _ in range(6):
        until = known.add(HERE, Reason.NO_CAPACITY, "no", now).until
        delays.append(until - now)
        now = until + 1
        known.accepted(HERE)  # the cloud accepts the order, and says no minutes later
    assert delays == [180, 360, 720, 1440, 1800, 1800]


def test_a_machine_that_became_ready_starts_the_back_off_anew() -> None:
    known = refusals()
    known.add(HERE, Reason.NO_CAPACITY, "no", 0.0)
    known.succeeded(HERE)
    assert known.active(OFFERS, 1.0) == ()
    assert known.add(HERE, Reason.NO_CAPACITY, "no", 1.0).until == 181.0


def test_a_refusal_of_long_ago_counts_no_more() -> None:
    known = refusals()
    known.add(HERE, Reason.NO_CAPACITY, "no", 0.0)
    assert known.add(HERE, Reason.NO_CAPACITY, "no", 7200.0).until == 7380.0


def test_a_burst_of_refusals_is_one() -> None:
    known = refusals()
    assert known.add(HERE, Reason.NO_CAPACITY, "no", 0.0) == known.add(HERE, Reason.NO_CAPACITY, "no", 1.0)


def test_a_short_refusal_does_not_end_a_longer_one() -> None:
    known = refusals()
    known.add(HERE, Reason.NO_FUNDS, "empty", 0.0)
    known.add(HERE, Reason.RATE_LIMITED, "slow down", 1.0)
    (first, *_) = known.active(OFFERS, 10.0)
    assert (first.reason, first.until) == (Reason.NO_FUNDS, 180.0)


def test_being_told_to_slow_down_is_obeyed_as_told() -> None:
    assert refusals().add(HERE, Reason.RATE_LIMITED, "slow", 0.0, retry_after=40.0).until == 40.0
    assert refusals().add(HERE, Reason.RATE_LIMITED, "slow", 0.0).until == 5.0


def test_a_thousand_refusals_neither_overflow_nor_pile_up() -> None:
    known, now = refusals(), 0.0
    for number in range(3000):
        known.add(f"type-{number}/FIN-01/spot", Reason.NO_CAPACITY, "no", now)
        now = known.add(HERE, Reason.NO_CAPACITY, "no", now).until + 1
        known.active(OFFERS, now)
    assert now < 3000 * 1802
    assert len(known._known) < 20
    assert len(known._times) < 20
