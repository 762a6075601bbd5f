"""Machines without GPUs become smaller where their pods find room elsewhere; no limit gives way for that."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pytest

from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Limits, NamespaceLimit
from controller.planning.drafting import draft
from controller.planning.own import with_own
from controller.planning.planner import plan
from tests.planning.worlds import GIB, kind, offers, pod, policy, pool, world

SLOT = "example.com/slot"
CPUS = tuple(kind(f"CPU.{n}V", 0, n, 4 * n, f"{n}.00") for n in (2, 3, 4, 6, 8, 16))


def random_world(seed: int) -> Snapshot:
    draw = random.Random(seed)
    names = tuple(of.name for of in CPUS)
    few = draw.choice(((), names[:2], names[1:3]))
    return world(
        policy=policy(
            pool("many", max=60, instance_types=names, min_gpu_memory_gb=0, resources={SLOT: 20}),
            pool("few", max=draw.randint(1, 2), instance_types=few or names, min_gpu_memory_gb=0, resources={SLOT: 20}),
            strategy=draw.choice(("smallest", "cheapest")),
            limits=Limits(price_per_hour=draw.choice((None, Decimal(40)))),
            namespaces=draw.choice(({}, {"team": NamespaceLimit(price_per_hour=Decimal(9))})),
        ),
        offers=offers(*CPUS),
        pods=tuple(
            pod(
                f"w{n:02d}",
                0,
                namespace=draw.choice(("default", "team")),
                requests={"cpu": draw.choice((300, 700, 1100, 1900)), "memory": draw.choice((1, 3, 7)) * GIB, SLOT: 1},
            )
            for n in range(draw.randint(5, 40))
        ),
    )  # fmt: skip


def launches(snapshot: Snapshot) -> list[Launch]:
    return [action for action in plan(snapshot).actions if isinstance(action, Launch)]


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_no_pool_and_no_namespace_ever_has_more_than_its_limit_because_machines_shrink(first: int) -> None:
    for seed in range(first, first + 30):
        snapshot = random_world(seed)
        bought = launches(snapshot)
        count = Counter(each.pool for each in bought)
        assert all(count[each.name] <= each.max for each in snapshot.policy.pools), seed
        most = snapshot.policy.limits.price_per_hour
        assert most is None or sum(each.offer.price for each in bought) <= most, seed
        for name, limit in snapshot.policy.namespaces.items():
            alone = [a for a in bought if all(key.startswith(f"{name}/") for key in a.pods)]
            assert limit.price_per_hour is not None
            assert sum(each.offer.price for each in alone) <= limit.price_per_hour, seed


def test_a_machine_that_cannot_shrink_after_all_is_charged_as_it_was_before() -> None:
    """Its pods came back in another order: the rest of it was charged to the namespace of another one, unchecked."""
    small, middle, large = (
        kind("CPU.8V", 0, 8, 32, "0.08"),
        kind("CPU.16V", 0, 16, 64, "0.16"),
        kind("CPU.32V", 0, 32, 128, "0.33"),
    )
    asked = (
        ("p0", "team", 9, 19, 0), ("p1", "default", 9, 9, 0), ("p2", "default", 9, 18, 10),
        ("p3", "team", 9, 9, 0), ("p4", "team", 9, 5, 0), ("p5", "team", 2, 2, 0),
    )  # fmt: skip
    snapshot = world(
        policy=policy(
            pool("cpu", instance_types=("CPU.8V", "CPU.16V", "CPU.32V"), min_gpu_memory_gb=0, resources={SLOT: 8}),
            namespaces={"team": NamespaceLimit(price_per_hour=Decimal("0.4"))},
        ),
        offers=offers(small, middle, large),
        pods=tuple(
            pod(name, 0, namespace=of, priority=weight, requests={"cpu": 1000 * cores, "memory": gib * GIB, SLOT: 1})
            for name, of, cores, gib, weight in asked
        ),
    )  # fmt: skip
    charged = draft(with_own(snapshot)).packing.tally.charges.price
    assert charged["team"] <= Decimal("0.4")
