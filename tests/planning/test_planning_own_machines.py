"""Machines that are switched and not bought: fit per pod, the smallest first, own ones before the cloud."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.app.snapshots import SnapshotError, from_json, to_json
from controller.config.load import load
from controller.config.policy import to_policy
from controller.domain.kube import Taint
from controller.domain.machine import Machine, Phase
from controller.domain.plan import KeepAfterAll, Launch, Plan, Refusal, Retire, Snapshot
from controller.domain.policy import Limits, NamespaceLimit, Policy
from controller.domain.reason import Reason
from controller.domain.switching import Face, Own, Power, Stay, Switch, Switched, as_machine
from controller.planning.planner import plan, the_long_way
from controller.sandbox.bench.planner import optimum
from tests.planning.worlds import A1, A8, GIB, NOW, node, offers, pod, policy, pool

HARD = Taint(key="gpu-autoscaler/draining", effect="NoSchedule")
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


def own(name: str, gpus: int, **more: Any) -> Switch:
    return Switch(name=name, gpus=gpus, **more)


def world(*switches: Switch, on: dict[str, float] | None = None, **more: Any) -> Snapshot:
    """Every machine is off, but for those that are `on` (since when)."""
    on = on or {}
    facts: dict[str, Any] = more.pop("own", {})
    machines = [
        as_machine(Switched(name=s.name, power=Power.ON, on_since=on[s.name]), s)
        for s in switches
        if s.name in on
    ]
    only_these = Policy(cluster_id="home", switches=switches)
    values: dict[str, Any] = {
        "now": NOW,
        "policy": more.pop("rules", only_these),
        "offers": tuple(s.offer for s in switches if s.name not in on) + more.pop("sold", ()),
        "machines": tuple(m for m in machines if m is not None) + more.pop("bought", ()),
        "own": {s.name: Own(power="on" if s.name in on else "off") for s in switches} | facts,
    }
    return Snapshot(**(values | more))


def both(*switches: Switch, **more: Any) -> Policy:
    return policy(pool(max=10), switches=switches, **more)


def up(found: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(a.offer.type.name, a.pods) for a in found.actions if isinstance(a, Launch)]


def down(found: Plan) -> list[str]:
    return [a.machine for a in found.actions if isinstance(a, Retire)]


@pytest.mark.parametrize(
    ("asked", "switched"),
    [
        ([1], ["one"]),
        ([1, 1], ["two"]),
        ([2], ["two"]),
        ([3], ["four"]),
        ([4], ["four"]),
        ([2, 2], ["four"]),
        ([1, 4], ["four", "one"]),
        ([1, 2, 4], ["four", "one", "two"]),
        ([5], []),
        ([], []),
    ],
)
def test_the_smallest_machines_that_hold_every_pod_are_switched_on(
    asked: list[int], switched: list[str]
) -> None:
    machines = (own("one", 1), own("two", 2), own("four", 4))
    pods = tuple(pod(f"p{n}", gpus) for n, gpus in enumerate(asked))
    assert sorted(name for name, _ in up(plan(world(*machines, pods=pods)))) == switched


def test_each_pod_is_told_which_machine_is_switched_on_for_it() -> None:
    found = plan(world(own("gpu-worker-1", 4), pods=(pod("a", 4),)))
    assert found.pods["default/a"].code is Reason.LAUNCHING
    assert found.pods["default/a"].message == "gpu-worker-1 (4 GPUs) is switched on for it"
    assert found.machines["gpu-worker-1"].code is Reason.STARTING


@pytest.mark.parametrize("why", ["it comes first", "it is compared", "it is kept on"])
def test_a_machine_that_is_switched_on_is_not_told_of_as_off(why: str) -> None:
    """Until its call was heard every plan wishes for it anew, so what is told in that moment may stand for long."""
    kept = why == "it is kept on"
    mine = own("w1", 1, keep_on=kept)
    pods = () if kept else (pod("a"),)
    found = plan(world(mine, rules=both(mine, own_first=why != "it is compared"), pods=pods))
    assert [name for name, _ in up(found)] == ["w1"]
    assert found.machines["w1"].code is Reason.STARTING


def test_a_machine_that_is_off_has_its_sentence() -> None:
    found = plan(world(own("w1", 4)))
    assert found.machines["w1"].code is Reason.OFF


def test_own_machines_come_before_all_that_is_bought_and_the_cloud_takes_the_rest() -> None:
    mine = own("w8", 8)
    pods = tuple(pod(f"p{n}", 1) for n in range(9))
    found = plan(world(mine, rules=both(mine), sold=offers(A1, A8), pods=pods))
    assert [name for name, _ in up(found)] == ["w8", "1A100.22V"]


def test_a_large_machine_of_ones_own_is_switched_on_for_a_small_pod() -> None:
    mine = own("w8", 8)
    assert [n for n, _ in up(plan(world(mine, rules=both(mine), sold=offers(A1), pods=(pod("a"),))))] == [
        "w8"
    ]


@pytest.mark.parametrize(
    ("strategy", "price", "taken"),
    [("cheapest", "2", "1A100.22V"), ("cheapest", "1", "w2"), ("smallest", "1", "1A100.22V")],
)
def test_told_otherwise_the_strategy_compares_it_with_the_cloud(
    strategy: str, price: str, taken: str
) -> None:
    mine = own("w2", 2, price=Decimal(price))
    rules = both(mine, strategy=strategy, own_first=False)
    assert [n for n, _ in up(plan(world(mine, rules=rules, sold=offers(A1), pods=(pod("a"),))))] == [taken]


@pytest.mark.parametrize("seed", [1, 3])
def test_a_machine_of_ones_own_makes_nothing_dearer_that_is_bought_beside_it(seed: int) -> None:
    """There is one of it: whoever looks for cheaper machines must not count on many."""
    mine = own("w1", 1)
    without = optimum.instance(seed)
    rules = replace(without.policy, switches=(mine,), own_first=False)
    sold, off = (*without.offers, mine.offer), {mine.name: Own(power="off")}
    beside = replace(without, policy=rules, offers=sold, own=off)
    assert price(plan(beside)) <= price(plan(without))


def price(found: Plan) -> Decimal:
    return sum((a.offer.price for a in found.actions if isinstance(a, Launch)), Decimal(0))


def test_limits_on_what_is_bought_do_not_hold_for_what_is_there_already() -> None:
    mine = own("w8", 8, price=Decimal(1))
    rules = both(
        mine,
        limits=Limits(machines=0, gpus=0, price_per_hour=Decimal(0), price_per_month=Decimal(0)),
        namespaces={"default": NamespaceLimit(gpus=0)},
    )
    assert [n for n, _ in up(plan(world(mine, rules=rules, sold=offers(A1), pods=(pod("a", 8),))))] == ["w8"]


def test_a_machine_that_is_on_its_way_is_never_switched_on_again() -> None:
    mine = own("w4", 4)
    rising = Switched(name="w4", power=Power.RISING, call="c", pods=("default/a",), wanted_at=NOW - 60)
    machine = as_machine(rising, mine)
    assert machine is not None
    there = node("w4", 4, ready=False, taints=(HARD, NOT_READY))
    snapshot = Snapshot(
        now=NOW,
        policy=Policy(cluster_id="home", switches=(mine,)),
        pods=(pod("a", 2), pod("b", 2)),
        nodes=(there,),
        machines=(machine,),
        own={"w4": Own(power="switching_on")},
    )
    found = plan(snapshot)
    assert up(found) == []
    assert {why.code for why in found.pods.values()} == {Reason.ON_THE_WAY}


LABELS = {"zone": "rack-7", "kubernetes.io/hostname": "w4"}
FACE = Face(labels=LABELS, allocatable={"cpu": 8000, "memory": 32 * GIB, "nvidia.com/gpu": 4, "pods": 110})


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"node_selector": {"zone": "rack-7"}}, True),
        ({"node_selector": {"zone": "rack-8"}}, False),
        ({"node_selector": {"kubernetes.io/hostname": "w4"}}, True),
        ({"requests": {"cpu": 9000}}, False),
        ({"requests": {"memory": 33 * GIB}}, False),
        ({"requests": {"example.com/x": 1}}, False),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_what_its_node_was_decides_what_fits(change: dict[str, Any], fits: bool, kept: bool) -> None:
    there = node("w4", 0, cpu=8, memory=32, ready=False, labels=LABELS, taints=(HARD, NOT_READY))
    snapshot = world(
        own("w4", 4),
        own={"w4": Own(power="off", face=FACE)},
        nodes=(there,) if kept else (),
        pods=(pod("a", 2, **change),),
    )
    assert bool(up(plan(snapshot))) is fits


def test_a_machine_that_was_never_seen_is_what_the_settings_say() -> None:
    mine = own("w4", 4, labels={"team": "ml"}, taints=(Taint("dedicated", "ml", "NoSchedule"),))
    assert up(plan(world(mine, pods=(pod("a", 2),)))) == []
    from controller.domain.kube import Toleration

    tolerant = pod("a", 2, node_selector={"team": "ml"}, tolerations=(Toleration("dedicated", "Exists"),))
    assert up(plan(world(mine, pods=(tolerant,)))) == [("w4", ("default/a",))]


def test_a_node_that_is_not_ready_offers_nothing() -> None:
    """Its record says on, and it went away a moment ago."""
    gone = node("w4", 4, ready=False)
    found = plan(world(own("w4", 4), own("w8", 8), on={"w4": NOW - 4000}, nodes=(gone,), pods=(pod("a", 4),)))
    assert [name for name, _ in up(found)] == ["w8"]


def test_what_keeps_it_off_is_told_and_another_one_is_taken() -> None:
    by_hand = Refusal(
        offer=own("w1", 1).offer.key,
        reason=Reason.SWITCHED_BY_HAND,
        until=NOW + 60,
        message="somebody else switched it off",
    )
    found = plan(world(own("w1", 1), own("w8", 8), refusals=(by_hand,), pods=(pod("a"),)))
    assert [name for name, _ in up(found)] == ["w8"]
    assert found.machines["w1"].code is Reason.SWITCHED_BY_HAND
    alone = plan(world(own("w1", 1), refusals=(by_hand,), pods=(pod("a"),)))
    assert alone.pods["default/a"].code is Reason.SWITCHED_BY_HAND
    assert alone.pods["default/a"].message == "w1: somebody else switched it off"


def test_a_refused_machine_of_ones_own_makes_no_machine_of_the_cloud_too_large() -> None:
    mine = own("w1", 1)
    refused = Refusal(offer=mine.offer.key, reason=Reason.SWITCH_FAILED, until=NOW + 60, message="no")
    found = plan(world(mine, rules=both(mine), refusals=(refused,), sold=offers(A8), pods=(pod("a"),)))
    assert [name for name, _ in up(found)] == ["8A100.176V"]


def idle(name: str, gpus: int, since: float = NOW - 3600) -> Any:
    from datetime import UTC, datetime

    text = datetime.fromtimestamp(since, UTC).isoformat()
    return node(name, gpus, annotations={"gpu-autoscaler/idle-since": text})


def test_the_largest_idle_machine_is_switched_off_first() -> None:
    machines = (own("one", 1), own("eight", 8), own("two", 2))
    on = {m.name: NOW - 4000 for m in machines}
    found = plan(world(*machines, on=on, nodes=tuple(idle(m.name, m.gpus) for m in machines)))
    assert down(found) == ["eight"]


def test_a_machine_in_use_is_never_switched_off() -> None:
    busy = pod("a", 1, node="eight")
    machines = (own("eight", 8), own("two", 2))
    on = {m.name: NOW - 4000 for m in machines}
    found = plan(world(*machines, on=on, nodes=(idle("eight", 8), idle("two", 2)), pods=(busy,)))
    assert down(found) == ["two"]
    assert found.machines["eight"].code is Reason.IN_USE


@pytest.mark.parametrize(
    ("switch", "stays", "code"),
    [
        (own("w", 1), (), Reason.IDLE),
        (own("w", 1, keep_on=True), (), Reason.MIN_SIZE),
        (own("w", 1, pause="scale-down"), (), Reason.PAUSED),
        (own("w", 1), (Stay(NOW + 60, Reason.MIN_ON, "x"),), Reason.MIN_ON),
        (own("w", 1), (Stay(NOW - 60, Reason.MIN_ON, "x"),), Reason.IDLE),
        (own("w", 1), (Stay(NOW + 60, Reason.SWITCH_LIMIT, "x"),), Reason.SWITCH_LIMIT),
        (own("w", 1), (Stay(NOW + 60, Reason.SWITCHED_BY_HAND, "x"),), Reason.SWITCHED_BY_HAND),
    ],
)
def test_an_idle_machine_stays_on_for_these_reasons(
    switch: Switch, stays: tuple[Stay, ...], code: Reason
) -> None:
    facts = {"w": Own(power="on", stays=stays)}
    found = plan(world(switch, on={"w": NOW - 4000}, own=facts, nodes=(idle("w", 1),)))
    assert found.machines["w"].code is code
    assert bool(down(found)) is (code is Reason.IDLE)


def test_a_machine_that_is_to_be_kept_on_is_switched_on_without_any_pod() -> None:
    found = plan(world(own("w", 2, keep_on=True)))
    assert up(found) == [("w", ())]
    paused = plan(world(own("w", 2, keep_on=True, pause="all")))
    assert up(paused) == []


def test_a_paused_machine_is_not_switched_on() -> None:
    found = plan(world(own("w", 2, pause="scale-up"), pods=(pod("a"),)))
    assert up(found) == []
    assert found.pods["default/a"].code is Reason.PAUSED


def test_a_machine_that_is_being_drained_is_kept_for_a_pod_that_fits_it() -> None:
    switch = own("w", 2)
    machine = as_machine(Switched(name="w", power=Power.DRAINING, on_since=NOW - 4000), switch)
    assert machine is not None
    snapshot = Snapshot(
        now=NOW,
        policy=Policy(cluster_id="home", switches=(switch,)),
        pods=(pod("a", 2),),
        nodes=(node("w", 2, taints=(HARD,)),),
        machines=(machine,),
        own={"w": Own(power="draining")},
    )
    found = plan(snapshot)
    assert [a.machine for a in found.actions if isinstance(a, KeepAfterAll)] == ["w"]
    assert up(found) == []


def test_a_gang_that_no_own_machines_hold_alone_may_still_get_them_with_the_clouds() -> None:
    gang = {"gpu-autoscaler/gang": "g", "gpu-autoscaler/gang-size": "3"}
    mine = own("w2", 2)
    rules = policy(pool(max=1), switches=(mine,))
    pods = tuple(pod(f"p{n}", 1, annotations=gang) for n in range(3))
    found = plan(world(mine, rules=rules, sold=offers(A1), pods=pods))
    assert sorted(name for name, _ in up(found)) == ["1A100.22V", "w2"]


def test_a_ready_machine_of_the_cloud_is_used_before_any_machine_is_switched_on() -> None:
    mine = own("w2", 2)
    bought = Machine(
        intent="aaaaaaaaaa", name="home-a100-aaaaaaaaaa", pool="a100", instance_type=A1.name, location="FIN-01",
        market="on-demand", phase=Phase.READY, gpus=1,
    )  # fmt: skip
    there = node("home-a100-aaaaaaaaaa", 1)
    found = plan(world(mine, rules=both(mine), bought=(bought,), nodes=(there,), pods=(pod("a"),)))
    assert up(found) == []


def test_a_snapshot_with_own_machines_is_written_read_and_planned_alike_without_their_addresses() -> None:
    text = """\
