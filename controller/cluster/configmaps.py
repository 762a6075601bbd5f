"""ConfigMaps as small stores with compare-and-swap.

A write replaces the object by PUT at the version that was read: a merge patch could not drop keys that it
does not know. What others put on the object (labels, and annotations such as `gpu-autoscaler/pause`)
would be lost that way, so it is carried over from the very version that is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.cluster.protocol import ClusterError, Stored, Transport

Obj = dict[str, Any]


class ConfigMaps:
    def __init__(self, transport: Transport, *, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._root = f"/api/v1/namespaces/{namespace}/configmaps"
        self._kept: dict[str, tuple[str, Obj]] = {}  # version, and what a PUT must carry over

    async def read(self, name: str) -> Stored | None:
        try:
            raw = await self._transport.request("GET", f"{self._root}/{name}")
        except ClusterError as error:
            if error.kind == "not_found":
                return None
            raise
        found: Obj = msgspec.json.decode(raw)
        self._keep(name, found)
        meta = found["metadata"]
        return Stored(found.get("data") or {}, meta["resourceVersion"], meta.get("annotations") or {})

    async def write(self, name: str, data: Mapping[str, str], version: str | None) -> str:
        body: Obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self._namespace},
        }
        body["data"] = dict(data)
        if version is None:
            raw = await self._transport.request("POST", self._root, body=body)
        else:
            kept = await self._carried_over(name, version)
            body = (
                kept | body | {"metadata": kept["metadata"] | body["metadata"] | {"resourceVersion": version}}
            )
            try:
                raw = await self._transport.request("PUT", f"{self._root}/{name}", body=body)
            except ClusterError as error:
                if error.kind == "not_found":  # deleted since that version was read
                    raise ClusterError(
                        "conflict", error.message, status=error.status, words=error.words
                    ) from None
                raise
        found: Obj = msgspec.json.decode(raw)
        self._keep(name, found)
        return str(found["metadata"]["resourceVersion"])

    async def _carried_over(self, name: str, version: str) -> Obj:
        known = self._kept.get(name)
        if known is None or known[0] != version:
            await self.read(name)
            known = self._kept.get(name)
        if known is None or known[0] != version:
            raise ClusterError(
                "conflict", f"configmap {name} is no longer at version {version}; read it again"
            )
        return known[1]

    def _keep(self, name: str, found: Obj) -> None:
        """What is not ours in a ConfigMap, for the next PUT; never its data."""
        meta = found["metadata"]
        wanted = ("labels", "annotations", "ownerReferences", "finalizers")
        kept: Obj = {"metadata": {key: meta[key] for key in wanted if meta.get(key)}}
        if found.get("binaryData"):
            kept["binaryData"] = found["binaryData"]
        self._kept[name] = (str(meta["resourceVersion"]), kept)
