"""A set of waiting pods, the plan for them, and the plan carried out: Nodes made exactly as they were predicted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.quantity import to_kubernetes
from controller.planning import predict
from controller.planning.planner import plan
from tests.e2e.controlplane.differential import draw_sets, oracle
from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.reality import Reality
from tests.e2e.controlplane.differential.worlds import Json, World, named

BINDING = 15.0  # seconds in which all planned pods are bound, one after the other where rules ask for it


@dataclass(frozen=True)
class Carried:
    """What became of a plan."""

    snapshot: Snapshot
    plan: Plan
    planned: Mapping[str, str]  # the node of each pod
    unbound: Mapping[str, str]  # and what the scheduler says
    pods: Sequence[Json]
    nodes: Sequence[Json]

    def told(self) -> str:
        lines = [f"# {pod}, planned for {self.planned[pod]}: {why}" for pod, why in self.unbound.items()]
        return "\n".join([*lines, yaml.safe_dump_all([*self.pods, *self.nodes], sort_keys=False)])


def names_of(made: Plan) -> dict[str, Launch]:
    """As our machines are called, each with its number."""
    launches = [action for action in made.actions if isinstance(action, Launch)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {
        f"real-{launch.pool}-{letters[number // 26]}{letters[number % 26]}aaaaaaaa": launch
        for number, launch in enumerate(launches)
    }


def node(snapshot: Snapshot, name: str, launch: Launch) -> Json:
    pool = snapshot.policy.pool(launch.pool)
    assert pool is not None
    labels = predict.labels_of(pool, launch.offer, name, snapshot.policy.gpu_labels)
    there = predict.allocatable_of(snapshot.policy, pool, launch.offer.type, snapshot.observed)
    amounts = {resource: to_kubernetes(resource, units) for resource, units in there.items()}
    taints = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in predict.taints_of(pool)
    ]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }  # fmt: skip


class Sets:
    def __init__(self, reality: Reality) -> None:
        self._reality = reality

    def carried_out(self, seed: str, *, as_planned: bool = True) -> Carried:
        """`as_planned`: each pod may go to its own machine only; else wherever the scheduler likes."""
        reality, chance = self._reality, Chance(seed)
        world, pods, offers = draw_sets.world(chance), draw_sets.waiting(chance), draw_sets.offers(chance)
        reality.furnish(world)
        made = [reality.make(pod) for pod in pods]
        try:
            for pod in made:
                assert reality.verdict(pod) is not None, f"nothing is said of {named(pod)}"
            snapshot = self._picture(offers)
            decided = plan(snapshot)
            launches = names_of(decided)
            planned = {pod: name for name, launch in launches.items() for pod in launch.pods}
            nodes = [node(snapshot, name, launch) for name, launch in launches.items()]
            if as_planned:
                for name in map(named, made):  # whoever was not planned takes nobody's place
                    reality.listener.allow[name] = frozenset({planned[name]} if name in planned else ())
            reality.furnish(World((*world.nodes, *nodes), (*world.pods, *pods), world.objects))
            unbound = self._unbound([pod for pod in made if named(pod) in planned])
            return Carried(snapshot, decided, planned, unbound, pods, nodes)
        finally:
            for pod in made:
                reality.withdraw(pod)

    def _picture(self, offers: Sequence[Json]) -> Snapshot:
        more: dict[str, Any] = {"settings": draw_sets.settings(), "offers": list(offers)}
        return oracle.picture(self._reality.listed(oracle.KINDS), [], more)

    def _unbound(self, pods: Sequence[Json]) -> dict[str, str]:
        end = time.monotonic() + BINDING
        while True:
            said = {named(pod): self._reality.verdict(pod) for pod in pods}
            left = {name: each.message for name, each in said.items() if each is not None and not each.bound}
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.1)
