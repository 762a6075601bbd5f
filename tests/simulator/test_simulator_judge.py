"""The judge sees what it has to see: each test does, beside a right controller, what none may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.domain.machine import Phase
from controller.sandbox.cluster.resources import LEASES
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.trouble import HELPLESS
from controller.sandbox.simulator.workload import Work
from controller.sandbox.wire import Request
from tests.simulator.days import Day

LONG = [Work("train", 5.0, 900.0, 1, 2000, 8192)]
QUICK = {"scale_down": {"cooldown": "60s"}}


def day(deed: Callable[[Simulation], None], at: float) -> list[str]:
    def before(simulation: Simulation) -> None:
        simulation.loop.call_later(at, deed, simulation)

    found: list[str] = Day(hours=0.1, works=LONG, settings=QUICK, before=before).result["violations"]
    return found


def in_a_task(simulation: Simulation) -> None:
    process = simulation.processes["a"]

    async def lost() -> None:
        raise LookupError("nobody asks for this task")

    process.in_its_name(lambda: asyncio.ensure_future(lost(), loop=simulation.loop))


def in_a_callback(simulation: Simulation) -> None:
    def falls() -> None:
        raise LookupError("nobody asks for this callback")

    simulation.processes["a"].in_its_name(lambda: simulation.loop.call_soon(falls))


@pytest.mark.parametrize("deed", [in_a_task, in_a_callback])
def test_an_error_that_nobody_fetches_is_seen(deed: Callable[[Simulation], None]) -> None:
    assert any("nobody asks for this" in text for text in day(deed, 100.0))


def test_an_error_of_the_simulation_itself_is_seen() -> None:
    """Else a world that has broken down looks like one in which all is well."""

    def deed(simulation: Simulation) -> None:
        raise LookupError("a world broke down")

    assert any(
        "the simulation lost an error: LookupError('a world broke down')" in t for t in day(deed, 100.0)
    )


def test_a_machine_whose_end_the_cloud_told_counts_in_no_limit_although_it_lives() -> None:
    def deed(simulation: Simulation) -> None:
        judge = simulation.judge
        record = judge.books.machine(judge.holdings.alive()[0].hostname)
        assert record is not None
        policy = judge.purchases._policy
        judge.purchases._policy = replace(policy, limits=replace(policy.limits, machines=0))
        found.append(judge.purchases._above_limits(record))
        promise, judge.holdings.promise = (
            judge.holdings.promise,
            lambda one: replace(record, phase=Phase.TOMBSTONE),
        )  # type: ignore[method-assign]
        found.append(judge.purchases._above_limits(record))
        judge.purchases._policy, judge.holdings.promise = policy, promise  # type: ignore[method-assign]

    found: list[list[str]] = []
    assert day(deed, 400.0) == []
    assert found == [["1 machines, of 0 at most"], []]


def sends(method: str, path: str, body: bytes = b"") -> Callable[[Simulation], None]:
    def deed(simulation: Simulation) -> None:
        node = simulation.judge.holdings.alive()[0].hostname
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"content-type": kind}
        request = Request(method, path.format(node=node), {}, headers, body)
        simulation.processes["a"].connection._ground.carried(request)

    return deed


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("DELETE", "/api/v1/nodes/{node}", "the Node was deleted while default/train ran there"),
        ("DELETE", "/api/v1/namespaces/default/pods/train", "a pod was deleted while it used GPUs"),
        ("POST", "/api/v1/namespaces/default/pods/train/eviction", "a pod was evicted while it used GPUs"),
    ],
)
def test_work_that_is_hurt_through_the_cluster_is_seen(method: str, path: str, told: str) -> None:
    eviction = (
        b'{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"train","namespace":"default"}}'
    )
    body = eviction if method == "POST" else b""
    assert any(told in text for text in day(sends(method, path, body), 400.0))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/api/v1/nodes/{node}", b'{"metadata":{"annotations":{"a":"b"}}}'),
        ("POST", "/api/v1/namespaces/residents/pods/web-a/eviction", b"{}"),
        ("DELETE", "/api/v1/namespaces/residents/pods/web-a", b""),
    ],
    ids=["a node is changed", "a pod is evicted", "a pod is deleted"],
)
def test_what_is_done_to_the_cluster_without_the_lease_is_seen(method: str, path: str, body: bytes) -> None:
    """Whether or not it is carried out."""

    def deed(simulation: Simulation) -> None:
        simulation.worlds.cluster.store.modify(
            LEASES,
            (simulation.loaded.settings.namespace, "gpu-autoscaler"),
            lambda lease: lease["spec"].update(holderIdentity="another"),
        )
        sends(method, path, body)(simulation)

    assert any(
        f"sent {method}" in text and "while another held the lease" in text for text in day(deed, 400.0)
    )


def test_a_machine_that_ended_badly_with_nobody_on_it_is_left_to_the_controller() -> None:
    def fails(simulation: Simulation) -> None:
        one = simulation.judge.holdings.alive()[0]
        simulation.worlds.tell_cloud("POST", "events", {"event": "fail", "id": one.id, "into": "error"})
        simulation.judge.books.told = lambda: {one.hostname: "launch_failed"}  # type: ignore[method-assign]
        simulation.judge.books.gpu_pods_on = lambda node: []  # type: ignore[method-assign]
        simulation.trouble._look_after()
        assert one.status == "error"

    day(fails, 400.0)


@pytest.mark.parametrize("told", HELPLESS)
def test_a_machine_that_its_pods_keep_is_deleted_by_somebody_who_reads_that_it_failed(told: str) -> None:
    def fails(simulation: Simulation) -> None:
        one = simulation.judge.holdings.alive()[0]
        simulation.worlds.tell_cloud("POST", "events", {"event": "fail", "id": one.id, "into": "error"})
        simulation.judge.books.told = lambda: {one.hostname: told}  # type: ignore[method-assign]
        simulation.trouble._look_after()
        assert one.status in ("deleting", "discontinued")

    day(fails, 400.0)


def test_the_end_is_waited_for_until_the_last_late_call_has_arrived() -> None:
    late = [{"at_s": 0, "late": {"method": "DELETE", "path": "*", "seconds": 9000}}]
    assert Day(hours=0.1, faults=late, works=LONG, settings=QUICK).simulation.loop.time() < 9000
    late = [{"at_s": 0, "late": {"method": "POST", "path": "/instances", "seconds": 9000}}]
    course = Day(hours=0.1, faults=late, works=LONG, settings=QUICK)
    assert course.simulation.loop.time() > 9000
    assert course.result["violations"] == []


def test_the_bound_is_that_of_the_catalogue_whether_or_not_a_controller_knows_it() -> None:
    def nobody(simulation: Simulation) -> None:
        simulation.stop("a")

    def before(simulation: Simulation) -> None:
        simulation.loop.call_later(300.0, nobody, simulation)

    bounds = {
        Day(hours=0.1, works=LONG, settings=QUICK, before=each).result["cost_lower_bound"]
        for each in (before, lambda simulation: None)
    }
    assert len(bounds) == 1
    assert bounds.pop() > 0


def test_a_pod_that_was_bound_after_a_decision_or_right_before_it_waited_when_it_was_made() -> None:
    """Seven milliseconds before it nobody had heard of that."""

    def bound(since: float) -> list[str]:
        return [want.pod for want in seen.owner.waited(since)]

    def note(simulation: Simulation) -> None:
        nonlocal seen
        seen = simulation
        at = seen.owner.wants[0].bound_at
        found.extend([bound(at - 1), bound(at + 0.5), bound(at + 2)])

    seen: Simulation
    found: list[list[str]] = []
    assert day(note, 400.0) == []
    assert found == [["train"], ["train"], []]
