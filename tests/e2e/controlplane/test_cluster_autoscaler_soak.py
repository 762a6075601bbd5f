"""Trouble at random with cluster-autoscaler at the wheel, on the real control plane: it and our server die and freeze.

`SOAK_MINUTES` (20) says how long, `SOAK_SEED` repeats a course of events. What is held all the time: the target of a
group is what is listed for it, and every machine of ours in the cloud is listed; in the end nothing is left.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import grpc
import pytest

from compat_grpc.wire import externalgrpc_pb2 as wire
from tests.e2e.controlplane.driving import Stage, group
from tests.e2e.controlplane.judge import Judge
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.mayhem import MOST_PODS, Mayhem
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import SETTINGS, until
from tests.e2e.controlplane.standin import Server
from tests.e2e.controlplane.test_soak import FOREIGN, clean_but_for, order, tried
from tests.e2e.programs import Started

MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
MOST = 6
SERVER, DRIVER = "server", "cluster-autoscaler"
LISTED_WITHIN = 45.0  # seconds; longer than a start of the server, and than an outage of the cloud


class Driven(Mayhem):
    """The two programs are the server and whoever drives it."""

    def __init__(
        self, stage: Stage, plane: ControlPlane, judge: Judge, seed: int, **settings: object
    ) -> None:
        self._stage, self._settings = stage, settings
        super().__init__(stage.scene, plane, judge, seed, (SERVER, DRIVER))

    def _start(self, name: str) -> None:
        pools = (
            group("single", market="prefer_spot"),
            group("double", "2A100.44V", market="prefer_spot"),
        )
        made: Callable[[], Started] = self._stage.autoscaler
        if name == SERVER:
            made = lambda: self._stage.server(*pools, **self._settings)  # noqa: E731
        self._up[name] = made()

    def _pod(self) -> None:
        """A GPU pod is looked at after thirty seconds."""
        if len(self._ends) < MOST_PODS:
            self.count["pods"] += 1
            name = f"work-{self.count['pods']}"
            self._ends[name] = time.monotonic() + self._rng.uniform(20, 120)
            self._scene.pod(name, self._rng.choice((1, 1, 1, 2)))


class Books:
    """What the server says, held against itself and against the cloud."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._call = Server({"address": f"127.0.0.1:{stage.port}", "grpc_timeout": "3s"})
        self._missing: dict[str, float] = {}  # machine -> since when the cloud has it and no group lists it
        self.looks = 0
        self.broken: list[str] = []

    def look(self) -> None:
        listed: set[str] = set()
        try:
            for found in self._call("NodeGroups").nodeGroups:
                self._one(found.id, listed)
            there = {each["hostname"] for each in self._stage.scene.live()} - {FOREIGN}
        except (grpc.RpcError, OSError):
            self._missing.clear()  # one of them is away just now
            return
        self.looks += 1
        now = time.monotonic()
        unlisted = {name for name in there if f"verda://{name}" not in listed}
        self._missing = {name: self._missing.get(name, now) for name in unlisted}
        for name, since in self._missing.items():
            if now - since > LISTED_WITHIN:
                self.broken.append(f"{name} is in the cloud and in no group")

    def _one(self, group_id: str, listed: set[str]) -> None:
        for _ in range(5):  # two calls are no single moment
            before = self._call("NodeGroupTargetSize", id=group_id).targetSize
            instances = self._call("NodeGroupNodes", id=group_id).instances
            after = self._call("NodeGroupTargetSize", id=group_id).targetSize
            counting = [
                i for i in instances if i.status.instanceState != wire.InstanceStatus.instanceDeleting
            ]
            if before == len(counting) == after:
                break
        else:
            self.broken.append(f"target {after} of {group_id}, and {len(counting)} are listed")
        listed |= {i.id for i in instances}


@pytest.mark.soak(limit=int(MINUTES * 60 + 1200))
def test_whatever_happens_targets_lists_and_machines_agree(
    stage: Stage, kubelets: Kubelets, plane: ControlPlane
) -> None:
    scene = stage.scene
    seed = int(os.environ.get("SOAK_SEED") or random.randrange(10**6))
    print(f"seed {seed}, {MINUTES:g} minutes, {stage.driver}")
    scene.tell_cloud(
        "POST", "instances", order({"hostname": FOREIGN, "description": "gpuas real other", "running": True})
    )
    settings = {
        "timing": SETTINGS["timing"] | {"catalogue": "2s"},
        "deadlines": SETTINGS["deadlines"] | {"backoff": {"first": "2s", "most": "10s"}},
    }
    with Judge(scene, MOST, "real-") as judge:
        mayhem, books = Driven(stage, plane, judge, seed, **settings), Books(stage)
        try:
            end = time.monotonic() + MINUTES * 60
            while time.monotonic() < end:
                mayhem.step()
                books.look()
                assert not judge.broken + books.broken, judge.broken + books.broken
                time.sleep(mayhem.pause())
            until("everything is taken back", lambda: tried(mayhem.calm), 120)
            until(
                "the account holds nothing of ours any more",
                lambda: mayhem.revive() or [i["hostname"] for i in scene.state()["instances"]] == [FOREIGN],
                600,
            )
            until("no disk and no script is left", lambda: clean_but_for(scene, 1), 240)
            until("no Node is left", lambda: not scene.nodes(), 120)
            assert judge.alive()
            assert books.looks
            assert not judge.broken, judge.broken
            told = ", ".join(f"{what} {count}" for what, count in sorted(mayhem.count.items()))
            print(
                f"soak with {stage.driver}: {MINUTES:g} minutes, seed {seed}: {told}; creates "
                f"{scene.state()['creates']}, {len(judge.ran)} pods ran, at most {judge.most_at_once} machines of {MOST} "
                f"at once, {judge.looks} looks, {books.looks} at the books, nothing broken"
            )
        except BaseException:
            print(*mayhem.end()[-300:], sep="\n")
            raise
        finally:
            mayhem.end()
