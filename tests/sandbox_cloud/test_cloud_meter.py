"""The meter: by the second or by increments paid in advance, and what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.sandbox.cloud.billing import HOUR, SECOND, Account, Meter
from controller.sandbox.cloud.settings import KEPT, PER_SECOND, REFUNDED

INCREMENT = 600 * SECOND
DUST = Decimal("1e-9")
SCHEMES = (PER_SECOND, REFUNDED, KEPT)
PRICES = [Decimal("1.29"), Decimal("0.0137"), Decimal("31.92"), Decimal(10) / 730]
PROPERTY = settings(max_examples=100, deadline=None)
Act = tuple[str, int, int]  # what, which meter, how many microseconds later

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "stop", "reprice", "charge"]),
        st.integers(0, 3),
        st.one_of(st.integers(0, 5 * INCREMENT), st.sampled_from([0, 1, INCREMENT - 1, INCREMENT])),
    ),
    max_size=25,
)


class Books:
    """An account with four meters, led by a list of acts; `pay` is called at each of its moments."""

    def __init__(self, scheme: str, credit: Decimal = Decimal(1_000_000)) -> None:
        self.account = Account(credit, scheme, INCREMENT)
        self.meters = [Meter(price) for price in PRICES]
        self.now = 0
        self.totals = [Decimal(0)]
        self.ran_out = False

    def look(self) -> None:
        self.totals.append(self.account.total(self.now))

    def wait(self, span: int) -> None:
        target = self.now + span
        while (moment := self.account.next_moment(self.now)) is not None and moment <= target:
            self.now = max(self.now, moment)
            if not self.account.pay(self.now):
                self.account.stop_all(self.now)
                self.ran_out = True
            self.look()
        self.now = target
        self.look()

    def act(self, what: str, which: int, span: int) -> None:
        self.wait(span)
        meter = self.meters[which]
        if what == "start":
            self.account.start(meter, self.now)
        elif what == "stop":
            self.account.stop(meter, self.now)
        elif what == "reprice":
            self.account.reprice(meter, meter.hourly * 2, self.now)
        else:
            self.account.charge(meter, span)
        self.look()

    def run(self, acts: list[Act], then: Callable[[Books], None] | None = None) -> Books:
        for what, which, span in acts:
            self.act(what, which, span)
            if then is not None:
                then(self)
        return self

    def stop_all(self) -> Books:
        self.account.stop_all(self.now)
        return self

    def costs(self) -> list[Decimal]:
        return [self.account.cost(meter, self.now) for meter in self.meters]


@PROPERTY
@given(st.sampled_from(SCHEMES), ACTS)
def test_the_total_is_always_the_sum_of_what_each_thing_cost(scheme: str, acts: list[Act]) -> None:
    def check(books: Books) -> None:
        assert abs(sum(books.costs()) - books.account.total(books.now)) < DUST

    Books(scheme).run(acts, check)


@PROPERTY
@given(st.sampled_from([PER_SECOND, KEPT]), ACTS)
def test_without_a_refund_the_total_never_falls(scheme: str, acts: list[Act]) -> None:
    totals = Books(scheme).run(acts).totals
    assert all(later >= earlier - DUST for earlier, later in pairwise(totals))


@PROPERTY
@given(ACTS)
def test_a_refund_is_less_than_an_increment(acts: list[Act]) -> None:
    books = Books(REFUNDED).run(acts)
    dearest = max(meter.hourly for meter in books.meters) * INCREMENT / HOUR
    assert all(earlier - later <= dearest + DUST for earlier, later in pairwise(books.totals))


@PROPERTY
@given(st.sampled_from(SCHEMES), ACTS, st.integers(0, 100 * INCREMENT))
def test_what_stands_still_costs_no_more(scheme: str, acts: list[Act], span: int) -> None:
    books = Books(scheme).run(acts).stop_all()
    before, total = books.costs(), books.account.total(books.now)
    books.wait(span)
    assert books.costs() == before
    assert books.account.total(books.now) == total
    assert books.account.next_moment(books.now) is None


@PROPERTY
@given(ACTS)
def test_with_the_refund_increments_come_to_the_price_per_second(acts: list[Act]) -> None:
    refunded, per_second = (Books(scheme).run(acts).stop_all().costs() for scheme in (REFUNDED, PER_SECOND))
    assert all(abs(one - other) < DUST for one, other in zip(refunded, per_second, strict=True))


@PROPERTY
@given(ACTS)
def test_paid_in_advance_is_never_less_and_at_most_one_increment_a_run_more(acts: list[Act]) -> None:
    seconds = Books(PER_SECOND).run(acts)
    for scheme in (REFUNDED, KEPT):
        prepaid = Books(scheme).run(acts)
        assert prepaid.account.total(prepaid.now) >= seconds.account.total(seconds.now) - DUST
    kept = Books(KEPT).run(acts).stop_all()
    seconds.stop_all()
    for dear, cheap in zip(kept.meters, seconds.meters, strict=True):
        most = dear.hourly * dear.run * INCREMENT / HOUR + DUST
        assert -DUST <= kept.account.cost(dear, kept.now) - seconds.account.cost(cheap, seconds.now) <= most


@PROPERTY
@given(st.sampled_from(SCHEMES), ACTS, st.decimals("0.01", "30", places=2))
def test_nothing_runs_on_credit(scheme: str, acts: list[Act], credit: Decimal) -> None:
    """What is metered ends when the money does; only a bill for the past may go below zero."""

    def check(books: Books) -> None:
        assert books.account.balance(books.now) >= -DUST

    Books(scheme, credit).run([act for act in acts if act[0] != "charge"], check)


@PROPERTY
@given(st.sampled_from(SCHEMES), ACTS)
def test_one_leap_costs_what_small_steps_cost(scheme: str, acts: list[Act]) -> None:
    leaps, steps = Books(scheme).run(acts), Books(scheme)
    for what, which, span in acts:
        for part in (span // 3, span // 3, span - 2 * (span // 3)):
            steps.wait(part)
        steps.act(what, which, 0)
        if what == "charge":
            steps.account.charge(steps.meters[which], span)
    assert [round(cost, 12) for cost in steps.costs()] == [round(cost, 12) for cost in leaps.costs()]


@pytest.mark.parametrize(
    ("scheme", "after_100_s", "stopped", "increments"),
    [(PER_SECOND, "0.1", "0.1", 1), (REFUNDED, "0.6", "0.1", 1), (KEPT, "0.6", "0.6", 1)],
)
def test_what_a_hundred_seconds_cost(scheme: str, after_100_s: str, stopped: str, increments: int) -> None:
    books = Books(scheme)
    meter = Meter(Decimal("3.6"))
    books.account.start(meter, 0)
    books.wait(100 * SECOND)
    assert books.account.cost(meter, books.now) == Decimal(after_100_s)
    books.account.stop(meter, books.now)
    assert books.account.cost(meter, books.now) == Decimal(stopped)
    assert books.account.increments(meter, books.now) == increments


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_runs_ends_under_the_scheme_it_began_with(scheme: str) -> None:
    books, meter = Books(scheme), Meter(Decimal("3.6"))
    books.account.start(meter, 0)
    books.wait(100 * SECOND)
    books.account.rescheme(PER_SECOND, INCREMENT, books.now)
    expected = {PER_SECOND: "0.1", REFUNDED: "0.1", KEPT: "0.6"}[scheme]
    assert books.account.cost(meter, books.now) == Decimal(expected)
    books.wait(100 * SECOND)
    assert books.account.cost(meter, books.now) == Decimal(expected) + Decimal("0.1")


def test_what_costs_nothing_never_empties_the_balance() -> None:
    for scheme in SCHEMES:
        books, meter = Books(scheme, Decimal(0)), Meter(Decimal(0))
        books.account.start(meter, 0)
        books.wait(10 * INCREMENT)
        assert not books.ran_out
        assert meter.since == 0


def test_money_that_comes_in_time_lets_everything_run_on() -> None:
    for scheme in SCHEMES:
        books: Any = Books(scheme, Decimal("0.7"))
        meter = Meter(Decimal("3.6"))
        books.account.start(meter, 0)
        books.wait(INCREMENT // 2)
        books.account.add(Decimal(1))
        books.wait(INCREMENT)
        assert not books.ran_out, scheme
        books.wait(10 * INCREMENT)
        assert books.ran_out
        assert meter.since is None
