"""What the cluster's store holds of the controller's own state, read as anybody could read it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from controller.domain import names
from controller.domain.machine import Machine
from controller.fleet.book import KEY, Book
from controller.sandbox.cluster.resources import CONFIG_MAPS, LEASES, PODS, Obj
from controller.sandbox.simulator.worlds import Worlds

_DONE = ("Succeeded", "Failed")


class Books:
    def __init__(self, worlds: Worlds, namespace: str) -> None:
        self._store = worlds.cluster.store
        self._namespace = namespace
        self._seen: tuple[int, Book] = (-1, Book())

    def ledger(self) -> Book:
        """As it is stored now; empty where there is none."""
        item = self._store.item(CONFIG_MAPS, self._namespace, names.LEDGER_CONFIGMAP)
        if item is None:
            return Book()
        if item.version != self._seen[0]:
            data = item.decode().get("data") or {}
            self._seen = (item.version, msgspec.json.decode(data.get(KEY, "{}"), type=Book))
        return self._seen[1]

    @property
    def version(self) -> int:
        item = self._store.item(CONFIG_MAPS, self._namespace, names.LEDGER_CONFIGMAP)
        return item.version if item is not None else 0

    def machine(self, hostname: str) -> Machine | None:
        return next((one for one in self.ledger().machines if one.name == hostname), None)

    def holder(self) -> str:
        item = self._store.item(LEASES, self._namespace, names.LEASE)
        return str((item.decode()["spec"].get("holderIdentity")) or "") if item is not None else ""

    def reported(self) -> str:
        """The text of the status: what it names, a person can find."""
        item = self._store.item(CONFIG_MAPS, self._namespace, names.STATUS_CONFIGMAP)
        return json.dumps(item.decode().get("data") or {}) if item is not None else ""

    def told(self) -> dict[str, str]:
        """By machine: the reason that the status gives for what is decided about it."""
        item = self._store.item(CONFIG_MAPS, self._namespace, names.STATUS_CONFIGMAP)
        data = (item.decode().get("data") or {}) if item is not None else {}
        status = json.loads(data.get("status.json", "{}"))
        return {one["name"]: one["code"] for one in status.get("machines", ())}

    def gpu_pods_on(self, node: str) -> list[str]:
        found = []
        for item in self._store.shelf(PODS).on_node(node):
            pod = item.decode()
            if pod["status"].get("phase") not in _DONE and gpus_of(pod):
                found.append("/".join(item.key))
        return found


def gpus_of(pod: Obj) -> int:
    total: int = 0
    for container in pod["spec"]["containers"]:
        resources: dict[str, Any] = container.get("resources") or {}
        total += int((resources.get("requests") or resources.get("limits") or {}).get("nvidia.com/gpu", 0))
    return total
