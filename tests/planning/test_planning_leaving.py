"""When machines go and when they stay: order, age, hours, increments, expiry, drift, budgets, headroom."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import DeviceClaim, DeviceRequest, Node, Pod, PodDeviceClaim, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.making import made_with
from controller.domain.plan import Explanation, Launch, MarkIdle, Plan, Retire, Snapshot
from controller.domain.policy import Billing, Policy, Pool
from controller.domain.reason import Reason
from controller.domain.windows import parse_window
from controller.fleet.marks import intend
from controller.planning import scale_down
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A8, NOW, kind, machine, node, offers, pod, policy, pool, world

NAME = "home-a100-aaaaaaaaaa"
DAY = 86400.0
OLD: dict[str, Any] = {"intended_at": NOW - 30 * DAY, "ready_at": NOW - 30 * DAY}


def since(seconds: float) -> dict[str, str]:
    return {"gpu-autoscaler/idle-since": datetime.fromtimestamp(NOW - seconds, UTC).isoformat()}


def gone(decided: Plan) -> list[str]:
    return [action.machine for action in decided.actions if isinstance(action, Retire)]


def idle(*pods: Pod, seconds: float = 700, owner: Machine | None = None, **more: Any) -> Snapshot:
    return world(
        machines=(owner or machine(),), nodes=(node(NAME, annotations=since(seconds)),), pods=pods, **more
    )


def why(snapshot: Snapshot) -> Reason:
    decided = plan(snapshot)
    code = decided.machines[NAME].code
    going = code in (Reason.IDLE, Reason.EXPIRED, Reason.DRIFTED, Reason.CONSOLIDATION)
    assert bool(gone(decided)) is going
    return code


def fleet(*rows: tuple[str, Any, float], **more: Any) -> Snapshot:
    """Idle machines: (letter, type, idle for seconds)."""
    called = [(f"home-a100-{letter * 10}", of, seconds) for letter, of, seconds in rows]
    given: dict[str, Any] = {"policy": policy(disruption_budget="1")} | more
    return world(
        machines=tuple(machine(name, of) for name, of, _ in called),
        nodes=tuple(node(name, of.gpus, annotations=since(seconds)) for name, of, seconds in called),
        **given,
    )


# -- order --------------------------------------------------------------------------------------

DEAR = kind("1B200.30V", 1, 30, 184, "11.00", "B200")


@pytest.mark.parametrize(
    ("order", "rows", "first"),
    [
        ("largest", [("a", DEAR, 900), ("b", A8, 700)], "b"),
        ("dearest", [("a", DEAR, 700), ("b", A8, 900)], "a"),
        ("dearest", [("a", A2, 900), ("b", kind("1X", 1, 8, 64, "2.58"), 900)], "a"),  # same price: more GPUs
        ("dearest", [("a", A2, 700), ("b", A2, 900)], "b"),
        ("dearest", [("b", A2, 900), ("a", A2, 900)], "a"),
        ("dearest", [("a", A8, 100), ("b", A1, 700)], "b"),  # the dearest is not past its cooldown
    ],
)
def test_the_first_to_go_is_the_largest_or_the_dearest(
    order: str, rows: list[tuple[str, Any, float]], first: str
) -> None:
    snapshot = fleet(*rows, policy=policy(disruption_budget="1", order=order))
    assert gone(plan(snapshot)) == [f"home-a100-{first * 10}"]
    turned = replace(snapshot, machines=snapshot.machines[::-1], nodes=snapshot.nodes[::-1])
    assert gone(plan(turned)) == [f"home-a100-{first * 10}"]


# -- age ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "age", "fields", "code"),
    [
        (3600, 3599, {}, Reason.MIN_AGE),
        (3600, 3600, {}, Reason.IDLE),
        (0, 10, {}, Reason.IDLE),
        (3600, 60, {"surplus": True}, Reason.IDLE),
    ],
)
def test_no_machine_goes_before_the_least_age(
    least: float, age: float, fields: dict[str, Any], code: Reason
) -> None:
    snapshot = idle(owner=machine(intended_at=NOW - age, **fields), policy=policy(min_age=least))
    assert why(snapshot) is code
    if code is Reason.MIN_AGE:
        assert plan(snapshot).wake_at == NOW - age + least


def test_the_least_age_keeps_a_drifted_machine_too() -> None:
    owner = machine(intended_at=NOW - 60, location="ICE-01")
    there = pool(locations=("FIN-01",))
    assert why(idle(owner=owner, policy=policy(there, min_age=3600))) is Reason.MIN_AGE
    assert why(idle(owner=owner, policy=policy(there))) is Reason.DRIFTED


# -- hours --------------------------------------------------------------------------------------

# NOW is a Friday, 08:00 UTC, which is 10:00 in Helsinki.
OPEN, SHUT = "Fri 09:00-11:00 Europe/Helsinki", "Fri 11:00-12:00 Europe/Helsinki"


@pytest.mark.parametrize(
    ("windows", "not_during", "code"),
    [
        ((), (), Reason.IDLE),
        ((OPEN,), (), Reason.IDLE),
        ((SHUT,), (), Reason.WINDOW),
        ((SHUT, OPEN), (), Reason.IDLE),
        ((), (OPEN,), Reason.WINDOW),
        ((), (SHUT,), Reason.IDLE),
        ((OPEN,), (OPEN,), Reason.WINDOW),
    ],
)
def test_hours_in_which_machines_may_go_and_in_which_none_does(
    windows: tuple[str, ...], not_during: tuple[str, ...], code: Reason
) -> None:
    hours = {
        "windows": tuple(map(parse_window, windows)),
        "not_during": tuple(map(parse_window, not_during)),
    }
    for owner in (machine(), machine(surplus=True), machine(location="ICE-01")):
        found = why(idle(owner=owner, policy=policy(pool(locations=("FIN-01",)), **hours)))
        assert (found is Reason.WINDOW) is (code is Reason.WINDOW)


def test_it_is_looked_again_when_the_hours_change_and_a_failed_machine_waits_for_none() -> None:
    snapshot = idle(policy=policy(windows=(parse_window(SHUT),)))
    assert plan(snapshot).wake_at == NOW + 3600
    assert "disruption.windows" in plan(snapshot).machines[NAME].message
    sick = machine(phase=Phase.DRAINING, reason=Reason.GPU_LOST)
    assert plan(replace(snapshot, machines=(sick,))).machines[NAME].code is Reason.GPU_LOST


# -- increments ---------------------------------------------------------------------------------

HOURLY = Billing(increment=3600, refund_unused=False)


@pytest.mark.parametrize(
    ("billing", "age", "seconds", "code", "ends"),
    [
        (Billing(increment=3600), 1800, 700, Reason.IDLE, None),  # refunded: no reason to wait
        (HOURLY, 1800, 700, Reason.PAID, 3600 - 65),
        (HOURLY, 3534, 700, Reason.PAID, 3600 - 65),
        (HOURLY, 3535, 700, Reason.IDLE, None),  # the removal itself takes a while
        (HOURLY, 3500, 100, Reason.COOLDOWN, 3500 + 500),  # and then until the end of the second hour
        (HOURLY, 4100, 700, Reason.PAID, 7200 - 65),
        # It could have gone in its second hour and was held up: never later than one increment after that.
        (HOURLY, 7300, 2000, Reason.IDLE, None),
        (Billing(increment=60, refund_unused=False), 1830, 600, Reason.PAID, 1845),
    ],
)
def test_what_is_paid_and_not_given_back_is_used_up(
    billing: Billing, age: float, seconds: float, code: Reason, ends: float | None
) -> None:
    snapshot = idle(seconds=seconds, owner=machine(intended_at=NOW - age), policy=policy(billing=billing))
    assert why(snapshot) is code
    assert plan(snapshot).wake_at == (None if ends is None else NOW - age + ends)


@pytest.mark.parametrize("increment", [60, 600, 3600, 86400])
@pytest.mark.parametrize("age", [601, 5000, 86399, 86401])
def test_no_machine_stays_longer_than_one_increment_after_its_cooldown(increment: float, age: float) -> None:
    billing = Billing(increment=increment, refund_unused=False)
    for seconds in (600 + increment, 600 + 2 * increment):
        owner = machine(intended_at=NOW - age - seconds)
        assert why(idle(seconds=seconds, owner=owner, policy=policy(billing=billing))) is Reason.IDLE


def test_what_is_surplus_or_drifted_goes_also_where_it_is_paid_for() -> None:
    for owner in (machine(surplus=True), machine(location="ICE-01")):
        rules = policy(pool(locations=("FIN-01",)), billing=HOURLY)
        assert why(idle(seconds=1, owner=owner, policy=rules)) in (Reason.IDLE, Reason.DRIFTED)


# -- expiry and drift ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expire_after", "age", "code"),
    [(None, 900 * DAY, Reason.COOLDOWN), (DAY, DAY - 1, Reason.COOLDOWN), (DAY, DAY, Reason.EXPIRED)],
)
def test_an_idle_machine_that_is_too_old_goes_at_once(
    expire_after: float | None, age: float, code: Reason
) -> None:
    owner = machine(intended_at=NOW - age)
    assert why(idle(seconds=1, owner=owner, policy=policy(pool(expire_after=expire_after)))) is code


def test_a_machine_ages_from_the_moment_it_is_usable_so_that_a_long_boot_takes_nothing_from_it() -> None:
    rules = policy(pool(expire_after=3600.0))
    slow = machine(intended_at=NOW - 5000, ready_at=NOW - 3599)
    assert why(idle(seconds=1, owner=slow, policy=rules)) is Reason.COOLDOWN
    assert why(idle(seconds=1, owner=replace(slow, ready_at=NOW - 3600), policy=rules)) is Reason.EXPIRED


def made(before: Pool, **more: Any) -> Machine:
    return machine(made_with=made_with(before), **more)


BEFORE = pool(
    labels={"a": "1", "b": "2"}, taints=(Taint("x"), Taint("y")), images=("one",), ssh_key_ids=("k", "l")
)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, ""),
        ({"images": ("two",)}, "image"),
        ({"images": ()}, "image"),
        ({"disk_gb": 200}, "disk_gb"),
        ({"ssh_key_ids": ("k",)}, "ssh_key_ids"),
        ({"ssh_key_ids": ("l", "k")}, ""),
        ({"labels": {"b": "2", "a": "1"}}, ""),
        ({"labels": {"a": "1", "b": "3"}}, "labels"),
        ({"taints": (Taint("y"), Taint("x"))}, ""),
        ({"taints": (Taint("x"),)}, "taints"),
        ({"taints": (Taint("x"), Taint("y", "", "NoExecute"))}, "taints"),
        ({"join": "other"}, "join"),
        ({"images": ("two",), "disk_gb": 200}, "image, disk_gb"),
        ({"instance_types": ("2A100.44V",)}, "type 1A100.22V"),
        ({"gpu_models": ("H100",)}, "type 1A100.22V"),
        ({"min_gpu_memory_gb": 141}, "type 1A100.22V"),
        ({"instance_types": ("1a100.22v",)}, ""),
        ({"locations": ("ICE-01",)}, "location FIN-01"),
        ({"locations": ("ICE-01", "FIN-01")}, ""),
        ({"market": "spot_only"}, "market on-demand"),
        ({"market": "prefer_spot"}, ""),
        # What says only how many there may be, at which price, or what is bought now, is no drift.
        ({"min": 0, "max": 1, "max_price_per_hour": Decimal("0.01"), "pause": "scale-up"}, ""),
        ({"resources": {"nvidia.com/mig-1g.10gb": 7}, "startup_taint": True, "feature_discovery": False}, ""),
    ],
)
def test_what_is_drift_and_what_is_none(change: dict[str, Any], named: str) -> None:
    decided = plan(idle(seconds=1, owner=made(BEFORE), policy=policy(replace(BEFORE, **change))))
    told = decided.machines[NAME]
    assert told.code is (Reason.DRIFTED if named else Reason.COOLDOWN)
    assert gone(decided) == ([NAME] if named else [])
    assert named in told.message


def test_a_machine_whose_pool_was_taken_out_goes_as_soon_as_it_is_idle_or_is_kept() -> None:
    others = policy(pool("other"))
    drained = plan(idle(seconds=1, owner=made(pool()), policy=others))
    assert gone(drained) == [NAME]
    assert drained.machines[NAME].code is Reason.POOL_REMOVED
    kept = plan(idle(seconds=10**6, owner=made(pool()), policy=replace(others, removed_pools="keep")))
    assert gone(kept) == []
    assert kept.machines[NAME].code is Reason.POOL_REMOVED


def test_a_machine_of_which_nothing_is_known_has_not_drifted() -> None:
    changed = policy(pool(labels={"new": "1"}, images=("x",)))
    assert why(idle(seconds=1, policy=changed)) is Reason.COOLDOWN
    unsold = replace(machine(), instance_type="9Z.1V", made_with=made_with(pool()))
    assert why(idle(seconds=1, owner=unsold)) is Reason.COOLDOWN
    named = policy(pool(instance_types=("1A100.22V",)))
    assert why(idle(seconds=1, owner=replace(unsold, made_with={}), policy=named)) is Reason.DRIFTED


def test_an_order_records_what_its_machine_is_made_with() -> None:
    launch = Launch(pool="a100", offer=offers(A1)[0], pods=(), reason="test")
    record = intend(policy(BEFORE), launch, "aaaaaaaaaa", NOW)
    assert record.made_with == made_with(BEFORE)
    assert set(record.made_with) == {"image", "disk_gb", "ssh_key_ids", "labels", "taints", "join"}


@pytest.mark.parametrize(
    ("owner", "word"),
    [
        (machine(**OLD), "expire_after"),
        (machine(location="ICE-01"), "location ICE-01"),
        (machine(made_with={"image": "x"}), "image"),
    ],
)
def test_a_busy_machine_that_is_old_or_drifted_stays_and_says_so(owner: Machine, word: str) -> None:
    rules = policy(pool(expire_after=DAY, locations=("FIN-01",)))
    decided = plan(idle(pod("train", node=NAME), owner=owner, policy=rules))
    assert gone(decided) == []
    assert decided.machines[NAME].code is Reason.IN_USE
    assert word in decided.machines[NAME].message
    assert "as soon as it is idle" in decided.machines[NAME].message


def test_a_drifted_machine_that_a_waiting_pod_fits_stays() -> None:
    owner = machine(**OLD)
    decided = plan(idle(pod(), owner=owner, policy=policy(pool(expire_after=DAY))))
    assert (gone(decided), decided.machines[NAME].code) == ([], Reason.NEEDED)


@pytest.mark.parametrize(
    ("least", "others", "pause", "going"),
    [
        (1, [], "", 1),  # it is replaced: the minimum is filled up anew
        (1, [], "scale-up", 0),  # and could not be
        (2, [Phase.BOOTING], "", 0),
        (2, [Phase.DRAINING], "", 0),
        (2, [Phase.READY], "", 1),
        (3, [Phase.READY], "", 0),  # the minimum is not full
    ],
)
def test_outdated_machines_of_a_minimum_are_replaced_one_after_the_other(
    least: int, others: list[Phase], pause: str, going: int
) -> None:
    rest = [machine(f"home-a100-{'bcd'[n] * 10}", phase=phase, **OLD) for n, phase in enumerate(others)]
    snapshot = world(
        machines=(machine(**OLD), *rest),
        nodes=tuple(node(m.name, annotations=since(5)) for m in (machine(), *rest)),
        policy=policy(pool(min=least, expire_after=DAY, pause=pause), disruption_budget="100%"),
    )
    assert len(gone(plan(snapshot))) == going


def test_the_last_machine_of_a_minimum_is_not_replaced_by_the_plan_that_lets_the_others_go() -> None:
    large = machine("home-a100-bbbbbbbbbb", A8, ready_at=NOW - 9000, intended_at=NOW - 9000)
    snapshot = world(
        machines=(machine(**OLD), large),
        nodes=(node(NAME, annotations=since(5)), node(large.name, 8, annotations=since(9000))),
        policy=policy(pool(min=1, expire_after=DAY), disruption_budget="100%"),
    )
    decided = plan(snapshot)
    assert gone(decided) == [large.name]
    assert decided.machines[NAME].code is Reason.MIN_SIZE


# -- budgets ------------------------------------------------------------------------------------


def budgeted(budget: str, of: dict[str, str], lost: int = 0, deleting: int = 0, **more: Any) -> Snapshot:
    """Six idle machines: three that drifted and three that did not; some Nodes beside them are lost."""
    rules = policy(pool(locations=("FIN-01",)), disruption_budget=budget, disruption_budgets=of)
    snapshot = fleet(*((letter, A1, 700.0) for letter in "abcdef"), policy=rules)
    machines = [replace(m, location="ICE-01") if n < 3 else m for n, m in enumerate(snapshot.machines)]
    nodes = list(snapshot.nodes)
    for n in range(lost + deleting):
        name = f"home-a100-{'uvwxyz'[n] * 10}"
        machines.append(machine(name))
        nodes.append(node(name, ready=n >= lost, deleting=n >= lost))
    return replace(snapshot, machines=tuple(machines), nodes=tuple(nodes), **more)


@pytest.mark.parametrize(
    ("snapshot", "drifted", "idling"),
    [
        (budgeted("100%", {}), 3, 3),
        (budgeted("100%", {"drifted": "1"}), 1, 5),  # they are idle for long as well
        (budgeted("100%", {"drifted": "0", "idle": "2"}), 0, 2),
        (budgeted("100%", {"drifted": "10%"}), 1, 5),  # rounded up
        (budgeted("100%", {"drifted": "0%", "idle": "0"}), 0, 0),
        (budgeted("2", {"drifted": "3", "idle": "3"}), 2, 0),  # both hold
        (budgeted("3", {}, lost=1), 2, 0),
        (budgeted("3", {}, lost=1, deleting=1), 1, 0),
        (budgeted("1", {}, lost=2, deleting=1), 0, 0),  # never negative
        (budgeted("100%", {"idle": "2"}, lost=1), 3, 1),
        (budgeted("100%", {"idle": "1"}, lost=3), 3, 0),
        (budgeted("0", {}), 0, 0),
    ],
)
def test_budgets_of_all_and_of_one_reason(snapshot: Snapshot, drifted: int, idling: int) -> None:
    decided = plan(snapshot)
    codes = [a.reason for a in decided.actions if isinstance(a, Retire)]
    assert (codes.count(Reason.DRIFTED), codes.count(Reason.IDLE)) == (drifted, idling)
    waiting = [said for said in decided.machines.values() if said.code is Reason.BUDGET]
    assert len(waiting) == 6 - drifted - idling
    assert all("disruption.budget" in said.message for said in waiting)


@pytest.mark.parametrize(
    ("reason", "going"),
    [(Reason.IDLE, 1), (Reason.DRIFTED, 2), (Reason.PDB, 1), (None, 1), (Reason.GPU_LOST, 2)],
)
def test_what_is_on_its_way_out_counts_for_its_reason_and_for_any_if_nobody_knows(
    reason: Reason | None, going: int
) -> None:
    rules = policy(disruption_budget="100%", disruption_budgets={"idle": "2"})
    snapshot = fleet(*((letter, A1, 700.0) for letter in "abcd"), policy=rules)
    leaving = machine("home-a100-zzzzzzzzzz", phase=Phase.DRAINING, reason=reason)
    assert len(gone(plan(replace(snapshot, machines=(*snapshot.machines, leaving))))) == going


DELETED: dict[str, Any] = {"phase": Phase.DELETING, "reason": Reason.IDLE}


@pytest.mark.parametrize(
    ("of", "going", "until"),
    [
        ({"phase": Phase.DRAINING, "drain_at": NOW - DAY}, 0, None),  # held up: its end is not asked for yet
        ({"drain_at": NOW - DAY}, 0, None),
        ({"drain_at": NOW - 20, "delete_at": NOW - 10}, 0, NOW - 10 + 600),
        ({"drain_at": NOW - 620, "delete_at": NOW - 599}, 0, NOW + 1),
        ({"drain_at": NOW - 620, "delete_at": NOW - 600}, 1, None),
        ({"delete_at": NOW - DAY}, 1, None),
        # It does not end and is asked for again each minute; its drain took 5 s and the grace at most.
        ({"drain_at": NOW - 1204, "delete_at": NOW - 10}, 0, NOW + 1),
        ({"drain_at": NOW - 1205, "delete_at": NOW - 10}, 1, None),
    ],
)
def test_a_machine_that_the_cloud_deletes_slowly_keeps_the_others_for_minutes_only(
    of: dict[str, Any], going: int, until: float | None
) -> None:
    snapshot = fleet(*((letter, A1, 700.0) for letter in "abc"), policy=policy(disruption_budget="20%"))
    slow = machine("home-a100-zzzzzzzzzz", **DELETED | of)
    decided = plan(replace(snapshot, machines=(*snapshot.machines, slow)))
    assert len(gone(decided)) == going
    assert decided.wake_at == until


def test_a_lost_node_that_takes_up_the_budget_is_named() -> None:
    decided = plan(budgeted("1", {}, lost=1))
    assert "home-a100-uuuuuuuuuu is not Ready" in decided.machines[NAME].message


@pytest.mark.parametrize(("ready", "budget", "going"), [(0, "20%", 1), (0, "2", 2), (1, "1", 1), (0, "0", 0)])
def test_a_lost_machine_that_is_idle_does_not_wait_for_itself(ready: int, budget: str, going: int) -> None:
    snapshot = fleet(("a", A1, 700.0), ("b", A1, 700.0), policy=policy(disruption_budget=budget))
    nodes = tuple(replace(n, ready=position < ready) for position, n in enumerate(snapshot.nodes))
    assert len(gone(plan(replace(snapshot, nodes=nodes)))) == going


# -- headroom, budgets of money -----------------------------------------------------------------


def test_a_machine_that_headroom_needs_stays_and_what_blocks_it_is_told_first() -> None:
    snapshot = idle()
    free = {NAME: Explanation(Reason.HEADROOM, "1 GPU of it is kept free")}
    actions, told, _ = scale_down.decide(snapshot, {}, kept=free)
    assert [a for a in actions if isinstance(a, Retire)] == []
    assert told[NAME] == free[NAME]
    held = replace(snapshot, nodes=(node(NAME, annotations={"gpu-autoscaler/do-not-disrupt": "true"}),))
    assert scale_down.decide(held, {}, kept=free)[1][NAME].code is Reason.DO_NOT_DISRUPT
    used = replace(snapshot, pods=(pod("p", node=NAME),))
    assert scale_down.decide(used, {}, kept=free)[1][NAME].code is Reason.IN_USE


def test_an_exhausted_budget_of_the_month_takes_idle_machines_at_once_only_where_that_was_asked_for() -> None:
    limits = replace(Policy(cluster_id="x").limits, price_per_month=Decimal(1))
    for drain, code in ((False, Reason.COOLDOWN), (True, Reason.IDLE)):
        rules = policy(limits=limits, billing=Billing(drain_idle=drain))
        assert why(idle(seconds=1, policy=rules, spent_this_month=Decimal(2))) is code


# -- claims for devices -------------------------------------------------------------------------

WATCH, HOLD = DeviceRequest(device_class="gpu", admin=True), DeviceRequest(device_class="gpu")


def claim(name: str, *requests: DeviceRequest, **more: Any) -> DeviceClaim:
    return DeviceClaim(namespace="default", name=name, requests=requests, **more)


@pytest.mark.parametrize(
    ("refers", "claims", "busy"),
    [
        ([PodDeviceClaim(name="g", claim="c")], [claim("c", HOLD)], True),
        ([PodDeviceClaim(name="g", claim="c")], [claim("c", WATCH)], False),
        ([PodDeviceClaim(name="g", claim="c")], [claim("c", WATCH, HOLD)], True),
        ([PodDeviceClaim(name="g", claim="c")], [claim("c")], True),  # it says nothing
        ([PodDeviceClaim(name="g", claim="c")], [], True),  # it cannot be found
        ([PodDeviceClaim(name="g", claim="c")], [claim("c", WATCH, template=True)], True),
        (
            [PodDeviceClaim(name="g", claim="c"), PodDeviceClaim(name="h", claim="d")],
            [claim("c", WATCH)],
            True,
        ),
        ([PodDeviceClaim(name="g", template="t")], [claim("p-g-x", WATCH, owner_uid="uid-p")], False),
        ([PodDeviceClaim(name="g", template="t")], [claim("p-g-x", HOLD, owner_uid="uid-p")], True),
        ([PodDeviceClaim(name="g", template="t")], [claim("p-g-x", WATCH, owner_uid="uid-q")], True),
        ([PodDeviceClaim(name="g", template="t")], [claim("t", HOLD, template=True)], True),
        ([PodDeviceClaim(name="g", template="t")], [], True),
    ],
)
def test_a_held_claim_for_devices_counts_as_busy_unless_it_only_watches(
    refers: list[PodDeviceClaim], claims: list[DeviceClaim], busy: bool
) -> None:
    user = pod("p", 0, node=NAME, owner_kind="ReplicaSet", device_claims=tuple(refers))
    there: Node = node("other", 0)
    snapshot = idle(user, device_claims=tuple(claims))
    decided = plan(replace(snapshot, nodes=(*snapshot.nodes, there)))
    assert decided.machines[NAME].code is (Reason.IN_USE if busy else Reason.IDLE)
    marked = [a for a in decided.actions if isinstance(a, MarkIdle) and a.since is None]
    assert bool(marked) is busy


@pytest.mark.parametrize(("cpu", "expected"), [(20_000, Reason.NEEDED), (4_000, Reason.IDLE)])
def test_an_idle_machine_stays_for_a_member_without_gpu_of_a_gang_that_gets_no_other_room_for_it(
    cpu: int, expected: Reason
) -> None:
    marks = {"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "2"}
    driver = pod("driver", 0, requests={"cpu": cpu}, annotations=marks)
    worker = pod("worker", 2, requests={"cpu": 30_000}, annotations=marks)
    snapshot = idle(driver, worker, offers=offers(A2))
    assert why(snapshot) is expected
    assert [a.pods for a in plan(snapshot).actions if isinstance(a, Launch)] == [("default/worker",)]
