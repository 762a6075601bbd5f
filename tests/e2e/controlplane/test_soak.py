"""Hours of trouble on the real control plane: two controllers, one account, everything going wrong at random.

`SOAK_MINUTES` (20) says how long, `SOAK_SEED` repeats a course of events.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.controlplane.judge import Judge
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.mayhem import Mayhem
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import SETTINGS, Scene, until

MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
MOST = 6
FOREIGN = "somebody-elses"
POOL = SETTINGS["pools"][0] | {"max": MOST, "market": "prefer_spot"}


@pytest.mark.soak(limit=int(MINUTES * 60 + 900))
def test_whatever_happens_nothing_is_paid_twice_leaked_or_hurt(
    scene: Scene, kubelets: Kubelets, plane: ControlPlane
) -> None:
    seed = int(os.environ.get("SOAK_SEED") or random.randrange(10**6))
    print(f"seed {seed}, {MINUTES:g} minutes")
    scene.usual = {
        "pools": [POOL],
        "timing": SETTINGS["timing"] | {"catalogue": "2s"},
        "deadlines": SETTINGS["deadlines"] | {"backoff": {"first": "2s", "most": "10s"}},
    }
    foreign = {"hostname": FOREIGN, "description": "gpuas real other", "running": True}
    scene.tell_cloud("POST", "instances", order(foreign))
    with Judge(scene, MOST, "real-") as judge:
        mayhem = Mayhem(scene, plane, judge, seed, ("one", "two"))
        try:
            end = time.monotonic() + MINUTES * 60
            while time.monotonic() < end:
                mayhem.step()
                assert not judge.broken, judge.broken
                time.sleep(mayhem.pause())
            until("everything is taken back", lambda: tried(mayhem.calm), 120)
            until(
                "the account holds nothing of ours any more",
                lambda: mayhem.revive() or [i["hostname"] for i in scene.state()["instances"]] == [FOREIGN],
                420,
            )
            until("no disk and no script is left", lambda: clean_but_for(scene, 1), 240)
            until("no Node is left", lambda: not scene.nodes(), 120)
            assert judge.alive()
            assert not judge.broken, judge.broken
            assert len(judge.ran) * 3 >= mayhem.count["pods"], (
                f"hardly any work was done: {len(judge.ran)} pods ran"
            )
            told = ", ".join(f"{what} {count}" for what, count in sorted(mayhem.count.items()))
            print(
                f"soak: {MINUTES:g} minutes, seed {seed}: {told}; creates {scene.state()['creates']}, "
                f"{len(judge.ran)} pods ran, "
                f"at most {judge.most_at_once} machines of {MOST} at once, {judge.looks} looks, nothing broken"
            )
        except BaseException:
            print(*mayhem.end()[-300:], sep="\n")
            raise
        finally:
            mayhem.end()


def order(more: dict[str, object]) -> dict[str, object]:
    return {
        "instance_type": "1A100.22V",
        "image": "ubuntu-24.04",
        "location_code": "FIN-01",
        "ssh_key_ids": [],
        **more,
    }


def tried(act: Callable[[], None]) -> bool:
    """False where the API server, or the cloud, is away just now."""
    try:
        act()
    except (ApiException, HTTPError, OSError):
        return False
    return True


def clean_but_for(scene: Scene, disks: int) -> bool:
    state = scene.state()
    return len(state["volumes"]) == disks and not state["trash"] and not state["scripts"]
