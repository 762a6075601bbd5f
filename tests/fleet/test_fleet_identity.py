"""Which Node is which machine: every shape of provider ID, and every doubt."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.fleet.identity import node_for
from controller.fleet.looking import nodes_of
from tests.fleet.fakes import make_node

NOW = 1_800_000_000.0
NAME = "home-a100-aaaaaaaaaa"
UUID = "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"
MACHINE = Machine(
    intent="aaaaaaaaaa", name=NAME, pool="a100", instance_type="1A100.22V", location="FIN-01",
    market="on-demand", price=Decimal(1), phase=Phase.BOOTING, intended_at=NOW, instance_id=UUID,
)  # fmt: skip


def node(provider_id: str = f"verda://{NAME}", name: str = NAME, **more: Any) -> Node:
    return make_node(name, NOW + 100, **({"provider_id": provider_id, "uid": name} | more))


@pytest.mark.parametrize(
    "provider_id",
    [
        f"verda://{NAME}", f"verda://{UUID}", f"verda://{UUID.upper()}", f"verdacloud://FIN-01/{NAME}",
        f"datacrunch://{UUID}", f"datacrunch://FIN-01/{NAME}", f"k3s://{NAME}", "",
    ],
)  # fmt: skip
def test_every_shape_that_points_at_the_machine_is_read(provider_id: str) -> None:
    assert node_for(MACHINE, (node(provider_id), node("", "other")))[0] is not None


def test_a_clock_that_was_ahead_at_the_order_hides_no_node_that_carries_our_provider_id() -> None:
    assert node_for(MACHINE, (node(created=NOW - 400),)) == (node(created=NOW - 400), "")


def test_a_clock_that_was_ahead_at_the_join_hides_no_node_that_registered_anew() -> None:
    """Nothing would ever be decided about the machine again, and it would cost for ever."""
    joined = replace(MACHINE, phase=Phase.READY, joined_at=NOW + 500, node_uid="before")
    assert node_for(joined, (node(),)) == (node(), "")
    assert "older than the one that joined" in node_for(joined, (node(""),))[1]


@pytest.mark.parametrize("provider_id", ["aws:///i-1", "k3s://somebody", "verda://home-a100-bbbbbbbbbb"])
def test_a_node_of_our_name_that_says_it_is_something_else_is_not_believed_and_reported(
    provider_id: str,
) -> None:
    found, doubt = node_for(MACHINE, (node(provider_id),))
    assert found is None
    assert provider_id in doubt


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((node(), node(name="impostor")), "all claim"),
        ((node(name="impostor"),), "under another name"),
        ((node("", created=NOW - 61),), "older than the order"),
    ],
)
def test_every_doubt_is_a_no(nodes: tuple[Node, ...], words: str) -> None:
    found, doubt = node_for(MACHINE, nodes)
    assert found is None
    assert words in doubt


def test_a_node_nobody_mentions_is_no_doubt() -> None:
    assert node_for(MACHINE, (node("", "other"), node("aws:///x", "another"))) == (None, "")


def test_of_thousands_of_nodes_only_those_are_looked_at_that_could_be_the_machine() -> None:
    others = [node("", f"other-{number}") for number in range(100)]
    mine, impostor = node(), node(f"verda://{UUID}", "impostor")
    found = nodes_of((MACHINE,), (*others, mine, impostor))
    assert sorted(each.name for each in found[MACHINE.intent]) == sorted([NAME, "impostor"])


def test_looking_at_few_nodes_finds_what_looking_at_all_would() -> None:
    names = [f"home-a100-aaaaaaaaa{letter}" for letter in "abcde"]
    machines = [
        replace(MACHINE, intent=name[-10:], name=name, instance_id=key)
        for name, key in zip(names, [UUID, "", UUID.upper(), "other-id", ""], strict=True)
    ]
    shapes = ["", "verda://{}", "aws:///{}", "datacrunch://FIN-01/{}", "k3s://{}"]
    for seed in range(300):
        rng = random.Random(seed)
        targets = [*names, UUID, "other-id", "nobody"]
        nodes = [
            node(rng.choice(shapes).format(rng.choice(targets)), rng.choice([*names, "box"]))
            for _ in range(rng.randint(0, 6))
        ]
        few = nodes_of(machines, nodes)
        for machine in machines:
            assert node_for(machine, few[machine.intent]) == node_for(machine, nodes), (seed, machine.name)
