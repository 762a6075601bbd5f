"""Startup scripts are scarce: how many machines with one of their own boot at once, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, machine, offers, pod, policy, pool, world

OWN = pool(own_script=True, max=500)
SHARED = pool(own_script=False, max=500)


def many(count: int) -> tuple[Any, ...]:
    return tuple(pod(f"p{number:03}") for number in range(count))


def launched(snapshot: Snapshot) -> int:
    return sum(isinstance(action, Launch) for action in plan(snapshot).actions)


def booting(count: int, **more: Any) -> tuple[Machine, ...]:
    values: dict[str, Any] = {"phase": Phase.BOOTING, "script_id": "s"} | more
    return tuple(machine(f"home-a100-aaaaaa{n:04}", **values) for n in range(count))


def scene(of: Any = OWN, pods: int = 120, **more: Any) -> Snapshot:
    limits = Limits(launches_per_minute=1000, **more.pop("limits", {}))
    return world(policy=policy(of, limits=limits), offers=offers(A1), pods=many(pods), **more)


@pytest.mark.parametrize(
    ("free", "expected"),
    [(None, 80), (100, 80), (80, 80), (79, 79), (70, 70), (3, 3), (0, 0)],
)
def test_at_most_eighty_or_what_the_account_has_room_for_boot_at_once(
    free: int | None, expected: int
) -> None:
    assert launched(scene(scripts_free=free)) == expected


def test_machines_that_hold_a_script_count_and_those_that_have_joined_do_not() -> None:
    none_fits = {"gpus": 0}  # they are full, so that every pod wants a machine of its own
    assert launched(scene(machines=booting(30, **none_fits))) == 50
    assert launched(scene(machines=booting(30, phase=Phase.INTENDED, script_id="", **none_fits))) == 50
    assert launched(scene(machines=booting(30, script_id="", **none_fits))) == 80
    assert launched(scene(machines=booting(30, **none_fits), scripts_free=5)) == 5


def test_a_shared_script_counts_for_nothing() -> None:
    assert launched(scene(SHARED, scripts_free=0)) == 120


def test_pools_with_a_script_of_the_users_own_go_on_while_the_others_wait() -> None:
    both = policy(OWN, pool("mine", max=500), limits=Limits(launches_per_minute=1000))
    snapshot = world(policy=both, offers=offers(A1), pods=many(100), scripts_free=10)
    pools = [action.pool for action in plan(snapshot).actions if isinstance(action, Launch)]
    assert (pools.count("a100"), pools.count("mine")) == (10, 90)


def test_the_others_are_told_why_they_wait_and_what_to_do() -> None:
    told = plan(scene())
    codes = [why.code for why in told.pods.values()]
    assert (codes.count(Reason.LAUNCHING), codes.count(Reason.LIMIT_SCRIPTS)) == (80, 40)
    assert "limits.scripts is 80" in told.pods["default/p119"].message
    full = plan(scene(scripts_free=0)).pods["default/p000"]
    assert full.code is Reason.LIMIT_SCRIPTS
    assert "verda.script_quota" in full.message


def test_what_is_told_does_not_change_with_every_machine() -> None:
    first = plan(scene(machines=booting(20, gpus=0), scripts_free=5)).pods["default/p119"]
    later = plan(scene(machines=booting(23, gpus=0), scripts_free=2)).pods["default/p119"]
    assert first == later


def test_the_limit_can_be_set() -> None:
    assert launched(scene(limits={"scripts": 7})) == 7
    assert launched(scene(limits={"scripts": 0})) == 0