cluster_id: home
machines:
  - {name: w2, gpu_count: 2, scale_up_endpoint: "http://power/on?token=hunter2", scale_down_endpoint: "http://power/hunter2"}
webhooks: {power: {headers: {X-Key: hunter2}}}
"""
    settings = load("config.yaml", {}, text=text, service_account="/nonexistent").settings
    (switch,) = to_policy(settings).switches
    facts = {"w2": Own(power="off", face=FACE, stays=(Stay(NOW, Reason.MIN_ON, "x"),))}
    first = world(switch, rules=to_policy(settings), own=facts, pods=(pod("a", 2),))
    written = json.dumps(to_json(first, settings), default=str)
    assert "hunter2" not in written
    second, _ = from_json(json.loads(written))
    assert second.own == first.own
    assert up(plan(second)) == up(plan(first)) == [("w2", ("default/a",))]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"w": {"power": "odd"}}, 'own.w.power: "odd"; expected one of off'),
        ({"w": {"pwr": "on"}}, "own.w.pwr: unknown key"),
        ({"w": {"power": "on", "stays": 7}}, "own.w: "),
        ([], "own: []; expected a mapping"),
        ({"w": []}, "own.w: []; expected a mapping"),
    ],
)
def test_what_is_wrong_with_it_in_a_snapshot_is_one_line(own: Any, words: str) -> None:
    with pytest.raises(SnapshotError) as error:
        from_json({"now": NOW, "own": own})
    assert words in str(error.value)


@pytest.mark.parametrize("keep_on", [False, True])
@pytest.mark.parametrize("pods", [(), (pod("a", 1, node="two"),)], ids=["none", "one"])
def test_while_nobody_waits_the_short_way_makes_the_same_plan(keep_on: bool, pods: tuple[Any, ...]) -> None:
    machines = (own("one", 1, keep_on=keep_on), own("two", 2), own("four", 4))
    refused = Refusal(offer=own("four", 4).offer.key, reason=Reason.MIN_OFF, until=NOW + 60, message="x")
    found = world(
        *machines,
        on={"one": NOW - 4000, "two": NOW - 4000},
        nodes=(idle("one", 1), idle("two", 2), node("four", 4, ready=False)),
        refusals=(refused,),
        pods=pods,
    )
    assert plan(found) == the_long_way(found)
    assert plan(found).machines["four"].code is Reason.MIN_OFF


APART = {
    "gpu-autoscaler/gang": "g",
    "gpu-autoscaler/gang-size": "3",
    "gpu-autoscaler/gang-one-location": "true",
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("gpus", "expected"), [(1, {"FIN-01"}), (2, {"FIN-01"}), (3, {""}), (4, {""})])
def test_a_gang_is_in_one_location_whole_also_beside_machines_that_tell_none(
    gpus: int, expected: set[str], first: bool
) -> None:
    mine = own("w1", gpus)
    members = tuple(pod(f"m{n}", annotations=APART) for n in range(3))
    snapshot = world(mine, rules=both(mine, own_first=first), sold=offers(A1), pods=members)
    found = plan(snapshot)
    assert {a.offer.location for a in found.actions if isinstance(a, Launch)} == expected
    assert {why.code for why in found.pods.values()} == {Reason.LAUNCHING}
    if expected == {""}:  # and it is not bought for while that machine starts
        again = world(mine, on={"w1": NOW}, rules=snapshot.policy, sold=offers(A1), pods=members)
        coming = replace(again.machines[0], phase=Phase.BOOTING, ready_at=0.0, pods=("default/m0",))
        assert up(plan(replace(again, machines=(coming,)))) == []


@pytest.mark.parametrize("sold", [(), offers(A1)])
@pytest.mark.parametrize("first", [True, False])
def test_a_gang_of_one_location_gets_a_machine_whose_node_tells_one_that_the_settings_do_not(
    first: bool, sold: Any
) -> None:
    mine = own("w1", 4)
    there = {"nvidia.com/gpu": 4, "cpu": 64000, "memory": 256 * GIB, "pods": 110}
    face = Face(labels={"topology.kubernetes.io/zone": "cellar"}, taints=(), allocatable=there)
    members = tuple(pod(f"m{n}", annotations=APART) for n in range(3))
    facts = {"w1": Own(power="off", face=face)}
    found = plan(world(mine, rules=both(mine, own_first=first), sold=sold, pods=members, own=facts))
    assert up(found) == [("w1", tuple(member.key for member in members))]


@pytest.mark.parametrize(("gpus", "expected"), [(1, []), (2, [("w1", ("default/m1", "default/m2"))])])
def test_members_at_home_keep_the_rest_of_a_gang_of_one_location_there(gpus: int, expected: Any) -> None:
    """Nodes at home tell no location: the rest was bought in the cloud, where the first ones are not."""
    mine = own("w1", gpus)
    members = tuple(pod(f"m{n}", annotations=APART, **({"node": "desk"} if n == 0 else {})) for n in range(3))
    found = plan(world(mine, rules=both(mine), sold=offers(A1), pods=members, nodes=(node("desk"),)))
    assert up(found) == expected
    if not expected:
        assert {why.code for why in found.pods.values()} == {Reason.GANG_INCOMPLETE}
