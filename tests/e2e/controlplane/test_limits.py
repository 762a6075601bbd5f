"""Limits hold however many pods wait, and the pods that they keep waiting are told the number to change."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, pool, running, runs, until

SMALL = pool(instance_types=["1A100.22V"], max=9)  # 1.29 an hour


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"limits": {"machines": 3}}, "limits.machines is 3 and 3 are there: raise it to at least 4"),
        ({"limits": {"gpus": 3}}, "limits.gpus is 3, 3 are there"),
        ({"limits": {"price_per_hour": 4}}, "limits.price_per_hour is 4.00, 3.87 is spent"),
        ({"limits": {"launches_per_minute": 3}}, "limits.launches_per_minute is 3"),
        (pool(instance_types=["1A100.22V"], max=3), "pool a100 has 3 of at most 3 machines"),
    ],
    ids=["machines", "gpus", "price", "rate", "pool"],
)
def test_a_limit_holds_with_many_pods_waiting_and_they_are_told_which(
    scene: Scene, settings: dict[str, Any], told: str
) -> None:
    names = [f"pod-{number:02}" for number in range(12)]
    with running(scene.controller(SMALL | settings)):
        for name in names:
            scene.pod(name, 1)

        def refused() -> list[str]:
            return [n for n in names if told in scene.said(n)]

        until("nine of them are told", lambda: len(refused()) >= 9)
        time.sleep(1.5)
        assert scene.state()["creates"] == 3
        assert len(refused()) >= 9


def test_a_price_limit_of_one_machine_is_told_with_the_price(scene: Scene) -> None:
    with running(scene.controller(pool(max_price_per_hour=1.0))):
        scene.pod("train", 1)
        until("it is told", lambda: "NotTriggerScaleUp" in scene.events("train"))
        assert "1A100.22V costs 1.29 an hour; max_price_per_hour of pool a100 is 1.00" in scene.said("train")
        assert scene.state()["creates"] == 0


def test_the_limit_is_filled_again_when_a_machine_has_gone(scene: Scene, kubelets: Kubelets) -> None:
    small, large = ({"node.kubernetes.io/instance-type": kind} for kind in ("1A100.22V", "2A100.44V"))
    with running(scene.controller({"limits": {"machines": 1}, "scale_down": {"cooldown": "1s"}})):
        scene.pod("first", 1, nodeSelector=small)
        until("it runs", lambda: runs(scene, "first"))
        scene.pod("second", 2, nodeSelector=large)
        until("the limit is told", lambda: "limits.machines" in scene.said("second"))
        assert scene.state()["creates"] == 1
        scene.delete_pod("first")
        until("the second runs", lambda: runs(scene, "second"))
        assert scene.state()["creates"] == 2
