"""Which machines may go: idle, past the cooldown, not needed, not protected, the largest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import DisruptionBudget, Node, Pod, PodDeviceClaim, Selector
from controller.domain.machine import Machine, Phase
from controller.domain.plan import MarkIdle, Plan, Retire, Snapshot
from controller.domain.policy import Pool
from controller.domain.reason import Reason
from controller.planning.planner import plan
from controller.planning.scale_down import allowed_at_once, parse_time, protects
from tests.planning.worlds import A1, A2, A8, NOW, machine, node, offers, pod, policy, pool, world

NAME = "home-a100-aaaaaaaaaa"
OTHER = node("other", 0, cpu=4)  # nobody's machine, with room for pods that move


def since(seconds: float) -> dict[str, str]:
    return {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - seconds, UTC).isoformat()}


def gone(decided: Plan) -> list[str]:
    return [action.machine for action in decided.actions if isinstance(action, Retire)]


def marks(decided: Plan) -> list[tuple[str, float | None]]:
    return [(action.machine, action.since) for action in decided.actions if isinstance(action, MarkIdle)]


def idle(
    *pods: Pod, seconds: float = 700, owner: Machine | None = None, there: Node | None = None, **more: Any
) -> Snapshot:
    here = there or node(NAME, 1, annotations=since(seconds))
    return world(machines=(owner or machine(),), nodes=(here, OTHER), pods=pods, **more)


def test_an_idle_machine_goes_after_the_cooldown() -> None:
    decided = plan(idle())
    assert gone(decided) == [NAME]
    assert decided.machines[NAME].code is Reason.IDLE


@pytest.mark.parametrize(
    ("seconds", "code"), [(599, Reason.COOLDOWN), (600, Reason.IDLE), (0, Reason.COOLDOWN)]
)
def test_the_cooldown_is_kept_to_the_second(seconds: float, code: Reason) -> None:
    decided = plan(idle(seconds=seconds))
    assert decided.machines[NAME].code is code
    assert decided.wake_at == (NOW - seconds + 600 if code is Reason.COOLDOWN else None)


def test_a_machine_that_has_just_become_idle_is_marked_and_stays() -> None:
    decided = plan(idle(there=node(NAME)))
    assert (gone(decided), marks(decided)) == ([], [(NAME, NOW)])


@pytest.mark.parametrize(
    "garbage",
    [
        "yesterday",
        "",
        " ",
        "2099-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00+14:00",
        "nan",
        "1e999",
        "{}",
    ],
)
def test_a_mark_that_is_no_time_or_in_the_future_is_written_anew(garbage: str) -> None:
    decided = plan(idle(there=node(NAME, annotations={"gpu-autoscaler/idle-since": garbage})))
    assert (gone(decided), marks(decided)) == ([], [(NAME, NOW)])


def test_a_machine_is_not_idle_for_longer_than_it_is_ready() -> None:
    assert gone(plan(idle(seconds=5000, owner=machine(ready_at=NOW - 30)))) == []


@pytest.mark.parametrize(
    ("running", "in_use"),
    [
        (pod("p", node=NAME), True),
        (pod("p", 0, node=NAME, requests={"nvidia.com/mig-1g.10gb": 1}), True),
        (pod("p", 0, node=NAME, device_claims=(PodDeviceClaim(name="gpu"),), owner_kind="ReplicaSet"), True),
        (pod("p", node=NAME, deleting_at=NOW + 5), True),
        (pod("p", node=NAME, priority=-100), True),  # on purpose: work is not hurt, however unimportant
        (pod("p", node=NAME, phase="Pending"), True),
        (pod("p", node=NAME, phase="Succeeded"), False),
        (pod("p", node=NAME, phase="Failed"), False),
        (pod("p", node=NAME, owner_kind="DaemonSet"), False),
        (pod("p", node=NAME, mirror=True), False),
        (pod("p", 0, node=NAME, owner_kind="ReplicaSet"), False),
        (pod("p", node="elsewhere"), False),
        (pod("p", node=NAME, requests={"nvidia.com/gpu": 0}, owner_kind="StatefulSet"), False),
    ],
)
def test_what_makes_a_machine_busy(running: Pod, in_use: bool) -> None:
    decided = plan(idle(running))
    assert gone(decided) == ([] if in_use else [NAME])
    assert (decided.machines[NAME].code is Reason.IN_USE) is in_use
    assert marks(decided) == ([(NAME, None)] if in_use else [])


def test_declared_resources_make_a_machine_busy_like_gpus() -> None:
    user = pod("p", 0, node=NAME, requests={"example.com/npu": 1}, owner_kind="ReplicaSet")
    busy = plan(idle(user, policy=policy(pool(resources={"example.com/npu": 2}))))
    assert "uses its GPUs" in busy.machines[NAME].message
    assert "uses its GPUs" not in plan(idle(user)).machines[NAME].message


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"owner_kind": ""}, Reason.IN_USE),
        ({"owner_kind": "Job"}, Reason.IN_USE),
        ({"owner_kind": "Workflow"}, Reason.IN_USE),
        ({"owner_kind": "Job", "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}, Reason.IDLE),
        ({"owner_kind": "ReplicaSet"}, Reason.IDLE),
        ({"owner_kind": "ReplicaSet", "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, Reason.DO_NOT_DISRUPT),
        ({"owner_kind": "ReplicaSet", "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "perhaps"}}, Reason.IDLE),
        ({"owner_kind": "ReplicaSet", "annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}, Reason.DO_NOT_DISRUPT),
        ({"owner_kind": "ReplicaSet", "annotations": {"karpenter.sh/do-not-disrupt": "true"}}, Reason.DO_NOT_DISRUPT),
        ({"owner_kind": "ReplicaSet", "annotations": {"gpu-autoscaler/do-not-disrupt": "1h"}}, Reason.DO_NOT_DISRUPT),
        ({"owner_kind": "ReplicaSet", "annotations": {"gpu-autoscaler/do-not-disrupt": "1s"}}, Reason.IDLE),
        ({"owner_kind": "ReplicaSet", "annotations": {"gpu-autoscaler/do-not-disrupt": "false"}}, Reason.IDLE),
        ({"owner_kind": "ReplicaSet", "annotations": {"gpu-autoscaler/do-not-disrupt": "garbage"}}, Reason.DO_NOT_DISRUPT),
        ({"owner_kind": "DaemonSet", "annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}, Reason.IDLE),
        ({"mirror": True, "annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}, Reason.IDLE),
        ({"phase": "Succeeded", "annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}, Reason.IDLE),
        ({"owner_kind": "", "deleting_at": NOW + 5}, Reason.IDLE),
    ],
)  # fmt: skip
def test_pods_without_gpus_that_keep_an_idle_machine_or_do_not(fields: dict[str, Any], code: Reason) -> None:
    decided = plan(idle(pod("p", 0, node=NAME, **fields)))
    assert decided.machines[NAME].code is code
    assert gone(decided) == ([NAME] if code is Reason.IDLE else [])


@pytest.mark.parametrize(
    ("notes", "code"),
    [
        ({"gpu-autoscaler/do-not-disrupt": "true"}, Reason.DO_NOT_DISRUPT),
        ({"gpu-autoscaler/do-not-disrupt": "2h"}, Reason.DO_NOT_DISRUPT),
        ({"gpu-autoscaler/do-not-disrupt": "30m"}, Reason.IDLE),
        ({"gpu-autoscaler/do-not-disrupt": "???"}, Reason.DO_NOT_DISRUPT),
        ({"gpu-autoscaler/do-not-disrupt": "false"}, Reason.IDLE),
        ({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}, Reason.DO_NOT_DISRUPT),
        ({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "no"}, Reason.IDLE),
        ({"gpu-autoscaler/pause": "scale-down"}, Reason.PAUSED),
        ({"gpu-autoscaler/pause": "all"}, Reason.PAUSED),
        ({"gpu-autoscaler/pause": "scale-up"}, Reason.IDLE),
        ({"gpu-autoscaler/pause": "please"}, Reason.IDLE),
    ],
)
def test_annotations_of_the_node(notes: dict[str, str], code: Reason) -> None:
    decided = plan(idle(there=node(NAME, annotations=since(700) | notes)))
    assert decided.machines[NAME].code is code


@pytest.mark.parametrize("pause", ["scale-down", "all"])
def test_a_pause_of_everything_or_of_the_pool_keeps_machines(pause: str) -> None:
    assert plan(idle(policy=policy(pause=pause))).machines[NAME].code is Reason.PAUSED
    assert plan(idle(policy=policy(pool(pause=pause)))).machines[NAME].code is Reason.PAUSED


@pytest.mark.parametrize(
    ("allowed", "namespace", "code"),
    [
        (0, "default", Reason.PDB),
        (1, "default", Reason.IDLE),
        (0, "other", Reason.IDLE),
        (-1, "default", Reason.PDB),
    ],
)
def test_a_disruption_budget_that_lets_nobody_go_keeps_the_machine_and_is_named(
    allowed: int, namespace: str, code: Reason
) -> None:
    budget = DisruptionBudget(namespace=namespace, name="web", uid="b", selector=Selector(), allowed=allowed)
    decided = plan(idle(pod("p", 0, node=NAME, owner_kind="ReplicaSet"), budgets=(budget,)))
    assert decided.machines[NAME].code is code
    assert ("default/web" in decided.machines[NAME].message) is (code is Reason.PDB)


WEB: dict[str, Any] = {"owner_kind": "ReplicaSet", "node": NAME}


@pytest.mark.parametrize(
    ("pods", "stranded"),
    [
        ([pod("web", 0, **WEB)], ""),
        ([pod("web", 0, requests={"cpu": 5000}, **WEB)], "web"),
        ([pod("web", 0, node_selector={"disk": "fast"}, **WEB)], "web"),
        ([pod(f"web-{n}", 0, requests={"cpu": 2000}, **WEB) for n in (1, 2)], ""),
        ([pod(f"web-{n}", 0, requests={"cpu": 2000}, **WEB) for n in (1, 2, 3)], "web-3"),
        ([pod("web", 0, **WEB), pod("full", 0, node="other", requests={"cpu": 4000})], "web"),
        ([pod("web", 0, requests={"cpu": 5000}, node=NAME, owner_kind="DaemonSet")], ""),
        ([pod("web", 0, requests={"cpu": 5000}, deleting_at=NOW + 5, **WEB)], ""),
        (
            [pod("web", 0, requests={"cpu": 5000}, node=NAME, annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})],
            "",  # nobody makes it again, so it needs no place
        ),
    ],
)  # fmt: skip
def test_a_machine_whose_pods_would_find_no_other_place_stays(pods: list[Pod], stranded: str) -> None:
    decided = plan(idle(*pods))
    assert gone(decided) == ([] if stranded else [NAME])
    if stranded:
        assert decided.machines[NAME].code is Reason.IN_USE
        assert f"pod default/{stranded} " in decided.machines[NAME].message


@pytest.mark.parametrize("there", [node("other", 0, ready=False), node("other", 0, unschedulable=True)])
def test_a_node_that_takes_no_pods_is_no_other_place(there: Node) -> None:
    snapshot = idle(pod("web", 0, **WEB))
    assert gone(plan(replace(snapshot, nodes=(snapshot.nodes[0], there)))) == []


def test_of_two_machines_one_stays_for_the_pods_of_the_other() -> None:
    snapshot = fleet(("a", A2, 900), ("b", A1, 900), policy=policy(disruption_budget="100%"))
    homes = [one.name for one in snapshot.machines]
    pods = tuple(pod(f"web-{n}", 0, node=home, owner_kind="ReplicaSet") for n, home in enumerate(homes))
    assert gone(plan(replace(snapshot, pods=pods))) == [homes[0]]
    begun = (replace(snapshot.machines[0], phase=Phase.DRAINING), snapshot.machines[1])
    assert gone(plan(replace(snapshot, pods=pods[:1], machines=begun))) == []
    assert gone(plan(replace(snapshot, pods=pods[:1], machines=begun, nodes=(*snapshot.nodes, OTHER)))) == [
        homes[1]
    ]


def test_a_machine_that_a_waiting_pod_would_fit_is_kept() -> None:
    decided = plan(idle(pod()))
    assert gone(decided) == []
    assert decided.machines[NAME].code is Reason.NEEDED


def test_a_pod_that_waits_for_ever_elsewhere_does_not_keep_it() -> None:
    assert gone(plan(idle(pod(gpus=16)))) == [NAME]


@pytest.mark.parametrize(
    ("waiting", "promised"),
    [
        (pod(nominated=NAME), ()),
        (pod(gated=True), ("default/train",)),
        (pod(waiting=False), ("default/train",)),
        (pod(annotations={"gpu-autoscaler/min-age": "1h"}), ("default/train",)),
    ],
)
def test_a_machine_kept_for_a_pod_that_is_about_to_come_stays(
    waiting: Pod, promised: tuple[str, ...]
) -> None:
    decided = plan(idle(waiting, owner=machine(pods=promised)))
    assert gone(decided) == []
    assert decided.machines[NAME].code is Reason.PROMISED


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.READY])
def test_machines_on_their_way_or_leaving_are_no_candidates(phase: Phase) -> None:
    assert plan(idle(owner=machine(phase=phase))).actions == ()


@pytest.mark.parametrize(
    "there", [node("foreign", annotations=since(90000)), node(NAME, uid="another", annotations=since(90000))]
)
def test_nodes_that_are_not_ours_are_no_candidates(there: Node) -> None:
    assert plan(idle(there=there, owner=machine(node_uid="uid-mine"))).actions == ()
    assert plan(world(nodes=(there,))).actions == ()


def fleet(*rows: tuple[str, Any, float], **more: Any) -> Snapshot:
    """Idle machines: (letter, type, idle for seconds)."""
    names = [(f"home-a100-{letter * 10}", of, seconds) for letter, of, seconds in rows]
    return world(
        machines=tuple(machine(name, of) for name, of, _ in names),
        nodes=tuple(node(name, of.gpus, annotations=since(seconds)) for name, of, seconds in names),
        **({"policy": policy(disruption_budget="1")} | more),
    )


PRICIER = offers(A2)[0].type.__class__(
    name="2H100.60V", model="H100", gpus=2, vcpus=60, memory_gib=300, price=A2.price + 1, spot_price=A2.price
)


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ([("a", A1, 900), ("b", A8, 700), ("c", A2, 900)], "b"),
        ([("a", A2, 900), ("b", PRICIER, 700)], "b"),
        ([("a", A2, 700), ("b", A2, 900)], "b"),
        ([("b", A2, 900), ("a", A2, 900)], "a"),
        ([("a", A8, 100), ("b", A1, 700)], "b"),  # the largest is not past its cooldown
    ],
)
def test_the_largest_idle_goes_first_then_the_dearer_the_longer_idle_the_name(
    rows: list[tuple[str, Any, float]], first: str
) -> None:
    assert gone(plan(fleet(*rows))) == [f"home-a100-{first * 10}"]


@pytest.mark.parametrize(
    ("budget", "machines", "leaving", "allowed"),
    [("20%", 3, 0, 1), ("20%", 10, 0, 2), ("20%", 11, 0, 3), ("100%", 3, 0, 3), ("0%", 5, 0, 0), ("0", 5, 0, 0),
     ("2", 5, 0, 2), ("2", 5, 1, 1), ("1", 5, 2, 0), ("20%", 5, 1, 0)],
)  # fmt: skip
def test_budgets_of_removals(budget: str, machines: int, leaving: int, allowed: int) -> None:
    rows = [("abcdefghijklm"[n], A1, 700.0) for n in range(machines - leaving)]
    snapshot = fleet(*rows, policy=policy(disruption_budget=budget))
    going = tuple(
        machine(f"home-a100-{'xyz'[n] * 10}", phase=Phase.DRAINING, reason=Reason.IDLE)
        for n in range(leaving)
    )
    decided = plan(replace(snapshot, machines=snapshot.machines + going))
    assert len(gone(decided)) == allowed
    kept = [why.code for why in decided.machines.values() if why.code is Reason.BUDGET]
    assert len(kept) == machines - leaving - allowed


@pytest.mark.parametrize(
    ("text", "of", "count"), [("20%", 0, 0), ("20%", 1, 1), ("33.3%", 3, 1), ("50%", 3, 2), ("7", 3, 7)]
)
def test_a_share_is_rounded_up_so_that_one_always_may_go(text: str, of: int, count: int) -> None:
    assert allowed_at_once(text, of) == count


@pytest.mark.parametrize(
    ("pools", "left"),
    [((pool(min=2, max=9),), 2), ((pool(min=3, max=9),), 3), ((pool(),), 0), ((pool("other"),), 0)],
)
def test_no_pool_goes_below_its_minimum(pools: tuple[Pool, ...], left: int) -> None:
    decided = plan(
        fleet(("a", A1, 700), ("b", A8, 700), ("c", A2, 700), policy=policy(*pools, disruption_budget="100%"))
    )
    assert 3 - len(gone(decided)) == left
    if left == 2:
        assert gone(decided) == ["home-a100-bbbbbbbbbb"]
        assert decided.machines["home-a100-aaaaaaaaaa"].code is Reason.MIN_SIZE


def test_a_machine_that_still_boots_does_not_stand_in_for_the_minimum() -> None:
    coming = machine("home-a100-bbbbbbbbbb", phase=Phase.BOOTING)
    decided = plan(
        world(
            policy=policy(pool(min=1)),
            machines=(machine(), coming),
            nodes=(node(NAME, annotations=since(900)),),
        )
    )
    assert (gone(decided), decided.machines[NAME].code) == ([], Reason.MIN_SIZE)


def test_a_surplus_machine_goes_as_soon_as_it_is_idle() -> None:
    assert gone(plan(idle(seconds=1, owner=machine(surplus=True)))) == [NAME]
    assert gone(plan(idle(pod("p", node=NAME), seconds=1, owner=machine(surplus=True)))) == []


@pytest.mark.parametrize(
    ("text", "now", "protected"),
    [("true", 1e12, True), ("", 0, False), ("false", 0, False), ("10m", 599, True), ("10m", 600, False), ("True", 0, True),
     ("1e9", 1e12, True), ("9" * 400 + "h", 1e12, True)],
)  # fmt: skip
def test_protection_by_annotation(text: str, now: float, protected: bool) -> None:
    assert protects(text, 0.0, now) is protected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2027-01-15T08:00:00Z", NOW),
        ("2027-01-15T08:00:00+00:00", NOW),
        ("2027-01-15T10:00:00+02:00", NOW),
        ("2027-01-15T08:00:00.500Z", NOW + 0.5),
        ("2027-01-15T08:00:00", NOW),
        ("2027-01-15", NOW - 8 * 3600),
        ("1969-12-31T23:59:59Z", None),
        ("9999-12-31T23:59:59Z", None),
        ("", None),
        ("soon", None),
    ],
)
def test_times_of_annotations(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds
