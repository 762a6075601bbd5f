"""The whole program, wired as it runs, whose lease ends while it was about to do something."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from controller.app.parts import Now
from controller.app.program import Program
from controller.cluster.view import WatchedView
from controller.config.load import load_dict
from controller.config.policy import to_policy
from controller.domain import names
from controller.domain.cloudhealth import CloudHealth
from controller.domain.cloudthings import Instance, Script
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch
from controller.domain.reason import Reason
from tests.cluster.scripted import Asked, Clock, Scripted, failure, listed
from tests.fleet.clockwork import Time
from tests.fleet.fakes import A1, Account, Hands, Town

INTENT = "a" * 10
NAME = names.hostname("home", "a100", INTENT)
SCRIPT = f"#!/bin/bash\n{names.script_mark('home', 'b' * 10)}\n"
LOST = 60.0  # seconds, longer than any lease


class Sky(Hands):
    def health(self) -> CloudHealth:
        return CloudHealth()


class Still(Now, frozen=True):
    """Nothing waits; time passes where a test says so."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Life:
    """A controller that holds the lease, with one machine that is about to be deleted."""

    def __init__(self) -> None:
        time = Time()
        self.account = Account(time)
        self.clock = Clock()
        self.cluster = Scripted()
        self.cluster.route = self._answer
        self.sky = Sky(self.account, Town(time, self.account))
        settings = {"pools": [{"name": "a100", "instance_types": [A1.name], "max": 4}], "namespace": "gpu"}
        loaded = load_dict(settings)
        self.program = Program(
            loaded,
            to_policy(loaded.settings, cluster_id="home"),
            self.cluster,  # type: ignore[arg-type]
            self.sky,
            self.sky,  # type: ignore[arg-type]
            Still(wall=self.clock.wall, monotonic=self.clock, rng=random.Random(1)),
            identity="us",
        )
        self.account.instances["i-1"] = Instance(
            id="i-1", hostname=NAME, description=f"gpuas home {INTENT}", status="running", instance_type=A1.name,
            location="FIN-01", market="on-demand", price=A1.price, created_at=1.0,
            tags=(("gpuas-cluster", "home"), ("gpuas-pool", "a100"), ("gpuas-intent", INTENT)),
        )  # fmt: skip
        self.machine = Machine(
            intent=INTENT, name=NAME, pool="a100", instance_type=A1.name, location="FIN-01", market="on-demand",
            phase=Phase.DELETING, reason=Reason.IDLE, instance_id="i-1", ordered_at=1.0,
        )  # fmt: skip
        self.program.ledger.put(self.machine)
        self.frozen_by = ""  # the request during which the program stands still

    def _answer(self, asked: Asked) -> Any:
        if asked.method == "GET" and asked.path.endswith("/pods"):
            self.freeze("list")
            return listed()
        if asked.method == "GET":
            return failure(404)
        return {**(asked.body or {}), "metadata": {"resourceVersion": "2"}}

    def freeze(self, moment: str) -> None:
        if moment == self.frozen_by:
            self.clock.pass_(LOST)

    async def lead(self) -> None:
        await self.program.lease.step()
        assert self.program.lease.held

    async def settle(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        await self.program.flights.stop(0)

    @property
    def changed(self) -> list[tuple[str, str]]:
        """What was changed in the cloud and on Nodes."""
        writes = ("create", "delete", "delete_volume", "create_script", "delete_script")
        asked = [(a.method, a.path) for a in self.cluster.asked if a.method != "GET" and "/nodes" in a.path]
        return self.sky.did(*writes) + asked


@pytest.mark.parametrize(("leads", "deletes"), [(True, [("delete", "i-1")]), (False, [])])
async def test_a_machine_is_deleted_by_whoever_holds_the_lease_and_by_nobody_else(
    leads: bool, deletes: list[tuple[str, str]]
) -> None:
    life = Life()
    if leads:
        await life.lead()
    life.program.flights.follow(life.program.policy, life.machine)
    await life.settle()
    assert life.changed[:1] == deletes


async def test_a_leader_frozen_before_it_follows_a_machine_leaves_it_to_the_next_one() -> None:
    life = Life()
    await life.lead()
    life.clock.pass_(LOST)
    life.program.flights.follow(life.program.policy, life.machine)
    await life.settle()
    assert life.changed == []


async def test_a_leader_frozen_between_its_last_look_and_the_delete_does_not_delete() -> None:
    life = Life()
    await life.lead()
    life.frozen_by = "list"
    life.program.flights.follow(life.program.policy, life.machine)
    await life.settle()
    assert [a.path for a in life.cluster.asked if a.path.endswith("/pods")]  # it got as far as that
    assert life.changed == []


async def test_the_sweep_of_a_leader_that_is_frozen_while_it_looks_removes_nothing() -> None:
    for freezes in (True, False):
        life = Life()
        await life.lead()
        life.account.scripts["s"] = Script(id="s", name=f"gpuas-home-{'b' * 10}", text=SCRIPT)
        life.frozen_by = "volumes" if freezes else ""
        life.sky.on_call["volumes"] = lambda _, life=life: life.freeze("volumes")  # type: ignore[misc]
        await life.program.sweeping.sweep()
        assert life.changed == ([] if freezes else [("delete_script", "s")])


async def test_an_order_is_not_sent_by_a_leader_frozen_while_its_script_is_made() -> None:
    for freezes in (True, False):
        life = Life()
        await life.lead()
        life.frozen_by = "prepare" if freezes else ""
        life.sky.on_call["prepare"] = lambda _, life=life: life.freeze("prepare")  # type: ignore[misc]
        launch = Launch(pool="a100", offer=life.account.offers[0], pods=(), reason="test")
        life.program.fleet.request(launch)
        await life.settle()
        assert ("create" in [verb for verb, _ in life.changed]) is not freezes


def taken_and_given_back(life: Life) -> None:
    """What our next attempts find: our version is no longer the latest, and nobody holds it any more."""
    really = life.cluster.route
    assert really is not None
    free = {"metadata": {"resourceVersion": "9"}, "spec": {"holderIdentity": "", "leaseTransitions": 2}}

    def answer(asked: Asked) -> Any:
        if "/leases" in asked.path and asked.method == "GET":
            return free
        if "/leases" in asked.path and asked.body["metadata"].get("resourceVersion") != "9":
            return failure(409)
        return really(asked)

    life.cluster.route = answer


async def test_a_leader_that_slept_while_another_led_reads_everything_again() -> None:
    """Or it would buy for pods that have their machine by now."""
    life = Life()
    await life.lead()
    life.program.fleet.rebuilt = True
    taken_and_given_back(life)
    life.clock.pass_(LOST)
    await life.program.lease.step()  # no pass of the loop came between
    assert life.program.lease.held
    assert not life.program.fleet.rebuilt
    await life.settle()


async def test_a_pass_during_which_another_led_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for slept in (True, False):
        life = Life()
        await life.lead()
        life.program.fleet.rebuilt = True
        taken_and_given_back(life)

        async def advance(life: Life = life, slept: bool = slept) -> None:
            if slept:
                life.clock.pass_(LOST)
                await life.program.lease.step()

        monkeypatch.setattr(WatchedView, "synced", True)
        life.program.fleet.advance = advance  # type: ignore[method-assign]
        assert await life.program.loop.look() is not slept
        assert life.program.lease.held
        await life.settle()


async def test_what_was_read_before_another_led_is_not_taken_for_read_afterwards() -> None:
    life = Life()
    await life.lead()
    taken_and_given_back(life)

    really = life.program.fleet.refresh_catalogue

    async def slow() -> None:
        life.clock.pass_(LOST)
        await life.program.lease.step()
        await really()

    life.program.fleet.refresh_catalogue = slow  # type: ignore[method-assign]
    await life.program.fleet.rebuild()
    assert life.program.lease.held
    assert not life.program.fleet.rebuilt
    life.program.fleet.refresh_catalogue = really  # type: ignore[method-assign]
    await life.program.fleet.rebuild()
    assert life.program.fleet.rebuilt
    await life.settle()
