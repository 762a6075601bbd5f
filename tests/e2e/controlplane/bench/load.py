"""Objects by the thousand, created by a process of its own: whoever takes the times must not be busy with it."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from controller.sandbox.samples import node_json, pod_json
from tests.e2e.controlplane.bench.api import Api

Obj = dict[str, Any]
THREADS = 6
NAMESPACES = tuple(f"team-{number}" for number in range(7))  # of the samples' pods


def gpu_pod(name: str, gpus: int) -> Obj:
    limits = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    container = {"name": "work", "image": "work", "resources": {"limits": limits}}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}


def sample_pod(number: int, node: str, gpus: int) -> tuple[str, Obj]:
    """As large and various as a real one. Without its owner, whom the garbage collector would miss."""
    pod = pod_json(number, node=node, gpus=gpus)
    meta, space = pod["metadata"], pod["metadata"]["namespace"]
    kept = {"name": f"{meta['name']}-{number}", "labels": meta["labels"], "annotations": meta["annotations"]}
    return f"/api/v1/namespaces/{space}/pods", {"metadata": kept, "spec": pod["spec"]}


def sample_node(number: int, name: str = "", labels: Obj | None = None) -> tuple[str, Obj]:
    """A node that KWOK keeps alive: with a name and labels one of ours, else somebody's without GPUs."""
    node = node_json(4 * number + 1)
    meta, spec, status = node["metadata"], node["spec"], node["status"]
    room = {**status["allocatable"], "cpu": "22", "memory": "112Gi"}
    if name:
        room["nvidia.com/gpu"] = "1"
        spec["providerID"] = f"verda://{name}"
    else:
        name = f"box-{number:04d}"
        spec["providerID"] = f"other://{name}"
    meta["labels"] |= {"kubernetes.io/hostname": name, **(labels or {})}
    made = {
        "metadata": {
            "name": name,
            "labels": meta["labels"],
            "annotations": {**meta["annotations"], "kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"providerID": spec["providerID"]},
        "status": {**status, "capacity": room, "allocatable": room},
    }
    return "/api/v1/nodes", made


def create(kubeconfig: Path, objects: Sequence[tuple[str, Obj]], threads: int = THREADS) -> float:
    """Create all of them as fast as the server takes them; the seconds that it took. In another process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_create, kubeconfig, objects, threads).result()


def _create(kubeconfig: Path, objects: Sequence[tuple[str, Obj]], threads: int) -> float:
    api = Api(kubeconfig)
    left: Iterator[tuple[str, Obj]] = iter(objects)
    lock = threading.Lock()
    troubles: list[BaseException] = []

    def work() -> None:
        connection = api.connection()
        try:
            while not troubles:
                with lock:
                    found = next(left, None)
                if found is None:
                    return
                api.send(connection, "POST", *found)
        except Exception as trouble:  # noqa: BLE001  (told to whoever asked)
            troubles.append(trouble)
        finally:
            connection.close()

    began = time.monotonic()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if troubles:
        raise troubles[0]
    return time.monotonic() - began
