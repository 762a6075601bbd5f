"""What holds for every course of events: limits through any failures, and plans that depend on nothing else.

The worlds mix all features; what is checked is counted here anew.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, Refusal, Snapshot
from controller.domain.policy import Limits, NamespaceLimit
from controller.domain.reason import Reason
from controller.planning import planner
from controller.planning.planner import plan
from controller.sandbox.bench.planner import gpu
from tests.planning.mixed import bought, fingerprints, mixed
from tests.planning.worlds import A1, A2, A4, A8, NOW, machine, node, offers, pod, policy, pool, world

ROOT = Path(__file__).parents[2]
few = settings(max_examples=30, deadline=None, derandomize=True)


def launches(snapshot: Snapshot) -> list[Launch]:
    return [action for action in plan(snapshot).actions if isinstance(action, Launch)]


def within_limits(snapshot: Snapshot, ordered: list[float]) -> None:
    limits, alive = snapshot.policy.limits, snapshot.machines
    if limits.machines is not None:
        assert len(alive) <= limits.machines
    if limits.gpus is not None:
        assert sum(m.gpus for m in alive) <= limits.gpus
    if limits.price_per_hour is not None:
        assert sum(m.price for m in alive) <= limits.price_per_hour
    if limits.price_per_month is not None:
        # An hour of each is reserved, and none has run for longer than that.
        new = [m for m in alive if "-new" in m.name]
        assert snapshot.spent_this_month + sum((m.price for m in new), Decimal(0)) <= limits.price_per_month
    assert sum(at > snapshot.now - 60 for at in ordered) <= limits.launches_per_minute
    for each in snapshot.policy.pools:
        assert sum(m.pool == each.name for m in alive) <= each.max
    pods = {p.key: p for p in snapshot.pods}
    for name, limit in snapshot.policy.namespaces.items():
        new = [pods[key] for m in alive if "-new" in m.name for key in m.pods if key.startswith(f"{name}/")]
        if limit.gpus is not None:
            assert sum(p.shape.requests.get("nvidia.com/gpu", 0) for p in new) <= limit.gpus


@few
@given(st.integers(0, 10_000), st.data())
def test_limits_and_budgets_are_never_exceeded_by_plans_of_which_any_launches_fail(
    seed: int, data: st.DataObject
) -> None:
    draw = random.Random(seed)
    snapshot = mixed(seed, pods=data.draw(st.integers(1, 14)), machines=(), nodes=(node("foreign", 1),))
    snapshot = replace(snapshot, pods=tuple(p for p in snapshot.pods if not p.node))
    limits = replace(
        snapshot.policy.limits,
        machines=data.draw(st.sampled_from([None, 1, 4])),
        price_per_month=data.draw(st.sampled_from([None, Decimal("0.5"), Decimal(6)])),
    )
    snapshot = replace(
        snapshot,
        policy=replace(snapshot.policy, limits=limits, namespaces={"team": NamespaceLimit(gpus=2)}),
        spent_this_month=Decimal(data.draw(st.integers(0, 3))),
    )
    ordered: list[float] = []
    number = 0
    for _ in range(4):
        made: list[Machine] = []
        refused: list[Refusal] = []
        for launch in launches(snapshot):
            ordered.append(snapshot.now)
            number += 1
            if draw.random() < 0.4:
                refused.append(
                    Refusal(
                        offer=launch.offer.key,
                        reason=Reason.NO_CAPACITY,
                        until=snapshot.now + draw.choice((5, 180)),
                    )
                )
            else:
                made.append(bought(snapshot, launch.offer, launch.pool, launch.pods, number))
        snapshot = replace(
            snapshot,
            machines=snapshot.machines + tuple(made),
            refusals=snapshot.refusals + tuple(refused),
            launches=tuple(ordered),
        )
        within_limits(snapshot, ordered)
        later = snapshot.now + draw.choice((1, 10, 61))
        grown = tuple(
            replace(m, phase=Phase.ORDERED, ordered_at=m.intended_at) if m.phase is Phase.INTENDED else m
            for m in snapshot.machines
            if m.phase is Phase.INTENDED or draw.random() < 0.9  # some are gone again
        )
        snapshot = replace(snapshot, now=later, machines=grown)


def test_the_same_snapshot_gives_the_same_plan_under_another_hash_seed() -> None:
    seeds = range(24)
    code = f"from tests.planning.mixed import fingerprints; print(fingerprints({seeds!r}))"
    for seed in ("1", "4242"):
        told = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert told.stdout.split() == fingerprints(seeds).split()


def reordered(snapshot: Snapshot, draw: random.Random) -> Snapshot:
    names = ("pods", "nodes", "daemonsets", "namespaces", "volume_claims", "volumes", "storage_classes", "machines",
             "offers", "refusals", "launches")  # fmt: skip
    return replace(
        snapshot,
        **{name: tuple(draw.sample(getattr(snapshot, name), len(getattr(snapshot, name)))) for name in names},
    )


@pytest.mark.parametrize("seed", range(24))
def test_the_order_in_which_a_mixed_snapshot_is_listed_changes_nothing(seed: int) -> None:
    snapshot = mixed(seed)
    assert plan(reordered(snapshot, random.Random(seed))) == plan(snapshot)


def price_and_pods(snapshot: Snapshot) -> tuple[Decimal, int]:
    made = launches(snapshot)
    return sum((a.offer.price for a in made), Decimal(0)), sum(len(a.pods) for a in made)


def worlds_with_less_stock(seed: int, fewest: int, most: int, count: int) -> tuple[Snapshot, list[Snapshot]]:
    draw = random.Random(seed)
    every = gpu.offered(300)
    largest = draw.choice([offer for offer in every if offer.type.gpus == 8])
    others = draw.sample([offer for offer in every if offer is not largest], draw.randint(4, 16))
    more = gpu.on_offers((largest, *others), draw.randint(fewest, most), draw, "cheapest")
    more = replace(more, policy=replace(more.policy, max_overshoot=8))
    less = []
    for _ in range(count):
        out = {offer.key for offer in others if draw.random() < 0.5}
        less.append(replace(more, offers=tuple(replace(o, available=o.key not in out) for o in more.offers)))
    return more, less


def prices_with_more_and_less(more: Snapshot, less: list[Snapshot]) -> list[tuple[Decimal, Decimal]]:
    price, placed = price_and_pods(more)
    assert placed == len(more.pods)
    found = []
    for one in less:
        dearer, also = price_and_pods(one)
        assert also <= placed
        if also == placed:  # without the stock for it a pod may have to wait, which costs nothing
            found.append((price, dearer))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_more_stock_never_makes_a_cheapest_plan_dearer(seed: int) -> None:
    for price, dearer in prices_with_more_and_less(*worlds_with_less_stock(seed, 1, 16, 3)):
        assert price <= dearer * Decimal("1.001")  # closer prices are equal


@pytest.mark.parametrize("seed", [*range(8), 80])
def test_more_stock_makes_a_cheapest_plan_for_up_to_24_pods_no_dearer(seed: int) -> None:
    for price, dearer in prices_with_more_and_less(*worlds_with_less_stock(seed, 17, 24, 2)):
        assert price <= dearer * Decimal("1.001")


@pytest.mark.parametrize("seed", [*range(3), 23])
def test_beyond_what_is_proven_more_stock_makes_a_cheapest_plan_hardly_dearer(seed: int) -> None:
    """Nobody can promise more who decides in a moment; the best there is is dearer by nothing, of course."""
    for price, dearer in prices_with_more_and_less(*worlds_with_less_stock(seed, 25, 60, 2)):
        assert price <= dearer * Decimal("1.02")


@few
@given(st.integers(0, 10_000), st.sampled_from(["node", *(p.value for p in Phase if p.on_the_way)]))
def test_a_pod_that_fits_an_existing_or_promised_place_never_causes_a_purchase(seed: int, where: str) -> None:
    """Whatever else waits beside it: without the pod as much is bought as with it."""
    draw = random.Random(seed)
    gpus = draw.choice((1, 2, 4))
    of = {1: A1, 2: A2, 4: A4}[gpus]
    ours = machine(
        "home-a100-aaaaaaaaaa", of, Phase.READY if where == "node" else Phase(where), ready_at=NOW - 900
    )
    # Nobody else may go there, so that the place is the pod's.
    only = {"gpu-autoscaler/pool": "a100"}
    there = (
        ()
        if where != "node"
        else (node(ours.name, gpus, cpu=of.vcpus, memory=of.memory_gib - 8, labels=only),)
    )
    own = pod("own", gpus, node_selector=only)
    others = tuple(
        pod(f"w{n}", draw.choice((1, 2)), node_selector={"gpu-autoscaler/pool": "b"})
        for n in range(draw.randint(0, 4))
    )
    snapshot = world(
        policy=policy(
            pool(), pool("b"), strategy=draw.choice(("smallest", "cheapest", "priority")), limits=Limits()
        ),
        offers=offers(A1, A2, A4, A8, locations=("FIN-01", "FIN-02")),
        machines=(ours,),
        nodes=there,
    )
    without = [(a.pool, a.offer.key, a.pods) for a in launches(replace(snapshot, pods=others))]
    beside = [(a.pool, a.offer.key, a.pods) for a in launches(replace(snapshot, pods=(*others, own)))]
    assert beside == without


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_looks_for_garbage_while_a_plan_is_made_and_then_all_is_as_before(
    collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def failing(_: object) -> None:
        seen.append(gc.isenabled())
        raise ValueError("no such thing")

    monkeypatch.setattr(planner, "_finished", failing)
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ValueError, match="no such thing"):
            plan(world(pods=(pod("a"),), offers=offers(A1)))
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()
    assert seen == [False]
