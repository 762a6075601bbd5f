"""Watching, and the picture that it makes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cluster.decode import Decoder
from controller.cluster.index import Matter, PodIndex
from controller.cluster.protocol import ClusterError
from controller.cluster.view import SERVED_AGAIN, UNFINISHED, WatchedView
from controller.cluster.watching import (
    SILENCE,
    Began,
    Change,
    Completed,
    Context,
    Gone,
    Progress,
    Seen,
    Source,
    followed,
)
from controller.domain.kube import Pod
from tests.cluster.scripted import Asked, Clock, Scripted, bookmark, failure, line, listed, node, pod


async def run_script(transport: Scripted) -> tuple[list[Change[Pod]], Progress, Clock]:
    """Follow pods until the script is used up."""
    clock, progress, seen = Clock(), Progress(), []
    context = Context(transport, clock.sleep, random.Random(1), clock, clock.wall)
    source = Source("pods", "/api/v1/pods", Decoder().versioned_pod, UNFINISHED)

    async def follow() -> None:
        async for change in followed(source, context, progress):
            seen.append(change)

    task = asyncio.create_task(follow())
    ended = asyncio.create_task(transport.exhausted.wait())
    await asyncio.wait_for(asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return seen, progress, clock


def told(changes: Iterable[Change[Pod]]) -> list[str]:
    words = []
    for change in changes:
        match change:
            case Seen(found):
                words.append(found.name)
            case Gone(found):
                words.append(f"-{found.name}")
            case Began():
                words.append("[")
            case Completed():
                words.append("]")
    return words


async def test_pages_are_read_one_after_the_other_and_the_watch_begins_at_the_lists_version() -> None:
    transport = Scripted([listed(pod("a"), token="next"), listed(pod("b"), version="100")])
    seen, _, _ = await run_script(transport)
    assert told(seen) == ["[", "a", "b", "]"]
    first, second, watch = transport.asked
    assert first.query == {"limit": "250", "fieldSelector": UNFINISHED}
    assert second.query["continue"] == "next"
    assert watch.query["resourceVersion"] == "100"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watch.query["timeoutSeconds"]) <= 600
    assert transport.read_timeouts[0] > 120, "real API servers send the first bookmark of a quiet kind then"


async def test_events_follow_and_every_reconnect_continues_where_the_last_one_ended() -> None:
    transport = Scripted(
        [listed()],
        [
            [line("ADDED", pod("a", version="101")), line("DELETED", pod("a", version="102"))],
            [bookmark("150")],
            [],
        ],
    )
    seen, _, clock = await run_script(transport)
    assert told(seen) == ["[", "]", "a", "-a"]
    assert [asked.query["resourceVersion"] for asked in transport.of("WATCH")] == ["100", "102", "150", "150"]
    assert clock.slept == [] or max(clock.slept) < 0.5


async def test_an_expired_continue_token_begins_the_list_again() -> None:
    transport = Scripted([listed(pod("a"), token="old"), failure(410), listed(pod("b"))])
    seen, progress, _ = await run_script(transport)
    assert told(seen) == ["[", "a", "[", "b", "]"]
    assert "continue" not in transport.asked[2].query
    assert progress.error == ""


@pytest.mark.parametrize(
    "ending",
    [failure(410), line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})],
    ids=["HTTP 410", "ERROR event"],
)
async def test_a_version_that_is_too_old_is_answered_by_a_new_list(ending: Any) -> None:
    transport = Scripted([listed(pod("a")), listed(pod("b"), version="900")], [[ending]])
    seen, progress, _ = await run_script(transport)
    assert told(seen) == ["[", "a", "]", "[", "b", "]"]
    assert transport.asked[-1].query["resourceVersion"] == "900"
    assert progress.error == ""


async def test_a_server_that_calls_every_version_too_old_is_not_listed_in_a_hot_loop() -> None:
    transport = Scripted([listed() for _ in range(12)], [[failure(410)] for _ in range(12)])
    _, _, clock = await run_script(transport)
    assert sum(clock.slept) > 60
    assert max(clock.slept) <= 30


async def test_waits_between_failures_grow_to_thirty_seconds_and_start_again_after_a_success() -> None:
    refused = ClusterError("unreachable", "nobody there")
    transport = Scripted(
        [refused] * 12 + [listed()], [[refused], [line("ADDED", pod("a")), refused], [refused]]
    )
    _, progress, clock = await run_script(transport)
    waits = clock.slept[:12]
    assert waits[0] <= 0.1
    assert all(later >= earlier * 1.2 for earlier, later in pairwise(waits[:8]))
    assert 24 <= waits[-1] <= 30
    assert clock.slept[12] <= 0.1, "the list succeeded in between"
    assert clock.slept[13] <= 0.1, "an event came in between"
    assert clock.slept[14] > clock.slept[13]
    assert progress.error == "nobody there"


@pytest.mark.parametrize("status", [401, 403])
async def test_missing_rights_are_told_and_asked_for_ever_more_slowly(status: int) -> None:
    transport = Scripted([failure(status, "pods is forbidden")] * 8)
    _, progress, clock = await run_script(transport)
    assert "pods is forbidden" in progress.error
    assert len(clock.slept) == 8
    assert all(later >= earlier for earlier, later in pairwise(clock.slept[:5]))
    assert all(24 <= wait <= 30 for wait in clock.slept[5:])


@pytest.mark.parametrize("status", [401, 403])
async def test_an_api_server_that_knows_nobody_yet_is_asked_again_at_once(status: int) -> None:
    away = ClusterError("unreachable", "nobody there")
    transport = Scripted([away] * 8 + [failure(status, "RBAC: not found")], [[]])
    _, _, clock = await run_script(transport)
    assert clock.slept[8] <= 1


async def test_a_quiet_watch_that_ends_as_agreed_is_no_failure() -> None:
    transport = Scripted([listed()])
    clock = Clock()
    transport.streams = [[lambda: clock.pass_(250)] for _ in range(30)]
    context = Context(transport, clock.sleep, random.Random(1), clock, clock.wall)

    async def follow() -> None:
        async for _ in followed(Source("pods", "/p", Decoder().versioned_pod), context, Progress()):
            pass

    task = asyncio.create_task(follow())
    await asyncio.wait_for(transport.exhausted.wait(), 5)
    task.cancel()
    assert clock.slept == []
    assert len(transport.of("WATCH")) == 31


async def test_an_object_that_cannot_be_read_is_passed_over() -> None:
    broken = pod("broken", version="105")
    broken["spec"]["priority"] = "high"
    transport = Scripted([listed(pod("a"), broken, pod("b"))], [[line("ADDED", broken)], []])
    seen, _, _ = await run_script(transport)
    assert told(seen) == ["[", "a", "b", "]"]
    assert transport.of("WATCH")[1].query["resourceVersion"] == "105"


@pytest.mark.parametrize("garbage", [b'{"type":"ADDED","obj', b"<html>", b"7"])
async def test_a_line_that_is_no_event_ends_the_stream_only(garbage: bytes) -> None:
    transport = Scripted([listed()], [[line("ADDED", pod("a")), garbage], [line("ADDED", pod("b"))]])
    seen, _, _ = await run_script(transport)
    assert told(seen) == ["[", "]", "a", "b"]
    assert len(transport.of("GET")) == 1


async def test_a_list_that_is_no_list_is_tried_again() -> None:
    transport = Scripted([b"<html>", listed(pod("a"))])
    seen, _, _ = await run_script(transport)
    assert told(seen) == ["[", "[", "a", "]"]


# ---- the view


class World:
    """Answers the lists and watches of all kinds; `tell` sends a line to the watch of one."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {}
        self.queues: dict[str, asyncio.Queue[Any]] = {}
        self.gates: dict[str, asyncio.Event] = {}  # by path: the answer waits until the test opens it
        self.lines = 0

    def answer(self, asked: Asked) -> Any:
        answers = self.lists.get(asked.path.rsplit("/", 1)[-1])
        return answers.pop(0) if answers else listed()

    async def request(self, method: str, path: str, *, query: Any = None, **more: Any) -> bytes:
        await asyncio.sleep(0)
        if path in self.gates:
            await self.gates[path].wait()
        answer = self.answer(Asked(method, path, query or {}, None, ""))
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)

    async def stream(self, path: str, **more: Any) -> Any:
        queue = self.queues.setdefault(path.rsplit("/", 1)[-1], asyncio.Queue())
        while True:
            found = await queue.get()
            if isinstance(found, Exception):
                raise found
            yield msgspec.json.encode(found)

    async def tell(self, kind: str, *lines: Any) -> None:
        for each in lines:
            self.queues[kind].put_nowait(each)
        for _ in range(20 + 5 * len(lines)):
            await asyncio.sleep(0)


