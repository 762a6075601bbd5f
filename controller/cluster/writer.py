"""The writes, each guarded against stale knowledge.

Taints are one list in the spec that everybody edits, so a write names the version it has read and is
tried again on a conflict. Evictions and deletions name the UID, because names are used again.
"""

from __future__ import annotations

import base64
import binascii
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from controller.cluster import wire
from controller.cluster.configmaps import ConfigMaps
from controller.cluster.decode import Decoder, Unreadable
from controller.cluster.events import Events
from controller.cluster.protocol import ClusterError, Stored, Subject, Transport
from controller.domain.kube import Node, Pod, Taint
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason

Obj = dict[str, Any]
PAGE = 250
ATTEMPTS = 6
MERGE = "application/merge-patch+json"


class ClusterWriter:
    """Implements `protocol.Writer`. `namespace` is the controller's own."""

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
        wall: Callable[[], float],
        decoder: Decoder | None = None,
    ) -> None:
        self._transport = transport
        self._namespace = namespace
        self._sleep = sleep
        self._rng = rng
        self._decoder = decoder or Decoder()
        self._events = Events(transport, wall=wall)
        self._config_maps = ConfigMaps(transport, namespace=namespace)

    # ---- pods

    async def list_pods_on(self, node: str) -> tuple[Pod, ...]:
        """No resourceVersion: the API server must answer with what is true now. Unreadable pods are an error."""
        found: list[Pod] = []
        token = ""
        for _ in range(1000):
            query = {"fieldSelector": f"spec.nodeName={node}", "limit": str(PAGE)}
            if token:
                query["continue"] = token
            try:
                page = wire.page(await self._transport.request("GET", "/api/v1/pods", query=query))
                found += [self._decoder.pod(raw) for raw in page.items or ()]
            except ClusterError as error:
                if error.status != 410 or not token:
                    raise
                found, token = [], ""  # the pages took longer than etcd remembers: from the start
                continue
            except (Unreadable, msgspec.MsgspecError) as error:
                # Nobody may conclude from a pod that was skipped here that the node is empty.
                raise ClusterError("other", f"cannot read the pods on {node}: {error}") from None
            token = page.metadata.next
            if not token:
                return tuple(found)
        raise ClusterError("other", f"the list of the pods on {node} does not end")

    async def evict(self, pod: Pod) -> Outcome:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        for attempt in range(ATTEMPTS):
            try:
                await self._transport.request("POST", path, body=body)
                return Happened(pod.uid)
            except ClusterError as error:
                if error.kind == "not_found":
                    return Happened(pod.uid)
                if error.kind == "conflict":  # another pod of this name, or a budget that was just changed
                    await self._pause(attempt)
                    continue
                return self._not_evicted(error)
        return Refused(Reason.UNAVAILABLE, "the pod changed while it was being evicted", 1.0)

    @staticmethod
    def _not_evicted(error: ClusterError) -> Outcome:
        budget = "disruption budget" in error.words.lower() or "PodDisruptionBudget" in error.words
        if error.status == 429:
            return Refused(Reason.PDB if budget else Reason.RATE_LIMITED, error.words, error.retry_after)
        if error.status == 500 and budget:  # several budgets cover the pod, which the API refuses as a 500
            return Refused(Reason.PDB, error.words)
        if error.kind == "unreachable":
            return Unknown(error.message)
        raise error

    # ---- nodes

    async def get_node(self, name: str) -> Node | None:
        raw = await self._get(f"/api/v1/nodes/{name}")
        try:
            return None if raw is None else self._decoder.node(raw)
        except Unreadable as error:
            raise ClusterError("other", str(error)) from None

    async def taint(self, node: str, add: tuple[Taint, ...] = (), remove: tuple[Taint, ...] = ()) -> None:
        path = f"/api/v1/nodes/{node}"
        for attempt in range(ATTEMPTS):
            found: Obj = msgspec.json.decode(await self._transport.request("GET", path))
            before: list[Obj] = (found.get("spec") or {}).get("taints") or []
            after = _tainted(before, add, remove)
            if after == before:
                return
            version = found["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": after or None}}
            try:
                await self._transport.request("PATCH", path, body=patch, content_type=MERGE)
                return
            except ClusterError as error:
                if error.kind != "conflict" or attempt == ATTEMPTS - 1:
                    raise
            await self._pause(attempt)

    async def annotate(self, node: str, changes: Mapping[str, str | None]) -> None:
        await self._patch_meta(node, "annotations", changes)

    async def label(self, node: str, changes: Mapping[str, str | None]) -> None:
        await self._patch_meta(node, "labels", changes)

    async def identify(self, node: str, provider_id: str, labels: Mapping[str, str]) -> None:
        body: Obj = {"spec": {"providerID": provider_id}}
        if labels:
            body["metadata"] = {"labels": dict(labels)}
        await self._transport.request("PATCH", f"/api/v1/nodes/{node}", body=body, content_type=MERGE)

    async def _patch_meta(self, node: str, field: str, changes: Mapping[str, str | None]) -> None:
        if changes:
            body = {"metadata": {field: dict(changes)}}
            await self._transport.request("PATCH", f"/api/v1/nodes/{node}", body=body, content_type=MERGE)

    async def delete_node(self, name: str, uid: str) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        try:
            await self._transport.request("DELETE", f"/api/v1/nodes/{name}", body=body)
        except ClusterError as error:
            if error.kind not in ("not_found", "conflict"):  # conflict: another Node of the same name
                raise

    # ---- our own namespace

    async def read_config_map(self, name: str) -> Stored | None:
        return await self._config_maps.read(name)

    async def write_config_map(self, name: str, data: Mapping[str, str], version: str | None) -> str:
        return await self._config_maps.write(name, data, version)

    async def read_secret(self, name: str, key: str) -> str:
        raw = await self._get(self._own("secrets", name))
        where = f"secret {self._namespace}/{name}"
        if raw is None:
            raise ClusterError(
                "not_found", f"{where} does not exist; create it or correct its name in the settings"
            )
        data: Mapping[str, str] = msgspec.json.decode(raw).get("data") or {}
        if key not in data:
            raise ClusterError("not_found", f"{where} has no key {key}; add it or correct it in the settings")
        try:
            return base64.b64decode(data[key], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ClusterError("other", f"key {key} of {where} is not text") from None

    async def secret_version(self, name: str) -> str:
        raw = await self._get(self._own("secrets", name))
        return wire.identity(raw).metadata.resourceVersion if raw is not None else ""

    async def kube_system_uid(self) -> str:
        raw = await self._transport.request("GET", "/api/v1/namespaces/kube-system")
        return wire.identity(raw).metadata.uid

    async def deployment_annotations(self, name: str) -> Mapping[str, str]:
        """Of a Deployment in our own namespace, for `gpu-autoscaler/pause`; empty where there is none."""
        raw = await self._get(f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{name}")
        if raw is None:
            return {}
        annotations: Mapping[str, str] | None = msgspec.json.decode(raw)["metadata"].get("annotations")
        return annotations or {}

    async def event(self, subject: Subject, *, type: str, reason: str, message: str) -> None:  # noqa: A002
        await self._events.tell(subject, type, reason, message)

    # ---- shared

    def _own(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self._namespace}/{plural}" + (f"/{name}" if name else "")

    async def _get(self, path: str) -> bytes | None:
        try:
            return await self._transport.request("GET", path)
        except ClusterError as error:
            if error.kind == "not_found":
                return None
            raise

    async def _pause(self, attempt: int) -> None:
        await self._sleep(self._rng.uniform(0.5, 1.0) * 0.05 * 2**attempt)


def _tainted(before: list[Obj], add: tuple[Taint, ...], remove: tuple[Taint, ...]) -> list[Obj]:
    """The list with ours changed by key and effect, and everybody else's as they are (`timeAdded` too)."""
    gone = {(taint.key, taint.effect) for taint in remove}
    after = [each for each in before if (each.get("key"), each.get("effect")) not in gone]
    for taint in add:
        wanted = {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
        same = [
            k
            for k, each in enumerate(after)
            if (each.get("key"), each.get("effect")) == (taint.key, taint.effect)
        ]
        if not same:
            after.append(wanted)
        elif (after[same[0]].get("value") or "") != taint.value:
            after[same[0]] = wanted
    return after
