"""The same courses of events while settings change: pools come and go, grow, move, are paused, and limits fall.

`LIVES=60` lives through as many seeds; each is a course of events that it repeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.policy import Limits, Policy
from tests.compat_grpc import test_grpc_random_lives as lives
from tests.compat_grpc.generations import GENERATIONS, Client
from tests.compat_grpc.scene import H1, Served, code_of, pool, served

A1_NAME, H1_NAME = "1A100.22V", H1.name
PLACES: tuple[tuple[str, ...], ...] = (("FIN-01",), ("FIN-03",), ("FIN-01", "FIN-03"), ())
TYPES = ((A1_NAME,), (A1_NAME.lower(),), (A1_NAME, H1_NAME), (H1_NAME,))
PAUSES = ("", "", "", "scale-up", "scale-down", "all")


def changed(policy: Policy, rng: random.Random, *, paused: bool = True) -> Policy:
    g = pool(
        "g",
        market=rng.choice(("prefer_spot", "on_demand_only", "spot_only")),
        max=rng.choice((1, 3, 6)),
        locations=rng.choice(PLACES),
        instance_types=rng.choice(TYPES),
        disk_gb=rng.choice((100, 500)),
        pause=rng.choice(PAUSES) if paused else "",
        max_price_per_hour=rng.choice((None, None, Decimal("1.5"))),
    )
    h = pool("h", H1, max=rng.choice((0, 2)))
    return replace(
        policy,
        pools=rng.choice(((g, h), (g, h), (g, h), (g,), (h,), ())),
        pause=rng.choice(("", "", "", "all", "scale-down")) if paused else "",
        limits=Limits(
            launches_per_minute=rng.choice((1, 2, 60)),
            gpus=rng.choice((None, None, 2)),
            price_per_hour=rng.choice((None, None, Decimal(3))),
        ),
    )


class Course(lives.Course):
    may_answer = ("NOT_FOUND",)  # groups come and go

    async def act(self, one: Served, client: Client) -> None:
        what = self.rng.random()
        if what < 0.2:
            one.controller.fleet.policy = changed(one.controller.fleet.policy, self.rng)
        elif what < 0.5:
            with contextlib.suppress(lives.GONE):
                await self.grow(one, client)
        else:
            await super().act(one, client)

    async def grow(self, one: Served, client: Client) -> None:
        groups = list((await client.NodeGroups()).nodeGroups)
        if not groups:
            return
        group, count = self.rng.choice(groups), self.rng.randint(1, 3)
        before = (await client.NodeGroupTargetSize(id=group.id)).targetSize
        answer, _ = await code_of(client.NodeGroupIncreaseSize(id=group.id, delta=count))
        self.granted += count if answer in lives.HEARD_OR_NOT or one.hands.dead else 0
        assert answer != "INTERNAL"
        if answer == "OK":
            assert before + count <= group.maxSize
            assert (await client.NodeGroupTargetSize(id=group.id)).targetSize == before + count

    async def agrees(self, client: Client) -> None:
        await super().agrees(client)
        for group in (await client.NodeGroups()).nodeGroups:
            assert (await client.NodeGroupTargetSize(id=group.id)).targetSize <= group.maxSize
            assert (await code_of(client.NodeGroupTemplateNodeInfo(id=group.id)))[0] == "OK"
            for instance in (await client.NodeGroupNodes(id=group.id)).instances:
                found = await client.NodeGroupForNode(node=client.node(instance.id))
                assert found.nodeGroup.id == group.id


@pytest.mark.parametrize("seed", range(int(os.environ.get("LIVES", "6"))))
async def test_whatever_is_set_meanwhile_targets_lists_and_machines_agree(seed: int) -> None:
    course = Course(seed)
    rng, place = course.rng, course.place
    first: Any = place.policy
    for _ in range(rng.randint(2, 4)):
        if rng.random() < 0.5:
            place.policy = changed(first, rng)
        async with served(place) as one:
            client = one.client(rng.choice(GENERATIONS), lives.PATIENCE)
            course.guard(one)
            if rng.random() < 0.4:
                one.hands.kill = (one.hands.count + rng.randint(10, 300), rng.choice(("before", "after")))
            for _ in range(rng.randint(6, 20)):
                await course.act(one, client)
                if not one.hands.dead:
                    with contextlib.suppress(asyncio.CancelledError, *lives.TROUBLE):
                        await one.run(rng.choice((5, 15, 60, 200)))
                if one.hands.dead:
                    break
                if one.controller.fleet.rebuilt:
                    await course.agrees(client)
                    await lives.collect(client)
    place.policy = changed(first, rng, paused=False)
    await course.ends()
