"""A cloud account and a cluster in memory, with scripted faults and a switch that ends the controller.

`Account` and `Town` are the world; they live on when a controller dies. `Hands` are one controller's
way to reach them: every call is counted and written down, and after the k-th one the hands can be
made dead, as SIGKILL would: no call of theirs has an effect any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from controller.cloud.protocol import CloudError, Order
from controller.cluster.protocol import ClusterError, Stored, Subject
from controller.domain import names
from controller.domain.cloudhealth import CloudHealth
from controller.domain.cloudthings import (
    Catalogue,
    Instance,
    InstanceType,
    Inventory,
    Offer,
    Script,
    Volume,
    Volumes,
)
from controller.domain.kube import DaemonSet, DisruptionBudget, Job, Node, Pod, PodShape, Taint
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason
from controller.join.protocol import JoinError, Joining, Prepared
from tests.fleet.clockwork import Time

GIB = 1 << 30
A1 = InstanceType(
    name="1A100.22V", model="A100 80GB", gpus=1, vcpus=22, memory_gib=120, gpu_memory_gib=80,
    price=Decimal("1.29"), spot_price=Decimal("0.45"), images=("ubuntu-24.04-cuda-12.8-open",),
)  # fmt: skip
BOOT, JOIN, GPUS = 20.0, 30.0, 40.0  # seconds after the order
LEAVING, DISKS_LINGER, NOT_READY = 6.0, 6.0, 40.0


@dataclass
class Account:
    """Everything that the cloud has, ours or not."""

    time: Time
    name: str = "home"
    instances: dict[str, Instance] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    list_lag: float = 0.0
    complete: bool = True
    shows_gone: bool = False  # the list still has rows of machines that are gone
    empty: bool = False  # the list comes back empty, and says that it is complete
    boots: bool = True
    available: bool = True
    script_quota: int = 10**6
    stuck_delete: bool = False  # a delete is accepted and has no effect
    ended: dict[str, float] = field(default_factory=dict)
    offers: list[Offer] = field(
        default_factory=lambda: [Offer(type=A1, location="FIN-01", market="on-demand")]
    )

    def order(self, order: Order, *, name: str = "") -> str:
        key = name or f"i-{len(self.orders) + 1}"
        self.orders.append(order)
        disk = f"d-{key}"
        self.volumes[disk] = Volume(
            id=disk, name=order.hostname, status="attached", instance_id=key, is_os=True, tags=order.tags
        )
        self.instances[key] = Instance(
            id=key, hostname=order.hostname, description=order.description, status="provisioning",
            instance_type=order.instance_type, location=order.location, market=order.market, price=A1.price,
            created_at=self.time.now, tags=order.tags, os_volume_id=disk, volume_ids=(disk,),
            script_id=order.script_id,
        )  # fmt: skip
        return key

    def set(self, key: str, **changes: Any) -> None:
        self.instances[key] = replace(self.instances[key], **changes)

    def alive(self) -> list[Instance]:
        return [i for i in self.instances.values() if i.state != "gone"]

    def end(self, key: str, status: str = "discontinued") -> None:
        self.set(key, status=status)
        self.ended[key] = self.time.now

    def step(self) -> None:
        now = self.time.now
        for instance in list(self.instances.values()):
            if instance.state == "coming" and self.boots and now >= instance.created_at + BOOT:
                self.set(instance.id, status="running")
            if instance.state == "leaving" and now >= self.ended[instance.id] + LEAVING:
                self.set(instance.id, status="discontinued")
                for volume in list(self.volumes.values()):
                    if volume.instance_id == instance.id and volume.status != "deleting":
                        self.volumes[volume.id] = replace(volume, instance_id="", status="detached")
        for volume in list(self.volumes.values()):
            if volume.status == "deleting" and now >= self.ended.get(volume.id, now) + DISKS_LINGER:
                del self.volumes[volume.id]


@dataclass
class Town:
    """The cluster: its objects, a scheduler, and kubelets that join a while after their machine runs."""

    time: Time
    account: Account
    maps: dict[str, tuple[dict[str, str], int]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    budgets: list[DisruptionBudget] = field(default_factory=list)
    work: float = 30.0  # seconds that a pod runs
    bound_at: dict[str, float] = field(default_factory=dict)
    used_until: dict[str, float] = field(default_factory=dict)
    joins: bool = True
    secrets: dict[str, str] = field(default_factory=dict)  # their versions, by name
    not_ready: float = NOT_READY  # how long a dead machine's Node still looks Ready
    gpus: bool = True
    cut_off: set[str] = field(default_factory=set)  # instances that do not join any more

    def add_pod(self, name: str = "train", **more: Any) -> Pod:
        pod = make_pod(name, self.time.now, **more)
        self.pods[pod.key] = pod
        return pod

    def step(self) -> None:
        now = self.time.now
        for instance in self.account.instances.values():
            name = instance.hostname
            ours = instance.tags and instance.id not in self.cut_off
            if instance.status == "running" and ours and self.joins and now >= instance.created_at + JOIN:
                gpus = 1 if self.gpus and now >= instance.created_at + GPUS else 0
                known = self.nodes.get(name)
                if known is None:
                    known = make_node(name, now, gpus=0)
                offered = {**known.allocatable, "nvidia.com/gpu": gpus} if gpus else known.allocatable
                self.nodes[name] = replace(known, ready=True, allocatable=offered, capacity=offered)
            over = now >= self.account.ended.get(instance.id, now) + self.not_ready
            if name in self.nodes and instance.state == "gone" and over:
                self.nodes[name] = replace(self.nodes[name], ready=False)
        self._schedule(now)

    def lose(self, node: str) -> None:
        """Its kubelet reports no more."""
        self.nodes[node] = replace(self.nodes[node], ready=False)

    def _schedule(self, now: float) -> None:
        for key, pod in list(self.pods.items()):
            if pod.node and now >= self.bound_at.get(key, now) + self.work:
                del self.pods[key]
                self.used_until[pod.node] = now
        for key, pod in list(self.pods.items()):
            if pod.node or not pod.shape.requests.get("nvidia.com/gpu"):
                continue
            for node in self.nodes.values():
                blocked = any(t.effect == "NoSchedule" for t in node.taints)
                blocked |= not pod.shape.node_selector.items() <= node.labels.items()
                free = node.allocatable.get("nvidia.com/gpu", 0) - sum(
                    p.shape.requests.get("nvidia.com/gpu", 0)
                    for p in self.pods.values()
                    if p.node == node.name
                )
                if node.ready and not blocked and free >= pod.shape.requests["nvidia.com/gpu"]:
                    self.pods[key] = replace(pod, node=node.name, phase="Running", unschedulable_since=None)
                    self.bound_at[key] = now
                    break


def make_pod(name: str, now: float, gpus: int = 1, **more: Any) -> Pod:
    wanted = {"cpu": 1000, "memory": GIB} | ({"nvidia.com/gpu": gpus} if gpus else {})
    fields = set(Pod.__struct_fields__)
    shape = {"requests": wanted} | {key: more.pop(key) for key in list(more) if key not in fields}
    values: dict[str, Any] = {
        "namespace": "default", "name": name, "uid": f"uid-{name}", "created": now - 3,
        "unschedulable_since": None if "node" in more else now - 2,
        "phase": "Running" if "node" in more else "Pending",
    }  # fmt: skip
    return Pod(shape=PodShape(**shape), **(values | more))


def make_node(name: str, now: float, gpus: int = 1, **more: Any) -> Node:
    offered = {"cpu": 22000, "memory": 110 * GIB, "pods": 110, "ephemeral-storage": 80 * GIB}
    if gpus:
        offered["nvidia.com/gpu"] = gpus
    values: dict[str, Any] = {
        "uid": f"uid-{name}-{now:.0f}", "provider_id": names.provider_id(name), "allocatable": offered,
        "capacity": offered, "ready": True, "created": now, "labels": {"kubernetes.io/hostname": name},
    }  # fmt: skip
    return Node(name=name, **(values | more))


Fault = Outcome | Exception | str  # "lost": done, and the answer is lost; "never": not done, answer lost
READS = frozenset(
    {
        "catalogue", "inventory", "instance", "volumes", "scripts",
        "list_pods_on", "get_node", "read_config_map", "secret_version", "prepare",
    }
)  # fmt: skip


# What an account answers that is not ours counts for nothing.
OURS = frozenset(
    {
        "instance", "volumes",
        "create", "delete", "delete_volume", "create_script", "delete_script",
    }
)  # fmt: skip


class Hands:
    """One controller's Cloud, Writer, View and Joiner in one: their verbs have different names."""

    def __init__(self, account: Account, town: Town) -> None:
        self.account, self.town = account, town
        self.dead = False
        self.count = 0
        self.kill: tuple[int, str] | None = None  # at which call, "before" or "after" its effect
        self.calls: list[tuple[str, str]] = []
        self.faults: dict[str, list[Fault]] = {}
        self.on_call: dict[str, Callable[[str], None]] = {}  # something happens in the world right before
        self.gates: dict[str, asyncio.Event] = {}  # the call waits until the test opens it
        self.trusted: str | None = None  # the account whose answers count; None: any
        self.logins = 0  # how often the credentials changed
        self.not_shown_yet: set[str] = set()  # bound pods that the watch has not brought

    def did(self, *verbs: str) -> list[tuple[str, str]]:
        return [call for call in self.calls if not verbs or call[0] in verbs]

    async def _call(self, verb: str, target: str, effect: Callable[[], Any]) -> Any:
        self._live()
        self.count += 1
        number = self.count
        self.calls.append((verb, target))
        if verb in self.on_call:
            self.on_call[verb](target)
        await asyncio.sleep(0)
        if verb in self.gates:
            await self.gates[verb].wait()
        self._live()
        if self.kill == (number, "before"):
            self._die()
        fault = self.faults[verb].pop(0) if self.faults.get(verb) else None
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, Happened | Refused | Unknown):
            return fault
        if verb in OURS and self.trusted not in (None, self.account.name):
            if verb in READS:
                raise CloudError(Reason.UNAUTHORISED, "the credentials are those of another account")
            return Refused(Reason.UNAUTHORISED, "the credentials are those of another account")
        result = effect() if fault != "never" else None
        if self.kill == (number, "after"):
            self._die()
        return Unknown("the connection was closed") if fault else result

    def _live(self) -> None:
        if self.dead:
            raise asyncio.CancelledError

    def _die(self) -> None:
        self.dead = True
        raise asyncio.CancelledError

    # -- Cloud ----------------------------------------------------------------------------------

    async def catalogue(self) -> Catalogue:
        now = self.account.time.now
        offers = tuple(replace(o, available=self.account.available) for o in self.account.offers)
        result: Catalogue = await self._call("catalogue", "", lambda: Catalogue(at=now, offers=offers))
        return result

    async def inventory(self) -> Inventory:
        at = self.account.time.now

        def listed() -> Inventory:
            lag = self.account.list_lag
            shown = [
                i
                for i in self.account.instances.values()
                if (i.state != "gone" or self.account.shows_gone) and (not lag or at >= i.created_at + lag)
            ]
            found = () if self.account.empty else tuple(shown)
            return Inventory(
                at=at, instances=found, complete=self.account.complete, account=self.account.name
            )

        result: Inventory = await self._call("inventory", "", listed)
        return result

    async def instance(self, instance_id: str) -> Instance | None:
        result: Instance | None = await self._call(
            "instance", instance_id, lambda: self.account.instances.get(instance_id)
        )
        return result

    def trust(self, account: str) -> None:
        self.trusted = account

    def health(self) -> CloudHealth:
        return CloudHealth(logins=self.logins)

    async def create(self, order: Order) -> Outcome:
        result: Outcome = await self._call(
            "create", order.hostname, lambda: Happened(self.account.order(order))
        )
        return result

    async def delete(self, instance_id: str, disks: tuple[str, ...]) -> Outcome:
        def effect() -> Outcome:
            instance = self.account.instances.get(instance_id)
            if instance is None or instance.state == "gone":
                return Refused(Reason.ALREADY_GONE, "gone")
            if instance.status == "provisioning":
                return Refused(Reason.NOT_ALLOWED_YET, "Can't discontinue a provisioning instance")
            if instance.state != "leaving" and not self.account.stuck_delete:
                self.account.end(instance_id, "deleting")
                for disk in disks:
                    self._end_disk(disk)
            return Happened(instance_id)

        result: Outcome = await self._call("delete", instance_id, effect)
        return result

    def _end_disk(self, disk: str) -> None:
        if disk in self.account.volumes and self.account.volumes[disk].status != "deleting":
            self.account.volumes[disk] = replace(self.account.volumes[disk], status="deleting")
            self.account.ended[disk] = self.account.time.now

    async def volumes(self) -> Volumes:
        result: Volumes = await self._call(
            "volumes",
            "",
            lambda: Volumes(listed=tuple(self.account.volumes.values()), account=self.account.name),
        )
        return result

    async def delete_volume(self, volume_id: str) -> Outcome:
        def effect() -> Outcome:
            self._end_disk(volume_id)
            return Happened(volume_id)

        result: Outcome = await self._call("delete_volume", volume_id, effect)
        return result

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        result: tuple[Script, ...] = await self._call(
            "scripts",
            prefix,
            lambda: tuple(s for s in self.account.scripts.values() if s.name.startswith(prefix)),
        )
        return result

    async def create_script(self, name: str, text: str) -> Outcome:
        def effect() -> Outcome:
            if len(self.account.scripts) >= self.account.script_quota:
                return Refused(Reason.QUOTA, "create script: answered 400: Startup script limit exceeded")
            key = f"s-{name}"
            self.account.scripts[key] = Script(id=key, name=name, text=text)
            return Happened(key)

        result: Outcome = await self._call("create_script", name, effect)
        return result

    async def delete_script(self, script_id: str) -> Outcome:
        def effect() -> Outcome:
            if self.account.scripts.pop(script_id, None) is None:
                return Refused(Reason.ALREADY_GONE, "no such script")
            return Happened(script_id)

        result: Outcome = await self._call("delete_script", script_id, effect)
        return result

    async def close(self) -> None:
        pass

    # -- Joiner ---------------------------------------------------------------------------------

    async def prepare(self, joining: Joining) -> Prepared:
        mark = names.script_mark(joining.cluster_id, joining.intent)
        text = f"#!/bin/bash\n{mark}\n"
        result: Prepared = await self._call("prepare", joining.name, lambda: Prepared(script=text))
        return result

    # -- View -----------------------------------------------------------------------------------

    synced = True

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self.town.nodes.values())

    def node(self, name: str) -> Node | None:
        return self.town.nodes.get(name)

    def waiting_pods(self) -> tuple[Pod, ...]:
        return tuple(p for p in self.town.pods.values() if not p.node and not p.finished)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(p for p in self._bound_to(node) if p.key not in self.not_shown_yet)

    def _bound_to(self, node: str) -> tuple[Pod, ...]:
        return tuple(p for p in self.town.pods.values() if p.node == node and not p.finished)

    def daemonsets(self) -> tuple[DaemonSet, ...]:
        return ()

    def jobs(self) -> tuple[Job, ...]:
        return ()

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return tuple(self.town.budgets)

    def used_until(self, node: str) -> float:
        return self.town.used_until.get(node, 0.0)

    def guarded_pods(self) -> tuple[Pod, ...]:
        return tuple(p for p in self.town.pods.values() if p.node and p.shape.anti_affinity)

    def nothing(self) -> tuple[Any, ...]:
        return ()

    namespaces = volume_claims = persistent_volumes = storage_classes = csi_nodes = limit_ranges = nothing
    pod_groups = device_claims = device_classes = unreadable = nothing

    def old(self) -> str:
        return ""

    def blind(self) -> dict[str, str]:
        return {}

    # -- Writer ---------------------------------------------------------------------------------

    async def list_pods_on(self, node: str) -> tuple[Pod, ...]:
        result: tuple[Pod, ...] = await self._call("list_pods_on", node, lambda: self._bound_to(node))
        return result

    async def get_node(self, name: str) -> Node | None:
        result: Node | None = await self._call("get_node", name, lambda: self.town.nodes.get(name))
        return result

    def _node(self, name: str) -> Node:
        if name not in self.town.nodes:
            raise ClusterError("not_found", f"nodes {name} not found")
        return self.town.nodes[name]

    async def taint(self, node: str, add: tuple[Taint, ...] = (), remove: tuple[Taint, ...] = ()) -> None:
        def effect() -> None:
            found = self._node(node)
            gone = {(t.key, t.effect) for t in (*add, *remove)}
            kept = tuple(t for t in found.taints if (t.key, t.effect) not in gone)
            self.town.nodes[node] = replace(found, taints=kept + add)

        words = ",".join([*(f"+{t.effect}" for t in add), *(f"-{t.effect}" for t in remove)])
        await self._call("taint", f"{node} {words}", effect)

    async def annotate(self, node: str, changes: Mapping[str, str | None]) -> None:
        def effect() -> None:
            found = self._node(node)
            merged = {**found.annotations, **changes}
            self.town.nodes[node] = replace(
                found, annotations={k: v for k, v in merged.items() if v is not None}
            )

        await self._call("annotate", f"{node} {' '.join(f'{k}={v}' for k, v in changes.items())}", effect)

    async def label(self, node: str, changes: Mapping[str, str | None]) -> None:
        def effect() -> None:
            found = self._node(node)
            merged = {**found.labels, **changes}
            self.town.nodes[node] = replace(found, labels={k: v for k, v in merged.items() if v is not None})

        await self._call("label", f"{node} {','.join(sorted(changes))}", effect)

    async def identify(self, node: str, provider_id: str, labels: Mapping[str, str]) -> None:
        def effect() -> None:
            found = self._node(node)
            if found.provider_id not in ("", provider_id):
                raise ClusterError("other", "spec.providerID: Forbidden: node updates may not change it")
            self.town.nodes[node] = replace(found, provider_id=provider_id, labels={**found.labels, **labels})

        await self._call("identify", f"{node} {provider_id}", effect)

    async def evict(self, pod: Pod) -> Outcome:
        def effect() -> Outcome:
            self.town.pods.pop(pod.key, None)
            return Happened(pod.uid)

        result: Outcome = await self._call("evict", pod.key, effect)
        return result

    async def delete_node(self, name: str, uid: str) -> None:
        def effect() -> None:
            if name in self.town.nodes and self.town.nodes[name].uid == uid:
                del self.town.nodes[name]

        await self._call("delete_node", f"{name} {uid}", effect)

    async def read_config_map(self, name: str) -> Stored | None:
        def effect() -> Stored | None:
            data, version = self.town.maps.get(name, ({}, 0))
            return Stored(dict(data), str(version)) if version else None

        result: Stored | None = await self._call("read_config_map", name, effect)
        return result

    async def write_config_map(self, name: str, data: Mapping[str, str], version: str | None) -> str:
        def effect() -> str:
            _, found = self.town.maps.get(name, ({}, 0))
            if (version or "0") != str(found):
                raise ClusterError("conflict", "the object has been modified")
            self.town.maps[name] = (dict(data), found + 1)
            return str(found + 1)

        result = await self._call("write_config_map", name, effect)
        if isinstance(result, Unknown):
            raise ClusterError("unreachable", result.message)
        return str(result)

    async def read_secret(self, name: str, key: str) -> str:
        return "token"

    async def secret_version(self, name: str) -> str:
        result: str = await self._call("secret_version", name, lambda: self.town.secrets.get(name, ""))
        return result

    async def kube_system_uid(self) -> str:
        return "uid"

    async def event(self, subject: Subject, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        pass


__all__ = ["A1", "Account", "CloudError", "Hands", "JoinError", "Town", "make_node", "make_pod"]
