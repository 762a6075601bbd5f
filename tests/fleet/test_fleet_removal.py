"""Taking a machine away: the order of the steps, what calls it off, and what is done until nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.cloud.protocol import CloudError
from controller.domain import names
from controller.domain.cloudthings import Instance, Volume
from controller.domain.kube import DisruptionBudget, PodDeviceClaim, Selector
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused, Unknown
from controller.domain.reason import Reason
from controller.fleet.removal import SOFT
from tests.fleet.fakes import make_node, make_pod
from tests.fleet.scene import Controller, World

NEVER = 1e9


async def ready(**of_policy: object) -> tuple[World, Controller, Machine]:
    """A machine that is Ready and was bought for nobody in particular."""
    world = World(**({"cooldown": NEVER} | of_policy))
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    await world.time.advance(30)
    controller.hands.calls.clear()
    return world, controller, machine


async def retired(world: World, controller: Controller, machine: Machine, seconds: float = 90.0) -> None:
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await world.run(controller, seconds)


async def test_every_step_comes_in_its_order() -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    await retired(world, controller, machine)
    steps = [
        (verb, target.split()[1] if verb == "taint" else "")
        for verb, target in controller.hands.calls
        if verb
        in ("taint", "evict", "delete", "delete_volume", "delete_node", "delete_script", "list_pods_on")
    ]
    assert steps == [
        ("taint", "+PreferNoSchedule"),
        ("taint", "+PreferNoSchedule,+NoSchedule"),
        ("evict", ""),
        ("list_pods_on", ""),
        ("delete", ""),
        ("delete_node", ""),
    ]
    verbs = [verb for verb, _ in controller.hands.calls]
    assert verbs[verbs.index("delete") - 1] == "list_pods_on"
    assert not world.account.volumes
    assert not world.town.nodes
    assert not controller.ledger.machines
    assert sum(controller.ledger.costs.values()) > 0
    assert len(controller.heard.of("removed")) == 1


async def test_five_seconds_pass_between_the_hard_taint_and_the_first_eviction() -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    at: dict[str, float] = {}
    for verb in ("annotate", "evict"):
        controller.hands.on_call[verb] = _noting(at, verb, world)
    await retired(world, controller, machine)
    assert at["evict"] - at["annotate"] >= 5.0


def _noting(at: dict[str, float], verb: str, world: World) -> Callable[[str], None]:
    return lambda _: at.update({verb: at.get(verb, world.time.now)})


def a_gpu_pod(world: World, machine: Machine) -> None:
    pod = make_pod("train", world.time.now, node=machine.name)
    world.town.pods[pod.key] = pod


def a_claim(world: World, machine: Machine) -> None:
    pod = make_pod(
        "dra",
        world.time.now,
        gpus=0,
        node=machine.name,
        device_claims=(PodDeviceClaim(name="gpu"),),
        owner_kind="ReplicaSet",
    )
    world.town.pods[pod.key] = pod


def a_protected_pod(world: World, machine: Machine) -> None:
    pod = make_pod(
        "web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet",
        annotations={"gpu-autoscaler/do-not-disrupt": "true"},
    )  # fmt: skip
    world.town.pods[pod.key] = pod


def an_annotated_node(world: World, machine: Machine) -> None:
    node = world.town.nodes[machine.name]
    annotations = {**node.annotations, "gpu-autoscaler/do-not-disrupt": "true"}
    world.town.nodes[machine.name] = replace(node, annotations=annotations)


@pytest.mark.parametrize("happens", [a_gpu_pod, a_claim, a_protected_pod, an_annotated_node])
@pytest.mark.parametrize("look", [1, 2, 3])
async def test_what_appears_at_any_look_calls_it_off_and_the_taints_come_off(
    happens: Callable[[World, Machine], None], look: int
) -> None:
    world, controller, machine = await ready()
    looks = 0

    def at_look(_: str) -> None:
        nonlocal looks
        looks += 1
        if looks == look:
            happens(world, machine)

    for verb in ("taint", "list_pods_on"):  # a look at the watched pods follows each taint
        controller.hands.on_call[verb] = at_look
    world.town.work = NEVER
    await retired(world, controller, machine, 60)
    assert not controller.hands.did("delete", "evict")
    assert controller.only.phase is Phase.READY
    assert controller.only.reason is None
    assert world.town.nodes[machine.name].taints == ()
    (why,) = controller.heard.of("called_off")
    assert why in ("in_use", "do_not_disrupt")


async def test_a_pod_that_the_watch_shows_too_late_stops_the_delete_and_is_evicted_the_next_time() -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    controller.hands.not_shown_yet.add(pod.key)
    await retired(world, controller, machine, 30)
    assert not controller.hands.did("delete", "evict")
    assert controller.only.phase is Phase.READY
    assert world.town.nodes[machine.name].taints == (SOFT,)  # idle
    assert controller.heard.of("called_off") == ["in_use"]
    controller.hands.not_shown_yet.clear()
    await retired(world, controller, machine)
    assert controller.hands.did("evict")
    assert not world.account.alive()


async def test_a_gpu_pod_that_the_watch_shows_too_late_stops_the_delete() -> None:
    world, controller, machine = await ready()
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    controller.hands.not_shown_yet.add("default/train")
    await retired(world, controller, machine, 30)
    assert not controller.hands.did("delete", "evict")
    assert controller.only.phase is Phase.READY


async def test_demand_that_returns_during_the_drain_calls_it_off() -> None:
    world, controller, machine = await ready()
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    assert controller.heard.of("phase")[-1] == "ready>draining"
    world.town.add_pod()
    await world.run(controller, 30)
    assert controller.only.phase is Phase.READY
    assert not controller.hands.did("delete")
    assert len(world.account.orders) == 1
    assert world.town.pods["default/train"].node == machine.name


async def test_demand_is_heard_also_when_the_drain_is_resumed_after_a_restart() -> None:
    world, controller, machine = await ready()
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await controller.die()
    world.town.add_pod()
    second = world.start()
    await second.look()
    await world.time.advance(60)
    assert not second.hands.did("delete")
    assert second.only.phase is Phase.READY


async def test_a_disruption_budget_is_waited_for_and_named_in_the_end() -> None:
    world, controller, machine = await ready()
    pod = make_pod(
        "web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet", labels={"app": "web"}
    )
    world.town.pods[pod.key] = pod
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "needs 1 healthy pod")] * 1000
    await retired(world, controller, machine, 700)
    assert not controller.hands.did("delete")
    assert controller.heard.of("called_off") == ["pdb"]
    assert 5 < len(controller.hands.did("evict")) < 200
    assert world.town.nodes[machine.name].taints == (SOFT,)  # idle


async def test_a_disruption_budget_is_named_while_it_holds_a_drain_up_and_no_longer() -> None:
    world, controller, machine = await ready()
    pod = make_pod(
        "web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet", labels={"app": "web"}
    )
    world.town.pods[pod.key] = pod
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "needs 1 healthy pod")] * 3
    controller.fleet.retire(machine.name, Reason.IDLE, "idle since noon")
    await world.run(controller, 10)
    held = controller.only
    assert (held.phase, held.reason) == (Phase.DRAINING, Reason.PDB)
    assert held.note == "pod default/web stays: needs 1 healthy pod"
    await controller.die()
    second = world.start()
    second.hands.faults["evict"] = []
    world.town.pods.clear()
    await world.run(second, 3)
    assert second.only.reason is None
    assert second.hands.did("delete")


async def test_a_budget_that_forbids_it_from_the_start_is_seen_before_the_hard_taint() -> None:
    world, controller, machine = await ready()
    pod = make_pod(
        "web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet", labels={"app": "web"}
    )
    world.town.pods[pod.key] = pod
    world.town.budgets = [
        DisruptionBudget(namespace="default", name="web", uid="b", selector=Selector(labels={"app": "web"}))
    ]
    await retired(world, controller, machine, 20)
    assert controller.heard.of("called_off") == ["pdb"]
    assert not [t for v, t in controller.hands.did("taint") if "+NoSchedule" in t]


async def test_the_eviction_grace_is_not_started_anew_by_a_restart() -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "no")] * 1000
    await retired(world, controller, machine, 400)
    await controller.die()
    second = world.start()
    second.hands.faults["evict"] = [Refused(Reason.PDB, "no")] * 1000
    await world.run(second, 230)
    assert second.heard.of("called_off") == ["pdb"]


async def test_pods_are_asked_to_leave_however_short_the_grace() -> None:
    """It ended before anybody was asked, and the machine stayed for ever."""
    world, controller, machine = await ready()
    patience = replace(controller.fleet.policy.deadlines, eviction_grace=0.0, drain_pause=5.0)
    controller.fleet.policy = replace(controller.fleet.policy, deadlines=patience)
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod

    def slowly(_: object) -> None:
        world.time.now += 3

    controller.hands.on_call["taint"] = slowly
    await retired(world, controller, machine, 120)
    assert controller.hands.did("evict")
    assert not world.account.alive()


async def test_a_node_that_is_gone_in_the_middle_does_not_stop_the_removal() -> None:
    world, controller, machine = await ready()
    controller.hands.on_call["evict"] = lambda _: None
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    del world.town.nodes[machine.name]
    world.town.joins = False
    await world.run(controller, 120)
    assert not world.account.alive()
    assert not controller.ledger.machines


async def test_a_delete_refused_while_provisioning_is_tried_until_it_is_accepted() -> None:
    world = World(cooldown=NEVER)
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    world.account.boots = False
    await world.until(controller, Phase.DELETING, within=1500)
    await world.run(controller, 60)
    refused = len(controller.hands.did("delete"))
    assert 2 < refused < 15
    world.account.boots = True
    world.town.joins = False
    await world.run(controller, 60)
    assert not world.account.alive()
    assert not world.account.volumes
    assert controller.heard.of("called_off") == []


@pytest.mark.parametrize("answer", ["lost", "never", Unknown("time-out")])
async def test_a_delete_whose_answer_is_lost_is_looked_at_and_repeated_if_need_be(answer: object) -> None:
    world, controller, machine = await ready()
    controller.hands.faults["delete"] = [answer]  # type: ignore[list-item]
    await retired(world, controller, machine, 120)
    assert not world.account.alive()
    assert not controller.ledger.machines


async def test_a_delete_that_was_accepted_and_has_no_effect_is_sent_again() -> None:
    world, controller, machine = await ready()
    world.account.stuck_delete = True
    await retired(world, controller, machine, 100)
    world.account.stuck_delete = False
    await world.run(controller, 120)
    assert len(controller.hands.did("delete")) >= 2
    assert not world.account.alive()


async def test_work_that_arrives_before_a_repeated_delete_is_kept() -> None:
    world, controller, machine = await ready()
    world.account.stuck_delete = True
    await retired(world, controller, machine, 30)
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    world.account.stuck_delete = False
    await world.run(controller, 120)
    assert len(controller.hands.did("delete")) == 1
    assert [i.id for i in world.account.alive()] == ["i-1"]


@pytest.mark.parametrize("status", ["detached", "deleted"])
async def test_disks_that_linger_or_lie_in_the_trash_are_deleted_before_the_record_is_closed(
    status: str,
) -> None:
    world, controller, machine = await ready()

    def keeps_its_disk(_: str) -> None:
        world.account.volumes["late"] = Volume(
            id="late", name=machine.name, status=status,
            tags=(("gpuas-cluster", "home"), ("gpuas-intent", machine.intent)),
        )  # fmt: skip

    controller.hands.on_call["delete"] = keeps_its_disk
    await retired(world, controller, machine, 120)
    assert ("delete_volume", "late") in controller.hands.calls
    assert not world.account.volumes
    assert not controller.ledger.machines


async def test_only_our_own_disks_are_named_in_the_delete() -> None:
    world, controller, machine = await ready()
    world.account.volumes["data"] = Volume(id="data", name="data", status="attached", instance_id="i-1")
    world.account.volumes["named"] = Volume(id="named", name=machine.name, status="detached")
    world.account.volumes["moved"] = Volume(id="moved", name=machine.name, status="attached", instance_id="x")
    world.account.set("i-1", volume_ids=("d-i-1", "data"))
    controller.ledger.change(machine.intent, disks=("d-i-1", "moved"))
    await retired(world, controller, machine, 120)
    assert sorted(world.account.volumes) == ["data", "moved", "named"]
    assert not controller.ledger.machines


async def test_an_instance_whose_marks_no_longer_agree_is_reported_and_never_deleted() -> None:
    world, controller, machine = await ready()
    world.account.set("i-1", description="mine now", tags=(("gpuas-cluster", "other"),))
    await world.run(controller, 120)
    assert controller.only.phase is Phase.READY
    await retired(world, controller, machine, 200)
    assert not controller.hands.did("delete", "delete_node")
    assert "no longer carries the marks" in controller.fleet.reports[machine.name]
    world.account.set("i-1", description=f"gpuas home {machine.intent}", tags=())
    await world.run(controller, 120)
    assert not world.account.alive()


@pytest.mark.parametrize("shown", [False, True])
async def test_an_evicted_machine_is_cleaned_up_without_a_delete_and_its_disk_with_it(shown: bool) -> None:
    world, controller, machine = await ready()
    world.town.not_ready = 150.0
    world.account.shows_gone = shown
    world.account.end("i-1")
    world.account.volumes["d-i-1"] = replace(
        world.account.volumes["d-i-1"], instance_id="", status="detached"
    )
    await world.run(controller, 20 if shown else 90)
    assert machine.name in world.town.nodes  # it still looks Ready: kept, and said so
    assert "is gone, and Node" in controller.fleet.reports[machine.name]
    await world.run(controller, 200)
    assert not controller.hands.did("delete")
    assert not world.account.volumes
    assert not world.town.nodes
    assert not controller.ledger.machines


async def test_the_attached_disk_of_a_machine_that_nobody_knows_stays_while_its_node_is_ready() -> None:
    """Neither lists nor the question by its id know it, for minutes; its pod runs, and its disk says that it is in use."""
    world, controller, machine = await ready()
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    here = dict(world.account.instances)
    world.account.instances.clear()
    await world.run(controller, 600)
    assert (controller.only.reason, bool(controller.only.gone_at)) == (Reason.VANISHED, True)
    assert not controller.hands.did("delete_volume", "delete_node")
    assert "is gone, and Node" in controller.fleet.reports[machine.name]
    world.account.instances.update(here)
    await world.run(controller, 120)
    assert (controller.only.phase, controller.only.reason) == (Phase.READY, None)
    assert list(world.account.volumes) == ["d-i-1"]


async def test_the_attached_disk_of_a_machine_that_nobody_knows_goes_when_its_node_is_silent() -> None:
    world, controller, machine = await ready()
    world.account.instances.clear()
    await world.run(controller, 300)
    assert not controller.hands.did("delete_volume")
    world.town.lose(machine.name)
    await world.run(controller, 120)
    assert [*world.account.volumes, *world.town.nodes, *controller.ledger.machines] == []


@pytest.mark.parametrize("trouble", ["no list of disks is answered", "the disk does not go"])
async def test_the_silent_node_of_a_machine_that_vanished_waits_for_no_disk(trouble: str) -> None:
    """Its pods are not planned again as long as the Node stands."""
    world, controller, machine = await ready()
    world.town.not_ready = 0
    if "list" in trouble:
        controller.hands.faults["volumes"] = [CloudError(Reason.UNAVAILABLE, "away")] * 1000
    else:
        controller.hands.faults["delete_volume"] = [Refused(Reason.NOT_ALLOWED_YET, "attached")] * 1000
    world.account.end("i-1")
    await world.run(controller, 120)
    assert world.town.nodes == {}
    assert controller.only.instance_id == machine.instance_id  # for its disk
    controller.hands.faults.clear()
    await world.run(controller, 120)
    assert [*world.account.volumes, *controller.ledger.machines] == []


async def test_the_node_of_a_machine_that_vanished_goes_as_soon_as_it_is_silent() -> None:
    """However long its being Ready has held up everything else by then."""
    world, controller, machine = await ready()
    world.account.instances.clear()
    await world.run(controller, 400)
    assert machine.name in world.town.nodes
    world.town.lose(machine.name)
    await controller.look()
    await world.time.settle()
    assert world.town.nodes == {}


async def test_the_node_of_a_machine_that_vanished_stays_if_it_is_ready_when_it_is_read() -> None:
    """The watch lags behind, and another machine of that name may have joined."""
    world, controller, machine = await ready()
    world.account.instances.clear()
    await world.run(controller, 300)
    world.town.lose(machine.name)

    def joins_again(name: str) -> None:
        world.town.nodes[name] = replace(world.town.nodes[name], ready=True)

    controller.hands.on_call["get_node"] = joins_again
    await world.run(controller, 300)
    assert not controller.hands.did("delete_node")


async def test_one_answer_that_does_not_know_a_machine_costs_it_no_node() -> None:
    world, controller, machine = await ready()
    here = dict(world.account.instances)
    world.account.instances.clear()
    world.town.lose(machine.name)
    answers: list[str] = []

    def back_again(instance_id: str) -> None:
        answers.append(instance_id)
        if len(answers) == 2:
            world.account.instances.update(here)

    controller.hands.on_call["instance"] = back_again
    await world.run(controller, 300)
    assert len(answers) >= 2
    assert not controller.hands.did("delete_node")
    assert not controller.only.gone_at


@pytest.mark.parametrize("tags", [True, False])
async def test_one_empty_list_of_disks_does_not_say_that_a_disk_is_gone_that_nobody_asked_to_go(
    tags: bool,
) -> None:
    """Somebody deleted the machine and kept its disk; without tags only the record says whose that is."""
    world, controller, _ = await ready()
    world.town.not_ready = 0
    disk = world.account.volumes.pop("d-i-1")
    kept = replace(disk, instance_id="", status="detached", tags=disk.tags if tags else ())
    lists: list[str] = []

    def once_empty(_: str) -> None:
        lists.append("")
        if len(lists) == 2:
            world.account.volumes["d-i-1"] = kept

    controller.hands.on_call["volumes"] = once_empty
    world.account.end("i-1")
    await world.run(controller, 200)
    assert len(lists) > 1
    assert ("delete_volume", "d-i-1") in controller.hands.calls
    assert [*world.account.volumes, *controller.ledger.machines] == []


async def test_a_machine_whose_account_was_out_of_sight_is_followed_again_and_goes_when_it_is_idle() -> None:
    """As with the credentials of another project, for some minutes: its lists are complete, and empty."""
    world, controller, machine = await ready(cooldown=20.0)
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    here = world.account.instances, world.account.volumes
    world.account.instances, world.account.volumes = {}, {}
    await world.run(controller, 300)
    assert controller.only.reason is Reason.VANISHED
    assert list(world.town.nodes) == [machine.name]
    world.account.instances, world.account.volumes = here
    await world.run(controller, 60)
    assert (controller.only.phase, controller.only.reason) == (Phase.READY, None)
    world.town.pods.clear()
    await world.run(controller, 120)
    assert not world.account.alive()
    assert not controller.ledger.machines


async def test_what_a_drain_wrote_to_a_node_is_undone_when_its_machine_comes_into_sight_again() -> None:
    """It went out of sight in the middle of its removal, and is of use again: neither counts on from then."""
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "needs 1 healthy pod")] * 1000
    await retired(world, controller, machine, 30)
    assert names.NODE_DRAIN_SINCE in world.town.nodes[machine.name].annotations
    here = world.account.instances, world.account.volumes
    world.account.instances, world.account.volumes = {}, {}
    await world.run(controller, 150)
    assert controller.only.reason is Reason.VANISHED
    world.account.instances, world.account.volumes = here
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    await world.run(controller, 120)
    assert (controller.only.phase, controller.only.drain_at) == (Phase.READY, 0.0)
    node = world.town.nodes[machine.name]
    assert not {names.NODE_DRAIN_SINCE, names.NODE_IDLE_SINCE} & set(node.annotations)
    assert node.taints == ()


async def test_a_foreign_node_under_the_name_of_a_machine_that_never_joined_is_left_alone() -> None:
    world = World(cooldown=NEVER)
    controller = world.start()
    await controller.look(decide=False)
    world.town.joins = False
    machine = controller.buy()
    foreign = make_node(machine.name, world.time.now + 5, provider_id="aws:///i-1")
    world.town.nodes[machine.name] = foreign
    await world.until(controller, Phase.DELETING, within=1500)
    await world.run(controller, 120)
    assert not world.account.alive()
    assert [node.uid for node in world.town.nodes.values()] == [foreign.uid]
    assert not controller.hands.did("taint", "evict", "delete_node")


async def test_a_node_that_registered_again_under_a_new_uid_is_deleted_by_its_own_uid() -> None:
    world, controller, machine = await ready()
    world.town.nodes[machine.name] = make_node(machine.name, world.time.now, uid="again")
    await world.run(controller, 10)
    await retired(world, controller, machine, 120)
    assert ("delete_node", f"{machine.name} again") in controller.hands.calls
    assert not world.town.nodes


async def test_work_on_a_failed_machine_keeps_it_and_is_told_once() -> None:
    world, controller, machine = await ready()
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    world.account.set("i-1", status="error")
    await world.run(controller, 300)
    assert not controller.hands.did("delete")
    assert controller.only.phase is Phase.DRAINING
    assert controller.heard.of("called_off") == ["in_use"]
    assert len(controller.hands.did("list_pods_on")) < 40
    world.town.pods.clear()
    await world.run(controller, 120)
    assert not world.account.alive()


async def test_a_failed_machine_that_its_work_keeps_is_looked_at_and_nothing_is_written_again() -> None:
    world, controller, machine = await ready()
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    world.account.set("i-1", status="error")
    await world.run(controller, 120)
    assert controller.heard.of("called_off") == ["in_use"]
    controller.hands.calls.clear()
    await world.run(controller, 3600)
    assert not controller.hands.did("taint", "annotate", "write_config_map", "list_pods_on", "get_node")
    world.town.pods.clear()
    await world.run(controller, 60)
    assert not world.account.alive()


async def test_a_failed_machine_that_its_work_keeps_is_closed_again_when_its_taint_is_gone() -> None:
    world, controller, machine = await ready()
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    world.account.set("i-1", status="error")
    await world.run(controller, 120)
    world.town.nodes[machine.name] = replace(world.town.nodes[machine.name], taints=())
    await world.run(controller, 60)
    assert world.town.nodes[machine.name].has_taint(names.TAINT_DRAINING, "NoSchedule")


async def test_the_grace_of_a_machine_that_its_work_kept_begins_when_the_work_is_over() -> None:
    world, controller, machine = await ready()
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    world.account.set("i-1", status="error")
    await world.run(controller, 3600)
    world.town.pods.clear()
    web = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[web.key] = web
    await world.run(controller, 90)
    assert controller.hands.did("evict")
    assert not world.account.alive()
    assert controller.heard.of("called_off") == ["in_use"]


async def test_pods_stuck_on_a_dead_node_do_not_keep_a_broken_machine_for_ever() -> None:
    world, controller, machine = await ready()
    world.account.set("i-1", status="error")
    world.town.nodes[machine.name] = replace(world.town.nodes[machine.name], ready=False)
    pod = make_pod(
        "web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet", deleting_at=world.time.now
    )
    world.town.pods[pod.key] = pod
    await world.run(controller, 180)
    assert not world.account.alive()


@pytest.mark.parametrize(
    "verb", ["taint", "list_pods_on", "evict", "delete", "delete_volume", "delete_node", "volumes"]
)
async def test_a_leader_that_lost_its_lease_changes_nothing_more(verb: str) -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    world.account.volumes["late"] = Volume(
        id="late", name=machine.name, status="detached",
        tags=(("gpuas-cluster", "home"), ("gpuas-intent", machine.intent)),
    )  # fmt: skip
    lost = 0

    def lose(_: str) -> None:
        nonlocal lost
        controller.leads = False
        lost = lost or len(controller.hands.calls)

    controller.hands.on_call[verb] = lose
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    for _ in range(30):
        world.happen()
        await world.time.advance(5)
    assert lost
    later = {verb for verb, _ in controller.hands.calls[lost:]}
    allowed = {
        "annotate",
        "write_config_map",
        "read_config_map",
        "list_pods_on",
        "instance",
        "volumes",
        "get_node",
    }
    assert later <= allowed


async def test_no_other_pod_is_asked_to_leave_when_the_lease_is_lost_while_the_first_one_is() -> None:
    world, controller, machine = await ready()
    for name in ("web-1", "web-2"):
        pod = make_pod(name, world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
        world.town.pods[pod.key] = pod
    gate = controller.hands.gates["evict"] = asyncio.Event()
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.advance(10)
    assert controller.hands.did("evict") == [("evict", "default/web-1")]
    controller.leads = False
    gate.set()
    await world.time.advance(60)
    assert list(world.town.pods) == ["default/web-2"]
    assert controller.hands.did("evict") == [("evict", "default/web-1")]


@pytest.mark.parametrize("verb", ["instance", "volumes", "list_pods_on", "get_node"])
async def test_trouble_of_the_outside_is_retried_with_pauses_and_never_skipped(verb: str) -> None:
    world, controller, machine = await ready()
    controller.hands.faults[verb] = [CloudError(Reason.UNAVAILABLE, "no answer")] * 5
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    for _ in range(200):  # looks that follow one another at once, as a wake-up would make them
        await controller.look(decide=False)
        await world.time.settle()
    assert len(controller.hands.did(verb)) <= 2
    for _ in range(12):
        controller.fleet.retire(machine.name, Reason.IDLE, "idle")
        await world.run(controller, 20)
    assert not world.account.alive()
    assert not controller.ledger.machines


async def test_a_record_that_knows_no_instance_waits_for_the_inventory() -> None:
    world, controller, machine = await ready()
    controller.ledger.change(
        machine.intent, instance_id="", phase=Phase.DELETING, reason=Reason.JOIN_DEADLINE
    )
    world.account.empty = True
    await world.run(controller, 20)
    assert machine.intent in controller.ledger.machines
    world.account.empty = False
    await world.run(controller, 120)
    assert not world.account.alive()
    assert not controller.ledger.machines


async def test_what_the_engine_learned_during_the_removal_is_not_overwritten() -> None:
    world, controller, machine = await ready()
    seen: list[Machine] = []

    def learn(_: str) -> None:
        controller.ledger.change(machine.intent, disks=("d-i-1", "d-other"))
        seen.append(controller.only)

    controller.hands.on_call["taint"] = learn
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.advance(1)
    assert controller.only.phase is Phase.DRAINING
    assert controller.only.disks == ("d-i-1", "d-other")


async def test_a_machine_that_vanishes_while_its_removal_is_called_off_is_not_ready_again() -> None:
    world, controller, machine = await ready()
    a_gpu_pod(world, machine)

    def vanish(_: str) -> None:
        controller.ledger.change(machine.intent, phase=Phase.DELETING, reason=Reason.VANISHED)

    controller.hands.on_call["annotate"] = vanish
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.advance(1)
    assert controller.only.phase is Phase.DELETING


async def test_a_machine_that_vanishes_while_a_budget_holds_its_drain_up_is_cleaned_up_at_once() -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "needs 1 healthy pod")] * 1000
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.run(controller, 20)
    assert controller.only.reason is Reason.PDB
    world.account.end(machine.instance_id)
    await world.run(controller, 5)
    assert (controller.only.phase, controller.only.reason) == (Phase.DELETING, Reason.VANISHED)
    await world.run(controller, 90)
    assert not controller.ledger.machines
    assert not world.account.volumes
    assert not world.town.nodes
    assert "deleting>ready" not in controller.heard.of("phase")


async def test_a_removed_pool_neither_breaks_nor_keeps_its_machines() -> None:
    world, controller, machine = await ready(cooldown=20.0)
    world.town.work = NEVER
    a_gpu_pod(world, machine)
    controller.fleet.policy = replace(world.policy, pools=())
    await world.run(controller, 900, 30.0)
    assert controller.only.phase is Phase.READY
    world.town.pods.clear()
    await world.run(controller, 200, 10.0)
    assert not world.account.alive()


async def test_when_all_nodes_lose_their_gpus_at_once_none_is_replaced() -> None:
    world = World(cooldown=NEVER)
    controller = world.start()
    await controller.look(decide=False)
    for _ in range(3):
        controller.buy()
    await world.run(controller, 80)
    assert {m.phase for m in controller.ledger.machines.values()} == {Phase.READY}
    world.town.gpus = False
    for name, node in world.town.nodes.items():
        without = {k: v for k, v in node.allocatable.items() if k != "nvidia.com/gpu"}
        world.town.nodes[name] = replace(node, allocatable=without)
    await world.run(controller, 900, 30.0)
    assert {m.phase for m in controller.ledger.machines.values()} == {Phase.READY}
    assert "unhealthy at once" in controller.fleet.reports["repair"]
    assert not controller.hands.did("delete")


async def test_nothing_is_remembered_of_machines_of_long_ago() -> None:
    world = World(cooldown=5.0)
    controller = world.start()
    await controller.look(decide=False)
    for _ in range(4):
        controller.buy()
        await world.run(controller, 150)
        await world.time.advance(400)
    assert not controller.ledger.machines
    assert len(controller.flights._closed) <= 1
    assert not controller.flights.idle_marks
    assert not controller.flights._leaving.called_off
    assert not controller.flights._tasks._tasks
    assert not controller.fleet.reports


async def test_a_list_that_still_shows_a_machine_just_closed_brings_no_record_back() -> None:
    world, controller, machine = await ready()
    await retired(world, controller, machine)
    world.account.set("i-1", status="running")
    world.account.shows_gone = True
    await world.run(controller, 60)
    assert not controller.ledger.machines
    await world.time.advance(300)
    await controller.look()
    assert controller.only.intent == machine.intent  # it is there after all: followed, never forgotten


@pytest.mark.parametrize("asked", [False, True], ids=["before the delete", "after it was accepted"])
async def test_one_answer_that_does_not_know_a_machine_proves_nothing(asked: bool) -> None:
    """A proxy that answers 404 once must not leave a machine that nobody deletes and everybody pays."""
    world, controller, machine = await ready()
    world.account.stuck_delete = asked
    really = controller.hands.instance
    wrong: list[str] = []

    async def once_unknown(instance_id: str) -> Instance | None:
        if not wrong and (not asked or controller.hands.did("delete")):
            wrong.append(instance_id)
            return None
        return await really(instance_id)

    controller.hands.instance = once_unknown  # type: ignore[method-assign]
    await retired(world, controller, machine, seconds=20)
    assert wrong == [machine.instance_id]
    if asked:
        assert controller.ledger.machines
        assert not controller.hands.did("delete_volume", "delete_node")
        world.account.stuck_delete = False
    await world.run(controller, 150)
    assert controller.hands.did("delete")
    assert not world.account.alive()
    assert not world.account.volumes
    assert not controller.ledger.machines
