"""The room against the sandbox's API server, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.cluster.connection import Connection
from controller.cluster.credentials import Credentials
from controller.cluster.lease import Lease
from controller.cluster.protocol import ClusterError, Subject
from controller.cluster.view import WatchedView
from controller.cluster.writer import ClusterWriter
from controller.domain.kube import Pod, Taint
from controller.domain.outcome import Happened, Refused
from controller.domain.reason import Reason
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.world import ClusterWorld
from controller.sandbox.shell import serve

IDLE = Taint("gpu-autoscaler/idle", "", "PreferNoSchedule")


class Town:
    """A served world, a connection to it, and the room's parts."""

    def __init__(self, url: str, directory: Path) -> None:
        self.connections: list[Connection] = []
        self.url, self.directory = url, directory
        self.connection = self.connect()
        self.writer = ClusterWriter(
            self.connection, namespace="default", sleep=asyncio.sleep, rng=random.Random(1), wall=time.time
        )
        self.changes: list[str] = []
        self.view = WatchedView(
            self.connection, on_change=self.changes.append, sleep=asyncio.sleep, rng=random.Random(1),
            clock=time.monotonic, wall=time.time,
        )  # fmt: skip

    def connect(self, token: str = "admin") -> Connection:  # noqa: S107
        config = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": self.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path = self.directory / f"config-{token}"
        path.write_text(json.dumps(config))
        made = Connection(Credentials(kubeconfig=str(path), clock=time.monotonic, wall=time.time))
        self.connections.append(made)
        return made

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(await self.connection.request(method, path, body=body))

    async def create_pod(self, name: str, **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        body = {
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [container], **spec},
        }
        await self.ask("POST", "/api/v1/namespaces/default/pods", body)

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(5):
            while not true():  # noqa: ASYNC110  (what is waited for is another program's doing)
                await asyncio.sleep(0.005)

    def pod(self, name: str) -> Pod | None:
        return next((found for found in self.view.pods() if found.name == name), None)


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    running = await serve(ClusterWorld(time.time, settings=Settings(speed=100)))
    made = Town(running.url, tmp_path)
    await made.ask("POST", "/_sandbox/load", {"nodes": 3, "pods": 0, "gpu_nodes": 0})
    watching = asyncio.create_task(made.view.run())
    try:
        await asyncio.wait_for(made.view.wait_synced(), 5)
        yield made
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        for connection in made.connections:
            await connection.close()
        await running.stop()


async def test_the_view_follows_what_happens(town: Town) -> None:
    assert len(town.view.nodes()) == 3
    await town.create_pod("small")
    await town.create_pod("huge", nodeSelector={"no": "such-node"})
    await town.until(lambda: (p := town.pod("small")) and p.node)
    await town.until(lambda: (p := town.pod("huge")) and p.unschedulable_since)
    assert [found.name for found in town.view.waiting_pods()] == ["huge"]
    assert "nodes are available" in town.view.waiting_pods()[0].message
    assert "demand" in town.changes
    await town.ask("DELETE", "/api/v1/namespaces/default/pods/huge")
    await town.until(lambda: not town.view.waiting_pods())


async def test_a_compaction_and_cut_watches_lose_nothing(town: Town) -> None:
    await town.create_pod("before", nodeSelector={"no": "such-node"})
    await town.until(lambda: town.pod("before"))
    await town.ask("POST", "/_sandbox/disconnect")
    await town.ask("DELETE", "/api/v1/namespaces/default/pods/before")
    await town.create_pod("after", nodeSelector={"no": "such-node"})
    await town.ask("POST", "/_sandbox/compact")
    await town.until(lambda: town.pod("after") and not town.pod("before"))


