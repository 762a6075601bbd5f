"""A sandbox cluster in memory with a clock that moves only when a test says so."""

from __future__ import annotations

import json
from typing import Any

from controller.sandbox.cluster.join import Join, Machine
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.world import ClusterWorld
from controller.sandbox.wire import Request, Response, Stream

START = 1_800_000_000.0
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Town:
    def __init__(self, **settings: Any) -> None:
        self.now = START
        held = Settings(**{"speed": 1.0, "heartbeat": 0.0, **settings})
        self.world = ClusterWorld(lambda: self.now, 7, held)
        self.run(0)

    def run(self, seconds: float = 0.0) -> None:
        end = self.now + seconds
        while True:
            pause = self.world.tick()
            if pause is None or self.now + pause > end:
                self.now = end
                if self.world.tick() != 0.0:
                    return
            else:
                self.now += pause

    def ask(self, method: str, target: str, body: Any = b"", **headers: str) -> Response:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.world.handle(Request.of(method, target, body, named))

    def get(self, target: str, **headers: str) -> Any:
        answer = self.ask("GET", target, **headers)
        assert answer.status == 200, answer.body
        return answer.json()

    def post(self, target: str, body: Any) -> Any:
        answer = self.ask("POST", target, body)
        assert answer.status in (200, 201), answer.body
        return answer.json()

    def patch(self, target: str, body: Any, kind: str = MERGE) -> Response:
        return self.ask("PATCH", target, body, content_type=kind)

    def refused(self, method: str, target: str, body: Any = b"", **headers: str) -> Any:
        answer = self.ask(method, target, body, **headers)
        assert answer.status >= 400, answer.body
        status = answer.json()
        assert status["kind"] == "Status"
        assert status["code"] == answer.status
        return status

    def add_pod(self, name: str, **more: Any) -> Any:
        return self.post(PODS, pod(name, **more))

    def pod(self, name: str) -> Any:
        return self.get(f"{PODS}/{name}")

    def add_node(self, name: str, **more: Any) -> Any:
        return self.post(NODES, node(name, **more))

    def node(self, name: str) -> Any:
        return self.get(f"{NODES}/{name}")

    def watch(self, target: str) -> Stream:
        answer = self.ask("GET", target + ("&" if "?" in target else "?") + "watch=1")
        assert answer.stream is not None, answer.body
        return answer.stream

    def settings(self, **values: Any) -> None:
        answer = self.ask("PUT", "/_sandbox/settings", values)
        assert answer.status == 200, answer.body


def seen(stream: Stream) -> list[tuple[str, str]]:
    """Types and names of what a watch has told since the last look."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events(stream)]


def events(stream: Stream) -> list[Any]:
    return [json.loads(line) for line in b"".join(stream.drain()).splitlines()]


def pod(name: str, **more: Any) -> Any:
    requests = more.pop("requests", {})
    meta = {"name": name, "labels": more.pop("labels", {}), "annotations": more.pop("annotations", {})}
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests}}
    extended = {key: value for key, value in requests.items() if "/" in key}
    if extended:
        container["resources"]["limits"] = extended
    if "command" in more:
        container["command"] = more.pop("command")
    return {"metadata": meta, "spec": {"containers": [container], **more}}


def node(name: str, **more: Any) -> Any:
    figures = {"cpu": "8", "memory": "32Gi", "pods": "110", **more.pop("figures", {})}
    status = {"capacity": figures, "allocatable": figures}
    status["conditions"] = [
        {"type": "Ready", "status": more.pop("ready", "True"), "reason": "Said", "message": ""}
    ]
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}}
    return {"metadata": meta, "spec": more, "status": status}


def machine(name: str, gpus: int = 1, **join: Any) -> Machine:
    joined = Join(join.pop("node", name), join.pop("provider_id", f"verda://{name}"), **join)
    return Machine(f"id-{name}", name, gpus, 120, 22, 100, "1A100.22V", "FIN-01", "10.0.0.9", joined)


def condition(obj: Any, kind: str) -> Any:
    return next((each for each in obj["status"].get("conditions", ()) if each["type"] == kind), {})


def taints(obj: Any) -> set[str]:
    return {f"{each['key']}:{each['effect']}" for each in obj["spec"].get("taints", ())}
