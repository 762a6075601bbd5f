"""A switched machine from off to on and back: the Node is the proof, and the calls are written down first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.plan import Plan, Retire
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.domain.switching import Fall, Power, Switched
from controller.fleet.removal import UNSEEN
from controller.fleet.switching.life import step
from controller.fleet.switching.seeing import Seen
from tests.fleet.fakes import make_node
from tests.fleet.power import Cabinet, switch

HARD = (names.TAINT_DRAINING, "NoSchedule")


def hard(world: Cabinet, name: str = "w1") -> bool:
    return world.town.nodes[name].has_taint(*HARD)


async def test_a_pod_switches_a_machine_on_and_when_it_is_over_the_machine_goes_off() -> None:
    world = Cabinet(switch("w1", 2))
    world.room.add("w1", 2)
    operator = world.begin()
    await world.run(operator, 20)
    assert operator.power("w1") is Power.OFF
    assert hard(world)
    world.town.add_pod("train", gpus=2)
    await world.wait_for(operator, "w1", Power.RISING)
    assert hard(world)
    await world.wait_for(operator, "w1", Power.ON)
    await world.run(operator, 10)
    assert not hard(world)
    await world.wait_for(operator, "w1", Power.OFF)
    assert hard(world)
    assert world.room.broken == []
    assert (len(world.room.wishes(True)), len(world.room.wishes(False))) == (1, 1)
    assert [d for what, _, d in operator.heard.told if what == "power"] == [
        "off>switching_on",
        "switching_on>on",
        "on>draining",
        "draining>switching_off",
        "switching_off>off",
    ]
    assert operator.hands.did("list_pods_on")  # the last look


async def test_the_taint_stays_until_the_gpus_are_there() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, show=60.0)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    seen = set()
    for _ in range(40):
        await world.run(operator, 5)
        node = world.town.nodes["w1"]
        if operator.power("w1") is not Power.ON and node.ready:
            seen.add((hard(world), node.allocatable.get("nvidia.com/gpu", 0)))
    assert seen == {(True, 0), (True, 1)}


async def test_where_no_gpu_shows_for_long_the_taint_gives_way_to_the_pods_that_bring_them() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, show=300.0)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.run(operator, 60 + 200)
    assert world.town.nodes["w1"].ready
    assert world.town.nodes["w1"].allocatable.get("nvidia.com/gpu", 0) == 0
    assert not hard(world)
    await world.wait_for(operator, "w1", Power.ON)


async def test_an_acknowledgement_without_effect_is_no_machine() -> None:
    world = Cabinet(switch("w1", 1, on_within=300.0))
    world.room.add("w1", 1)
    world.room.faults["w1"] = ["nothing"]
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.run(operator, 250)
    assert operator.power("w1") is Power.RISING
    assert len(world.room.wishes(True)) == 1  # it was acknowledged: not asked for twice
    await world.run(operator, 120)
    record = operator.record("w1")
    assert record.reason is Reason.ON_DEADLINE
    assert len(world.room.wishes(False)) == 1  # so that it is really off when it is tried again
    assert operator.plan.pods["default/train"].code is Reason.ON_DEADLINE
    await world.wait_for(operator, "w1", Power.ON)  # after the pause
    assert len(world.room.wishes(True)) == 2


async def test_a_machine_that_does_not_go_off_is_asked_again_and_never_offered_meanwhile() -> None:
    world = Cabinet(switch("w1", 1, off_within=120.0))
    world.room.add("w1", 1, power="on", stops=False)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING)
    await world.run(operator, 300)
    assert len(world.room.wishes(False)) == 3
    assert operator.record("w1").reason is Reason.OFF_DEADLINE
    assert operator.fleet.reports["w1"].startswith("w1: The machine was switched off, and its Node is still")
    world.town.add_pod("train")
    await world.run(operator, 100)
    assert world.town.pods["default/train"].node == ""
    assert operator.plan.pods["default/train"].code is Reason.SWITCHING_OFF
    assert hard(world)


@pytest.mark.parametrize("fault", ["busy", "lost", "unheard"])
async def test_a_call_of_unknown_outcome_is_repeated_with_the_same_key(fault: str) -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1)
    world.room.faults["w1"] = [fault, fault]
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON)
    assert len(world.room.wishes(True)) == 1
    assert len([c for c in world.room.calls if c.on]) == 3


async def test_while_it_is_not_known_whether_it_comes_no_other_machine_is_switched_on() -> None:
    world = Cabinet(switch("w1", 1, on_within=300.0), switch("w2", 1))
    world.room.add("w1", 1)
    world.room.add("w2", 1)
    world.room.faults["w1"] = ["busy"] * 5 + ["lost"]
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.run(operator, 280)
    assert world.room.wishes(True, "w2") == []
    assert len([c for c in world.room.calls if c.name == "w1"]) == 5
    await world.run(operator, 60)
    assert len(world.room.wishes(True, "w2")) == 1


@pytest.mark.parametrize(("fault", "calls"), [("refused", 1), ("away", 5)])
async def test_where_no_call_had_an_effect_another_machine_takes_the_pod(fault: str, calls: int) -> None:
    world = Cabinet(switch("w1", 1), switch("w2", 1))
    world.room.add("w1", 1)
    world.room.add("w2", 1)
    world.room.faults["w1"] = [fault] * 20
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.run(operator, 100)
    assert len([c for c in world.room.calls if c.name == "w1"]) == calls
    assert operator.record("w1").reason is Reason.SWITCH_FAILED
    assert len(world.room.wishes(True, "w2")) == 1
    await world.wait_for(operator, "w2", Power.ON)


async def test_a_machine_that_is_on_at_the_start_is_taken_over_as_it_is() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    assert world.room.calls == []
    assert not hard(world)
    world.town.add_pod("train")
    await world.run(operator, 10)
    assert world.town.pods["default/train"].node == "w1"
    assert world.room.calls == []


async def test_a_machine_that_somebody_switches_on_is_used_and_left_on_for_a_while() -> None:
    world = Cabinet(switch("w1", 1, left_alone=1800.0))
    world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 10)
    world.room.press("w1", True)
    await world.wait_for(operator, "w1", Power.ON)
    assert not hard(world) or operator.power("w1") is Power.ON
    await world.run(operator, 1500)
    assert operator.power("w1") is Power.ON
    assert world.room.calls == []
    assert operator.plan.machines["w1"].code is Reason.SWITCHED_BY_HAND
    await world.run(operator, 600)
    assert operator.power("w1") is Power.OFF


async def test_a_machine_that_somebody_switches_off_is_left_off_for_a_while() -> None:
    world = Cabinet(switch("w1", 1, left_alone=1800.0))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.room.press("w1", False)
    await world.run(operator, 400)
    assert operator.power("w1") is Power.OFF
    world.town.add_pod("train")
    await world.run(operator, 1200)
    assert world.room.calls == []
    assert operator.plan.pods["default/train"].code is Reason.SWITCHED_BY_HAND
    await world.run(operator, 800)
    assert len(world.room.wishes(True)) == 1


async def test_a_status_endpoint_tells_at_once_that_it_was_switched_off() -> None:
    world = Cabinet(switch("w1", 1, asked=True))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.room.press("w1", False)
    await world.run(operator, 20 + 40)
    assert operator.power("w1") is Power.OFF


async def test_one_that_somebody_switches_off_while_it_boots_is_left_off_where_its_endpoint_tells() -> None:
    world = Cabinet(switch("w1", 1, asked=True))
    world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 20)
    world.town.add_pod("train")
    await world.run(operator, 30)
    assert world.room.boxes["w1"].power == "booting"
    calls = len(world.room.calls)
    world.room.press("w1", False)
    await world.wait_for(operator, "w1", Power.OFF, within=100)
    assert operator.plan.pods["default/train"].code is Reason.SWITCHED_BY_HAND
    await world.run(operator, 1700)
    assert len(world.room.calls) == calls


async def test_one_that_says_off_until_the_call_acts_or_for_a_moment_is_on_its_way() -> None:
    world = Cabinet(switch("w1", 1, asked=True))
    box = world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 20)
    world.room.faults["w1"], world.room.delay = ["queued"], 60.0
    world.town.work = 1e6
    world.town.add_pod("train")
    await world.run(operator, 80)
    assert box.power == "booting"
    box.power = "off"  # its power supply tests itself
    await world.run(operator, 20)
    box.power = "booting"
    await world.wait_for(operator, "w1", Power.ON, within=200)
    assert len(world.room.calls) == 1


async def test_it_is_off_only_when_its_status_endpoint_agrees() -> None:
    world = Cabinet(switch("w1", 1, asked=True, off_within=600.0))
    box = world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING)
    await world.run(operator, 10)
    box.stop = 300.0  # its kubelet ends at once, and the machine takes its time
    world.town.lose("w1")
    await world.run(operator, 120)
    assert operator.power("w1") is Power.FALLING
    await world.run(operator, 200)
    assert operator.power("w1") is Power.OFF


async def test_a_pod_that_came_meanwhile_stops_the_call() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.town.work = 10_000
    pod = world.town.add_pod("hidden", node="w1")
    operator.hands.not_shown_yet.add(pod.key)  # the watch has not brought it
    await world.run(operator, 200)
    assert world.room.calls == []
    assert "in_use" in operator.heard.of("called_off")
    assert operator.power("w1") in (Power.ON, Power.DRAINING)


async def test_a_pod_that_comes_while_the_call_is_written_down_stops_it() -> None:
    """It tolerates every taint, and the API server takes its time."""
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    world.town.work = 10_000

    def comes(_: str) -> None:
        record = operator.ledger.switched["w1"]
        if record.power is Power.FALLING and record.called_at and "default/late" not in world.town.pods:
            world.town.add_pod("late", node="w1")

    operator.hands.on_call["write_config_map"] = comes
    await world.run(operator, 300)
    assert "default/late" in world.town.pods
    assert world.room.calls == []
    assert world.room.broken == []
    assert operator.power("w1") is Power.ON
    assert not hard(world)


async def test_a_list_that_cannot_be_read_is_no_call() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    operator.hands.faults["list_pods_on"] = [ClusterError("unreachable", "time-out") for _ in range(7)]
    await world.wait_for(operator, "w1", Power.OFF)
    assert len(world.room.calls) == 1
    assert operator.record("w1").reason is None


async def test_demand_that_returns_during_the_drain_keeps_it_on() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.DRAINING, step=1.0)
    world.town.add_pod("train")
    await world.run(operator, 30, step=1.0)
    assert operator.power("w1") is Power.ON
    assert world.room.calls == []
    assert world.town.pods["default/train"].node == "w1"


@pytest.mark.parametrize("fault", ["refused", "away"])
async def test_a_machine_that_cannot_be_switched_off_goes_on_working(fault: str) -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    world.room.faults["w1"] = [fault] * (1 if fault == "refused" else 5)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.DRAINING, step=1.0)
    await world.wait_for(operator, "w1", Power.ON)
    await world.run(operator, 10)
    assert not hard(world)
    assert len(world.room.calls) == (1 if fault == "refused" else 5)
    assert operator.plan.machines["w1"].code in (Reason.COOLDOWN, Reason.SWITCH_FAILED)
    assert "cannot be switched off" in operator.fleet.reports["w1"]
    world.town.add_pod("train")
    await world.run(operator, 10)
    assert world.town.pods["default/train"].node == "w1"
    await world.wait_for(operator, "w1", Power.OFF)


async def test_the_node_object_goes_only_where_that_is_wished() -> None:
    for wished in (False, True):
        world = Cabinet(switch("w1", 1, delete_node=wished))
        world.town.work = 3000.0
        world.room.add("w1", 1, power="on")
        operator = world.begin()
        await world.wait_for(operator, "w1", Power.OFF)
        await world.run(operator, 20)
        assert ("w1" in world.town.nodes) is not wished
        world.town.add_pod("train")
        await world.wait_for(operator, "w1", Power.ON)
        await world.run(operator, 30)
        assert world.town.pods["default/train"].node == "w1"


async def test_a_node_that_registers_while_its_machine_is_called_off_takes_no_pod() -> None:
    """Its Node comes too late and without our taint, and the call that switches it off is under way."""
    world = Cabinet(switch("w1", on_within=60.0, off_within=300.0))
    world.room.add("w1", node=False, boot=80.0, show=0.0, stop=40.0)
    operator = world.begin()
    # It has booted when the last call has its effect, whose answer does not come.
    world.room.faults["w1"] = ["ok", "busy", "busy", "busy", "busy", "lost"]
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.FALLING)
    world.town.pods.clear()
    while world.room.boxes["w1"].power != "stopping":
        await world.run(operator, 1, step=1.0)
    world.town.add_pod("late")
    await world.run(operator, 30, step=1.0)
    assert world.room.broken == []
    assert not world.town.pods["default/late"].node


async def test_the_node_of_a_machine_that_somebody_else_switched_off_goes_too_but_never_one_with_work() -> (
    None
):
    world = Cabinet(switch("w1", 1, delete_node=True), switch("w2", 1, delete_node=True), switch("w3", 1))
    for name in ("w1", "w2", "w3"):
        world.room.add(name, 1, power="on")
    operator = world.begin()
    await world.run(operator, 30)
    world.town.add_pod("works", node="w2")
    for name in ("w1", "w2", "w3"):
        world.room.press(name, False)
    world.town.work = 10_000.0
    await world.run(operator, 1200)
    assert sorted(world.town.nodes) == ["w2", "w3"]
    assert not world.room.calls
    face = operator.record("w1").face
    assert face is not None
    assert face.allocatable["nvidia.com/gpu"] == 1


async def test_a_node_is_left_where_the_status_endpoint_says_that_its_machine_is_on() -> None:
    world = Cabinet(switch("w1", 1, delete_node=True, asked=True))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.run(operator, 30)
    world.room.boxes["w1"].show = 1e9
    world.town.lose("w1")  # cut off, and it goes on running
    await world.run(operator, 1200)
    assert list(world.town.nodes) == ["w1"]


async def test_a_node_whose_kubelet_says_itself_that_it_is_not_ready_is_left() -> None:
    """Somebody switched it on, and it takes long to start; a kubelet registers only once."""
    world = Cabinet(switch("w1", 1, delete_node=True))
    world.room.add("w1", 1)
    waits = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], taints=(waits,))
    operator = world.begin()
    await world.run(operator, 3600, step=30)
    assert list(world.town.nodes) == ["w1"]


async def test_a_kubelet_that_begins_to_speak_keeps_a_node_that_was_about_to_go() -> None:
    """A pod held the Node back; then somebody pressed the button, and the pod ended meanwhile."""
    world = Cabinet(switch("w1", 1, delete_node=True))
    world.room.add("w1", 1, power="on")
    world.town.work = 1e6
    operator = world.begin()
    await world.run(operator, 30)
    world.town.add_pod("holds", node="w1", gpus=0)
    world.room.press("w1", False)
    await world.run(operator, 1200, step=10)
    assert operator.record("w1").node_goes
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(
        node, taints=(*node.taints, Taint("node.kubernetes.io/not-ready", "", "NoSchedule"))
    )
    world.town.pods.clear()
    await world.run(operator, 300, step=10)
    assert list(world.town.nodes) == ["w1"]


async def test_a_pod_that_leaves_hides_none_that_stays_on_a_silent_node() -> None:
    """Only some pods are given up by the cluster when a kubelet is silent: others tolerate that for ever."""
    world = Cabinet(switch("w1", 1, delete_node=True))
    world.room.add("w1", 1, power="on")
    world.town.work = 1e6
    operator = world.begin()
    await world.run(operator, 30)
    world.room.boxes["w1"].show = 1e9
    world.town.lose("w1")
    leaves = world.town.add_pod("leaves", node="w1", gpus=0)
    world.town.pods[leaves.key] = replace(leaves, deleting_at=world.time.now)
    world.town.add_pod("stays", node="w1", gpus=0)
    await world.run(operator, 1800, step=10)
    assert list(world.town.nodes) == ["w1"]


@pytest.mark.parametrize("told", [False, True])
async def test_a_gpu_that_is_given_up_on_a_silent_node_keeps_it_until_its_machine_is_known_to_be_off(
    told: bool,
) -> None:
    """After five minutes of silence the cluster deletes pods that may go on running."""
    world = Cabinet(switch("w1", 1, delete_node=True, asked=told))
    world.room.add("w1", 1, power="on")
    world.town.work = 1e6
    operator = world.begin()
    await world.run(operator, 30)
    world.room.press("w1", False)
    pod = world.town.add_pod("train", node="w1")
    world.town.pods[pod.key] = replace(pod, deleting_at=world.time.now)
    await world.run(operator, 1800, step=10)
    assert ("w1" in world.town.nodes) is not told


async def test_a_node_is_left_where_the_status_endpoint_says_nothing() -> None:
    world = Cabinet(switch("w1", 1, delete_node=True, asked=True))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.run(operator, 30)
    world.room.boxes["w1"].show = 1e9
    world.room.answers = False
    world.town.lose("w1")
    await world.run(operator, 1800, step=10)
    assert list(world.town.nodes) == ["w1"]
    world.room.press("w1", False)
    world.room.answers = True
    await world.run(operator, 300, step=10)
    assert not world.town.nodes


async def test_a_taint_of_cluster_autoscalers_days_keeps_no_machine_off_for_ever() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1)
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], taints=(UNSEEN,))
    operator = world.begin()
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON, within=900)
    await world.run(operator, 30)
    assert not world.town.nodes["w1"].has_taint(UNSEEN.key, UNSEEN.effect)


async def test_least_times_on_and_off_hold() -> None:
    world = Cabinet(switch("w1", 1, min_on=900.0, min_off=300.0), cooldown=0.0)
    world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("a")
    await world.wait_for(operator, "w1", Power.ON)
    on = world.time.now
    await world.wait_for(operator, "w1", Power.FALLING)
    assert world.time.now - on >= 900
    await world.wait_for(operator, "w1", Power.OFF)
    off = world.time.now
    world.town.add_pod("b")
    await world.wait_for(operator, "w1", Power.RISING)
    assert world.time.now - off >= 300


async def test_when_the_days_switches_are_used_up_it_stays_on_and_no_pod_waits() -> None:
    world = Cabinet(switch("w1", 1, per_day=2), cooldown=0.0)
    world.room.add("w1", 1)
    operator = world.begin()
    for turn in range(2):
        await world.run(operator, 10)
        world.town.add_pod(f"p{turn}")
        await world.wait_for(operator, "w1", Power.ON)
        if turn == 0:
            await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 3600)
    assert operator.power("w1") is Power.ON
    assert operator.plan.machines["w1"].code is Reason.SWITCH_LIMIT
    world.town.add_pod("late")
    await world.run(operator, 10)
    assert world.town.pods["default/late"].node == "w1"
    await world.run(operator, 86400, step=60.0)
    assert operator.power("w1") is Power.OFF


async def test_a_machine_that_fails_over_and_over_is_tried_ever_more_rarely_and_never_beyond_the_day() -> (
    None
):
    world = Cabinet(switch("w1", 1, per_day=5, on_within=60.0))
    world.room.add("w1", 1, boots=False)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.run(operator, 12 * 3600, step=20.0)
    assert len(world.room.wishes(True)) == 5
    assert operator.plan.pods["default/train"].code in (Reason.SWITCH_LIMIT, Reason.ON_DEADLINE)


async def test_a_cordoned_node_is_not_switched_on() -> None:
    from msgspec.structs import replace

    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1)
    world.town.nodes["w1"] = replace(world.town.nodes["w1"], unschedulable=True)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.run(operator, 30)
    assert world.room.calls == []
    assert operator.plan.pods["default/train"].code is Reason.PAUSED


async def test_gpus_that_never_come_end_in_off_and_are_told() -> None:
    world = Cabinet(switch("w1", 2))
    world.room.add("w1", 2, gpus_come=False)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train", gpus=2)
    await world.wait_for(operator, "w1", Power.FALLING)
    record = operator.record("w1")
    assert record.reason is Reason.GPU_DEADLINE
    assert "nvidia.com/gpu: 0 of 2" in record.note
    await world.wait_for(operator, "w1", Power.OFF)
    assert operator.plan.pods["default/train"].code is Reason.GPU_DEADLINE


async def test_a_machine_that_loses_gpus_is_kept_by_its_work() -> None:
    from msgspec.structs import replace

    world = Cabinet(switch("w1", 2))
    box = world.room.add("w1", 2, power="on")
    operator = world.begin()
    world.town.work = 3000.0
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON)
    await world.run(operator, 20)
    box.gpus = 1
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": 1})
    await world.run(operator, 2000)
    assert operator.power("w1") is Power.ON
    assert world.room.broken == []
    await world.run(operator, 2000)
    assert operator.record("w1").reason is Reason.GPU_LOST


async def test_a_call_that_acts_late_on_a_machine_whose_node_never_came_takes_no_gpu_in_use() -> None:
    """Its Node was silent before the call, so that it is silent afterwards tells nothing of what the call did."""
    world = Cabinet(switch("w1", on_within=60.0, off_within=300.0))
    box = world.room.add("w1", node=False, boot=95.0, show=0.0, stop=40.0)
    operator = world.begin()
    world.room.faults["w1"] = ["ok", "nothing"]
    world.town.work = 1e5
    world.town.add_pod("train")
    while len(world.room.calls) < 2:
        await world.run(operator, 1, step=1.0)
    box.due = world.time.now + 60.0
    await world.run(operator, 200, step=1.0)
    assert world.room.broken == []
    box.boot = 30.0
    await world.wait_for(operator, "w1", Power.ON)  # it is tried again


def test_gpus_are_waited_for_from_the_moment_on_at_which_what_brings_them_may_come() -> None:
    rising = Switched(
        name="w1", power=Power.RISING, call="c", node_ready_at=10.0, fall=Fall(since=0.0, until=600.0)
    )
    seen = Seen(node=make_node("w1", 10.0, gpus=0), promised={"nvidia.com/gpu": 1})
    for now, power in ((620.0, Power.RISING), (1190.0, Power.RISING), (1201.0, Power.DRAINING)):
        assert step(rising, seen, switch("w1"), Deadlines(gpu=600.0), now).power is power


async def test_a_machine_that_left_the_settings_is_forgotten_as_it_is() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    from msgspec.structs import replace

    operator.fleet.policy = replace(operator.fleet.policy, switches=())
    await world.run(operator, 300)
    assert operator.ledger.switched == {}
    assert world.room.calls == []


@pytest.mark.parametrize("power", [Power.OFF, Power.DRAINING, Power.FALLING])
async def test_one_that_leaves_the_settings_keeps_no_taint_of_ours(power: Power) -> None:
    from msgspec.structs import replace

    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", power, step=1.0)
    calls = len(world.room.calls)
    operator.fleet.policy = replace(operator.fleet.policy, switches=())
    await world.run(operator, 700)  # as long as a call that was made may act
    assert operator.ledger.switched == {}
    assert world.town.nodes["w1"].taints == ()
    assert len(world.room.calls) == calls


@pytest.mark.parametrize("returns", [False, True])
async def test_one_that_leaves_the_settings_while_it_goes_down_takes_no_pod_on_its_way(returns: bool) -> None:
    """The call was made, and whoever edits the settings may put the machine back at once."""
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on", stop=60.0)
    operator = world.begin()
    before = operator.fleet.policy
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    while world.room.boxes["w1"].power != "stopping":
        await world.run(operator, 1, step=1.0)
    operator.fleet.policy = replace(before, switches=())
    await world.run(operator, 5, step=1.0)
    world.town.add_pod("late")
    await world.run(operator, 5, step=1.0)
    if returns:
        operator.fleet.policy = before
    await world.run(operator, 120, step=1.0)
    assert world.room.broken == []
    if returns:
        await world.wait_for(operator, "w1", Power.ON)
        return
    await world.run(operator, 600)
    assert operator.ledger.switched == {}
    assert world.town.nodes["w1"].taints == ()


async def test_one_that_left_the_settings_and_never_went_down_is_free_at_last() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on", stops=False)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.FALLING, step=1.0)
    while not world.room.calls:
        await world.run(operator, 1, step=1.0)
    operator.fleet.policy = replace(operator.fleet.policy, switches=())
    await world.run(operator, 60)
    assert hard(world)
    await world.run(operator, 900)
    assert operator.ledger.switched == {}
    assert world.town.nodes["w1"].taints == ()
    assert len(world.room.calls) == 1


async def test_a_node_that_never_was_there_is_registered_by_the_machine() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, node=False)
    operator = world.begin()
    await world.run(operator, 10)
    assert operator.power("w1") is Power.OFF
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON)
    await world.run(operator, 20)
    assert world.town.pods["default/train"].node == "w1"
    face = operator.record("w1").face
    assert face is not None
    assert face.allocatable["nvidia.com/gpu"] == 1


async def test_a_foreign_node_of_another_name_is_never_touched() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    world.town.nodes["other"] = make_node("other", world.time.now - 5000)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF)
    assert not [call for call in operator.hands.calls if call[1].split(" ")[0] == "other"]


async def test_a_wish_that_was_not_sent_yet_is_dropped_with_its_demand() -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    operator.leads = False  # so that nothing is sent
    assert operator.board.request("w1", ("default/train",))
    assert operator.power("w1") is Power.RISING
    operator.leads = True
    world.town.pods.clear()
    await world.run(operator, 60)
    assert operator.power("w1") is Power.OFF
    assert world.room.calls == []
    assert operator.record("w1").ons == ()


async def test_a_pod_that_waits_for_a_machine_in_use_is_told_so() -> None:
    world = Cabinet(switch("w1", 4), switch("w2", 2))
    world.room.add("w1", 4, power="on")
    world.room.add("w2", 2)
    world.town.work = 10_000.0
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    await world.run(operator, 20)
    world.town.add_pod("first", gpus=3)
    await world.run(operator, 10)
    world.town.add_pod("second", gpus=3)
    await world.run(operator, 10)
    told = operator.plan.pods["default/second"]
    assert told.code is Reason.IN_USE
    assert told.message.startswith("w1: it is on already, and has no room left")
    assert world.room.calls == []


async def test_before_any_record_stands_a_dry_run_sees_the_machines_as_they_are() -> None:
    world = Cabinet(switch("w1", 1), switch("w2", 1), switch("w3", 2))
    world.room.add("w1", 1, power="on")
    world.room.add("w2", 1)
    world.room.add("w3", 2, node=False)
    operator = world.begin()
    assert [(s.name, r.power.value) for s, r in operator.board.records()] == [
        ("w1", "on"),
        ("w2", "off"),
        ("w3", "off"),
    ]
    assert [m.name for m in operator.fleet.everything()] == ["w1"]
    assert operator.ledger.switched == {}


async def test_who_switches_a_machine_on_shortly_after_we_did_is_heeded_as_well() -> None:
    world = Cabinet(switch("w1", 1, left_alone=1800.0))
    world.room.add("w1", 1)
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train")
    await world.wait_for(operator, "w1", Power.ON)
    await world.wait_for(operator, "w1", Power.OFF)
    world.room.press("w1", True)
    await world.wait_for(operator, "w1", Power.ON)
    calls = len(world.room.calls)
    await world.run(operator, operator.record("w1").hand_until - world.time.now - 20)
    assert len(world.room.calls) == calls
    assert operator.plan.machines["w1"].code is Reason.SWITCHED_BY_HAND


async def test_a_machine_that_comes_late_is_no_strangers_doing() -> None:
    world = Cabinet(switch("w1", 1, on_within=100.0, left_alone=1800.0))
    box = world.room.add("w1", 1, boot=180.0)
    world.room.faults["w1"] = ["ok", "nothing"]  # it goes on booting, whatever is told to it
    operator = world.begin()
    await world.run(operator, 10)
    world.town.add_pod("train", gpus=1)
    await world.run(operator, 150)
    assert operator.power("w1") is Power.OFF
    world.town.pods.clear()
    assert box.power == "booting"
    await world.wait_for(operator, "w1", Power.ON)
    assert operator.record("w1").hand_until == 0
    await world.wait_for(operator, "w1", Power.OFF)
    assert len(world.room.wishes(True)) == 1


async def test_a_strange_account_keeps_no_own_machine_on() -> None:
    """Only what was bought is in an account."""
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power="on")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.ON)
    operator.fleet._account.strange = True
    retired = [
        Retire(machine=name, reason=Reason.IDLE, message="idle") for name in ("w1", "home-a100-aaaaaaaaaa")
    ]
    assert operator.fleet.possible(Plan(actions=tuple(retired))).actions == (retired[0],)
