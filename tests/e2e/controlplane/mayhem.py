"""What befalls both worlds in a soak: a seeded source of pods, kills, freezes, evictions, refusals and faults."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.controlplane.judge import Judge
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import Scene
from tests.e2e.programs import Started

MOST_PODS = 10
FAULTS: tuple[dict[str, Any], ...] = (
    {"method": "POST", "path": "/instances", "fault": "lose_after"},
    {"method": "POST", "path": "/instances", "fault": "lose_before"},
    {"method": "POST", "path": "/instances", "fault": "answer_after", "status": 500, "body": "oops"},
    {"method": "POST", "path": "/instances", "fault": "answer", "status": 503, "body": "<html>"},
    {"method": "POST", "path": "/instances", "fault": "delay_answer", "seconds": 4},
    {"method": "PUT", "path": "/instances", "fault": "lose_after"},
    {"method": "PUT", "path": "/instances", "fault": "answer", "status": 502, "body": "<html>"},
    {"method": "GET", "path": "/instances", "fault": "answer", "status": 200, "body": [], "times": 1},
    {"method": "GET", "path": "/instances", "fault": "answer", "status": 500, "body": "oops", "times": 3},
    {"method": "*", "path": "/instances*", "fault": "answer", "status": 429, "body": "slow down", "times": 5,
     "headers": {"Retry-After": "2"}},
    {"method": "*", "path": "/instances*", "fault": "answer", "status": 401, "body": "", "times": 2},
    {"method": "POST", "path": "/scripts", "fault": "lose_after"},
    {"method": "DELETE", "path": "/scripts/*", "fault": "answer", "status": 500, "body": ""},
)  # fmt: skip
PLENTY = [{"count": None}]
OUTCOMES = ("no_capacity", "installation_failed", "error")


class Mayhem:
    """One thing at a time, by `step`; `calm` takes every misfortune back."""

    def __init__(
        self, scene: Scene, plane: ControlPlane, judge: Judge, seed: int, names: tuple[str, ...]
    ) -> None:
        self._scene = scene
        self._plane = plane
        self._judge = judge
        self._rng = random.Random(seed)
        self._names = names
        self._up: dict[str, Started] = {}
        self._at: list[tuple[float, Callable[[], None]]] = []  # what follows later
        self._ends: dict[str, float] = {}  # pods
        self.count: Counter[str] = Counter()
        self.told: list[str] = []  # by controllers that have ended
        for name in names:
            self._start(name)
        self._acts: tuple[tuple[float, Callable[[], None]], ...] = (
            (40, self._pod), (4, self._kill), (3, self._freeze), (5, self._evict), (3, self._forget_node),
            (10, self._fault), (4, self._sell_out), (5, self._fail_later), (2, self._pause_etcd), (1, self._restart_api),
        )  # fmt: skip

    def step(self) -> None:
        now = time.monotonic()
        for name in [name for name, each in self._up.items() if each.process.poll() is not None]:
            self.count["restarts"] += 1  # it gave up, for example on an API server that knew no rights yet
            self._end(name)
            self._later(1, lambda name=name: self._start(name))  # type: ignore[misc]
        due = [act for at, act in self._at if at <= now]
        self._at = [(at, act) for at, act in self._at if at > now]
        for name in [name for name, end in self._ends.items() if end <= now]:
            due.append(lambda name=name: self._finish(name))  # type: ignore[misc]
        weights, acts = zip(*self._acts, strict=True)
        for act in (*due, *self._rng.choices(acts, weights)):
            with contextlib.suppress(ApiException, HTTPError):  # the API server is away just now
                act()

    def pause(self) -> float:
        return self._rng.uniform(0.2, 2.0)

    def calm(self) -> None:
        """Whatever was begun comes to its end, and nothing new begins. May be asked again where the API is away."""
        while self._at:
            self._at[0][1]()
            del self._at[0]  # only now: what could not be done is tried again, and nothing else
        self._scene.tell_cloud("PUT", "faults", [])
        self._scene.tell_cloud("PUT", "outcomes", [])
        self._scene.tell_cloud("PUT", "stock", PLENTY)
        for name in list(self._ends):
            self._finish(name)

    def revive(self) -> None:
        """After the calm, too, whoever gave up is started again, as a Deployment does."""
        for name in [name for name, each in self._up.items() if each.process.poll() is not None]:
            self.count["restarts"] += 1
            self._end(name)
            self._start(name)

    def end(self) -> list[str]:
        """Ends the controllers; what the last of them said."""
        for name in list(self._up):
            self._up[name].process.send_signal(signal.SIGCONT)
            self._end(name)
        return self.told

    # -- pods -----------------------------------------------------------------------------------------

    def _pod(self) -> None:
        if len(self._ends) < MOST_PODS:
            self.count["pods"] += 1
            name = f"work-{self.count['pods']}"
            self._ends[name] = time.monotonic() + self._rng.uniform(4, 40)
            self._scene.pod(name, self._rng.choice((1, 1, 1, 2)))

    def _finish(self, name: str) -> None:
        try:
            self._scene.delete_pod(name)
        except ApiException as error:
            if error.status != 404:
                raise
        self._ends.pop(name, None)

    # -- controllers ----------------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        self._up[name] = self._scene.controller(self._scene.usual, name=name)

    def _end(self, name: str) -> None:
        gone = self._up.pop(name)
        code = gone.end()
        self.told += [f"{name}: {line}" for line in (*gone.complaints, f"ended with {code}")]

    def _kill(self) -> None:
        name = self._rng.choice(self._names)
        if name in self._up:
            self.count["kills"] += 1
            self._up[name].process.send_signal(signal.SIGKILL)
            self._end(name)
            self._later(self._rng.uniform(0, 4), lambda: self._start(name))

    def _freeze(self) -> None:
        name = self._rng.choice(self._names)
        if name in self._up:
            self.count["freezes"] += 1
            process = self._up[name].process
            process.send_signal(signal.SIGSTOP)
            self._later(self._rng.uniform(1, 10), lambda: process.send_signal(signal.SIGCONT))

    # -- the cloud ------------------------------------------------------------------------------------

    def _evict(self) -> None:
        spots = [each for each in self._scene.live() if each["is_spot"] and each["status"] == "running"]
        if spots:
            self.count["evictions"] += 1
            name = self._rng.choice(spots)["hostname"]
            self._judge.excused.add(name)
            self._scene.tell_cloud("POST", "evict", {"hostname": name})

    def _fault(self) -> None:
        self.count["faults"] += 1
        self._scene.tell_cloud("PUT", "faults", [self._rng.choice(FAULTS)])

    def _sell_out(self) -> None:
        self.count["sold out"] += 1
        self._scene.tell_cloud(
            "PUT", "stock", [{"instance_type": self._rng.choice(("1A100.22V", "*")), "count": 0}]
        )
        self._later(self._rng.uniform(2, 8), lambda: self._scene.tell_cloud("PUT", "stock", PLENTY))

    def _fail_later(self) -> None:
        self.count["failures after the order"] += 1
        self._scene.tell_cloud("PUT", "outcomes", [{"outcome": self._rng.choice(OUTCOMES), "times": 1}])

    # -- the cluster ----------------------------------------------------------------------------------

    def _forget_node(self) -> None:
        nodes = self._scene.nodes()
        if nodes:
            self.count["nodes deleted by hand"] += 1
            name = self._rng.choice(nodes)
            self._judge.excused.add(name)
            self._scene.core.delete_node(name)

    def _pause_etcd(self) -> None:
        self.count["etcd pauses"] += 1
        self._plane.signal("etcd", signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.5, 3))
        self._plane.signal("etcd", signal.SIGCONT)

    def _restart_api(self) -> None:
        self.count["API restarts"] += 1
        self._plane.end("kube-apiserver")
        self._plane.restart("kube-apiserver")

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._at.append((time.monotonic() + seconds, act))
