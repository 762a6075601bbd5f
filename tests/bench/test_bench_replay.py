"""The replay binds what may be bound, and finds each fault that is put into a plan."""

from __future__ import annotations

import msgspec
import pytest

from controller.domain.kube import PodTerm, Selector
from controller.domain.plan import Launch, Plan, Snapshot
from controller.planning.planner import plan
from controller.sandbox.bench.planner import gpu, karpenter
from controller.sandbox.bench.planner.measure import STRATEGIES
from tests.bench import checked, replay
from tests.planning.worlds import A1, A8, offers, pod, world

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def _karpenter() -> tuple[Snapshot, Plan]:
    snapshot = karpenter.workload(200, types=50).snapshot()
    return snapshot, plan(snapshot)


def test_what_the_planner_plans_can_be_bound() -> None:
    assert checked.faults(*_karpenter()) == []
    for strategy in STRATEGIES.values():
        snapshot = gpu.workload(150, nodes=60, strategy=strategy).snapshot()
        assert checked.faults(snapshot, plan(snapshot)) == []


def _faults(snapshot: Snapshot, made: Plan) -> list[str]:
    """In the order in which the machines list their pods."""
    pods = [key for action in made.actions if isinstance(action, Launch) for key in action.pods]
    return replay.faults(snapshot, made, [(key, "a new machine") for key in pods])


def _bought(snapshot: Snapshot, *machines: tuple[int, tuple[str, ...]]) -> Plan:
    """Machines of the offers with these numbers, and who goes there."""
    return Plan(
        actions=tuple(
            Launch(
                pool="a100", offer=snapshot.offers[n], pods=tuple(f"default/{who}" for who in pods), reason=""
            )
            for n, pods in machines
        )
    )


def test_two_pods_that_keep_off_each_other_are_not_bound_to_one_machine() -> None:
    term = PodTerm(topology_key=HOST, selector=Selector(labels={"app": "alone"}))
    both = tuple(pod(name, labels={"app": "alone"}, anti_affinity=(term,)) for name in "ab")
    snapshot = world(pods=both, offers=offers(A8))
    assert _faults(snapshot, _bought(snapshot, (0, ("a",)), (0, ("b",)))) == []
    (found,) = _faults(snapshot, _bought(snapshot, (0, ("a", "b"))))
    assert "default/b on new-0: {'app': 'alone'} in its kubernetes.io/hostname" in found


def test_a_pod_is_kept_away_by_the_other_ones_rule_as_well() -> None:
    term = PodTerm(topology_key=HOST, selector=Selector(labels={"app": "noisy"}))
    both = (pod("a", anti_affinity=(term,)), pod("b", labels={"app": "noisy"}))
    snapshot = world(pods=both, offers=offers(A8))
    assert _faults(snapshot, _bought(snapshot, (0, ("a",)), (0, ("b",)))) == []
    assert _faults(snapshot, _bought(snapshot, (0, ("a", "b"))))


def test_a_pod_that_is_drawn_to_its_kind_is_not_bound_in_another_zone() -> None:
    term = PodTerm(topology_key=ZONE, selector=Selector(labels={"app": "chatty"}))
    both = tuple(pod(name, labels={"app": "chatty"}, affinity=(term,)) for name in "ab")
    snapshot = world(pods=both, offers=offers(A1, locations=("FIN-01", "FIN-03")))
    assert _faults(snapshot, _bought(snapshot, (0, ("a",)), (0, ("b",)))) == []
    (found,) = _faults(snapshot, _bought(snapshot, (0, ("a",)), (1, ("b",))))
    assert "no {'app': 'chatty'} in its topology.kubernetes.io/zone" in found


@pytest.mark.parametrize("topology", [ZONE, HOST])
def test_pods_that_are_to_spread_are_not_all_bound_in_one_place(topology: str) -> None:
    snapshot, made = _karpenter()
    spread = [p for p in snapshot.pods if any(s.topology_key == topology for s in p.shape.spreads)]
    target = made.actions[0]
    assert isinstance(target, Launch)
    keys = {p.key for p in spread}
    actions = [
        msgspec.structs.replace(
            a, pods=tuple([k for k in a.pods if k not in keys] + (sorted(keys) if a is target else []))
        )
        for a in made.actions
        if isinstance(a, Launch)
    ]
    assert _faults(snapshot, msgspec.structs.replace(made, actions=tuple(actions)))


def test_a_machine_is_not_filled_beyond_what_it_has_and_a_pod_is_not_placed_twice() -> None:
    both = (pod("a"), pod("b"))
    snapshot = world(pods=both, offers=offers(A1))
    launch = Launch(pool="a100", offer=snapshot.offers[0], pods=("default/a", "default/b"), reason="")
    assert any("nvidia.com/gpu: 1 of 0" in fault for fault in _faults(snapshot, Plan(actions=(launch,))))
    twice = Plan(actions=(msgspec.structs.replace(launch, pods=("default/a",)),) * 2)
    assert any("twice" in fault for fault in _faults(snapshot, twice))
    stranger = Plan(actions=(msgspec.structs.replace(launch, pods=("default/c",)),))
    assert any("does not wait" in fault for fault in _faults(snapshot, stranger))


def test_selectors_and_taints_of_new_machines_count() -> None:
    choosy = pod("a", node_selector={"topology.kubernetes.io/zone": "ICE-01"})
    snapshot = world(pods=(choosy,), offers=offers(A1))
    made = Plan(actions=(Launch(pool="a100", offer=snapshot.offers[0], pods=("default/a",), reason=""),))
    assert _faults(snapshot, made) == ["default/a on new-0: its node selector"]
