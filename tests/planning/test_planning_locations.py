"""Gangs that must be in one location: each gets one that holds it, what is there first, and no other is harmed by it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import HostPort, Node, Pod, PodTerm, Selector
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Plan, Retire
from controller.domain.policy import Headroom, Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.planning import drafts
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world

TWO = ("FIN-01", "FIN-02")
FITS = {Reason.FITS_NOW}


def gang(name: str, *gpus: int, apart: bool = False, **more: Any) -> tuple[Pod, ...]:
    said = {names.POD_GANG: name, names.POD_GANG_SIZE: str(len(gpus))}
    said |= {} if apart else {names.POD_GANG_ONE_LOCATION: "true"}
    made = {"created": NOW - 60, **more}
    return tuple(pod(f"{name}-{n}", many, annotations=said, **made) for n, many in enumerate(gpus))


def there(name: str, place: str, gpus: int = 1, **more: Any) -> Node:
    return node(name, gpus, labels={names.LABEL_HOSTNAME: name, names.LABEL_ZONE: place}, **more)


def bought(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


def where(decided: Plan) -> list[str]:
    return [launch.offer.location for launch in bought(decided)]


def codes(decided: Plan, name: str) -> set[Reason]:
    return {why.code for key, why in decided.pods.items() if key.startswith(f"default/{name}-")}


# -- one gang does not stand in another's way


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("hopeless", [1, 3, 5, 8])
def test_gangs_that_hold_places_and_come_to_nothing_keep_no_other_from_coming_together(
    hopeless: int, apart: bool
) -> None:
    """Each of them takes the free GPU first; the last one needs it, and has no place of its own as long as they do."""
    pods = sum((gang(f"y{n}", 1, 1, 1, apart=apart) for n in range(hopeless)), ())
    snapshot = world(
        policy=policy(limits=Limits(gpus=1)),
        offers=offers(A1),
        nodes=(there("free", "FIN-01"),),
        pods=(*pods, *gang("z", 1, 1, apart=apart)),
    )
    decided = plan(snapshot)
    assert codes(decided, "z") == {Reason.FITS_NOW, Reason.LAUNCHING}
    assert all(codes(decided, f"y{n}") == {Reason.GANG_INCOMPLETE} for n in range(hopeless))


def test_a_gang_beyond_its_namespaces_limit_keeps_no_smaller_one_of_that_namespace_waiting() -> None:
    rules = policy(namespaces={"default": NamespaceLimit(gpus=2)})
    decided = plan(world(policy=rules, offers=offers(A1), pods=(*gang("g", 1, 1, 1), *gang("h", 1, 1))))
    assert codes(decided, "h") == {Reason.LAUNCHING}
    assert codes(decided, "g") == {Reason.GANG_INCOMPLETE}


# -- a location that cannot hold it after all


_WEB = Selector(labels={"app": "web"})
_GANG = Selector(labels={"app": "g"})


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"anti_affinity": (PodTerm(topology_key=names.LABEL_HOSTNAME, selector=_WEB),)}, {}),
        ({}, {"anti_affinity": (PodTerm(topology_key=names.LABEL_HOSTNAME, selector=_GANG),)}),
        ({"host_ports": (HostPort(80),)}, {"host_ports": (HostPort(80),)}),
    ],
)
def test_free_nodes_that_rules_of_other_pods_close_bind_no_gang_to_their_location(
    mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    running = tuple(pod(f"web{n}", 0, node=f"n{n}", labels={"app": "web"}, **theirs) for n in range(2))
    decided = plan(
        world(
            policy=policy(pool(locations=("FIN-02",))),
            offers=offers(A1, locations=TWO),
            nodes=tuple(there(f"n{n}", "FIN-01") for n in range(2)),
            pods=(*gang("g", 1, 1, labels={"app": "g"}, **mine), *running),
        )
    )
    assert where(decided) == ["FIN-02", "FIN-02"]


def test_a_gang_that_fits_free_nodes_is_not_sent_where_a_machine_comes_for_somebody_else() -> None:
    coming = machine(of=A2, phase=Phase.BOOTING, pods=("default/first",), intended_at=NOW - 20)
    nodes = (there("n0", "FIN-02"), there("n1", "FIN-02"))
    pods = (pod("first", 2, priority=5, created=NOW - 60), *gang("g", 1, 1))
    decided = plan(world(offers=offers(A1, locations=TWO), machines=(coming,), nodes=nodes, pods=pods))
    assert bought(decided) == []
    assert codes(decided, "g") == FITS


def test_a_gang_whose_free_nodes_go_to_more_urgent_pods_gets_the_free_nodes_elsewhere() -> None:
    """By the look of it the first location holds it; only the draft shows that others come first there."""
    nodes = tuple(there(f"n{n}", place) for n, place in enumerate(("FIN-01", "FIN-01", "FIN-02", "FIN-02")))
    here = {"node_selector": {names.LABEL_ZONE: "FIN-01"}}
    urgent = tuple(pod(f"u{n}", priority=5, **here) for n in range(2))
    decided = plan(world(offers=offers(A1, locations=TWO), nodes=nodes, pods=(*urgent, *gang("g", 1, 1))))
    assert bought(decided) == []
    assert codes(decided, "g") == FITS


def test_a_gang_gets_free_nodes_before_a_machine_that_comes_and_has_room_for_it() -> None:
    coming = machine(phase=Phase.BOOTING, intended_at=NOW - 20)
    sold = offers(A1, locations=TWO)
    decided = plan(world(offers=sold, machines=(coming,), nodes=(there("n", "FIN-02"),), pods=gang("g", 1)))
    assert codes(decided, "g") == FITS


# -- what is there counts


@pytest.mark.parametrize("ours", [True, False])
def test_a_gang_that_has_some_of_its_machines_gets_the_rest_beside_them(ours: bool) -> None:
    pods = gang("g", 1, 1, 1, 1, created=NOW - 2000)
    machines = tuple(
        machine(f"home-a100-{letter * 10}", location="FIN-03", pods=(f"default/g-{n}",), ready_at=NOW - 300)
        for n, letter in enumerate("abc")
    )
    nodes = tuple(there(one.name, "FIN-03") for one in machines)
    sold = offers(A1, locations=("FIN-01", "FIN-03"))
    decided = plan(world(offers=sold, machines=machines if ours else (), nodes=nodes, pods=pods))
    assert where(decided) == ["FIN-03"]
    assert codes(decided, "g") == {Reason.FITS_NOW, Reason.LAUNCHING}


def test_a_gang_gets_the_machines_that_the_same_plan_orders_for_a_minimum() -> None:
    rules = policy(pool("b", max=5, locations=("FIN-02",), min=2), pool("a", max=5, locations=("FIN-01",)))
    decided = plan(world(policy=rules, offers=offers(A1, locations=TWO), pods=gang("g", 1, 1)))
    assert where(decided) == ["FIN-02", "FIN-02"]


def test_a_gang_of_unequal_pods_gets_the_location_that_holds_one_and_sells_for_the_other() -> None:
    sold = (*offers(A1, locations=TWO), *offers(A8, locations=("FIN-02",), available=False))
    large = there("large", "FIN-01", 8, cpu=176, memory=900)
    decided = plan(world(offers=sold, nodes=(large,), pods=gang("g", 8, 1)))
    assert where(decided) == ["FIN-01"]
    assert codes(decided, "g") == {Reason.FITS_NOW, Reason.LAUNCHING}


def test_a_gang_behind_one_that_fills_the_first_location_is_bought_for_in_the_cheaper_second() -> None:
    cheap = tuple(
        replace(o, type=replace(o.type, price=Decimal(1))) for o in offers(A1, locations=("FIN-02",))
    )
    coming = tuple(
        machine(f"home-a100-{c * 10}", phase=Phase.BOOTING, pods=(f"default/a-{n}",), intended_at=NOW - 20)
        for n, c in enumerate("ab")
    )
    sold = (*offers(A1, locations=("FIN-01",)), *cheap)
    decided = plan(world(offers=sold, machines=coming, pods=(*gang("a", 1, 1), *gang("b", 1, 1))))
    assert where(decided) == ["FIN-02", "FIN-02"]
    assert codes(decided, "a") == {Reason.ON_THE_WAY}


def test_a_location_whose_types_hold_it_together_is_not_passed_over() -> None:
    """The best single type takes four of its five pods, and the cheaper location sells too few."""
    cheap = tuple(
        replace(o, type=replace(o.type, price=Decimal(1))) for o in offers(A1, locations=("FIN-02",))
    )
    rules = policy(pool(max=2), limits=Limits(gpus=5))
    sold = (*offers(A4, A1, locations=("FIN-01",)), *cheap)
    decided = plan(world(policy=rules, offers=sold, pods=gang("g", 1, 1, 1, 1, 1)))
    assert sorted(launch.offer.type.name for launch in bought(decided)) == ["1A100.22V", "4A100.88V"]


@pytest.mark.parametrize("sold", [True, False])
def test_a_gang_whose_pods_like_to_be_together_gets_the_one_node_that_holds_all(sold: bool) -> None:
    near = (PodTerm(topology_key=names.LABEL_ZONE, selector=_GANG),)
    nodes = (
        there("large", "FIN-02", 8, cpu=176, memory=900),
        *(there(f"s{n}", "FIN-01") for n in range(3)),
    )
    pods = gang("g", 1, 1, 1, 1, labels={"app": "g"}, affinity=near)
    offered = offers(A1, locations=("FIN-01",), available=sold)
    decided = plan(world(offers=offered, nodes=nodes, pods=pods))
    assert bought(decided) == []
    assert codes(decided, "g") == FITS


# -- machines that were bought where it did not come together


def test_machines_left_from_other_locations_do_not_speak_against_a_gang() -> None:
    """One of two came up, twice, and the other could not be had: that says nothing about what its pods ask for."""
    pods = gang("g", 1, 1, created=NOW - 2000)
    machines = tuple(
        machine(f"home-a100-{c * 10}", location=place, pods=("default/g-0",), ready_at=NOW - 300)
        for c, place in zip("ab", TWO, strict=True)
    )
    nodes = tuple(there(one.name, one.location) for one in machines)
    decided = plan(world(offers=offers(A1, locations=("FIN-03",)), machines=machines, nodes=nodes, pods=pods))
    assert where(decided) == ["FIN-03", "FIN-03"]


def test_an_idle_machine_of_a_gang_that_did_not_come_together_goes_without_blame() -> None:
    left = machine(pods=("default/g-0", "default/alone"), ready_at=NOW - 3000)
    since = {names.NODE_IDLE_SINCE: "2027-01-15T07:00:00Z"}
    here = node(left.name, annotations=since)
    decided = plan(
        world(offers=(), machines=(left,), nodes=(here,), pods=gang("g", 1, 2, created=NOW - 3500))
    )
    gone = [action for action in decided.actions if isinstance(action, Retire)]
    assert [action.excused for action in gone] == [("default/g-0",)]


# -- beside others


def test_headroom_does_not_come_and_go_with_a_pod_that_its_own_namespace_keeps_waiting() -> None:
    rules = policy(
        pool(max=4, max_gpus_total=4),
        headroom=(Headroom(pool="a100", gpus=2),),
        namespaces={"default": NamespaceLimit(gpus=3)},
    )
    held = machine(of=A2, pods=("default/run",), ready_at=NOW - 900)
    pods = (pod("run", 2, node=held.name), pod("waits", 2))
    first = world(
        policy=rules, offers=offers(A1, A2), machines=(held,), nodes=(node(held.name, 2),), pods=pods
    )
    free = bought(plan(first))
    assert len(free) == 2
    there_now = tuple(
        machine(f"home-a100-{c * 10}", ready_at=NOW - 300, pods=one.pods)
        for c, one in zip("bc", free, strict=True)
    )
    nodes = (*first.nodes, *(node(one.name) for one in there_now))
    decided = plan(replace(first, machines=(held, *there_now), nodes=nodes))
    assert decided.pods["default/waits"].code is Reason.LIMIT_NAMESPACE
    assert all(decided.machines[one.name].code is Reason.HEADROOM for one in there_now)


def test_a_gang_that_a_limit_keeps_out_of_every_location_is_not_tried_in_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    drafted = drafts.make

    def counted(*args: Any) -> Any:
        made.append(1)
        return drafted(*args)

    monkeypatch.setattr(drafts, "make", counted)
    rules = policy(pool(max=50), namespaces={"default": NamespaceLimit(gpus=3)})
    sold = offers(A1, locations=("FIN-01", "FIN-02", "FIN-03", "ICE-01"))
    decided = plan(world(policy=rules, offers=sold, pods=gang("g", 1, 1, 1, 1, 1)))
    assert codes(decided, "g") == {Reason.GANG_INCOMPLETE}
    assert len(made) == 2
