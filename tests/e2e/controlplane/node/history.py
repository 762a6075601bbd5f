"""Every state that the Nodes and pods went through, as the API server told it: what is over is still to be seen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kubernetes import client, watch


class History:
    def __init__(self, core: client.CoreV1Api) -> None:
        self._lists: dict[str, Callable[..., Any]] = {
            "node": core.list_node,
            "pod": core.list_pod_for_all_namespaces,
        }
        self._seen: dict[str, list[Any]] = {kind: [] for kind in self._lists}
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), daemon=True) for kind in self._lists
        ]

    def __enter__(self) -> History:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(10)

    def nodes(self, name: str) -> list[Any]:
        return [seen for seen in self._seen["node"] if seen.metadata.name == name]

    def pods(self, name: str, begins: bool = False) -> list[Any]:
        return [
            seen
            for seen in self._seen["pod"]
            if seen.metadata.name == name or (begins and seen.metadata.name.startswith(name))
        ]

    def _follow(self, kind: str) -> None:
        follower = watch.Watch()
        version = None
        while not self._over.is_set():
            for event in follower.stream(self._lists[kind], resource_version=version, timeout_seconds=1):
                self._seen[kind].append(event["object"])
            version = follower.resource_version


def ready(node: Any) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())


def gpus(node: Any) -> int:
    return int((node.status.allocatable or {}).get("nvidia.com/gpu", 0))