@asynccontextmanager
async def watched(world: World, **more: Any) -> Any:
    clock, changes = Clock(), []
    view = WatchedView(
        world,
        on_change=changes.append,
        sleep=clock.sleep,
        rng=random.Random(1),
        clock=clock,
        wall=clock.wall,
        **more,
    )
    task = asyncio.create_task(view.run())
    await asyncio.wait_for(view.wait_synced(), 5)
    await world.tell("pods") if "pods" in world.queues else await asyncio.sleep(0.01)
    changes.clear()
    try:
        yield view, changes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_view_is_synced_only_when_every_kind_is() -> None:
    world, clock, changes = World(), Clock(), []
    world.lists["jobs"] = [failure(403, "jobs is forbidden")] * 50
    view = WatchedView(
        world, on_change=changes.append, sleep=clock.sleep, rng=random.Random(1), clock=clock, wall=clock.wall
    )
    task = asyncio.create_task(view.run())
    for _ in range(30):
        await asyncio.sleep(0)
    state = {kind.kind: kind for kind in view.state()}
    assert not view.synced
    assert state["pods"].synced
    assert not state["jobs"].synced
    assert "jobs is forbidden" in state["jobs"].error
    world.lists["jobs"] = []
    await asyncio.wait_for(view.wait_synced(), 5)
    assert view.synced
    assert {kind.kind: kind.error for kind in view.state()}["jobs"] == ""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_first_list_is_one_change_however_long() -> None:
    world, clock, changes = World(), Clock(), []
    world.lists["pods"] = [listed(*(pod(f"p{i}") for i in range(50)))]
    view = WatchedView(
        world, on_change=changes.append, sleep=clock.sleep, rng=random.Random(1), clock=clock, wall=clock.wall
    )
    task = asyncio.create_task(view.run())
    await asyncio.wait_for(view.wait_synced(), 5)
    assert sorted(changes) == ["capacity", "demand"]
    assert len(view.waiting_pods()) == 50
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("last", ["/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets", "/apis"])
async def test_that_the_last_first_list_is_complete_is_told_whichever_it_is(last: str) -> None:
    """Whoever was woken by the others, or by the lease, found nothing to decide on."""
    world, clock, changes = World(), Clock(), []
    gate = world.gates[last] = asyncio.Event()
    view = WatchedView(
        world, on_change=changes.append, sleep=clock.sleep, rng=random.Random(1), clock=clock, wall=clock.wall
    )
    task = asyncio.create_task(view.run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert (view.synced, changes) == (False, [])
    gate.set()
    await asyncio.wait_for(view.wait_synced(), 5)
    assert sorted(changes) == ["capacity", "demand"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_that_an_old_picture_is_fresh_again_is_told_once_though_nothing_has_changed() -> None:
    """Nobody decided anything on the old one, and what comes is a bookmark."""
    world = World()
    async with watched(world) as (view, changes):
        clock = view._context.clock
        for kind in ("nodes", "pods"):
            await world.tell(kind, bookmark("150"))
        assert (view.old(), changes) == ("", [])
        clock.pass_(SILENCE + 1)
        assert "nothing was heard of nodes" in view.old()
        await world.tell("pods", bookmark("151"))
        assert changes == [], "of nodes nothing was heard yet"
        await world.tell("nodes", bookmark("151"))
        assert (view.old(), changes) == ("", ["capacity"])
        for kind in ("nodes", "pods"):
            await world.tell(kind, bookmark("152"))
        assert changes == ["capacity"]


async def test_half_a_list_makes_no_old_picture_fresh() -> None:
    world = World()
    async with watched(world) as (view, changes):
        view._context.clock.pass_(SILENCE + 1)
        await world.tell("nodes", bookmark("150"))
        assert "of pods" in view.old()
        world.lists["pods"] = [listed(pod("p1"), token="next"), listed(pod("p2"))]
        second = asyncio.Event()
        answer, asked = world.answer, []

        def counted(found: Asked) -> Any:
            asked.append(found)
            if found.path == "/api/v1/pods":
                world.gates["/api/v1/pods"] = second
            return answer(found)

        world.answer = counted  # type: ignore[method-assign]
        await world.tell("pods", failure(410))
        assert len(asked) == 1
        assert "of pods" in view.old()
        second.set()
        await world.tell("pods")
        assert (view.old(), len(view.waiting_pods())) == ("", 2)
        assert "capacity" in changes


POD_CHANGES: list[tuple[str, list[Any], list[str]]] = [
    ("a waiting pod appears", [line("ADDED", pod("w"))], ["demand"]),
    (
        "it becomes unschedulable",
        [line("ADDED", pod("w", unschedulable=False)), line("MODIFIED", pod("w"))],
        ["demand"] * 2,
    ),
    (
        "the scheduler rewords",
        [line("ADDED", pod("w")), line("MODIFIED", pod("w", message="other words"))],
        ["demand"],
    ),
    ("it is deleted", [line("ADDED", pod("w")), line("DELETED", pod("w"))], ["demand"] * 2),
    (
        "it is bound",
        [line("ADDED", pod("w")), line("MODIFIED", pod("w", node="n"))],
        ["demand", "demand", "other"],
    ),
    (
        "it is bound and uses GPUs",
        [line("ADDED", pod("w", gpus=1)), line("MODIFIED", pod("w", gpus=1, node="n"))],
        ["demand", "demand", "capacity"],
    ),
    (
        "a GPU pod ends",
        [line("ADDED", pod("g", gpus=1, node="n")), line("DELETED", pod("g", gpus=1, node="n"))],
        ["capacity"] * 2,
    ),
    ("a finished pod is nothing", [line("ADDED", pod("f", node="n", phase="Succeeded"))], []),
    ("nothing has changed", [line("ADDED", pod("w")), line("MODIFIED", pod("w", version="200"))], ["demand"]),
    ("an unknown pod is deleted", [line("DELETED", pod("x"))], []),
]


@pytest.mark.parametrize(
    ("lines", "expected"), [row[1:] for row in POD_CHANGES], ids=[row[0] for row in POD_CHANGES]
)
async def test_only_relevant_changes_of_pods_are_told(lines: list[Any], expected: list[str]) -> None:
    world = World()
    async with watched(world) as (_, changes):
        await world.tell("pods", *lines)
        assert changes == expected


async def test_the_words_of_the_scheduler_are_kept_though_nobody_is_woken() -> None:
    world = World()
    async with watched(world) as (view, changes):
        await world.tell("pods", line("ADDED", pod("w")), line("MODIFIED", pod("w", message="new words")))
        assert view.waiting_pods()[0].message == "new words"
        assert changes == ["demand"]


async def test_a_heartbeat_of_a_node_is_no_change() -> None:
    world = World()
    world.lists["nodes"] = [listed(node("n"))]
    async with watched(world) as (view, changes):
        before = view.node("n")
        await world.tell(
            "nodes", line("MODIFIED", node("n", version="200", heartbeat="2026-01-01T00:05:00Z"))
        )
        assert changes == []
        assert view.node("n") is before
        await world.tell("nodes", line("MODIFIED", node("n", version="201", pool="a")))
        assert changes == ["capacity"]
        assert view.node("n").labels == {"pool": "a"}
        assert [each.name for each in view.nodes()] == ["n"]
        await world.tell("nodes", line("DELETED", node("n")))
        assert view.node("n") is None
        assert view.nodes() == ()


async def test_pods_are_found_by_node_and_finished_ones_are_dropped() -> None:
    world = World()
    world.lists["pods"] = [listed(pod("a", node="n1"), pod("b", node="n1"), pod("c", node="n2"), pod("w"))]
    async with watched(world) as (view, _):
        assert [p.name for p in view.pods_on("n1")] == ["a", "b"]
        assert [p.name for p in view.waiting_pods()] == ["w"]
        assert view.pods_on("nowhere") == ()
        await world.tell("pods", line("MODIFIED", pod("a", node="n1", phase="Succeeded")))
        assert [p.name for p in view.pods_on("n1")] == ["b"]
        await world.tell("pods", line("MODIFIED", pod("b", node="n1", phase="Failed")))
        assert view.pods_on("n1") == ()
        assert len(view.pods()) == 2


async def test_what_vanished_during_a_gap_is_removed_after_the_new_list_and_not_before() -> None:
    world = World()
    world.lists["pods"] = [
        listed(pod("stays", node="n"), pod("vanishes", gpus=1, node="n"), pod("w")),
        listed(pod("stays", node="n"), token="more"),
        failure(503),
        listed(pod("stays", node="n"), pod("new")),
    ]
    async with watched(world) as (view, changes):
        sizes: list[int] = []
        answer = world.answer

        def noted(asked: Asked) -> Any:
            sizes.append(len(view.pods()))
            return answer(asked)

        world.answer = noted  # type: ignore[method-assign]
        await world.tell("pods", failure(410))
        for _ in range(50):
            await asyncio.sleep(0)
        assert sizes == [3, 3, 3], "the old picture stays until the new one is complete"
        assert {p.name for p in view.pods()} == {"stays", "new"}
        assert "capacity" in changes
        assert "demand" in changes


async def test_a_fault_of_our_own_in_one_watch_leaves_the_others_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with watched(world) as (view, changes):

        def boom(kind: str) -> None:
            raise RuntimeError("bug")

        view._on_change = boom
        await world.tell("jobs", line("ADDED", {"metadata": {"name": "j", "namespace": "n", "uid": "1"}}))
        view._on_change = changes.append
        await world.tell("pods", line("ADDED", pod("w")))
        assert changes == ["demand"]
        assert "the watch of jobs failed" in caplog.text
        await world.tell("jobs", line("ADDED", {"metadata": {"name": "k", "namespace": "n", "uid": "2"}}))
        assert "k" in {job.name for job in view.jobs()}


async def test_other_kinds_are_kept_too() -> None:
    world = World()
    meta = {"name": "x", "namespace": "n", "uid": "1"}
    async with watched(world) as (view, changes):
        await world.tell("jobs", line("ADDED", {"metadata": meta, "spec": {"parallelism": 3}}))
        await world.tell("daemonsets", line("ADDED", {"metadata": meta, "spec": {"template": {"spec": {}}}}))
        await world.tell("poddisruptionbudgets", line("ADDED", {"metadata": meta, "spec": {}}))
        assert changes == ["other"] * 3
        assert view.jobs()[0].parallelism == 3
        assert view.daemonsets()[0].name == "x"
        assert view.budgets()[0].name == "x"


async def test_declared_resources_count_like_gpus() -> None:
    def npu(node_name: str) -> dict[str, Any]:
        found = pod("u", node=node_name)
        found["spec"]["containers"][0]["resources"]["requests"]["example.com/npu"] = "1"
        return found

    for declared, expected in ((("example.com/npu",), "capacity"), ((), "other")):
        world = World()
        async with watched(world, declared=declared) as (_, changes):
            await world.tell("pods", line("ADDED", npu("n")))
            assert changes == [expected]


# ---- the index, against a model of it

states = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["", "n1", "n2"]), st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.integers(0, 1), st.booleans(),
)  # fmt: skip