async def test_many_pages_make_one_picture(town: Town) -> None:
    await town.ask("POST", "/_sandbox/load", {"nodes": 10, "pods": 700, "gpu_nodes": 0})
    there = await town.ask("GET", "/api/v1/pods?limit=1")
    expected = there["metadata"]["remainingItemCount"] + 1
    fresh = WatchedView(
        town.connection, on_change=lambda kind: None, sleep=asyncio.sleep, rng=random.Random(2),
        clock=time.monotonic, wall=time.time,
    )  # fmt: skip
    task = asyncio.create_task(fresh.run())
    await asyncio.wait_for(fresh.wait_synced(), 5)
    assert len(fresh.pods()) == expected >= 700
    some = next(found.node for found in fresh.pods() if found.node)
    assert {p.uid for p in fresh.pods_on(some)} == {p.uid for p in await town.writer.list_pods_on(some)}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_taints_annotations_and_labels_are_written_among_others_writes(town: Town) -> None:
    name = town.view.nodes()[0].name
    others = [Taint(f"other-{k}", "v", "NoSchedule") for k in range(4)]
    await asyncio.gather(*(town.writer.taint(name, add=(taint,)) for taint in (IDLE, *others[:3])))
    await town.writer.taint(name, add=(others[3],), remove=(others[0],))
    await town.writer.annotate(name, {"gpu-autoscaler/idle-since": "2026-01-01T00:00:00Z", "absent": None})
    await town.writer.label(name, {"gpu-autoscaler/pool": "a100"})
    found = await town.writer.get_node(name)
    assert found is not None
    assert {taint.key for taint in found.taints} >= {"gpu-autoscaler/idle", "other-1", "other-2", "other-3"}
    assert not any(taint.key == "other-0" for taint in found.taints)
    assert found.labels["gpu-autoscaler/pool"] == "a100"
    await town.until(lambda: town.view.node(name) == found)
    await town.writer.taint(name, remove=(IDLE,))
    await town.until(lambda: not town.view.node(name).has_taint(IDLE.key, IDLE.effect))  # type: ignore[union-attr]


