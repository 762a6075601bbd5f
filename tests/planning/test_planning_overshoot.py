"""What nobody waits for is held to `max_overshoot` as well: a minimum, and room that is kept free."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.policy import Headroom, Limits
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, A8, kind, offers, pod, policy, pool, world

SMALL_SOLD_OUT = offers(A1, available=False)
ONE_FREE = {"headroom": (Headroom(pool="a100", gpus=1),)}


def types(decided: Plan) -> list[str]:
    return [action.offer.type.name for action in decided.actions if isinstance(action, Launch)]


def scene(wish: str, overshoot: int, *sold: object) -> Snapshot:
    pools = (pool(min=1),) if wish == "min" else (pool(),)
    more = ONE_FREE if wish == "headroom" else {}
    return world(policy=policy(*pools, max_overshoot=overshoot, **more), offers=sold)


@pytest.mark.parametrize("wish", ["min", "headroom"])
@pytest.mark.parametrize(
    ("overshoot", "larger", "bought"),
    [(0, (A2,), []), (1, (A2, A8), ["2A100.44V"]), (1, (A8,), []), (7, (A8,), ["8A100.176V"])],
)
def test_no_larger_machine_is_bought_for_a_wish_merely_because_the_small_one_is_sold_out(
    wish: str, overshoot: int, larger: tuple[object, ...], bought: list[str]
) -> None:
    decided = plan(scene(wish, overshoot, *SMALL_SOLD_OUT, *offers(*larger)))
    assert types(decided) == bought
    if not bought:
        more = larger[0].gpus - 1  # type: ignore[attr-defined]
        assert decided.pools["a100"].code is Reason.NO_CAPACITY
        assert decided.pools["a100"].message.endswith(
            f"less is {'there' if wish == 'min' else 'free'}: 1A100.22V is not available in FIN-01 (on-demand); "
            f"the next larger machine has {more} GPUs more: set planning.max_overshoot to at least {more} to allow that"
        )


@pytest.mark.parametrize("wish", ["min", "headroom"])
def test_a_pool_of_large_machines_alone_keeps_its_wish(wish: str) -> None:
    assert types(plan(scene(wish, 0, *offers(A8)))) == ["8A100.176V"]


def test_what_is_large_because_much_is_to_be_free_is_not_too_large() -> None:
    """Four GPUs on one machine: what the limits leave room for is what would be bought if nothing were sold out."""
    rules = policy(pool(max=1), max_overshoot=0, headroom=(Headroom(pool="a100", gpus=4),))
    assert types(plan(world(policy=rules, offers=(*SMALL_SOLD_OUT, *offers(A4, A8))))) == ["4A100.88V"]


@pytest.mark.parametrize(
    ("wanted", "sold", "more", "bought"),
    [
        (16, offers(A1, A8), {}, ["8A100.176V"]),
        (3, (*offers(A1, A2, A8), *offers(A4, available=False)), {}, ["2A100.44V"]),
        (4, offers(A1, A2, A4), {"limits": Limits(price_per_hour=Decimal(3))}, ["2A100.44V"]),
    ],
)
def test_where_no_machine_is_large_enough_the_nearest_is_kept_free(
    wanted: int, sold: Any, more: Any, bought: list[str]
) -> None:
    """The smallest was bought, and as the pool may have no other machine, no more was ever free."""
    rules = policy(pool(max=1), headroom=(Headroom(pool="a100", gpus=wanted),), **more)
    assert types(plan(world(policy=rules, offers=sold))) == bought


def test_a_machine_that_is_too_large_after_all_leaves_the_limit_to_who_was_refused_before() -> None:
    """Three wait for two machines of two GPUs, the second of which would be half empty."""
    cpu = kind("CPU.8V.32G", 0, 8, 32, "0.08", "")
    pools = (
        pool("a100", instance_types=(A1.name, A2.name)),
        pool("cpu", instance_types=(cpu.name,), min_gpu_memory_gb=0, resources={"example.com/slot": 4}),
    )
    waiting = (
        *(pod(f"g{n}", 1, priority=5) for n in range(3)),
        pod("c", 0, requests={"example.com/slot": 1, "cpu": 1000}),
    )
    rules = policy(*pools, limits=Limits(machines=2), max_overshoot=0)
    decided = plan(world(pods=waiting, offers=(*SMALL_SOLD_OUT, *offers(A2, cpu)), policy=rules))
    assert types(decided) == ["2A100.44V", "CPU.8V.32G"]
    assert decided.pods["default/c"].code is Reason.LAUNCHING
    assert decided.pods["default/g2"].code is Reason.NO_CAPACITY
