"""Whatever is asked in whatever order, fails, dies or is taken away: target, list and machines agree, and nothing is left.

`LIVES=60` lives through as many seeds; each is a course of events that it repeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from typing import Any

import grpc
import pytest

from controller.cloud.protocol import CloudError
from controller.cluster.protocol import ClusterError
from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.fleet.ledger import LedgerError
from tests.compat_grpc.generations import GENERATIONS, Client
from tests.compat_grpc.scene import H1, Served, code_of, pool, served, world
from tests.fleet.scene import World

DELETING = 3
HEARD_OR_NOT = ("OK", "DEADLINE_EXCEEDED", "CANCELLED")
PATIENCE = 15.0  # on a machine that is busy
TROUBLE = (CloudError, ClusterError, LedgerError)
GONE = grpc.aio.AioRpcError
AWAY = CloudError(Reason.UNAVAILABLE, "away")
FAULTS: dict[str, tuple[Any, ...]] = {
    "create": ("lost", "never", Refused(Reason.NO_CAPACITY, "none"), Refused(Reason.QUOTA, "too many")),
    "delete": ("lost", "never", Refused(Reason.UNAVAILABLE, "answered 500")),
    "create_script": ("lost", "never", Refused(Reason.QUOTA, "no room")),
    "instance": (AWAY,),
    "inventory": (AWAY,),
    "list_pods_on": (ClusterError("unreachable", "away"),),
    "write_config_map": ("lost", ClusterError("unreachable", "away")),
}


class Course:
    """One course of events, and what may never be."""

    may_answer: tuple[str, ...] = ()

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        market = self.rng.choice(("prefer_spot", "on_demand_only"))
        self.place: World = world(
            pool("g", market=market),
            pool("h", H1, max=2),
            limits=Limits(launches_per_minute=self.rng.choice((2, 60))),
        )
        self.place.town.work = 1e9
        self.granted = 0
        self.hurt: list[str] = []
        self.pods = 0

    def guard(self, one: Served) -> None:
        def deleted(key: str) -> None:
            name = self.place.account.instances[key].hostname
            self.hurt += [pod.key for pod in self.place.town.pods.values() if pod.node == name]

        one.hands.on_call["delete"] = deleted

    async def act(self, one: Served, client: Client) -> None:
        rng, account, town = self.rng, self.place.account, self.place.town
        group, what = rng.choice("ggh"), rng.random()
        if what < 0.3:
            count = rng.randint(1, 2)
            answer, _ = await code_of(client.NodeGroupIncreaseSize(id=group, delta=count))
            self.granted += count if answer in HEARD_OR_NOT or one.hands.dead else 0
        elif what < 0.5:
            with contextlib.suppress(Exception):
                found = list((await client.NodeGroupNodes(id=group)).instances)
                nodes = [client.node(i.id) for i in rng.sample(found, min(len(found), rng.randint(1, 2)))]
                await client.NodeGroupDeleteNodes(id=group, nodes=nodes)
        elif what < 0.6:
            answer, _ = await code_of(client.NodeGroupDecreaseTargetSize(id=group, delta=-rng.randint(1, 3)))
            assert answer in (*HEARD_OR_NOT, *self.may_answer) or one.hands.dead
        elif what < 0.75:
            verb = rng.choice(tuple(FAULTS))
            one.hands.faults[verb] = [rng.choice(FAULTS[verb]) for _ in range(rng.randint(1, 3))]
        elif what < 0.85:
            if there := [i for i in account.alive() if i.state == "running" and not self.used(i.hostname)]:
                gone = rng.choice(there)
                rng.choice((lambda: account.end(gone.id), lambda: account.set(gone.id, status="error")))()
        elif what < 0.9:
            account.boots = rng.random() < 0.7
            town.joins = rng.random() < 0.7
        elif self.pods < 4:
            self.pods += 1
            town.add_pod(f"work-{self.pods}")
        else:
            town.pods.clear()
            self.pods = 0

    def used(self, name: str) -> bool:
        return any(pod.node == name for pod in self.place.town.pods.values())

    async def agrees(self, client: Client) -> None:
        listed: set[str] = set()
        for group in (await client.NodeGroups()).nodeGroups:
            found = (await client.NodeGroupNodes(id=group.id)).instances
            counting = [i.id for i in found if i.status.instanceState != DELETING]
            assert (await client.NodeGroupTargetSize(id=group.id)).targetSize == len(counting)
            assert len({i.id for i in found}) == len(found)
            assert group.minSize <= group.maxSize
            listed |= {i.id for i in found}
        there = {f"verda://{i.hostname}" for i in self.place.account.alive() if i.state != "leaving"}
        assert there <= listed
        assert len(self.place.account.orders) <= self.granted
        assert not self.hurt

    async def ends(self) -> None:
        """Whatever could go wrong does not any more, and everything is given up: nothing is left."""
        place = self.place
        place.account.boots = place.town.joins = True
        place.town.pods.clear()
        async with served(place) as one:
            client = one.client(timeout=PATIENCE)
            self.guard(one)
            for _ in range(12):
                await one.run(200, step=10)
                await self.agrees(client)
                await collect(client, everything=True)
            assert not place.account.alive()
            assert not place.town.nodes
            assert not place.account.volumes
            await one.controller.sweep()
            assert not place.account.scripts
            left = one.controller.ledger.machines.values()
            assert all(machine.phase is Phase.TOMBSTONE for machine in left)
            assert len(place.account.orders) <= self.granted


async def collect(client: Client, everything: bool = False) -> None:
    """As cluster-autoscaler does in each of its loops with what could not be created."""
    for group in (await client.NodeGroups()).nodeGroups:
        found = (await client.NodeGroupNodes(id=group.id)).instances
        nodes = [client.node(i.id) for i in found if everything or i.status.errorInfo.errorCode]
        if nodes:
            await code_of(client.NodeGroupDeleteNodes(id=group.id, nodes=nodes))


@pytest.mark.parametrize("seed", range(int(os.environ.get("LIVES", "8"))))
async def test_whatever_happens_targets_lists_and_machines_agree(seed: int) -> None:
    course = Course(seed)
    rng, place = course.rng, course.place
    for _ in range(rng.randint(2, 4)):
        async with served(place) as one:
            client = one.client(rng.choice(GENERATIONS), PATIENCE)
            course.guard(one)
            if rng.random() < 0.6:
                one.hands.kill = (one.hands.count + rng.randint(10, 300), rng.choice(("before", "after")))
            for _ in range(rng.randint(6, 14)):
                await course.act(one, client)
                if not one.hands.dead:
                    with contextlib.suppress(asyncio.CancelledError, *TROUBLE):
                        await one.run(rng.choice((5, 15, 60, 200)))
                if one.hands.dead:
                    break
                if one.controller.fleet.rebuilt:
                    await course.agrees(client)
                    await collect(client)
    await course.ends()
