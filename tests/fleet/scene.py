"""A controller's fleet put together on the fakes, driven as the main loop does, and restarted at will."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from controller.app import picture
from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Outcome, Refused
from controller.domain.plan import Explanation, Launch, Plan
from controller.domain.policy import Deadlines, Policy, Pool
from controller.domain.switching import Switch, Switched
from controller.fleet import sweep
from controller.fleet.account import Account as OurAccount
from controller.fleet.engine import Fleet
from controller.fleet.flights import Flights
from controller.fleet.launch import Launcher
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Listener, Several
from controller.fleet.refusals import Refusals
from controller.fleet.removal import HARD, SOFT, Removal
from controller.planning.planner import plan as make_plan
from tests.fleet.clockwork import Time
from tests.fleet.fakes import A1, Account, Hands, Town

POOL = Pool(name="a100", instance_types=("1A100.22V",), max=4, join="k3s", own_script=True)
DEADLINES = Deadlines(gpu_settle=5)


def policy(cluster_id: str = "home", **more: Any) -> Policy:
    values: dict[str, Any] = {"pools": (POOL,), "cooldown": 20.0, "deadlines": DEADLINES} | more
    return Policy(cluster_id=cluster_id, **values)


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def _add(self, what: str, machine: Machine, detail: object = "") -> None:
        self.told.append((what, machine.name, str(detail)))

    def of(self, what: str) -> list[str]:
        return [detail for kind, _, detail in self.told if kind == what]

    def launched(self, machine: Machine) -> None:
        self._add("launched", machine)

    def refused(self, machine: Machine, refusal: Refused) -> None:
        self._add("refused", machine, refusal.reason.value)

    def unknown(self, machine: Machine, message: str) -> None:
        self._add("unknown", machine)

    def phase_changed(self, before: Machine, after: Machine) -> None:
        if after.phase is not before.phase:
            self._add("phase", after, f"{before.phase.value}>{after.phase.value}")

    def removal_called_off(self, machine: Machine, why: Explanation) -> None:
        self._add("called_off", machine, why.code.value)

    def removed(self, machine: Machine, cost: Any) -> None:
        self._add("removed", machine, cost)

    def switched(self, switch: Switch, before: Switched, after: Switched) -> None:
        if after.power is not before.power:
            self.told.append(("power", switch.name, f"{before.power.value}>{after.power.value}"))

    def acknowledged(self, switch: Switch, record: Switched, on: bool) -> None:
        self.told.append(("acknowledged", switch.name, "on" if on else "off"))

    def not_acknowledged(self, switch: Switch, record: Switched, on: bool, outcome: Outcome) -> None:
        self.told.append(("not acknowledged", switch.name, type(outcome).__name__))


class Controller:
    """One process: it dies with its hands."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        hands: Hands | None = None,
        *,
        listeners: Sequence[Listener] = (),
        taints: tuple[Taint, ...] = (SOFT, HARD),
        driven: bool = False,
    ) -> None:
        self.world = world
        self.hands = hands or Hands(world.account, world.town)
        self.leads = True
        self.woken = 0
        self.life = 0  # calls of its life, without those of the final sweep
        self.heard = Heard()
        self.plan = Plan()
        self.attached: set[str] = set()
        hands, time = self.hands, world.time
        self.ledger = Ledger(hands, policy.cluster_id, "one way", ("join",))
        refusals = Refusals(policy.deadlines)
        account = OurAccount(self.ledger, hands.trust)
        self.flights = Flights(
            ledger=self.ledger,
            launcher=Launcher(hands, hands, lambda: self.leads, account),
            removal=Removal(
                view=hands, writer=hands, cloud=hands, clock=time.clock, sleep=time.sleep, taints=taints
            ),
            refusals=refusals,
            cloud=hands,
            writer=hands,
            listener=Several((self.heard, *listeners)),
            clock=time.clock,
            sleep=time.sleep,
            wake=self._wake,
            may_act=lambda: self.leads,
            account=account,
            driven=driven,
        )
        self.fleet = Fleet(
            policy=policy,
            ledger=self.ledger,
            flights=self.flights,
            refusals=refusals,
            account=account,
            cloud=hands,
            view=hands,
            clock=time.clock,
            rng=world.rng,
        )

    def _wake(self) -> None:
        self.woken += 1

    async def look(self, *, decide: bool = True) -> None:
        try:
            await self._look(decide)
        except asyncio.CancelledError:
            if not self.hands.dead:
                raise

    async def _look(self, decide: bool) -> None:
        if not self.leads:
            self.fleet.rebuilt = False
            return
        if self.fleet.rebuilt:
            await self.fleet.refresh_inventory()
        else:
            await self.fleet.rebuild()
        await self.fleet.advance()
        if decide:
            snapshot = picture.take(self.fleet.policy, self.hands, self.fleet, self.world.time.now)
            self.plan = self.fleet.possible(make_plan(snapshot))
            await self.fleet.apply(self.plan.actions, self.plan.awaited)

    def buy(self, *pods: str) -> Machine:
        offer = self.world.account.offers[0]
        return self.fleet.request(Launch(pool="a100", offer=offer, pods=pods, reason="test"))

    async def sweep(self) -> sweep.Orphans:
        cluster_id = self.fleet.policy.cluster_id
        found = await sweep.find(
            self.hands,
            cluster_id,
            self.ledger.machines,
            self.fleet.inventory,
            self.flights.launching,
            self.fleet.runs,
        )
        found, self.attached = sweep.agreed(found, self.attached)
        await sweep.remove(self.hands, found)
        return found

    async def lose_lease(self) -> None:
        self.leads = False
        await self.flights.stop(0)

    async def die(self) -> None:
        self.hands.dead = True
        await self.flights.stop(0)

    @property
    def only(self) -> Machine:
        (machine,) = self.ledger.machines.values()
        return machine


class World:
    def __init__(self, **of_policy: Any) -> None:
        self.time = Time()
        self.account = Account(self.time)
        self.town = Town(self.time, self.account)
        self.policy = policy(**of_policy)
        self.rng = random.Random(7)
        self.most_alive = 0

    def start(self, policy: Policy | None = None) -> Controller:
        return Controller(self, policy or self.policy)

    async def run(self, controller: Controller, seconds: float, step: float = 5.0) -> None:
        """Time passes; the controller looks at every step, until it dies."""
        end = self.time.now + seconds
        while self.time.now < end and not controller.hands.dead:
            self.happen()
            await controller.look()
            await self.time.advance(step)

    def happen(self) -> None:
        self.account.step()
        self.town.step()
        self.most_alive = max(self.most_alive, len([i for i in self.account.alive() if i.tags]))

    async def until(self, controller: Controller, phase: Phase, within: float = 600) -> Machine:
        end = self.time.now + within
        while self.time.now < end:
            self.happen()
            await controller.look()
            found = [m for m in controller.ledger.machines.values() if m.phase is phase]
            if found:
                return found[0]
            await self.time.advance(5.0)
        raise AssertionError(f"no machine became {phase.value}: {list(controller.ledger.machines.values())}")

    def stored(self) -> str:
        return self.town.maps[names.LEDGER_CONFIGMAP][0]["ledger.json"]


__all__ = ["A1", "Controller", "World", "policy"]
