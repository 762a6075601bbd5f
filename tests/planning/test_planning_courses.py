"""What becomes of waiting pods over days in which machines never become usable, and after that is mended."""

from __future__ import annotations

import pytest

from controller.domain import names
from controller.domain.cloudthings import Offer
from controller.domain.kube import PodTerm, Selector
from controller.domain.machine import Machine
from controller.domain.policy import Policy
from tests.planning.courses import Course, plain
from tests.planning.worlds import A1, A2, A4, offers, pod, policy, pool

ZONE = names.LABEL_ZONE
LOCATIONS = ("FIN-01", "FIN-02", "FIN-03")
DAY = 24.0


def near(app: str) -> tuple[PodTerm, ...]:
    return (PodTerm(topology_key=ZONE, selector=Selector(labels={"app": app})),)


def beside_a_service(course: Course) -> None:
    """One that runs in FIN-03 and wants no GPU."""
    course.nodes.append(plain("plain", "FIN-03"))
    service = pod("svc", 0, node="plain", labels={"app": "db"})
    course.pods[service.key] = service


def test_a_pod_bound_to_what_stays_broken_takes_the_turn_of_no_other() -> None:
    """Each failure of the one renewed the other's pause, and the one came first by its name."""

    def works(machine: Machine, hour: float) -> bool:
        return machine.location != "FIN-01" and hour > 2

    course = Course(policy(pool(max=40)), offers(A1, locations=LOCATIONS[:2]), works)
    course.add("a0", node_selector={ZONE: "FIN-01"})
    course.add("z")
    course.until(2 * DAY)
    assert course.ran["z"] < 9
    assert course.ordered(DAY, 2 * DAY) <= 2


@pytest.mark.parametrize("others", [1, 8])
def test_a_pod_that_could_have_what_works_waits_for_its_own_failures_only(others: int) -> None:
    pools = policy(pool("a", max=40), pool("b", max=40))
    sold = offers(A1, locations=LOCATIONS[:2])
    course = Course(pools, sold, lambda machine, _: machine.pool == "b")
    for number in range(others):
        course.add(f"a{number}", node_selector={names.LABEL_POOL: "a"})
    course.add("free")
    course.until(5)
    assert course.ran["free"] < 2


def test_a_pod_that_others_bind_to_a_location_is_bought_for_there_again() -> None:
    """What is left of its offers by labels alone was where it had not failed, and where other pods forbid it."""

    def works(machine: Machine, hour: float) -> bool:
        return machine.location != "FIN-03" or hour > 2

    course = Course(policy(pool(max=40)), offers(A1, locations=LOCATIONS), works)
    beside_a_service(course)
    course.add("x", labels={"app": "x"}, affinity=near("db"))
    course.until(DAY)
    assert course.ran["x"] < 5


def test_such_a_pod_does_not_hold_the_try_of_others_either() -> None:
    course = Course(policy(pool(max=40)), offers(A1, locations=LOCATIONS), lambda _, hour: hour > 12)
    beside_a_service(course)
    course.add("x", labels={"app": "x"}, affinity=near("db"))
    for number in range(3):
        course.add(f"o{number}")
    course.until(DAY)
    assert max(course.ran.values()) < 18
    assert len(course.ran) == 4


def test_a_pod_that_nothing_can_serve_takes_no_turn_from_those_that_share_a_larger_machine() -> None:
    sold = (*offers(A1, A2, available=False), *offers(A4, locations=LOCATIONS[:2]))
    course = Course(policy(pool(max=40), max_overshoot=1), sold, lambda _, hour: hour > 3)
    for number in range(4):
        course.add(f"s{number}")
    course.add("p", 4, affinity=near("nowhere"))
    course.until(DAY)
    assert sorted(course.ran) == ["s0", "s1", "s2", "s3"]


def test_a_gang_that_can_never_come_together_takes_no_turn_from_another() -> None:
    course = Course(policy(pool(max=4)), offers(A1), lambda _, hour: hour > 5)
    course.gang("big", 6)
    course.gang("g", 2)
    course.until(DAY)
    assert sorted(course.ran) == ["g-0", "g-1"]


@pytest.mark.parametrize(
    ("rules", "sold", "size"),
    [
        # What works holds too few of them.
        (policy(pool("a", max=100), pool("b", max=3)), offers(A1), 4),
        # Their own size is sold out: a larger one is bought for several pods together only.
        (policy(pool("a", max=100), max_overshoot=1), (*offers(A1, A2, available=False), *offers(A4)), 1),
    ],
)
def test_of_many_gangs_that_are_made_anew_each_day_one_at_a_time_tries_what_failed(
    rules: Policy, sold: tuple[Offer, ...], size: int
) -> None:
    course = Course(rules, sold, lambda machine, _: machine.pool == "b")
    for day in range(6):
        course.pods.clear()
        for number in range(8):
            course.gang(f"g{number}-d{day}", 4)
        course.until((day + 1) * DAY)
    assert course.at_once(1.0) <= size
    assert course.ordered(4 * DAY, 6 * DAY) <= 2 * 2 * size
