"""The breaker: it opens for the whole API alone, closes by one probe, and never guesses about a purchase."""

from __future__ import annotations

import random

import pytest

from controller.cloud.verda.breaker import CLOSED, ENOUGH, HALF_OPEN, LONGEST_PAUSE_S, OPEN, Breaker


def opened(now: float = 100.0, seed: int = 1) -> Breaker:
    breaker = Breaker(random.Random(seed))
    for _ in range(ENOUGH):
        breaker.failed(now, "", "the connection was refused", breaker.opened)
    return breaker


def test_it_opens_after_five_failures_in_a_row_and_says_why() -> None:
    breaker = Breaker(random.Random(1))
    for _ in range(ENOUGH - 1):
        breaker.failed(100.0, "", "refused", breaker.opened)
    assert (breaker.state, breaker.wait(100.0, may_probe=True)) == (CLOSED, 0.0)
    breaker.failed(101.0, "", "the connection was refused", breaker.opened)
    assert (breaker.state, breaker.why) == (OPEN, "the connection was refused")
    assert 1.0 <= breaker.wait(101.0, may_probe=True) <= 2.0


def test_one_answer_in_between_keeps_it_closed() -> None:
    breaker = Breaker(random.Random(1))
    for _ in range(20):
        for _ in range(ENOUGH - 1):
            breaker.failed(100.0, "", "refused", breaker.opened)
        breaker.worked()
    assert breaker.state == CLOSED


def test_one_path_in_trouble_is_not_the_whole_api() -> None:
    breaker = Breaker(random.Random(1))
    for _ in range(50):
        breaker.failed(100.0, "POST /instances", "answered 500", breaker.opened)
    assert breaker.state == CLOSED
    breaker.failed(100.0, "GET /instances", "answered 500", breaker.opened)
    assert breaker.state == CLOSED
    breaker.failed(100.0, "GET /volumes", "answered 500", breaker.opened)
    assert breaker.state == OPEN


def test_after_the_pause_one_probe_goes_and_the_others_wait_for_it() -> None:
    breaker = opened()
    moment = breaker.until
    assert breaker.wait(moment, may_probe=True) == 0.0
    assert breaker.state == HALF_OPEN
    assert 0 < breaker.wait(moment, may_probe=True) <= 2.0
    breaker.worked()
    assert breaker.state == CLOSED
    assert breaker.wait(moment + 0.1, may_probe=False) == 0.0


def test_a_late_failure_of_a_call_from_before_is_not_the_probe_s() -> None:
    breaker = opened()
    sent = breaker.opened - 1
    assert breaker.wait(breaker.until, may_probe=True) == 0.0
    breaker.failed(110.0, "GET /volumes", "answered 502", sent)
    breaker.lost(110.0, sent)
    assert breaker.state == HALF_OPEN
    assert breaker.wait(110.0, may_probe=True) > 0
    breaker.failed(110.0, "GET /volumes", "answered 502", breaker.opened)
    assert breaker.state == OPEN


def test_a_purchase_is_never_the_probe() -> None:
    breaker = opened()
    assert breaker.wait(breaker.until + 1, may_probe=False) > 0
    assert breaker.state == OPEN


def test_a_probe_that_fails_makes_the_pause_longer_up_to_half_a_minute() -> None:
    breaker, pauses = opened(), []
    for _ in range(10):
        now = breaker.until
        assert breaker.wait(now, may_probe=True) == 0.0
        breaker.failed(now, "GET /instances", "refused", breaker.opened)
        pauses.append(breaker.until - now)
    assert breaker.state == OPEN
    assert pauses[1] > 2.0
    assert max(pauses) <= LONGEST_PAUSE_S
    assert min(pauses[5:]) >= LONGEST_PAUSE_S / 2


def test_pauses_are_jittered_so_that_many_do_not_come_back_together() -> None:
    assert len({round(opened(seed=seed).until, 3) for seed in range(20)}) > 15


def test_an_answer_that_was_under_way_closes_it() -> None:
    breaker = opened()
    breaker.worked()
    assert breaker.state == CLOSED


def test_failures_of_calls_that_were_under_way_do_not_prolong_it() -> None:
    breaker = opened()
    until = breaker.until
    for _ in range(30):
        breaker.failed(100.1, "", "refused", breaker.opened)
    assert breaker.until == until


@pytest.mark.parametrize("passed", [0.0, 91.0])
def test_a_probe_that_was_lost_makes_room_for_another(passed: float) -> None:
    breaker = opened()
    now = breaker.until
    assert breaker.wait(now, may_probe=True) == 0.0
    if not passed:
        breaker.lost(now, breaker.opened)
    assert breaker.wait(now + passed, may_probe=True) == 0.0
    assert breaker.state == HALF_OPEN
