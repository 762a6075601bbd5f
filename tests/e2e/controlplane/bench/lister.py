"""The controller that is written first: every ten seconds it lists all pods and orders for those that wait.

A program of its own, with the official client and an account that may list pods. It tells each round in
one line of JSON. It stands for nobody's product: it is what watching is measured against.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from urllib.request import Request, urlopen

from kubernetes import client, config


class Answer:
    """What the client makes typed objects of."""

    def __init__(self, data: str) -> None:
        self.data = data


def main(kubeconfig: str, cloud: str, period: float) -> None:
    api = config.new_client_from_config(kubeconfig)
    core = client.CoreV1Api(api)
    token = _ask(cloud, "/oauth2/token", {"grant_type": "client_credentials", "client_id": "lister",
                                          "client_secret": "lister-not-a-key"})  # fmt: skip
    bearer = json.loads(token)["access_token"]
    ordered: set[str] = set()
    due = time.monotonic()
    while True:
        began = time.monotonic()
        raw = core.list_pod_for_all_namespaces(_preload_content=False).data
        pods = api.deserialize(Answer(raw.decode()), "V1PodList").items
        waiting = [pod for pod in pods if _waits(pod) and pod.metadata.uid not in ordered]
        for pod in waiting:
            _ask(cloud, "/instances", _order(pod), bearer)
            ordered.add(pod.metadata.uid)
        told = {
            "bytes": len(raw),
            "pods": len(pods),
            "ordered": len(waiting),
            "took": time.monotonic() - began,
        }
        print(json.dumps(told), flush=True)
        due += period
        time.sleep(max(0.0, due - time.monotonic()))


def _waits(pod: Any) -> bool:
    if pod.spec.node_name or pod.status.phase != "Pending":
        return False
    if not any(c.reason == "Unschedulable" for c in pod.status.conditions or ()):
        return False
    return any("nvidia.com/gpu" in ((c.resources and c.resources.limits) or {}) for c in pod.spec.containers)


def _order(pod: Any) -> dict[str, Any]:
    return {
        "instance_type": "1A100.22V",
        "image": "ubuntu-22.04",
        "hostname": pod.metadata.name,
        "description": "lister",
        "location_code": "FIN-01",
    }


def _ask(cloud: str, path: str, body: dict[str, Any], token: str = "") -> bytes:
    headers = {"Content-Type": "application/json", "User-Agent": "lister"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    asked = Request(cloud + path, json.dumps(body).encode(), headers, method="POST")  # noqa: S310
    with urlopen(asked, timeout=30) as answer:  # noqa: S310
        raw: bytes = answer.read()
        return raw


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
