"""Turns: no window of the API, however it lies, ever sees more calls than its limit."""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cloud.verda.limits import Standing, standings
from controller.cloud.verda.pacing import Pace, Ticket, Urgency
from controller.cloud.verda.waits import LONGEST_WAIT_S

CREATE = ("POST", "/instances", Urgency.CREATE)
REMOVE = ("PUT", "/instances", Urgency.REMOVE)
LIST = ("GET", "/instances", Urgency.LIST)


def look(number: int) -> tuple[str, str, Urgency]:
    return ("GET", f"/instances/{number}", Urgency.LOOK)


def headers(**windows: tuple[int, int]) -> dict[str, str]:
    """What is left, and for how long, of each window."""
    return {"ratelimit": ", ".join(f'"{name}";r={r};t={t}' for name, (r, t) in windows.items())}


def send(pace: Pace, call: tuple[str, str, Urgency], now: float) -> Ticket:
    """Sent and answered at once; fails where it has to wait."""
    ticket = pace.join(*call)
    assert pace.wait(ticket, now) <= 0
    pace.begin(ticket, now)
    pace.end(ticket, now)
    return ticket


def wait(pace: Pace, call: tuple[str, str, Urgency], now: float) -> float:
    ticket = pace.join(*call)
    found = pace.wait(ticket, now)
    pace.leave(ticket)
    return found


# ---- what the headers say


@pytest.mark.parametrize(
    ("policy", "state", "expected"),
    [
        (
            '"project";q=500;w=60, "endpoint";q=60;w=60',
            '"project";r=486;t=37, "endpoint";r=48;t=37',
            {"project": Standing(500, 60.0, 486, 37.0), "endpoint": Standing(60, 60.0, 48, 37.0)},
        ),
        ("", "project; r=0; t=5", {"project": Standing(left=0, resets=5.0)}),
        ('"endpoint";q=0;w=60', "", {"endpoint": Standing(span=60.0)}),
        ("500", "r=3;t=1", {}),
        ("", '"project";r=-1, "endpoint";r=many;t=4, "other";r=1', {"other": Standing(left=1)}),
        ("", "", {}),
        ('"' * 500, ";" * 500, {}),
    ],
)
def test_the_headers_are_read_as_far_as_they_can_be(
    policy: str, state: str, expected: dict[str, Standing]
) -> None:
    assert standings({"ratelimit-policy": policy, "ratelimit": state}) == expected


# ---- one kind of call


def test_as_many_creates_as_the_contract_allows_go_at_once_and_the_next_after_a_window() -> None:
    pace = Pace()
    for _ in range(60):
        send(pace, CREATE, 1000.0)
    assert wait(pace, CREATE, 1000.0) == 60.0
    assert wait(pace, CREATE, 1059.9) == pytest.approx(0.1)
    assert wait(pace, CREATE, 1060.0) == 0.0


def test_a_token_comes_back_a_window_after_the_answer_and_not_after_the_request() -> None:
    pace = Pace()
    tickets = [pace.join(*CREATE) for _ in range(60)]
    for ticket in tickets:
        pace.begin(ticket, 1000.0)
    assert wait(pace, CREATE, 1055.0) > 5  # nobody knows when the sixty will have been counted
    for ticket in tickets:
        pace.end(ticket, 1007.0)
    assert wait(pace, CREATE, 1062.0) == 5.0


def test_the_wait_that_is_told_counts_those_ahead() -> None:
    pace = Pace()
    for _ in range(60):
        send(pace, CREATE, 1000.0)
    line = [pace.join(*CREATE) for _ in range(140)]
    assert [pace.wait(line[n], 1010.0) for n in (0, 59, 60, 139)] == [50.0, 50.0, 110.0, 170.0]


def test_reads_take_half_of_a_limit_a_few_at_once_and_the_rest_evenly() -> None:
    pace, now, sent = Pace(), 1000.0, []
    while now < 1300:
        pause = wait(pace, LIST, now)
        now += max(0.0, pause)
        send(pace, LIST, now + 1e-6)
        sent.append(now)
    first = [moment for moment in sent if moment < 1060]
    assert len(first) in (59, 60)
    assert sum(moment < 1000.01 for moment in first) == 12
    for start in sent:
        assert sum(start <= moment < start + 59.99 for moment in sent) <= 60
    assert max(b - a for a, b in pairwise(sent)) == pytest.approx(60 / 48)