@given(st.lists(states, max_size=30))
def test_the_index_never_disagrees_with_a_plain_dictionary(
    history: list[tuple[str, str, str, int, bool]],
) -> None:
    index, model, decoder = PodIndex(), {}, Decoder()
    for name, where, phase, gpus, dropped in history:
        found = decoder.pod(pod(name, node=where, phase=phase, gpus=gpus))
        before = model.get(found.uid)
        if dropped:
            matter = index.drop(found.uid)
            model.pop(found.uid, None)
        else:
            matter = index.put(found)
            model.pop(found.uid, None)
            if not found.finished:
                model[found.uid] = found
        assert bool(matter) == (before != model.get(found.uid))
        assert {p.uid: p for p in index.every()} == model
        assert {p.uid for p in index.waiting()} == {uid for uid, p in model.items() if not p.node}
        for there in ("n1", "n2"):
            assert {p.uid for p in index.on(there)} == {uid for uid, p in model.items() if p.node == there}
    for uid in list(model):
        index.drop(uid)
    assert (len(index), index._on, index._waiting) == (0, {}, {})


def test_matters_are_told_by_name() -> None:
    assert (Matter.DEMAND | Matter.CAPACITY).kinds == ["demand", "capacity"]
    assert Matter.NOBODY.kinds == []


