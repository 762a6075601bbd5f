"""What the fleet asks of Kubernetes: a picture to decide on, and a handful of careful writes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import msgspec

from controller.domain.kube import (
    CsiNode,
    DaemonSet,
    DeviceClaim,
    DeviceClass,
    DisruptionBudget,
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PodGroup,
    StorageClass,
    Taint,
    Volume,
    VolumeClaim,
)
from controller.domain.outcome import Outcome


class ClusterError(Exception):
    """A call did not succeed. `kind`: conflict | forbidden | not_found | unauthorised | unreachable | other.

    `status`, `words` and `retry_after` are the API server's own, where it answered at all.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int = 0,
        words: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.words = words
        self.retry_after = retry_after


class Transport(Protocol):
    """How requests reach the API server; the pieces of this room know nothing else of the network."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        """The body of a successful answer; anything else is a ClusterError."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, read_timeout: float = 330.0
    ) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that goes on. The end of the answer ends it; trouble is a ClusterError."""


class Stored(msgspec.Struct, frozen=True):
    """A ConfigMap as read: its data and annotations, and the version that a write must name."""

    data: Mapping[str, str]
    version: str
    annotations: Mapping[str, str] = {}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What an event is about."""

    kind: str  # Pod | Node | ConfigMap
    name: str
    namespace: str = ""
    uid: str = ""


class View(Protocol):
    """The watched world, in memory. Reading costs nothing and never waits."""

    @property
    def synced(self) -> bool: ...

    def nodes(self) -> tuple[Node, ...]: ...

    def node(self, name: str) -> Node | None: ...

    def waiting_pods(self) -> tuple[Pod, ...]:
        """Pods without a node that are not finished."""

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Pods bound to the node that are not finished."""

    def used_until(self, node: str) -> float:
        """When the last pod that used accelerators of the node was seen to leave it; 0.0: not of late."""

    def guarded_pods(self) -> tuple[Pod, ...]:
        """Pods bound to a node that keep others off by a required anti-affinity."""

    def daemonsets(self) -> tuple[DaemonSet, ...]: ...

    def jobs(self) -> tuple[Job, ...]: ...

    def budgets(self) -> tuple[DisruptionBudget, ...]: ...

    def namespaces(self) -> tuple[Namespace, ...]: ...

    def volume_claims(self) -> tuple[VolumeClaim, ...]: ...

    def persistent_volumes(self) -> tuple[Volume, ...]: ...

    def storage_classes(self) -> tuple[StorageClass, ...]: ...

    def csi_nodes(self) -> tuple[CsiNode, ...]: ...

    def limit_ranges(self) -> tuple[LimitRange, ...]: ...

    def pod_groups(self) -> tuple[PodGroup, ...]: ...

    def device_claims(self) -> tuple[DeviceClaim, ...]: ...

    def device_classes(self) -> tuple[DeviceClass, ...]: ...

    def unreadable(self) -> tuple[str, ...]:
        """Optional kinds that the cluster has and that may not be read."""

    def old(self) -> str:
        """Why what is known of pods and nodes is too old to decide on, or ""."""

    def blind(self) -> Mapping[str, str]:
        """Kinds that cannot be followed at present, each with the error: what is known of them is old."""


class Writer(Protocol):
    """Writes, each guarded against stale knowledge; they raise ClusterError where no outcome is told."""

    async def list_pods_on(self, node: str) -> tuple[Pod, ...]:
        """The consistent list: straight from the API server, never from a cache."""

    async def get_node(self, name: str) -> Node | None: ...

    async def taint(self, node: str, add: tuple[Taint, ...] = (), remove: tuple[Taint, ...] = ()) -> None:
        """Add and remove taints by key and effect, keeping everybody else's (compare-and-swap, retried)."""

    async def annotate(self, node: str, changes: Mapping[str, str | None]) -> None: ...

    async def label(self, node: str, changes: Mapping[str, str | None]) -> None: ...

    async def identify(self, node: str, provider_id: str, labels: Mapping[str, str]) -> None:
        """Give it this provider ID and labels at once. It must have no ID yet: the API server refuses to change one."""

    async def evict(self, pod: Pod) -> Outcome:
        """Happened (also when it is gone already) or Refused with Reason.PDB and the server's words."""

    async def delete_node(self, name: str, uid: str) -> None:
        """Delete the Node object with this UID; another one of the same name is left alone."""

    async def read_config_map(self, name: str) -> Stored | None: ...

    async def write_config_map(self, name: str, data: Mapping[str, str], version: str | None) -> str:
        """Compare-and-swap (version None: create). Returns the new version; raises kind `conflict`."""

    async def read_secret(self, name: str, key: str) -> str: ...

    async def secret_version(self, name: str) -> str:
        """Another one after every change, and empty where there is no such Secret."""

    async def kube_system_uid(self) -> str: ...

    async def event(self, subject: Subject, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        """Best effort; never raises."""