def test_reads_of_a_hundred_machines_leave_half_of_the_project_alone() -> None:
    pace, now, sent = Pace(), 0.0, []
    while now < 240:
        ticket = pace.join(*look(len(sent) % 100))
        now += max(0.0, pace.wait(ticket, now))
        now += 1e-6
        pace.begin(ticket, now)
        pace.end(ticket, now)
        sent.append(now)
    for start in sent:
        assert sum(start <= moment < start + 59.99 for moment in sent) <= 250
    assert pace.left(now) is not None
    assert (pace.left(now) or 0) >= 250


# ---- who goes first


def test_where_the_project_has_one_call_left_a_removal_goes_before_a_purchase_before_a_read() -> None:
    pace = Pace()
    pace.learn(send(pace, CREATE, 0.0), 202, headers(project=(1, 30)), 0.0)
    one, read, create, remove = (pace.join(*call) for call in (look(1), LIST, CREATE, REMOVE))
    assert pace.wait(remove, 0.0) == 0.0
    for later in (create, read, one):
        assert pace.wait(later, 0.0) > 0
    pace.begin(remove, 0.0)
    assert pace.wait(create, 0.0) > 0
    assert pace.wait(create, 30.0) == 0.0


def test_the_same_kind_goes_in_the_order_of_asking() -> None:
    pace = Pace()
    for _ in range(59):
        send(pace, CREATE, 0.0)
    first, second = pace.join(*CREATE), pace.join(*CREATE)
    assert (pace.wait(second, 0.0) > 0, pace.wait(first, 0.0)) == (True, 0.0)
    pace.leave(first)
    assert pace.wait(second, 0.0) == 0.0


def test_purchases_that_wait_for_their_own_path_do_not_hold_reads_up() -> None:
    pace = Pace()
    for _ in range(60):
        send(pace, CREATE, 0.0)
    for _ in range(1000):
        pace.join(*CREATE)
    assert wait(pace, LIST, 0.0) <= 0
    assert wait(pace, REMOVE, 0.0) == 0.0


# ---- what the API says


def test_what_others_use_up_in_the_project_is_left_to_them() -> None:
    pace = Pace()
    pace.learn(send(pace, CREATE, 0.0), 202, headers(project=(499, 50), endpoint=(20, 50)), 0.0)
    for _ in range(20):
        send(pace, CREATE, 1.0)
    assert wait(pace, CREATE, 1.0) == 49.0
    assert wait(pace, CREATE, 50.0) == 0.0


def test_an_old_answer_that_comes_late_hides_nothing() -> None:
    pace = Pace()
    old, new = pace.join(*CREATE), pace.join(*CREATE)
    for ticket in (old, new):
        pace.begin(ticket, 0.0)
    pace.learn(new, 202, headers(endpoint=(0, 50)), 0.1)
    pace.learn(old, 202, headers(endpoint=(40, 50)), 0.2)
    assert wait(pace, CREATE, 0.3) == pytest.approx(49.8)


def test_calls_of_ours_that_are_under_way_are_not_taken_for_those_of_others() -> None:
    pace = Pace()
    tickets = [pace.join(*CREATE) for _ in range(40)]
    for ticket in tickets:
        pace.begin(ticket, 0.0)
    pace.learn(tickets[0], 202, headers(project=(460, 60), endpoint=(20, 60)), 0.1)
    pace.end(tickets[0], 0.1)
    for _ in range(20):
        send(pace, CREATE, 0.2)


def test_a_policy_that_differs_from_the_contract_is_followed() -> None:
    pace = Pace()
    said = {"ratelimit-policy": '"project";q=1000;w=10, "endpoint";q=3;w=10'}
    pace.learn(send(pace, CREATE, 0.0), 202, said, 0.0)
    send(pace, CREATE, 0.0)
    send(pace, CREATE, 0.0)
    assert wait(pace, CREATE, 0.0) == 10.0
    assert pace.left(0.0) == 997


def test_after_a_429_that_names_its_window_only_that_window_waits() -> None:
    pace = Pace()
    ticket = send(pace, CREATE, 0.0)
    pace.learn(ticket, 429, headers(project=(400, 37), endpoint=(0, 37)), 0.0)
    pace.shut(ticket, 37.0, headers(project=(400, 37), endpoint=(0, 37)), 0.0)
    assert wait(pace, CREATE, 0.0) == 37.0
    assert wait(pace, REMOVE, 0.0) == 0.0


@pytest.mark.parametrize(("told", "lasts"), [(37.0, 37.0), (None, 10.0), (1e9, LONGEST_WAIT_S)])
def test_after_a_429_that_names_no_window_everything_waits(told: float | None, lasts: float) -> None:
    pace = Pace()
    ticket = send(pace, CREATE, 0.0)
    pace.learn(ticket, 429, {}, 0.0)
    pace.shut(ticket, told, {}, 0.0)
    for call in (CREATE, REMOVE, LIST):
        assert wait(pace, call, 0.0) == lasts
        assert wait(pace, call, lasts) <= 0.0


