"""A transport without sockets: answers from a script, and remembers what was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from controller.cluster.answers import refused
from controller.cluster.protocol import ClusterError

LONGER_THAN_A_TEST = 400.0


class Asked(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    content_type: str


class Clock:
    """Both clocks, moved by hand or by sleeping."""

    def __init__(self, now: float = 1_000.0, wall: float = 1_750_000_000.0) -> None:
        self.now = now
        self.walled = wall
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.walled

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self.walled += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds > LONGER_THAN_A_TEST:
            await asyncio.get_running_loop().create_future()
        self.slept.append(seconds)
        self.pass_(seconds)
        await asyncio.sleep(0)


def failure(status: int, message: str = "no", **more: Any) -> ClusterError:
    return refused("test", status, json.dumps({"message": message, **more}).encode())


Answer = Any  # a body to encode, bytes, a ClusterError to raise, or a function of Asked that gives one


class Scripted:
    """`answers` are used up in order; `streams` likewise: each is a list of lines (or an error to raise)."""

    def __init__(self, answers: Iterable[Answer] = (), streams: Iterable[Iterable[Any]] = ()) -> None:
        self.answers = list(answers)
        self.streams = [list(lines) for lines in streams]
        self.asked: list[Asked] = []
        self.read_timeouts: list[float] = []
        self.exhausted = asyncio.Event()
        self.route: Callable[[Asked], Answer] | None = None

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
        asked = Asked(method, path, dict(query or {}), json.loads(json.dumps(body)), content_type)
        self.asked.append(asked)
        await asyncio.sleep(0)
        if self.route is None and not self.answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        return self._given(self.route(asked) if self.route else self.answers.pop(0), asked)

    def _given(self, answer: Answer, asked: Asked) -> bytes:
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, read_timeout: float = 330.0
    ) -> AsyncGenerator[bytes, None]:
        self.asked.append(Asked("WATCH", path, dict(query or {}), None, ""))
        self.read_timeouts.append(read_timeout)
        await asyncio.sleep(0)
        if not self.streams:
            self.exhausted.set()
            await asyncio.Event().wait()
        for line in self.streams.pop(0):
            if callable(line):
                line()
                continue
            yield self._given(line, self.asked[-1])

    def of(self, method: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method]


def listed(*items: Mapping[str, Any], version: str = "100", token: str = "") -> dict[str, Any]:
    meta = {"resourceVersion": version} | ({"continue": token} if token else {})
    return {"metadata": meta, "items": list(items)}


def line(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": dict(obj)}


def bookmark(version: str) -> dict[str, Any]:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def pod(name: str, *, version: str = "101", **more: Any) -> dict[str, Any]:
    """A small pod; `gpus`, `node`, `phase`, `message` as needed."""
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    if more.get("gpus"):
        spec["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = str(more["gpus"])
    if more.get("node"):
        spec["nodeName"] = more["node"]
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": more.get("message", "no room"), "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    waits = not more.get("node") and more.get("unschedulable", True)
    status = {"phase": more.get("phase", "Pending")} | ({"conditions": [condition]} if waits else {})
    meta = {
        "name": name,
        "namespace": "team",
        "uid": more.get("uid", f"uid-{name}"),
        "resourceVersion": version,
    }
    return {"metadata": meta, "spec": spec, "status": status}


def node(name: str, *, version: str = "101", heartbeat: str = "", **labels: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    if heartbeat:
        condition["lastHeartbeatTime"] = heartbeat
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": "8"}, "conditions": [condition]},
    }
