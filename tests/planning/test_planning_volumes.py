"""Claims and volumes beyond the rows of the cases: what is made once, what is not bound yet, what is gone for good."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from controller.domain.kube import (
    NodeTerm,
    Pod,
    PodVolume,
    Requirement,
    StorageClass,
    Volume,
    VolumeClaim,
)
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A8, GIB, node, offers, pod, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DATA = (PodVolume(claim="data"),)
SHARED = ("ReadWriteMany",)


def at(key: str, *values: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(key, "In", values),)),)


ZONAL = StorageClass(
    name="zonal", provisioner="csi", waits_for_consumer=True, allowed=at(ZONE, "FIN-01", "FIN-02")
)


def claim(**more: Any) -> VolumeClaim:
    values = {"namespace": "default", "name": "data", "storage_class": "zonal", "access_modes": SHARED}
    return VolumeClaim(**(values | more))


def pv(**more: Any) -> Volume:
    return Volume(**({"name": "pv", "storage_class": "zonal", "access_modes": SHARED} | more))


def shop(*pods: Pod, **more: Any) -> Snapshot:
    values: dict[str, Any] = {
        "pods": pods,
        "offers": offers(A1, A8, locations=("FIN-01", "FIN-02")),
        "storage_classes": (ZONAL,),
        "volume_claims": (claim(),),
    }
    return world(**(values | more))


def bought(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(a.offer.type.name, a.offer.location) for a in plan(snapshot).actions if isinstance(a, Launch)]


def told(snapshot: Snapshot, name: str) -> Explanation:
    return plan(snapshot).pods[f"default/{name}"]


def test_a_claim_that_waits_is_made_where_the_first_of_its_pods_finds_a_node() -> None:
    home = node("home", 1, labels={HOST: "home", ZONE: "FIN-02"})
    large, small = pod("large", 8, volumes=DATA), pod("small", 1, volumes=DATA)
    for pods in permutations((large, small)):
        snapshot = shop(*pods, nodes=(home,))
        assert bought(snapshot) == [("8A100.176V", "FIN-02")]
        assert told(snapshot, "small").code is Reason.FITS_NOW


def test_machines_for_pods_that_share_a_claim_which_waits_are_all_in_one_location() -> None:
    sold = (*offers(A8, locations=("FIN-02",)), *offers(A1, locations=("FIN-01", "FIN-02")))
    snapshot = shop(pod("large", 8, volumes=DATA), pod("small", 1, volumes=DATA), offers=sold)
    assert {location for _, location in bought(snapshot)} == {"FIN-02"}
    assert len(bought(snapshot)) == 2


def test_whoever_cannot_be_where_a_shared_claim_is_made_is_told_so_and_nothing_is_bought_for_it() -> None:
    large = pod("large", 8, volumes=DATA, node_selector={ZONE: "FIN-02"})
    small = pod("small", 1, volumes=DATA, node_selector={ZONE: "FIN-01"})
    snapshot = shop(large, small)
    assert bought(snapshot) == [("8A100.176V", "FIN-02")]
    why = told(snapshot, "small")
    assert why.code is Reason.VOLUME
    assert "whose volume is made where that one goes (topology.kubernetes.io/zone=FIN-02)" in why.message


def test_of_a_shared_claim_whose_class_says_no_location_nothing_is_known_and_each_pod_goes_where_it_likes() -> (
    None
):
    anywhere = StorageClass(name="zonal", provisioner="csi", waits_for_consumer=True)
    large = pod("large", 8, volumes=DATA, node_selector={ZONE: "FIN-02"})
    small = pod("small", 1, volumes=DATA, node_selector={ZONE: "FIN-01"})
    snapshot = shop(large, small, storage_classes=(anywhere,))
    assert sorted(bought(snapshot)) == [("1A100.22V", "FIN-01"), ("8A100.176V", "FIN-02")]


def test_a_claim_that_has_free_volumes_elsewhere_is_made_once_too() -> None:
    small_volume = pv(name="far", terms=at(ZONE, "FIN-03"), phase="Available", capacity=GIB)
    large = pod("large", 8, volumes=DATA, node_selector={ZONE: "FIN-02"})
    small = pod("small", 1, volumes=DATA, node_selector={ZONE: "FIN-01"})
    assert bought(shop(large, small, volumes=(small_volume,))) == [("8A100.176V", "FIN-02")]


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ((), "asks for volume pv, which does not exist"),
        ((pv(claim="default/other", phase="Bound"),), "which belongs to claim default/other"),
        ((pv(phase="Available"),), "is not bound to it yet"),
        ((pv(claim="default/data", phase="Available"),), "is not bound to it yet"),
    ],
)
def test_a_claim_that_only_asks_for_a_volume_by_name_is_waited_for(
    there: tuple[Volume, ...], words: str
) -> None:
    snapshot = shop(pod(volumes=DATA), volume_claims=(claim(volume="pv"),), volumes=there)
    assert bought(snapshot) == []
    why = told(snapshot, "train")
    assert why.code is Reason.VOLUME
    assert words in why.message


@pytest.mark.parametrize("says", [{"phase": "Bound"}, {"bind_completed": True}])
def test_a_claim_is_bound_when_its_phase_says_so_or_the_mark_by_which_the_scheduler_knows(
    says: dict[str, Any],
) -> None:
    there = pv(claim="default/data", terms=at(ZONE, "FIN-02"), phase="Bound")
    snapshot = shop(pod(volumes=DATA), volume_claims=(claim(volume="pv", **says),), volumes=(there,))
    assert bought(snapshot) == [("1A100.22V", "FIN-02")]


@pytest.mark.parametrize(("local", "machines"), [(True, 1), (False, 0)])
def test_only_of_a_disk_that_went_with_its_host_the_hostname_is_forgotten(local: bool, machines: int) -> None:
    there = pv(claim="default/data", phase="Bound", local=local, terms=at(HOST, "gone"))
    snapshot = shop(pod(volumes=DATA), volume_claims=(claim(phase="Bound", volume="pv"),), volumes=(there,))
    assert len(bought(snapshot)) == machines
    assert machines or told(snapshot, "train").code is Reason.VOLUME


@pytest.mark.parametrize("where", [{}, {"node": "home"}])
def test_whoever_comes_second_to_a_claim_for_one_pod_is_told_who_has_it(where: dict[str, str]) -> None:
    alone = claim(access_modes=("ReadWriteOncePod",), phase="Bound", volume="pv")
    first, second = pod("first", volumes=DATA, **where), pod("second", volumes=DATA)
    for pods in permutations((first, second)):
        snapshot = shop(
            *pods, nodes=(node("home", 2),), volume_claims=(alone,), volumes=(pv(claim="default/data"),)
        )
        why = told(snapshot, "second")
        assert why.code is Reason.VOLUME
        assert "claim data is ReadWriteOncePod, and pod default/first has it" in why.message