# ---- the rarer kinds

VOLCANO = "scheduling.volcano.sh/v1beta1"
NATIVE = ("scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1")


class Discovered(World):
    """A server that also has these versions, each with some kinds; every path that was asked for is kept."""

    def __init__(self, versions: dict[str, list[str]]) -> None:
        super().__init__()
        self.versions = versions
        self.asked: list[str] = []

    def answer(self, asked: Asked) -> Any:
        self.asked.append(asked.path)
        if asked.path == "/apis":
            return {"groups": [{"name": "any", "versions": [{"groupVersion": v} for v in self.versions]}]}
        if (version := asked.path.removeprefix("/apis/")) in self.versions:
            return {"resources": [{"name": name} for name in self.versions[version]]}
        return super().answer(asked)


def rare(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "n", "uid": "1"}} | parts


RARER = [
    ("namespaces", "namespaces", "other"),
    ("persistentvolumeclaims", "volume_claims", "demand"),
    ("persistentvolumes", "persistent_volumes", "demand"),
    ("storageclasses", "storage_classes", "other"),
    ("csinodes", "csi_nodes", "other"),
    ("limitranges", "limit_ranges", "other"),
    ("podgroups", "pod_groups", "demand"),
    ("workloads", "pod_groups", "demand"),
    ("resourceclaims", "device_claims", "capacity"),
    ("resourceclaimtemplates", "device_claims", "other"),
    ("deviceclasses", "device_classes", "demand"),
]


