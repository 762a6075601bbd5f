"""The one fleet engine: it owns the machines and follows their lives; drivers only ask it.

Load → process → apply: what is seen is judged by pure functions in one go, the changed records are
stored, and only then slow calls go out, each machine in a task of its own (`flights`). Nothing slow
runs between the picture and the decision, and no machine ever has two tasks.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from msgspec.structs import replace

from controller.cloud.protocol import Cloud
from controller.cluster.protocol import View
from controller.domain.cloudthings import Catalogue, Instance, Inventory
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Action, KeepAfterAll, Launch, MarkIdle, Refusal, Retire
from controller.domain.policy import Policy, Pool
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.fleet.flights import Flights
from controller.fleet.identity import node_for
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.life import Seen, step
from controller.fleet.marks import adopt, intend, intent_of, new_intent
from controller.fleet.refusals import Refusals
from controller.planning.predict import gpu_resources

log = logging.getLogger("gpu_autoscaler.fleet")

# Failures that speak against the offer, not only against the one machine.
QUARANTINE = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.LAUNCH_FAILED,
        Reason.LAUNCH_DEADLINE,
        Reason.JOIN_DEADLINE,
        Reason.GPU_DEADLINE,
    }
)


class Fleet:
    def __init__(
        self,
        *,
        policy: Policy,
        ledger: Ledger,
        flights: Flights,
        refusals: Refusals,
        cloud: Cloud,
        view: View,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self.policy = policy
        self.ledger = ledger
        self.flights = flights
        self.refusals = refusals
        self._cloud = cloud
        self._view = view
        self._clock = clock
        self._rng = rng
        self.catalogue = Catalogue(at=0.0)
        self.inventory = Inventory(at=0.0, complete=False)
        self._instances: dict[str, Instance] = {}  # by intent
        self._judged = 0.0  # the list that was judged last
        self.rebuilt = False
        self.reports: dict[str, str] = {}  # machine or instance -> what a person should look at

    # -- load -----------------------------------------------------------------------------------

    async def rebuild(self) -> None:
        """Ledger first, then the cloud's own list; nothing is decided before both are there."""
        await self.ledger.load()
        await self.refresh_catalogue()
        await self.refresh_inventory()
        self.rebuilt = True

    async def refresh_catalogue(self) -> None:
        self.catalogue = await self._cloud.catalogue()

    async def refresh_inventory(self) -> None:
        """Keep the latest list. One that is known to be cut short only ever adds knowledge."""
        inventory = await self._cloud.inventory()
        mine: dict[str, Instance] = {}
        for instance in sorted(inventory.instances, key=lambda i: (i.created_at, i.id)):
            intent = intent_of(self.policy.cluster_id, instance)
            if not intent or instance.state == "gone":
                continue
            known = self.ledger.machines.get(intent)
            first = mine.get(intent)
            if first is not None:
                preferred = known is not None and known.instance_id == instance.id
                extra = first if preferred else instance
                mine[intent] = instance if preferred else first
                self.reports[extra.id] = (
                    f"instance {extra.id} is a second machine for {instance.hostname} (surplus)"
                )
                continue
            mine[intent] = instance
        if inventory.complete:
            self._instances = mine
            self.inventory = inventory
        else:
            self._instances |= mine

    # -- process --------------------------------------------------------------------------------

    def machines(self) -> tuple[Machine, ...]:
        return tuple(sorted(self.ledger.machines.values(), key=lambda m: m.name))

    @property
    def busy(self) -> bool:
        """Whether anything is under way that the inventory should be watched closely for."""
        return any(m.phase not in (Phase.READY, Phase.TOMBSTONE) for m in self.ledger.machines.values())

    def active_refusals(self) -> tuple[Refusal, ...]:
        return self.refusals.active(self.catalogue.offers, self._clock())

    async def advance(self) -> None:
        """Follow every machine's life by what is seen now, store it, then act on the new phases."""
        now = self._clock()
        self._adopt_unknown(now)
        nodes = self._view.nodes()
        fresh = self.inventory.complete and self.inventory.at > self._judged
        self._judged = max(self._judged, self.inventory.at if fresh else 0.0)
        for machine in self.machines():
            seen = self._see(machine, nodes, fresh)
            after = step(machine, seen, self.policy.deadlines, now)
            if after != machine:
                self._noticed(machine, after, seen, now)
        self._forget_old(now)
        await self.ledger.flush()
        for machine in self.machines():
            self.flights.follow(self.policy, machine)

    def _see(self, machine: Machine, nodes: Sequence[Node], fresh: bool) -> Seen:
        node, doubt = node_for(machine, nodes)
        if doubt:
            self.reports[machine.name] = doubt
        else:
            self.reports.pop(machine.name, None)
        return Seen(
            instance=self._instances.get(machine.intent),
            listed_at=self.inventory.at if self.inventory.complete else 0.0,
            fresh_list=fresh,
            in_flight=self.flights.launching(machine.intent),
            node=node,
            pods=self._view.pods_on(machine.name) if node else (),
            promised=self.promised(machine),
            declared=self.policy.gpu_resources,
        )

    def promised(self, machine: Machine) -> Resources:
        pool = self.policy.pool(machine.pool) or Pool(name=machine.pool, max=0)
        return gpu_resources(pool, machine.gpus)

    def _noticed(self, before: Machine, after: Machine, seen: Seen, now: float) -> None:
        self.ledger.put(after)
        if after.phase is not before.phase:
            log.info(
                "machine changed phase",
                extra={
                    "machine": after.name,
                    "from": before.phase.value,
                    "to": after.phase.value,
                    "why": after.note,
                },
            )
        if after.phase is Phase.READY and before.phase is not Phase.READY and seen.node is not None:
            self.ledger.learn(after.instance_type, seen.node.allocatable)
            self.refusals.succeeded(offer_of(after))
        if after.reason is not before.reason and after.reason in QUARANTINE:
            self.refusals.add(offer_of(after), after.reason, after.note, now)
        self.flights.tell(before, after)

    def _adopt_unknown(self, now: float) -> None:
        """Machines that are ours by their marks and that the ledger does not know, or had given up."""
        for intent, instance in self._instances.items():
            known = self.ledger.machines.get(intent)
            if instance.state in ("gone", "leaving"):
                continue
            if known is not None and known.phase is not Phase.TOMBSTONE:
                continue
            if self.flights.closed_lately(intent):
                continue  # its deletion was proven by id; the list lags behind
            kind = self.catalogue.type_named(instance.instance_type)
            machine = adopt(self.policy.cluster_id, instance, kind, intent, now)
            if known is not None:
                note = "it appeared after its order had been proven absent"
                machine = replace(machine, surplus=True, reason=Reason.SURPLUS, note=note)
            self.ledger.put(machine)
            log.warning(
                "machine adopted by its marks", extra={"machine": machine.name, "surplus": machine.surplus}
            )

    def _forget_old(self, now: float) -> None:
        old = [
            m.intent
            for m in self.ledger.machines.values()
            if m.phase is Phase.TOMBSTONE and now - m.gone_at > self.policy.deadlines.tombstone
        ]
        self.ledger.drop(old)

    # -- apply ----------------------------------------------------------------------------------

    async def apply(self, actions: Iterable[Action]) -> None:
        """Carry out what was decided. Returns when it is recorded and under way, not when it is done."""
        for action in actions:
            match action:
                case Launch():
                    self.request(action)
                case Retire():
                    self.retire(action.machine, action.reason, action.message)
                case MarkIdle():
                    self.flights.mark_idle(action.machine, action.since)
                case KeepAfterAll():
                    self.flights.call_off(action.machine)

    def request(self, launch: Launch) -> Machine:
        """One more machine: the record exists from now on, so no later plan buys for the same pods."""
        now = self._clock()
        machine = intend(self.policy, launch, new_intent(self._rng, self.ledger.machines), now)
        self.ledger.put(machine)
        self.ledger.launched(now)
        self.flights.launch(self.policy, machine, launch.offer.type)
        return machine

    def retire(self, name: str, reason: Reason, message: str) -> None:
        machine = next((m for m in self.ledger.machines.values() if m.name == name), None)
        if machine is not None and machine.phase is Phase.READY:
            self.flights.retire(self.policy, machine, reason, message)

    def cost_per_hour(self) -> Decimal:
        return sum(
            (
                m.price
                for m in self.ledger.machines.values()
                if m.phase is not Phase.TOMBSTONE and not m.gone_at
            ),
            Decimal(0),
        )

    async def stop(self, patience: float) -> None:
        """Let orders that are on the wire end, record them; everything else is resumed after the next start."""
        await self.flights.stop(patience)
        try:
            async with asyncio.timeout(patience):
                await self.ledger.flush()
        except (LedgerError, TimeoutError) as error:
            log.warning("the ledger was not written at the end", extra={"error": str(error)})


def offer_of(machine: Machine) -> str:
    return f"{machine.instance_type}/{machine.location}/{machine.market}"
