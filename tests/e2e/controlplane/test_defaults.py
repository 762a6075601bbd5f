"""Nothing shortened: the product's own times on a real control plane. Minutes each, so `make e2e-full` only."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, running, runs, until

pytestmark = pytest.mark.full(limit=1200)
# What was shortened for the other scenarios is left to the program here.
DEFAULTS: dict[str, Any] = {"timing": None, "deadlines": None, "scale_down": None, "lease": None}


def test_from_zero_and_back_with_the_times_that_users_get(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller(DEFAULTS)):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), 180)
        scene.delete_pod("train")
        free = time.monotonic()
        until("its deletion is ordered", lambda: not scene.live(), 800)
        assert time.monotonic() - free >= 600, "the cooldown is ten minutes"
        until("nothing is left in the account", scene.empty, 300)
        until("no Node is left", lambda: not scene.nodes())
        assert scene.state()["creates"] == 1


def test_an_order_that_never_arrived_is_repeated_once_its_absence_is_proven(
    scene: Scene, kubelets: Kubelets
) -> None:
    scene.tell_cloud("PUT", "faults", [{"method": "POST", "path": "/instances", "fault": "lose_before"}])
    with running(scene.controller(DEFAULTS)):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), 300)
        assert scene.state()["creates"] == 1


def test_an_order_whose_answer_was_lost_is_found_again(scene: Scene, kubelets: Kubelets) -> None:
    scene.tell_cloud("PUT", "faults", [{"method": "POST", "path": "/instances", "fault": "lose_after"}])
    with running(scene.controller(DEFAULTS)):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), 300)
        time.sleep(90)  # longer than an absence takes to be proven
        assert scene.state()["creates"] == 1


def test_a_leader_frozen_for_longer_than_its_lease_buys_nothing_twice(
    scene: Scene, kubelets: Kubelets
) -> None:
    one = scene.controller(DEFAULTS, name="one")
    with running(one):
        scene.pod("first", 1)
        until("it runs", lambda: runs(scene, "first"), 180)
        two = scene.controller(DEFAULTS, name="two")
        with running(two):
            one.process.send_signal(signal.SIGSTOP)
            scene.pod("second", 1)
            until("the other replica bought for it", lambda: scene.state()["creates"] == 2, 120)
            one.process.send_signal(signal.SIGCONT)
            until("it runs", lambda: runs(scene, "second"), 180)
            time.sleep(30)
            assert scene.state()["creates"] == 2