@pytest.mark.parametrize(("kind", "method", "matter"), RARER)
async def test_the_rarer_kinds_are_kept_and_matter_where_they_decide(
    kind: str, method: str, matter: str
) -> None:
    world = Discovered(
        {
            VOLCANO: ["podgroups", "queues"],
            "scheduling.k8s.io/v1alpha1": ["workloads"],
            "resource.k8s.io/v1": ["resourceclaims", "resourceclaimtemplates", "deviceclasses"],
        }
    )
    async with watched(world) as (view, changes):
        await world.tell(kind, line("ADDED", rare()))
        assert [found.name for found in getattr(view, method)()] == ["x"]
        assert changes == [matter]
        await world.tell(kind, line("DELETED", rare()))
        assert getattr(view, method)() == ()


async def test_what_the_server_does_not_have_is_not_listed_and_is_no_error() -> None:
    world = Discovered({"scheduling.k8s.io/v1": ["priorityclasses"], "resource.k8s.io/v1": ["deviceclasses"]})
    async with watched(world) as (view, _):
        assert (view.pod_groups(), view.device_claims(), view.unreadable()) == ((), (), ())
        assert not [path for path in world.asked if "podgroups" in path or "resourceclaims" in path]
        assert not [kind.error for kind in view.state() if kind.error]