async def test_evictions_respect_budgets_and_names_used_again(town: Town) -> None:
    await town.create_pod("one")
    await town.until(lambda: (p := town.pod("one")) and p.phase == "Running")
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await town.ask("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    await town.until(lambda: town.view.budgets())
    pod = town.pod("one")
    assert pod is not None
    refused = await town.writer.evict(pod)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.PDB
    assert "disruption budget" in refused.message
    assert town.view.budgets()[0].covers(pod)
    await town.ask("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web")
    assert isinstance(await town.writer.evict(pod), Happened)
    await town.until(lambda: not town.pod("one"))
    assert isinstance(await town.writer.evict(pod), Happened)
    await town.create_pod("one")
    await town.until(lambda: (p := town.pod("one")) and p.phase == "Running")
    refused = await town.writer.evict(pod)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.UNAVAILABLE
    successor = town.pod("one")
    assert successor is not None
    assert (successor.uid != pod.uid, successor.deleting_at) == (True, None), (
        "the new pod of that name is left alone"
    )


async def test_a_node_is_deleted_by_uid_only(town: Town) -> None:
    node = town.view.nodes()[0]
    await town.writer.delete_node(node.name, "another-uid")
    assert await town.writer.get_node(node.name) is not None
    await town.writer.delete_node(node.name, node.uid)
    await town.until(lambda: town.view.node(node.name) is None)
    await town.writer.delete_node(node.name, node.uid)


async def test_of_two_writers_of_a_config_map_one_is_told_of_the_conflict(town: Town) -> None:
    version = await town.writer.write_config_map("ledger", {"a": "1"}, None)
    other = ClusterWriter(
        town.connection, namespace="default", sleep=asyncio.sleep, rng=random.Random(2), wall=time.time
    )
    stored = await other.read_config_map("ledger")
    assert stored is not None
    assert stored.version == version
    newer = await other.write_config_map("ledger", {"b": "2"}, version)
    for stale in (version, None):
        with pytest.raises(ClusterError) as caught:
            await town.writer.write_config_map("ledger", {"c": "3"}, stale)
        assert caught.value.kind == "conflict"
    assert await town.writer.write_config_map("ledger", {"c": "3"}, newer) != newer
    assert (await other.read_config_map("ledger")).data == {"c": "3"}  # type: ignore[union-attr]


async def test_a_pause_that_somebody_annotated_survives_our_writes(town: Town) -> None:
    version = await town.writer.write_config_map("status", {"a": "1"}, None)
    patch = b'{"metadata":{"annotations":{"gpu-autoscaler/pause":"all"}}}'
    path = "/api/v1/namespaces/default/configmaps/status"
    await town.connection.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
    with pytest.raises(ClusterError):
        await town.writer.write_config_map("status", {"a": "2"}, version)
    stored = await town.writer.read_config_map("status")
    assert stored is not None
    await town.writer.write_config_map("status", {"a": "2"}, stored.version)
    stored = await town.writer.read_config_map("status")
    assert stored is not None
    assert (stored.annotations, stored.data) == ({"gpu-autoscaler/pause": "all"}, {"a": "2"})


async def test_events_are_told_and_counted(town: Town) -> None:
    node = town.view.nodes()[0]
    for _ in range(3):
        await town.writer.event(
            Subject(kind="Node", name=node.name, uid=node.uid), type="Normal", reason="Idle", message="m"
        )
    events = (await town.ask("GET", "/api/v1/namespaces/default/events"))["items"]
    assert [each["count"] for each in events if each["reason"] == "Idle"] == [3]


async def test_one_of_two_holds_the_lease_and_hands_it_on(town: Town) -> None:
    def contender(identity: str) -> Lease:
        return Lease(
            town.connection, namespace="default", identity=identity, clock=time.monotonic, wall=time.time,
            sleep=asyncio.sleep, rng=random.Random(1),
        )  # fmt: skip

    first, second = contender("a"), contender("b")
    task = asyncio.create_task(first.run())
    await town.until(first.may_spend)
    await second.step()
    assert not second.held
    await first.step()
    assert first.held
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await second.step()
    assert second.may_spend()


async def test_rights_that_a_token_lacks_are_listed(town: Town) -> None:
    rules = [
        {
            "apiGroups": ["", "apps", "batch", "policy", "storage.k8s.io"],
            "resources": ["*"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    await town.ask("PATCH", "/_sandbox/settings", {"tokens": {"reader": {"user": "reader", "rules": rules}}})
    assert await town.connection.missing_rights("gpu") == []
    missing = await town.connect("reader").missing_rights("gpu")
    assert "patch nodes" in missing
    assert "create pods/eviction" in missing
    assert "update leases.coordination.k8s.io in namespace gpu" in missing
    assert not any(each.startswith(("list", "watch")) for each in missing)
    assert missing == sorted(missing)


async def test_the_identity_of_the_cluster_can_be_read(town: Town) -> None:
    assert len(await town.writer.kube_system_uid()) == 36


async def test_storage_gangs_and_claims_are_seen_as_they_are_stored(town: Town) -> None:
    spaced = "namespaces/default"
    device = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    for path, body in (
        (f"/api/v1/{spaced}/persistentvolumeclaims", {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}),
        ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "example.com/csi", "volumeBindingMode": "WaitForFirstConsumer"}),
        ("/apis/storage.k8s.io/v1/csinodes", {"spec": {"drivers": []}}),
        (f"/api/v1/{spaced}/limitranges", {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "1"}}]}}),
        (f"/apis/scheduling.x-k8s.io/v1alpha1/{spaced}/podgroups", {"spec": {"minMember": 2}}),
        (f"/apis/scheduling.run.ai/v2alpha2/{spaced}/podgroups", {"spec": {"minMember": 3}}),
        (f"/apis/resource.k8s.io/v1/{spaced}/resourceclaims", {"spec": {"devices": {"requests": [device]}}}),
        (f"/apis/resource.k8s.io/v1/{spaced}/resourceclaimtemplates", {"spec": {"spec": {"devices": {"requests": [device]}}}}),
    ):  # fmt: skip
        await town.ask("POST", path, {"metadata": {"name": "x"}} | body)
    view = town.view
    await town.until(
        lambda: len(view.device_claims()) == 2 and len(view.pod_groups()) == 2 and view.limit_ranges()
    )
    assert [(group.system, group.min_member) for group in view.pod_groups()] == [
        ("kai", 3),
        ("coscheduling", 2),
    ]
    assert [claim.template for claim in view.device_claims()] == [False, True]
    assert all(claim.requests[0].plain for claim in view.device_claims())
    assert view.storage_classes()[0].waits_for_consumer
    assert view.volume_claims()[0].requested == 2**30
    assert view.limit_ranges()[0].default_requests == {"cpu": 1000}
    assert [node.name for node in view.csi_nodes()] == ["x"]
    assert "kube-system" in {found.name for found in view.namespaces()}
    assert view.unreadable() == ()
