"""An idle machine goes only if the scheduler would bind what it evicts somewhere else, by all of its rules."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.domain.kube import (
    HostPort,
    Node,
    NodeTerm,
    Pod,
    PodTerm,
    PodVolume,
    Requirement,
    Selector,
    Spread,
    Taint,
    Toleration,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Phase
from controller.domain.plan import Retire, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.verifier import Host, objection
from tests.planning.worlds import NOW, machine, node, pod, policy, world

NAME, SECOND = "home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB, ANY = Selector({"app": "web"}), (Toleration(operator="Exists"),)
APART = (PodTerm(topology_key=HOST, selector=WEB),)
NOBODY_IN_ZONE = (PodTerm(topology_key=ZONE, selector=WEB),)
IDLE = {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - 9000, UTC).isoformat()}


def at(name: str, zone: str = "FIN-01", gpus: int = 0, **more: Any) -> Node:
    notes = IDLE if name.startswith("home-") else {}
    return node(name, gpus, labels={HOST: name, ZONE: zone}, annotations=notes, **more)


def web(name: str, where: str, **more: Any) -> Pod:
    values: dict[str, Any] = {"owner_kind": "ReplicaSet", "labels": {"app": "web"}}
    return pod(name, 0, node=where, **(values | more))


def idle(*pods: Pod, others: tuple[Node, ...] = (), **more: Any) -> Snapshot:
    return world(machines=(machine(),), nodes=(at(NAME, gpus=1), *others), pods=pods, **more)


def gone(snapshot: Snapshot) -> list[str]:
    return [action.machine for action in plan(snapshot).actions if isinstance(action, Retire)]


RULES: dict[str, Any] = {
    "anti_affinity": NOBODY_IN_ZONE,
    "host_ports": (HostPort(80),),
    "spreads": (Spread(topology_key=HOST, selector=WEB),),
    "volumes": (PodVolume(claim="lost"),),
}


@pytest.mark.parametrize(
    "fields",
    [
        {"owner_kind": "DaemonSet"},
        {"mirror": True},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"deleting_at": NOW + 5},
        {"owner_kind": "", "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
    ],
)
def test_pods_that_nobody_makes_again_elsewhere_keep_nothing_whatever_their_rules(
    fields: dict[str, Any],
) -> None:
    stays = web("stays", "other")
    assert gone(idle(web("rests", NAME, **fields, **RULES), stays, others=(at("other"),))) == [NAME]
    # Nor do they keep those away that move, once they are gone.
    moves = web("moves", NAME, labels={"app": "web"}, anti_affinity=NOBODY_IN_ZONE)
    assert gone(idle(web("rests", NAME, **fields), moves, others=(at("other"),))) == [NAME]


def test_a_pod_that_tolerates_everything_moves_like_others_and_never_back_to_its_machine() -> None:
    moves = web("moves", NAME, tolerations=ANY)
    assert gone(idle(moves, others=(at("other"),))) == [NAME]
    assert gone(idle(moves, others=(at("other", taints=(Taint("x"),)),))) == [NAME]
    assert gone(idle(moves)) == []
    assert (
        gone(idle(replace(moves, shape=web("x", NAME).shape), others=(at("other", taints=(Taint("x"),)),)))
        == []
    )


def test_pods_that_leave_together_count_as_gone_and_as_come() -> None:
    two = (web("one", NAME, anti_affinity=APART), web("two", NAME, anti_affinity=APART, phase="Running"))
    assert gone(idle(*two, others=(at("a"), at("b")))) == [NAME]
    assert gone(idle(*two, others=(at("a"),))) == []  # beside each other they cannot be
    near = (PodTerm(topology_key=ZONE, selector=WEB),)
    both = (web("one", NAME, affinity=near), web("two", NAME, affinity=near))
    assert gone(idle(*both, others=(at("a"),))) == [NAME]  # the first may start anywhere
    away = (web("stays", "b"), *both)
    assert gone(idle(*away, others=(at("a", cpu=0), at("b", zone="FIN-02"), at("c", zone="FIN-03")))) == [
        NAME
    ]


def test_who_stands_on_a_node_that_takes_no_pods_still_counts() -> None:
    moves = web("moves", NAME, anti_affinity=NOBODY_IN_ZONE)
    shut = at("shut", zone="FIN-02", unschedulable=True)
    free = at("free", zone="FIN-02")
    assert gone(idle(moves, web("there", "shut"), others=(shut, free))) == []
    assert gone(idle(moves, others=(shut, free))) == [NAME]
    assert gone(idle(moves, others=(shut,))) == []


def test_a_volume_made_for_the_pod_alone_is_made_anew_and_one_of_its_own_host_is_not() -> None:
    here = NodeTerm(labels=(Requirement(HOST, "In", (NAME,)),))
    volume = Volume(name="v", terms=(here,), local=True)
    for claim, uses, goes in (
        ("web-scratch", PodVolume(name="scratch", ephemeral=True), True),
        ("data", PodVolume(claim="data"), False),
    ):
        bound = VolumeClaim(namespace="default", name=claim, phase="Bound", volume="v")
        moves = web("web", NAME, volumes=(uses,))
        snapshot = idle(moves, others=(at("other"),), volumes=(volume,), volume_claims=(bound,))
        assert gone(snapshot) == ([NAME] if goes else [])


@pytest.mark.parametrize("alone", [True, False])
def test_a_claim_for_one_pod_only_is_free_for_the_next_one_of_the_same_owner(alone: bool) -> None:
    claim = VolumeClaim(
        namespace="default", name="data", phase="Bound", volume="v", access_modes=("ReadWriteOncePod",)
    )
    uses = (PodVolume(claim="data"),)
    others = () if alone else (web("there", "other", volumes=uses),)
    snapshot = idle(
        web("web", NAME, volumes=uses),
        *others,
        others=(at("other"),),
        volumes=(Volume(name="v"),),
        volume_claims=(claim,),
    )
    assert gone(snapshot) == ([NAME] if alone else [])


@pytest.mark.parametrize(
    ("rule", "goes"),
    [
        (
            {},
            True,
        ),  # the empty domain of its own Node counts for as long as that is there, which is for minutes
        ({"max_skew": 2}, True),
        ({"hard": False}, True),
        ({"honors_taints": True}, True),
        ({"max_skew": 3, "min_domains": 2}, True),
        ({"max_skew": 2, "min_domains": 2}, True),
        ({"max_skew": 2, "min_domains": 3}, True),
        (
            {"max_skew": 1, "honors_taints": True, "min_domains": 2},
            False,
        ),  # there is one left, which is too few
    ],
)
def test_pods_are_spread_over_the_nodes_that_there_are_once_it_is_gone(
    rule: dict[str, Any], goes: bool
) -> None:
    spread = Spread(topology_key=ZONE, selector=WEB, **rule)
    pods = (web("moves", NAME, spreads=(spread,)), web("there", "other"))
    assert gone(idle(*pods, others=(at("other", zone="FIN-02"),))) == ([NAME] if goes else [])


def test_of_two_machines_one_stays_where_the_rules_of_both_allow_one_place() -> None:
    snapshot = idle(
        web("a", NAME, anti_affinity=APART),
        web("b", SECOND, anti_affinity=APART),
        others=(at(SECOND, gpus=1), at("other")),
        policy=policy(disruption_budget="100%"),
    )
    snapshot = replace(snapshot, machines=(*snapshot.machines, machine(SECOND)))
    assert gone(snapshot) == [NAME]
    decided = plan(snapshot)
    assert decided.machines[SECOND].code is Reason.IN_USE
    begun = (replace(snapshot.machines[0], phase=Phase.DRAINING), snapshot.machines[1])
    assert gone(replace(snapshot, machines=begun)) == []
    room = replace(snapshot, nodes=(*snapshot.nodes, at("more")))
    assert gone(room) == [NAME, SECOND]
    assert gone(replace(room, machines=begun)) == [SECOND]


def test_a_machine_that_stays_keeps_its_pods_for_the_rules_of_others() -> None:
    """Whoever is asked about and stays is where it was, ports and all."""
    snapshot = idle(
        web("a", NAME, host_ports=(HostPort(80),), node_selector={"no": "where"}),
        web("b", SECOND, host_ports=(HostPort(80),)),
        others=(at(SECOND, gpus=1),),
        policy=policy(disruption_budget="100%"),
    )
    assert gone(replace(snapshot, machines=(*snapshot.machines, machine(SECOND)))) == []


def somewhere(draw: random.Random) -> Snapshot:
    zones = ("FIN-01", "FIN-02", "FIN-03")
    names = [f"n{number}" for number in range(draw.randrange(1, 5))]
    others = tuple(
        at(name, draw.choice(zones), cpu=draw.choice((0, 2, 8)), taints=draw.choice(((), (), (Taint("x"),))))
        for name in names
    )

    def one(name: str, where: str) -> Pod:
        who = Selector({"app": draw.choice(("web", "db"))})
        term = (PodTerm(topology_key=draw.choice((ZONE, HOST)), selector=who),)
        rules: dict[str, Any] = draw.choice(
            (
                {},
                {"anti_affinity": term},
                {"affinity": term},
                {"host_ports": (HostPort(draw.choice((80, 81)), ip=draw.choice(("", "10.0.0.1"))),)},
                {
                    "spreads": (
                        Spread(
                            topology_key=draw.choice((ZONE, HOST)),
                            selector=who,
                            max_skew=draw.choice((1, 2)),
                            min_domains=draw.choice((None, None, 2)),
                        ),
                    )
                },
            )
        )
        tolerations = draw.choice(((), ANY))
        return web(name, where, labels={"app": draw.choice(("web", "db"))}, tolerations=tolerations, **rules)

    there = tuple(one(f"p{number}", draw.choice(names)) for number in range(draw.randrange(6)))
    return idle(one("moves", NAME), *there, others=others)


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_a_machine_with_one_pod_goes_if_and_only_if_a_plain_judge_finds_it_another_node(seed: int) -> None:
    snapshot = somewhere(random.Random(seed))
    moves = snapshot.pods[0]
    hosts = [
        Host(n.name, n.labels, n.taints, n.allocatable, [p for p in snapshot.pods[1:] if p.node == n.name])
        for n in snapshot.nodes
    ]
    later = [host for host in hosts if host.name != NAME]
    found = [host.name for host in later if not objection(moves, host, later, {})]
    assert gone(snapshot) == ([NAME] if found else []), found


@pytest.mark.parametrize("kind", ["persistentvolumes", "persistentvolumeclaims"])
def test_a_right_that_is_missing_is_told_where_it_keeps_a_machine(kind: str) -> None:
    claim = VolumeClaim(namespace="default", name="data", phase="Bound", volume="v")
    snapshot = idle(
        web("web", NAME, volumes=(PodVolume(claim="data"),)),
        others=(at("other"),),
        volumes=(Volume(name="v"),),
        volume_claims=(claim,),
        unreadable=(kind,),
    )
    assert gone(snapshot) == []
    assert f"may not read {kind}" in plan(snapshot).machines[NAME].message
    assert gone(replace(snapshot, unreadable=("storageclasses.storage.k8s.io",))) == [NAME]
