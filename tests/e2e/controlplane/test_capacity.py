"""A cloud that has nothing to sell, says so late, or takes a machine away before it was of use."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, deadlines, pool, running, runs, until

SMALL = "1A100.22V"
BACKOFF = {"first": "2s", "most": "4s"}


def test_a_pod_that_no_type_can_be_bought_for_is_told_so_and_served_when_stock_returns(
    scene: Scene, kubelets: Kubelets
) -> None:
    scene.tell_cloud("PUT", "stock", [{"instance_type": "*", "count": 0}])
    timing = {"timing": {"tick": "500ms", "poll_cloud_busy": "500ms", "catalogue": "500ms"}}
    with running(scene.controller(timing)):
        scene.pod("train", 1)
        until("it is told", lambda: "NotTriggerScaleUp" in scene.events("train"))
        assert "1A100.22V is not available in FIN-01" in scene.said("train")
        assert not scene.state()["scripts"]
        scene.tell_cloud("PUT", "stock", [{"instance_type": SMALL, "location": "FIN-01", "count": 1}])
        until("it runs", lambda: runs(scene, "train"))
        assert scene.bought() == [(SMALL, "FIN-01")]
        assert scene.state()["creates"] == 1


def test_refused_orders_are_backed_off_from_with_the_clouds_own_words(
    scene: Scene, kubelets: Kubelets
) -> None:
    """The catalogue says that there is stock, and the order is answered with 503."""
    body = {"code": "service_unavailable", "message": "Not enough resources to deploy that"}
    rule = {"method": "POST", "path": "/instances", "fault": "answer", "status": 503, "body": body}
    scene.tell_cloud("PUT", "faults", [rule | {"times": 0}])
    with running(scene.controller(deadlines(backoff=BACKOFF))):
        began = time.monotonic()
        scene.pod("train", 1)
        until("it is told", lambda: "NotTriggerScaleUp" in scene.events("train"))
        assert "Not enough resources" in scene.said("train")
        assert "(no_capacity)" in scene.said("train")
        until("both types are asked for again", lambda: scene.faults()[0]["fired"] >= 4)
        asked, over = scene.faults()[0]["fired"], time.monotonic() - began
        assert over >= 2
        assert asked <= 2 * (2 + (over - 2) // 4)  # again after two seconds, and then every four
        until("what was uploaded for it is gone", scene.empty)
        scene.tell_cloud("PUT", "faults", [])
        until("it runs", lambda: runs(scene, "train"))
        assert scene.state()["creates"] == 1


@pytest.mark.parametrize("outcome", ["no_capacity", "installation_failed", "error"])
def test_an_accepted_order_that_fails_later_is_replaced_elsewhere_and_nothing_is_left_of_it(
    scene: Scene, kubelets: Kubelets, outcome: str
) -> None:
    scene.tell_cloud("PUT", "outcomes", [{"instance_type": SMALL, "outcome": outcome, "times": 1}])
    with running(scene.controller()):
        scene.pod("train", 1)
        until("it is told", lambda: "MachineFailed" in scene.events("train"))
        assert f"the cloud says {outcome}" in scene.said("train")
        until("it runs", lambda: runs(scene, "train"))
        until("the failed one is gone", lambda: scene.bought() == [("2A100.44V", "FIN-01")])
        until("its disk is gone", lambda: len(scene.state()["volumes"]) == 1)
        state = scene.state()
        assert (state["creates"], state["trash"]) == (2, [])
        if outcome == "no_capacity":
            assert state["deleted_instances"][0]["cost"] < 0.02  # of the half minute before the cloud knew


def test_a_machine_that_is_stuck_in_provisioning_is_replaced_and_deleted_as_soon_as_that_is_allowed(
    scene: Scene, kubelets: Kubelets
) -> None:
    scene.tell_cloud("PUT", "outcomes", [{"instance_type": SMALL, "outcome": "stuck", "times": 1}])
    with running(scene.controller(deadlines(launch="5s"))):
        scene.pod("train", 1)
        until("it runs on another", lambda: runs(scene, "train"))
        assert sorted(i["status"] for i in scene.state()["instances"]) == ["provisioning", "running"]
        scene.tell_cloud("PUT", "settings", {"undeletable_statuses": []})
        until("the stuck one is gone", lambda: scene.bought() == [("2A100.44V", "FIN-01")])
        until("its disk is gone", lambda: len(scene.state()["volumes"]) == 1)
        assert scene.state()["creates"] == 2


def test_stock_only_in_the_second_location_is_bought_there(scene: Scene, kubelets: Kubelets) -> None:
    scene.tell_cloud("PUT", "stock", [{"location": "FIN-01", "count": 0}])
    with running(scene.controller(pool(locations=["FIN-01", "FIN-03"]))):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        assert scene.bought() == [(SMALL, "FIN-03")]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((402, "insufficient_funds", "Insufficient funds"), "no_funds"),
        ((400, "invalid_request", "GPU limit exceeded"), "quota"),
        ((401, "unauthorized_request", "Access token is missing or invalid"), "unauthorised"),
    ],
)
def test_a_refusal_that_speaks_of_the_account_is_told_and_not_asked_for_again_and_again(
    scene: Scene, answer: tuple[int, str, str], code: str
) -> None:
    status, word, message = answer
    rule: dict[str, Any] = {"method": "POST", "path": "/instances", "fault": "answer", "status": status}
    rule |= {"body": {"code": word, "message": message}, "times": 0}
    scene.tell_cloud("PUT", "faults", [rule])
    with running(scene.controller()):
        scene.pod("train", 1)
        until("it is told", lambda: f"({code})" in scene.said("train"))
        assert message in scene.said("train")
        time.sleep(2)
        assert scene.faults()[0]["fired"] <= 2
        assert scene.state()["creates"] == 0


def test_a_spot_machine_taken_away_while_it_boots_is_replaced(scene: Scene, kubelets: Kubelets) -> None:
    kubelets.boot = 60
    with running(
        scene.controller(deadlines(backoff=BACKOFF) | pool(instance_types=[SMALL], market="spot_only"))
    ):
        scene.pod("train", 1)
        until("its machine runs", lambda: [i["status"] for i in scene.state()["instances"]] == ["running"])
        scene.tell_cloud("POST", "evict", {"hostname": scene.state()["instances"][0]["hostname"]})
        kubelets.boot = 1
        until("it is told", lambda: "gone without our doing" in scene.said("train"))
        until("it runs on another", lambda: runs(scene, "train"))
        until("the disk of the first is gone", lambda: len(scene.state()["volumes"]) == 1)
        assert scene.state()["creates"] == 2