def test_an_api_that_never_speaks_of_limits_has_none_until_its_first_429() -> None:
    pace = Pace()
    pace.learn(send(pace, ("GET", "/instance-types", Urgency.LIST), 0.0), 200, {}, 0.0)
    assert pace.left(0.0) is not None  # public, so it tells nothing
    pace.learn(send(pace, CREATE, 0.0), 500, {}, 0.0)
    assert pace.left(0.0) is not None
    pace.learn(send(pace, CREATE, 0.0), 202, {}, 0.0)
    assert pace.left(0.0) is None
    for _ in range(1000):
        send(pace, LIST, 0.0)
    ticket = send(pace, CREATE, 0.0)
    pace.learn(ticket, 429, {}, 0.0)
    assert pace.left(0.0) == 0
    pace.learn(send(pace, REMOVE, 60.0), 202, {}, 60.0)
    assert pace.left(60.0) == 499


def test_thousands_of_ids_are_not_remembered_for_ever() -> None:
    pace = Pace()
    for number in range(5000):
        send(pace, look(number), number * 1.0)
    assert len(pace._endpoints) < 600


# ---- the promise


class Server:
    """Counts as an API may: in fixed windows from some moment on, or in sliding ones."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str], list[float]] = {}

    def count(self, endpoint: tuple[str, str], now: float) -> None:
        self.counted.setdefault(endpoint, []).append(now)

    def most_in_any_window(self, span: float) -> tuple[int, Counter[tuple[str, str]]]:
        of_each = {endpoint: _most(moments, span) for endpoint, moments in self.counted.items()}
        return _most([m for moments in self.counted.values() for m in moments], span), Counter(of_each)


def _most(moments: list[float], span: float) -> int:
    moments, most, begin = sorted(moments), 0, 0
    for end, moment in enumerate(moments):
        while moments[begin] <= moment - span:
            begin += 1
        most = max(most, end - begin + 1)
    return most


CALLS = st.sampled_from([CREATE, REMOVE, LIST, look(1), look(2), ("POST", "/scripts", Urgency.CREATE)])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(CALLS, st.integers(1, 90), st.floats(0, 40), st.floats(0, 9), st.floats(0, 1)), max_size=14
    )
)
def test_no_window_ever_sees_more_than_its_limit(
    bursts: list[tuple[tuple[str, str, Urgency], int, float, float, float]],
) -> None:
    """Bursts of calls with pauses between; each call is counted somewhere between request and answer."""
    pace, server, now = Pace(), Server(), 0.0
    under_way: list[tuple[float, int, Ticket]] = []

    def answer(until: float) -> None:
        while under_way and under_way[0][0] <= until:
            moment, _, ticket = heapq.heappop(under_way)
            pace.end(ticket, moment)

    for call, count, pause, lasts, counted in bursts:
        for _ in range(count):
            ticket = pace.join(*call)
            while (wait := pace.wait(ticket, now)) > 0:
                now += max(0.01, min(wait, 5.0))
                answer(now)
            pace.begin(ticket, now)
            server.count(ticket.endpoint, now + lasts * counted)
            heapq.heappush(under_way, (now + lasts, ticket.number, ticket))
        now += pause
        answer(now)
    project, endpoints = server.most_in_any_window(59.999)
    assert project <= 500
    for endpoint, most in endpoints.items():
        assert most <= (120 if endpoint == ("GET", "/instances") else 60), endpoint


@pytest.mark.parametrize("call", [REMOVE, LIST])
def test_a_window_is_over_after_its_own_length_whatever_the_header_says(
    call: tuple[str, str, Urgency],
) -> None:
    """Milliseconds taken for seconds would keep the program from looking, and so from removing, for hours."""
    pace = Pace()
    pace.learn(send(pace, LIST, 0.0), 200, headers(project=(0, 37_000), endpoint=(0, 999_999_999)), 0.0)
    assert 0 < wait(pace, call, 1.0) <= 60
    assert wait(pace, call, 61.0) == 0


def test_a_window_of_years_is_one_of_an_hour() -> None:
    pace = Pace()
    told = {"ratelimit-policy": '"project";q=1;w=999999999'}
    pace.learn(send(pace, LIST, 0.0), 200, told, 0.0)
    send(pace, REMOVE, 61.0)
    assert wait(pace, REMOVE, 62.0) <= LONGEST_WAIT_S
