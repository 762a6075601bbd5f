"""Pods whose machines never became usable are bought for again: one machine at a time, after pauses that double."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import Pod, PodTerm, Selector
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Launch, Plan, Snapshot, Tried
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A4, A8, NOW, machine, offers, pod, policy, pool, world

A, B, C = "home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb", "home-a100-cccccccccc"
SORT = "a100/1A100.22V/FIN-01"
ELSEWHERE = "a100/1A100.22V/FIN-03"
HOUR = 3600.0


def vain(*names: str) -> dict[str, Reason]:
    return dict.fromkeys(names or (A, B), Reason.JOIN_DEADLINE)


def tried(tries: int = 2, ago: float = 60.0, *names: str) -> Tried:
    return Tried(tries=tries, last=NOW - ago, machines=names or (A, B))


def waiting(*pods: Pod, **more: Any) -> Snapshot:
    """Two machines were bought in vain for each of these pods."""
    these = pods or (pod(),)
    values: dict[str, Any] = {
        "pods": these,
        "given_up": {one.identity: vain() for one in these},
        "tried": {SORT: tried()},
    }
    return world(**(values | more))


def launches(found: Plan) -> list[Launch]:
    return [action for action in found.actions if isinstance(action, Launch)]


def told(found: Plan, name: str = "train") -> Explanation:
    return found.pods[f"default/{name}"]


@pytest.mark.parametrize("tries", [2, 3, 4, 6, 7, 40])
def test_the_next_is_tried_after_a_pause_that_doubles_up_to_a_day(tries: int) -> None:
    pause = min(86400.0, 3600.0 * 2 ** (tries - 2))
    before = plan(waiting(tried={SORT: tried(tries, pause - 1)}))
    assert launches(before) == []
    assert told(before).code is Reason.JOIN_DEADLINE
    assert "nothing more is bought before 2027-01-15T08:00:01" in told(before).message
    assert before.wake_at == NOW + 1
    after = plan(waiting(tried={SORT: tried(tries, pause)}))
    assert [action.pods for action in launches(after)] == [("default/train",)]


def test_tries_in_several_locations_count_together_and_the_last_of_them_begins_the_pause() -> None:
    both = {SORT: tried(1, 2 * HOUR, A), ELSEWHERE: tried(1, HOUR - 1, B)}
    assert launches(plan(waiting(tried=both))) == []
    assert launches(plan(waiting(tried=both | {ELSEWHERE: tried(1, HOUR, B)})))
    # What others tried in vain there counts as well: it is the same fault.
    assert launches(plan(waiting(tried=both | {SORT: tried(3, 3 * HOUR, A)}))) == []


def test_what_failed_for_others_elsewhere_is_no_reason_to_wait_longer() -> None:
    others = {SORT: tried(2, HOUR), "h100/1H100.80S.30V/FIN-01": tried(9, 1.0, C)}
    assert launches(plan(waiting(tried=others)))


def test_a_moment_to_come_is_a_clock_that_was_corrected() -> None:
    assert launches(plan(waiting(tried={SORT: tried(2, -1e9)})))


def test_of_many_pods_one_is_tried_for_with_the_fewest_gpus() -> None:
    large, small, other = pod("large", 4), pod("small"), pod("other", created=NOW - 1)
    found = plan(waiting(large, other, small, tried={SORT: tried(2, HOUR)}))
    assert [(action.pods, action.offer.type.name) for action in launches(found)] == [
        (("default/small",), "1A100.22V")
    ]
    for name in ("large", "other"):
        assert told(found, name).code is Reason.JOIN_DEADLINE
        assert "one at a time is tried" in told(found, name).message


def test_pods_that_nothing_failed_for_are_bought_for_meanwhile() -> None:
    found = plan(waiting(pod("old"), pods=(pod("old"), pod("new")), given_up={pod("old").identity: vain()}))
    assert [action.pods for action in launches(found)] == [("default/new",)]


@pytest.mark.parametrize(
    ("bought", "more"),
    [
        (machine(C, phase=Phase.BOOTING, pods=("default/first",)), 0),  # of the sort that is in doubt, for whomever
        (machine(C, phase=Phase.BOOTING, location="FIN-07", pods=("default/other",)), 0),  # the try of another
        (machine(C, phase=Phase.BOOTING, location="FIN-07", pods=("default/first",)), 1),  # has nothing to do with it
        (machine(C, phase=Phase.DELETING, pods=("default/other",)), 1),
    ],
)  # fmt: skip
def test_while_a_try_is_on_its_way_no_other_is_made(bought: Machine, more: int) -> None:
    mine, other = pod("mine", 4), pod("other", 4)
    found = plan(waiting(mine, other, machines=(bought,), tried={SORT: tried(2, HOUR)}))
    assert len(launches(found)) == more


def test_a_pod_that_may_not_be_bought_for_does_not_hold_the_try_of_another() -> None:
    large, small = pod("large", 4), pod("small", node_selector={"nobody": "has it"})
    found = plan(waiting(large, small, tried={SORT: tried(2, HOUR)}))
    assert [action.pods for action in launches(found)] == [("default/large",)]
    limited = policy(limits=Limits(gpus=2))
    found = plan(waiting(pod("one", 2), pod("two", 4), policy=limited, tried={SORT: tried(2, HOUR)}))
    assert [action.pods for action in launches(found)] == [("default/one",)]
    found = plan(waiting(pod("two", 4), policy=limited, tried={SORT: tried(2, HOUR)}))
    assert told(found, "two").code is Reason.LIMIT_GPUS


def test_a_pod_whose_machine_is_sold_out_does_not_hold_the_try_of_another_that_needs_a_larger_one() -> None:
    small, large = pod("small"), pod("large", 8)
    sold = (*offers(A1, available=False), *offers(A8))
    found = plan(waiting(small, large, offers=sold, tried={SORT: tried(2, HOUR)}))
    assert [action.pods for action in launches(found)] == [("default/large",)]
    assert told(found, "small").code is Reason.NO_CAPACITY


def test_a_pod_that_others_keep_from_any_new_machine_does_not_hold_the_try_of_another() -> None:
    near = PodTerm(topology_key="topology.kubernetes.io/zone", selector=Selector(labels={"app": "gone"}))
    lonely, large = pod("lonely", affinity=(near,)), pod("large", 4)
    found = plan(waiting(lonely, large, tried={SORT: tried(2, HOUR)}))
    assert [action.pods for action in launches(found)] == [("default/large",)]
    assert told(found, "lonely").code is Reason.AFFINITY
    alone = plan(waiting(lonely, tried={SORT: tried(2, HOUR)}))
    assert told(alone, "lonely").code is Reason.AFFINITY


def test_a_gang_is_one_try() -> None:
    marks = {"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "2"}
    gang = (pod("rank-0", annotations=marks), pod("rank-1", annotations=marks))
    seen = waiting(pod("alone", 2), *gang, offers=offers(A1), tried={SORT: tried(2, HOUR)})
    found = plan(replace(seen, policy=policy(pool(max=10))))
    assert sorted(key for action in launches(found) for key in action.pods) == [
        "default/rank-0",
        "default/rank-1",
    ]


def test_a_machine_that_works_and_is_too_small_is_never_a_matter_of_time() -> None:
    long_ago = {SORT: tried(2, 30 * 86400.0)}
    once = {"given_up": {pod().identity: vain(A)}, "tried": {SORT: tried(1, 30 * 86400.0, A)}}
    # One of each: time mends the one, and the other goes on to count.
    mixed = waiting(disappointed={pod().identity: (C,)}, **once)
    assert launches(plan(mixed))
    twice = waiting(disappointed={pod().identity: (B, C)}, **once)
    assert launches(plan(twice)) == []
    assert told(plan(twice)).code is Reason.PREDICTION_WRONG
    assert plan(twice).wake_at is None
    alone = world(pods=(pod(),), disappointed={pod().identity: (A, B)}, tried=long_ago)
    assert launches(plan(alone)) == []


def test_a_try_of_which_nothing_more_is_known_is_not_repeated() -> None:
    """The fleet writes down when, in its next pass."""
    found = plan(waiting(tried={}))
    assert launches(found) == []
    assert "home-a100-aaaaaaaaaa (join_deadline)" in told(found).message


def test_two_pools_are_tried_beside_each_other() -> None:
    pools = policy(pool(instance_types=("1A100.22V",)), pool("big", instance_types=("4A100.88V",)))
    one, two = pod("one"), pod("two", 4)
    found = plan(
        world(
            policy=pools,
            offers=offers(A1, A4),
            pods=(one, two),
            given_up={one.identity: vain(), two.identity: vain("home-big-dddddddddd", "home-big-eeeeeeeeee")},
            tried={
                SORT: tried(2, HOUR),
                "big/4A100.88V/FIN-01": tried(2, HOUR, "home-big-dddddddddd", "home-big-eeeeeeeeee"),
            },
        )
    )
    assert len(launches(found)) == 2