async def test_of_one_group_only_the_first_known_version_is_watched() -> None:
    world = Discovered({version: ["podgroups", "priorityclasses"] for version in NATIVE})
    async with watched(world):
        lists = [path for path in world.asked if path.endswith("/podgroups")]
        assert lists == ["/apis/scheduling.k8s.io/v1alpha3/podgroups"]


async def test_deciding_waits_for_gangs_that_the_server_has() -> None:
    world = Discovered({VOLCANO: ["podgroups"]})
    world.lists["podgroups"] = [
        failure(503, "later"),
        listed(rare(spec={"minMember": 3}, apiVersion=VOLCANO)),
    ]
    async with watched(world) as (view, _):
        assert [found.min_member for found in view.pod_groups()] == [3]


@pytest.mark.parametrize("status", [403, 404])
async def test_an_optional_kind_that_may_not_be_read_is_told_once_and_stops_nothing(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = Discovered({VOLCANO: ["podgroups"]})
    refused = failure(status, "podgroups.scheduling.volcano.sh is forbidden")
    world.lists["podgroups"] = [refused, refused, refused, listed(rare(apiVersion=VOLCANO))]
    async with watched(world) as (view, _):
        assert view.synced
        for _ in range(200):
            await asyncio.sleep(0)
        assert [found.name for found in view.pod_groups()] == ["x"], "it is asked for again"
        assert view.unreadable() == ()
    assert caplog.text.count("podgroups.scheduling.volcano.sh cannot be read, so no machine is bought") == 1


async def test_what_was_known_of_a_kind_that_may_no_longer_be_read_is_not_believed() -> None:
    world = Discovered({VOLCANO: ["podgroups"]})
    world.lists["podgroups"] = [listed(rare(apiVersion=VOLCANO)), *[failure(403, "no")] * 1000]
    async with watched(world) as (view, _):
        assert view.pod_groups()
        await world.tell("podgroups", failure(410, "too old"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert view.pod_groups() == ()
        assert view.unreadable() == ("podgroups.scheduling.volcano.sh",)
        assert view.synced


async def test_an_optional_kind_that_may_be_listed_but_not_watched_is_told_once_until_it_may(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Listed once and never again it would be believed for ever."""
    world = Discovered({VOLCANO: ["podgroups"]})
    world.lists["podgroups"] = [listed(rare(apiVersion=VOLCANO))]
    async with watched(world) as (view, changes):
        await world.tell("podgroups", failure(403, "a moment"))
        assert view.unreadable() == (), "an API server that has just started knows nobody's rights"
        await world.tell("podgroups", *[failure(403, "no watch")] * 6)
        assert view.unreadable() == ("podgroups.scheduling.volcano.sh",)
        assert changes == ["other"]
        assert view.blind() == {}, "that is told in another way"
        await world.tell("podgroups", bookmark("200"))
        assert view.unreadable() == ()
        assert changes == ["other", "other"]
        assert [found.name for found in view.pod_groups()] == ["x"]
    assert caplog.text.count("podgroups.scheduling.volcano.sh cannot be read, so no machine is bought") == 1


async def test_a_kind_that_cannot_be_followed_is_blind_at_once_where_refused_and_else_after_a_minute() -> (
    None
):
    world = World()
    async with watched(world) as (view, _):
        await world.tell("jobs", failure(403, "jobs is forbidden"))
        assert "jobs is forbidden" in view.blind()["jobs"]
        await world.tell("jobs", bookmark("200"))
        assert view.blind() == {}
        await world.tell("pods", failure(503, "later"))
        assert view.blind() == {}
        await world.tell("pods", *[failure(503, "later")] * 20)
        assert "later" in view.blind()["pods"]
        await world.tell("pods", bookmark("200"))
        assert view.blind() == {}


async def test_discovery_that_fails_is_tried_again_before_anything_is_decided() -> None:
    world = Discovered({VOLCANO: ["podgroups"]})
    answer, failures = world.answer, [failure(503, "not yet")] * 3
    world.answer = lambda asked: (  # type: ignore[method-assign]
        failures.pop() if asked.path == "/apis" and failures else answer(asked)
    )
    async with watched(world) as (view, _):
        assert "podgroups.scheduling.volcano.sh" in {kind.kind for kind in view.state()}


async def test_a_kind_that_comes_later_is_found_while_deciding_goes_on() -> None:
    world, clock = Discovered({}), Clock()
    again = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await (again.wait() if seconds == SERVED_AGAIN else clock.sleep(seconds))

    view = WatchedView(
        world, on_change=lambda kind: None, sleep=sleep, rng=random.Random(1), clock=clock, wall=clock.wall
    )
    task = asyncio.create_task(view.run())
    await asyncio.wait_for(view.wait_synced(), 5)
    world.versions[VOLCANO] = ["podgroups"]
    world.lists["podgroups"] = [listed(rare(apiVersion=VOLCANO))]
    again.set()
    await asyncio.sleep(0)
    again.clear()
    for _ in range(100):
        assert view.synced
        await asyncio.sleep(0)
    assert [found.name for found in view.pod_groups()] == ["x"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_bound_pods_that_keep_others_off_are_known() -> None:
    index = PodIndex()
    rule = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}

    def guard(uid: str, node_name: str) -> Pod:
        found = pod(uid, node=node_name)
        found["spec"]["affinity"] = affinity
        return Decoder().pod(found)

    index.put(guard("a", "n1"))
    index.put(guard("waiting", ""))
    index.put(Decoder().pod(pod("plain", node="n1")))
    assert [found.name for found in index.guarded()] == ["a"]
    index.drop("uid-a")
    assert index.guarded() == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gpus": 1}, 7.0),
        ({"gpus": 1, "phase": "Succeeded"}, 7.0),
        ({"gpus": 0}, 0.0),
        ({"gpus": 1, "owner": "DaemonSet"}, 0.0),
    ],
)
def test_when_a_node_was_used_last_is_known_of_work_on_gpus_only(change: dict[str, Any], told: float) -> None:
    now = 5.0
    index = PodIndex((), lambda: now)
    made = {key: value for key, value in change.items() if key in ("gpus",)}
    found = pod("a", node="n1", **made)
    if "owner" in change:
        owner = {"kind": change["owner"], "name": "x", "uid": "u", "apiVersion": "v1", "controller": True}
        found["metadata"]["ownerReferences"] = [owner]
    index.put(Decoder().pod(found))
    assert index.used_until("n1") == 0.0
    now = 7.0
    if "phase" in change:
        found["status"]["phase"] = change["phase"]
        index.put(Decoder().pod(found))
    else:
        index.drop("uid-a")
    assert index.used_until("n1") == told
    now = 9.0
    index.drop("uid-a")
    assert index.used_until("n1") == told


@pytest.mark.parametrize(
    ("jump", "told"),
    [
        (0.0, 1000.0),
        (-3600.0, 1000.0 - 3600.0),  # set back: a use to come would begin each cooldown anew for an hour
        (3600.0, 1000.0),  # set forward, or the machine was suspended: marks from before stay behind as well
    ],
)
def test_a_clock_that_jumps_moves_no_use_into_the_future(jump: float, told: float) -> None:
    wall, steady = 1000.0, 50.0
    index = PodIndex((), lambda: wall, lambda: steady)
    index.put(Decoder().pod(pod("a", node="n1", gpus=1)))
    index.drop("uid-a")
    wall, steady = wall + jump + 10, steady + 10
    assert index.used_until("n1") == told


def test_uses_of_long_ago_are_not_remembered_for_ever() -> None:
    now = 0.0
    index = PodIndex((), lambda: now)
    for number in range(5000):
        now += 1
        index.put(Decoder().pod(pod("a", node=f"n{number}", gpus=1)))
        index.drop("uid-a")
    assert len(index._used) <= 1001
    assert index.used_until("n4999") == 5000.0
