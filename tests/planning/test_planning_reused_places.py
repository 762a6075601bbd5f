"""Machines that are full leave their place to others; nobody may be kept from those by what was there before."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from controller.domain.plan import Launch, Plan, Snapshot
from controller.planning.planner import plan
from tests.planning.worlds import kind, offers, pod, policy, pool, world

POOL = "gpu-autoscaler/pool"
EIGHT = kind("8A100.176V", 8, 176, 960, "10.32")
FOUR = kind("4A100.88V", 4, 88, 480, "5.16")
KINDS = {of.name: of for of in (FOUR, EIGHT)}


def launches(decided: Plan) -> list[Launch]:
    return [action for action in decided.actions if isinstance(action, Launch)]


def test_a_machine_in_the_place_of_one_that_was_of_no_use_is_filled_like_any_other() -> None:
    asking = [pod(f"{n}{name}", 4, node_selector={POOL: name}) for n, name in enumerate("baabaa")]
    found = plan(world(policy=policy(pool("a"), pool("b")), offers=offers(EIGHT), pods=tuple(asking)))
    assert sorted((each.pool, len(each.pods)) for each in launches(found)) == [("a", 2), ("a", 2), ("b", 2)]


def random_world(seed: int) -> Snapshot:
    draw = random.Random(seed)
    asking = []
    for number in range(draw.randint(6, 24)):
        asking.append(
            pod(
                f"w{number}",
                draw.choice((1, 2, 3, 4, 6)),
                requests={"cpu": draw.choice((1000, 20_000, 60_000))},
                node_selector={POOL: draw.choice("abc")},
            )
        )
    return world(
        policy=policy(
            *(pool(name, max=30) for name in "abc"), strategy=draw.choice(("smallest", "cheapest"))
        ),
        offers=offers(*draw.choice(((EIGHT,), (FOUR, EIGHT)))),
        pods=tuple(asking),
    )


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_no_two_machines_of_a_plan_could_be_one(first: int) -> None:
    for seed in range(first, first + 30):
        snapshot = random_world(seed)
        asking = {each.key: each for each in snapshot.pods}
        for one, other in combinations(launches(plan(snapshot)), 2):
            together = [asking[key].shape for key in (*one.pods, *other.pods)]
            gpus = sum(shape.requests["nvidia.com/gpu"] for shape in together)
            cpu = sum(shape.requests["cpu"] for shape in together)
            for each in (one, other):
                free = KINDS[each.offer.type.name]
                fits = gpus <= free.gpus and cpu <= free.vcpus * 1000
                assert not (fits and one.pool == other.pool), f"seed {seed}: {one.pods} and {other.pods}"
