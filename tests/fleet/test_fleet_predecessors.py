"""Which machines of a predecessor may be taken over: every one of its marks agrees, and the Node is registered here."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Catalogue, Instance, Offer
from controller.domain.kube import Node
from controller.domain.machine import Phase
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.policy import Policy, Pool
from controller.domain.reason import Reason
from controller.fleet import adoption
from controller.fleet.predecessors import Found, judge
from tests.fleet.fakes import A1
from tests.fleet.scene import World, policy

ID = "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"
POLICY = Policy(
    cluster_id="home",
    pools=(Pool(name="gpu", max=3), Pool(name="gpu-large", max=3), Pool(name="1v100-6v-fin-03", max=1)),
)
HOSTS = {
    "ca-verda": ("gpu-1a2b3c4d", "Autoscaler node for gpu", f"verda://{ID}"),
    "datacrunch": ("gpu-5b3f0c9d1e2a4567", "gpu", f"datacrunch://{ID}"),
    "verdacloud": ("gpu-vm-fin-01-1a2b3c4d", "gpu", "verdacloud://FIN-01/gpu-vm-fin-01-1a2b3c4d"),
}


def instance(**more: Any) -> Instance:
    values: dict[str, Any] = {
        "id": ID, "status": "running", "instance_type": "1A100.22V", "location": "FIN-01", "market": "on-demand",
        "price": Decimal("1.29"), "created_at": 1000.0, "description": "", "hostname": "",
    }  # fmt: skip
    return Instance(**(values | more))


def judged(project: str, *, nodes: tuple[Node, ...] | None = None, groups: dict[str, str] | None = None,
           prefixes: dict[str, str] | None = None, **more: Any) -> Found | None:  # fmt: skip
    hostname, description, provider_id = HOSTS[project]
    made = instance(**({"hostname": hostname, "description": description} | more))
    there = (Node(name=made.hostname.lower(), uid="n", provider_id=provider_id, created=1100.0),)
    return judge(project, made, there if nodes is None else nodes, POLICY, groups or {}, prefixes or {})


@pytest.mark.parametrize("project", HOSTS)
def test_a_machine_whose_marks_agree_and_whose_node_is_here_may_be_taken_over(project: str) -> None:
    found = judged(project)
    assert found is not None
    assert (found.because, found.pool, found.group, found.node) == ("", "gpu", "gpu", HOSTS[project][0])


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("ca-verda", {"description": ""}, "does not name the group"),
    ("ca-verda", {"description": "Autoscaler node for gpu-large"}, "does not name the group"),
    ("ca-verda", {"hostname": "other-1a2b3c4d", "description": "for other"}, "no pool"),
    ("ca-verda", {"nodes": ()}, "no Node"),
    ("ca-verda", {"nodes": (Node(name="gpu-1a2b3c4d", uid="n", provider_id="verda://other"),)}, "provider ID verda://other"),
    ("ca-verda", {"nodes": (Node(name="x", uid="n", provider_id=f"verda://{ID}"),)}, "another name"),
    ("ca-verda", {"nodes": (Node(name="gpu-1a2b3c4d", uid="n", provider_id=f"verda://{ID}", created=10.0),)}, "older"),
    ("ca-verda", {"nodes": tuple(Node(name=n, uid=n, provider_id=f"verda://{ID}") for n in ("gpu-1a2b3c4d", "b"))}, "all claim"),
    ("ca-verda", {"tags": (("gpuas-cluster", "other"), ("gpuas-intent", "aaaaaaaaaa"))}, "belongs to cluster other"),
    ("ca-verda", {"contract": "LONG_TERM"}, "its contract is LONG_TERM"),
    ("datacrunch", {"description": "gpu-large"}, "is not the group"),
    ("datacrunch", {"description": "Autoscaler node for gpu"}, "is not the group"),
    ("verdacloud", {"description": "gpu-large"}, "is not the group"),
    ("verdacloud", {"location": "FIN-03"}, "it is in FIN-03"),
]  # fmt: skip


@pytest.mark.parametrize(("project", "changes", "words"), REFUSED)
def test_every_doubt_is_a_no_with_its_reason(project: str, changes: dict[str, Any], words: str) -> None:
    found = judged(project, **changes)
    assert found is not None
    assert words in found.because


@pytest.mark.parametrize(
    "hostname", ["gpu", "gpu-1a2b3c4", "gpu-1a2b3c4d5", "home-gpu-aaaaaaaaaa", "gpu-XYZ"]
)
def test_other_hostnames_are_none_of_the_python_providers(hostname: str) -> None:
    assert judged("ca-verda", hostname=hostname) is None


def test_a_group_never_swallows_those_whose_name_begins_like_it() -> None:
    found = judged(
        "ca-verda", hostname="gpu-large-1a2b3c4d", description="Autoscaler node for gpu-large", nodes=()
    )
    assert found is not None
    assert found.group == "gpu-large"


def test_a_renamed_group_and_a_hostname_prefix_are_found_by_the_configuration() -> None:
    found = judged("ca-verda", hostname="1V100.6V-FIN-03-1a2b3c4d", description="Autoscaler node for 1V100.6V-FIN-03",
                   groups={"1V100.6V-FIN-03": "1v100-6v-fin-03"},
                   nodes=(Node(name="1v100.6v-fin-03-1a2b3c4d", uid="n", provider_id=f"verda://{ID}"),))  # fmt: skip
    assert found is not None
    assert (found.because, found.pool) == ("", "1v100-6v-fin-03")
    host = "custom-node-vm-fin-01-1a2b3c4d"
    node = Node(name=host, uid="n", provider_id=f"verdacloud://FIN-01/{host}")
    found = judged(
        "verdacloud", hostname=host, description="gpu", prefixes={"custom-node": "gpu"}, nodes=(node,)
    )
    assert found is not None
    assert (found.because, found.pool) == ("", "gpu")


@pytest.mark.parametrize(
    ("description", "pool", "because"),
    [
        ("gpu", "gpu", ""),
        ("gpu-large", "gpu-large", ""),
        ("rack", "rack", ""),  # the prefix is the name of a third group
        ("other", "", "its description is not the group gpu of its hostname"),
    ],
)
def test_groups_that_share_a_hostname_prefix_are_told_apart_by_the_description(
    description: str, pool: str, because: str
) -> None:
    host = "rack-vm-fin-01-1a2b3c4d"
    node = Node(name=host, uid="n", provider_id=f"verdacloud://FIN-01/{host}")
    made = replace(POLICY, pools=(*POLICY.pools, Pool(name="rack", max=1)))
    machine = instance(hostname=host, description=description)
    groups = {name: name for name in ("gpu", "gpu-large", "rack")}
    found = judge("verdacloud", machine, (node,), made, groups, {"Rack": ("gpu", "gpu-large")})
    assert found is not None
    assert (found.because, found.pool) == (because, pool)


class Tags:
    """A cloud that takes tags, or does not, or forgets them."""

    def __init__(self, *, takes: bool = True, keeps: bool = True) -> None:
        self.takes, self.keeps = takes, keeps
        self.written: list[tuple[str, str]] = []

    async def tag(self, instance_id: str, key: str, value: str) -> Outcome:
        if not self.takes:
            return Refused(Reason.BAD_REQUEST, "tags are not available")
        self.written.append((key, value))
        return Happened(instance_id)

    async def instance(self, instance_id: str) -> Instance | None:
        return instance(tags=tuple(self.written) if self.keeps else ())


FOUND = Found(instance=instance(hostname="gpu-1a2b3c4d"), group="gpu", pool="gpu", node="gpu-1a2b3c4d")


def test_a_machine_without_gpus_is_left_alone() -> None:
    """It would pass for idle, whatever runs there, and be deleted."""
    plain = replace(A1, name="CPU.4V.16G", gpus=0)
    found = Found(instance=instance(instance_type=plain.name), group="gpu", pool="gpu", node="n")
    told = replace(found, instance=replace(found.instance, gpus=1))
    sold = Catalogue(at=0.0, offers=(Offer(type=plain, location="FIN-01", market="on-demand"),))
    for catalogue, each in ((sold, found), (sold, told), (Catalogue(at=0.0), found)):
        assert "no GPUs" in adoption.with_gpus(catalogue, each).because
    assert adoption.with_gpus(Catalogue(at=0.0), told) == told


async def test_the_tag_of_the_cluster_is_written_last_and_read_back() -> None:
    cloud = Tags()
    intent, why = await adoption.mark(cloud, POLICY, FOUND, {}, random.Random(1))
    assert why == ""
    assert [key for key, _ in cloud.written] == ["gpuas-intent", "gpuas-pool", "gpuas-cluster"]
    assert dict(cloud.written)["gpuas-intent"] == intent


@pytest.mark.parametrize("cloud", [Tags(takes=False), Tags(keeps=False)])
async def test_without_tags_a_machine_is_not_taken_over_and_it_is_said(cloud: Tags) -> None:
    intent, why = await adoption.mark(cloud, POLICY, FOUND, {}, random.Random(1))
    assert intent == ""
    assert "without tags it stays foreign" in why


async def test_what_was_half_done_goes_on_with_the_intent_of_its_tags() -> None:
    half = replace(FOUND, instance=replace(FOUND.instance, tags=(("gpuas-intent", "bbbbbbbbbb"),)))
    cloud = Tags()
    cloud.written.append(("gpuas-intent", "bbbbbbbbbb"))
    intent, why = await adoption.mark(cloud, POLICY, half, {}, random.Random(1))
    assert (intent, why) == ("bbbbbbbbbb", "")


async def adopted_world(*, tagged: bool = True, recorded: bool = True) -> tuple[World, Any]:
    world = World(cooldown=5.0)
    tags = (("gpuas-cluster", "home"), ("gpuas-pool", "a100"), ("gpuas-intent", "bbbbbbbbbb"))
    world.account.instances["x-1"] = instance(
        id="x-1", hostname="old-1a2b3c4d", instance_type=A1.name, created_at=world.time.now - 500,
        tags=tags if tagged else (),
    )  # fmt: skip
    controller = world.start(policy(cooldown=5.0))
    await controller.look(decide=False)
    if recorded:
        found = Found(instance=world.account.instances["x-1"], group="old", pool="a100", node="old-1a2b3c4d")
        catalogue = Catalogue(at=0.0, offers=tuple(world.account.offers))
        record = adoption.record(controller.fleet.policy, catalogue, found, "bbbbbbbbbb", world.time.now)
        controller.ledger.put(record)
    return world, controller


async def test_a_machine_that_was_taken_over_is_followed_used_and_removed_like_any_other() -> None:
    world, controller = await adopted_world()
    world.town.add_pod("work")
    world.town.work = 100.0
    await world.run(controller, 60)
    assert controller.only.phase is Phase.READY
    assert controller.only.adopted
    assert world.town.nodes["old-1a2b3c4d"].labels["gpu-autoscaler/pool"] == "a100"
    assert len(world.account.orders) == 0
    await world.run(controller, 300)
    assert not [i for i in world.account.alive() if i.id == "x-1"]
    assert not controller.ledger.machines


async def test_a_record_without_the_tags_is_never_enough_to_delete_a_machine() -> None:
    world, controller = await adopted_world(tagged=False)
    await world.run(controller, 300)
    assert [i.id for i in world.account.alive()] == ["x-1"]
    assert not controller.hands.did("delete")


async def test_tags_without_a_record_are_reported_and_never_enough_to_touch_a_machine() -> None:
    world, controller = await adopted_world(recorded=False)
    await world.run(controller, 200)
    assert [i.id for i in world.account.alive()] == ["x-1"]
    assert "adopt --apply" in controller.fleet.reports["x-1"]
    assert not controller.hands.did("delete", "taint", "delete_node")
