"""Two controllers for one cluster: killed, frozen, cut off, or asked to end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.controlplane.scene import Scene, running, runs, until
from tests.e2e.controlplane.work import PROMPT, machine_for, node_of, told
from tests.e2e.programs import Started

pytestmark = pytest.mark.usefixtures("prompt_kubelets")


def test_of_two_replicas_one_acts_and_the_other_takes_over_when_it_is_killed(scene: Scene) -> None:
    one, two = scene.controller(PROMPT, "one"), scene.controller(PROMPT, "two")
    with running(one, two):
        machine_for(scene, "first")
        leader = one if told(one)["leader"] else two
        leader.process.send_signal(signal.SIGKILL)
        machine_for(scene, "second")
        assert scene.state()["creates"] == 2


def test_a_leader_that_was_frozen_for_longer_than_the_lease_buys_nothing_twice(scene: Scene) -> None:
    one = scene.controller(PROMPT, "one")
    with running(one):
        machine_for(scene, "first")
        one.process.send_signal(signal.SIGSTOP)
        two = scene.controller(PROMPT, "two")
        with running(two):
            scene.pod("second", 1)
            until("the other replica bought for it", lambda: scene.state()["creates"] == 2)
            one.process.send_signal(signal.SIGCONT)
            until("it runs", lambda: runs(scene, "second"))
            time.sleep(3)
            assert scene.state()["creates"] == 2
            assert [told(one)["leader"], told(two)["leader"]] == [False, True]


def test_a_leader_frozen_right_before_its_order_does_not_send_it_when_it_goes_on(scene: Scene) -> None:
    """Its script must still be there: the cloud refuses an order without it."""
    slow = {"method": "POST", "path": "/v1/scripts", "fault": "delay_answer", "seconds": 2, "times": 1}
    kept = {"method": "DELETE", "path": "/v1/scripts*", "fault": "answer", "status": 500, "times": 0}
    scene.tell_cloud("PUT", "faults", [slow, kept])
    one = scene.controller(PROMPT, "one")
    with running(one):
        scene.pod("train", 1)
        until("the script of its machine is there", lambda: scene.state()["scripts"])
        one.process.send_signal(signal.SIGSTOP)
        assert scene.state()["creates"] == 0
        two = scene.controller(PROMPT, "two")
        with running(two):
            until("the other replica bought anew, and it runs", lambda: runs(scene, "train"))
            one.process.send_signal(signal.SIGCONT)
            until("it knows that it leads no more", lambda: not told(one)["leader"])
            time.sleep(2)
            assert scene.state()["creates"] == 1
            assert [told(one)["leader"], told(two)["leader"]] == [False, True]


def test_a_leader_frozen_while_the_cloud_carries_its_order_out_leaves_one_machine(scene: Scene) -> None:
    late = {"method": "POST", "path": "/v1/instances", "fault": "delay_answer", "seconds": 5, "times": 1}
    scene.tell_cloud("PUT", "faults", [late])
    one = scene.controller(PROMPT, "one")
    with running(one):
        scene.pod("train", 1)
        until("the order is out", lambda: scene.state()["creates"] == 1)
        one.process.send_signal(signal.SIGSTOP)
        two = scene.controller(PROMPT, "two")
        with running(two):
            until("the other replica leads on", lambda: told(two)["leader"])
            until("it knows the machine by its marks", lambda: _phases(two) not in ([], ["intended"]))
            one.process.send_signal(signal.SIGCONT)
            until("the pod runs", lambda: runs(scene, "train"))
            time.sleep(2)
            assert scene.state()["creates"] == 1
            scene.delete_pod("train")
            until("nothing is left", scene.empty)


def test_an_order_that_a_frozen_leader_left_on_the_wire_is_surplus_when_it_arrives_and_goes(
    scene: Scene,
) -> None:
    """It was proven absent, bought again, and appears after all. Its script must still be there for that."""
    kept = {"method": "DELETE", "path": "/v1/scripts*", "fault": "answer", "status": 500, "times": 0}
    scene.tell_cloud("PUT", "faults", [kept])
    with Proxy(urlsplit(scene.cloud).port or 0) as wire:
        wire.holds = lambda data: b'"hostname"' in data  # the last piece of the order
        one = scene.controller(PROMPT, "one", cloud=f"http://127.0.0.1:{wire.port}/v1")
        with running(one):
            scene.pod("train", 1)
            until("the order is on the wire", wire.held.is_set)
            one.process.send_signal(signal.SIGSTOP)
            wire.holds = lambda data: False
            two = scene.controller(PROMPT, "two", cloud=f"http://127.0.0.1:{wire.port}/v1")
            with running(two):
                until("the other replica bought anew, and it runs", lambda: runs(scene, "train"))
                machine = node_of(scene, "train")
                assert scene.state()["creates"] == 1
                wire.release.set()
                until("the first order arrives as well", lambda: scene.state()["creates"] == 2)
                until("it is called surplus", lambda: any(each["surplus"] for each in _machines(two)))
                until("and goes", lambda: [i["hostname"] for i in scene.state()["instances"]] == [machine])
                one.process.send_signal(signal.SIGCONT)
                time.sleep(2)
                assert runs(scene, "train")
                assert scene.state()["creates"] == 2


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    with Proxy(plane.port) as made:
        yield made


def test_a_leader_that_nobody_hears_spends_nothing_more_and_the_other_one_does(
    scene: Scene, proxy: Proxy
) -> None:
    one = scene.controller(PROMPT, "one", kubeconfig=scene.kubeconfig_at(proxy.port))
    with running(one):
        machine_for(scene, "first")
        two = scene.controller(PROMPT, "two")
        with running(two):
            until("the other one waits", lambda: not told(two)["leader"])
            proxy.stall("up", later_ones_too=True)  # it still sees pods and reaches the cloud
            machine_for(scene, "second")
            assert [told(one)["leader"], told(two)["leader"]] == [False, True]
            proxy.go_on()  # what it sent meanwhile arrives now
            time.sleep(2)
            assert [told(one)["leader"], told(two)["leader"]] == [False, True]
            assert [_orders(one), _orders(two)] == [1, 1]
            assert scene.state()["creates"] == 2


def test_a_leader_that_ends_in_order_hands_over_without_waiting_for_the_end_of_its_lease(
    scene: Scene,
) -> None:
    long = {**PROMPT, "lease": {"duration": "10m", "renew": "1s", "spend_within": "9m"}}
    one = scene.controller(long, "one")
    with running(one):
        machine_for(scene, "first")
        two = scene.controller(long, "two")
        with running(two):
            until("the other one waits", lambda: not told(two)["leader"])
            assert one.end() == 0
            machine_for(scene, "second")
            assert scene.state()["creates"] == 2


def _machines(controller: Started) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(controller)["machines"]
    return found


def _phases(controller: Started) -> list[str]:
    return [str(each["phase"]) for each in _machines(controller)]


def _orders(controller: Started) -> int:
    return sum("machine ordered" in line for line in controller.complaints)
