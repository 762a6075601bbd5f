"""Which idle machines the scheduler is asked to avoid, so that the next small pod does not keep them for ever."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, MarkIdle, Plan, Retire, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan, the_long_way
from tests.planning.worlds import A8, IDLE_TAINT, NOW, machine, node, pod, policy, pool, world

NAME, SECOND = "home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"


def since(seconds: float) -> dict[str, str]:
    return {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - seconds, UTC).isoformat()}


def avoided(decided: Plan) -> list[tuple[str, float | None]]:
    return [(a.machine, a.since) for a in decided.actions if isinstance(a, MarkIdle) and a.avoid]


def marked_only(decided: Plan) -> list[str]:
    return [a.machine for a in decided.actions if isinstance(a, MarkIdle) and not a.avoid]


def eight(name: str = NAME, seconds: float | None = 60, **more: Any) -> tuple[Machine, Node]:
    """A machine of eight GPUs, marked idle so long ago; None: not marked."""
    notes = {} if seconds is None else since(seconds)
    notes |= more.pop("notes", {})
    return machine(name, A8), node(name, 8, annotations=notes, **more)


def seen(*there: tuple[Machine, Node], pods: tuple[Pod, ...] = (), **more: Any) -> Snapshot:
    return world(machines=tuple(m for m, _ in there), nodes=tuple(n for _, n in there), pods=pods, **more)


DAEMON = pod("agent", 0, node=NAME, owner_kind="DaemonSet")
BUSY = pod("train", 1, node=NAME)
KEPT = {"gpu-autoscaler/do-not-disrupt": "true"}
PAUSED = {"gpu-autoscaler/pause": "scale-down"}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("has just become idle", (seen(eight(seconds=None)), [(NAME, NOW)])),
        ("is in its cooldown", (seen(eight()), [(NAME, NOW - 60)])),
        ("has daemons alone", (seen(eight(), pods=(DAEMON,)), [(NAME, NOW - 60)])),
        ("is avoided already", (seen(eight(taints=(IDLE_TAINT,))), [])),
        ("works", (seen(eight(), pods=(BUSY,)), [])),
        ("is never taken away", (seen(eight(notes=KEPT)), [])),
        ("is paused", (seen(eight(notes=PAUSED)), [])),
        ("is the pool's minimum", (seen(eight(), policy=policy(pool(min=1))), [])),
        ("waits for a pod", (seen(eight(), pods=(pod("waits", 2),)), [])),
        ("goes at once", (seen(eight(seconds=700)), [])),
    ],
)
def test_an_idle_machine_that_goes_later_is_avoided_meanwhile(
    what: str, expected: tuple[Snapshot, list[tuple[str, float | None]]]
) -> None:
    snapshot, found = expected
    assert avoided(plan(snapshot)) == found, what
    assert avoided(the_long_way(snapshot)) == found, what


def test_one_action_says_both_since_when_it_is_idle_and_that_it_is_avoided() -> None:
    decided = plan(seen(eight(seconds=None)))
    assert [a for a in decided.actions if isinstance(a, MarkIdle)] == [
        MarkIdle(machine=NAME, since=NOW, avoid=True)
    ]


@pytest.mark.parametrize(("machines", "expected"), [(1, []), (2, [NAME, SECOND])])
def test_what_is_beyond_a_pools_minimum_is_avoided(machines: int, expected: list[str]) -> None:
    there = (eight(), eight(SECOND))[:machines]
    decided = plan(seen(*there, policy=policy(pool(min=1))))
    assert [name for name, _ in avoided(decided)] == expected


@pytest.mark.parametrize(
    ("what", "snapshot"),
    [
        (
            "is the minimum that is left",
            seen(eight(taints=(IDLE_TAINT,), seconds=700), policy=policy(pool(min=1))),
        ),
        ("must not be disrupted", seen(eight(taints=(IDLE_TAINT,), notes=KEPT))),
        ("is paused after its cooldown", seen(eight(taints=(IDLE_TAINT,), notes=PAUSED, seconds=700))),
        ("is paused in its cooldown", seen(eight(taints=(IDLE_TAINT,), notes=PAUSED))),
    ],
)
def test_what_stays_after_all_is_welcome_again(what: str, snapshot: Snapshot) -> None:
    (mark,) = [a for a in plan(snapshot).actions if isinstance(a, MarkIdle)]
    assert (mark.machine, mark.avoid) == (NAME, False), what
    assert mark.since is not None


def test_the_taint_comes_off_when_a_pod_uses_it_even_if_the_mark_is_gone() -> None:
    decided = plan(seen(eight(seconds=None, taints=(IDLE_TAINT,)), pods=(BUSY,)))
    assert [a for a in decided.actions if isinstance(a, MarkIdle)] == [MarkIdle(machine=NAME, since=None)]


@pytest.mark.parametrize("taints", [(), (IDLE_TAINT,)])
def test_a_pod_that_fits_an_avoided_machine_buys_nothing(taints: tuple[Any, ...]) -> None:
    """The scheduler prefers others; it does not refuse."""
    decided = plan(seen(eight(taints=taints), pods=(pod("waits", 1),)))
    assert not [a for a in decided.actions if isinstance(a, Launch | Retire)]
    assert decided.pods["default/waits"].code is Reason.FITS_NOW


@pytest.mark.parametrize("seconds", [0, 1, 599])
def test_the_cooldown_is_what_it_was(seconds: float) -> None:
    there = plan(seen(eight(seconds=seconds))), plan(seen(eight(seconds=seconds, taints=(IDLE_TAINT,))))
    assert [one.wake_at for one in there] == [NOW - seconds + 600] * 2
    assert there[0].machines == there[1].machines


def test_one_that_is_draining_is_not_marked() -> None:
    _, there = eight()
    decided = plan(seen((machine(NAME, A8, Phase.DRAINING, drain_at=NOW - 5), there)))
    assert not avoided(decided)
    assert not marked_only(decided)
