"""The one fleet engine: it owns the machines and follows their lives; drivers only ask it.

Load → process → apply: what is seen is judged by pure functions in one go, the changed records are
stored, and only then slow calls go out, each machine in a task of its own (`flights`). Nothing slow
runs between the picture and the decision, and no machine ever has two tasks.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from controller.cloud.protocol import Cloud, CloudError
from controller.cluster.protocol import View
from controller.domain.cloudthings import Catalogue, Inventory
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Action, KeepAfterAll, Launch, MarkIdle, Plan, Refusal, Retire
from controller.domain.policy import Policy, halts
from controller.domain.reason import Reason
from controller.fleet import looking
from controller.fleet.account import Account
from controller.fleet.blindness import Blindness
from controller.fleet.dressing import over
from controller.fleet.due import due
from controller.fleet.flights import Flights
from controller.fleet.ledger import Ledger, LedgerError
from controller.fleet.left_nodes import LeftNodes
from controller.fleet.lessons import Lessons
from controller.fleet.life import Seen, is_lost, step
from controller.fleet.listing import Listing
from controller.fleet.marks import adopt, intend, new_intent, price_of, second
from controller.fleet.refusals import Refusals
from controller.fleet.repair import UNHEALTHY, Brake, brake
from controller.fleet.sightings import Sightings
from controller.fleet.switching.board import Switchboard
from controller.fleet.usable import lacking
from controller.planning.choice import clock
from controller.planning.own import is_own

log = logging.getLogger("gpu_autoscaler.fleet")

_HOLD = 60.0  # what holds orders up lasts at least until the next look
REPAIR = "repair"  # the report of the brake
PROJECT = "project"  # the report of an account that may be another one


class Fleet:
    def __init__(
        self,
        *,
        policy: Policy,
        ledger: Ledger,
        flights: Flights,
        refusals: Refusals,
        account: Account,
        cloud: Cloud,
        view: View,
        clock: Callable[[], float],
        rng: random.Random,
        switchboard: Switchboard | None = None,
    ) -> None:
        self._policy = policy
        self.switchboard = switchboard
        self.ledger = ledger
        self.flights = flights
        flights.heed(policy)
        self.refusals = refusals
        self.lessons = Lessons(policy, ledger=ledger, refusals=refusals, flights=flights, view=view)
        self._cloud = cloud
        self._view = view
        self._clock = clock
        self._rng = rng
        self.catalogue = Catalogue(at=0.0)
        self._sightings = Sightings(policy.cluster_id)
        self._listing = Listing(cloud, self._sightings)
        self._left_nodes = LeftNodes(policy.cluster_id)
        self._account = account
        self._blindness = Blindness()
        self._brake: Brake | None = None
        self.rebuilt = False
        self._forgot = 0  # how often
        self.reports: dict[str, str] = {}  # machine or instance -> what a person should look at

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = self.lessons.policy = policy
        self.flights.heed(policy)
        if self.switchboard is not None:
            self.switchboard.policy = policy

    # -- load -----------------------------------------------------------------------------------

    async def rebuild(self) -> None:
        """Ledger first, then the cloud's own list; nothing is decided before both are there, whole."""
        forgot = self._forgot
        await self.ledger.load()
        self._account.known()
        self.flights.idle_marks.forget_all()
        await self.refresh_catalogue()
        inventory, number = await self._listing.ask()
        if not inventory.complete:
            raise CloudError(Reason.UNAVAILABLE, "the cloud's list of machines is not complete")
        await self._listing.take(inventory, number, self.machines())
        now = self._clock()
        for machine in self._blindness.led_again(self.machines(), self.policy.deadlines, now):
            self.ledger.change(machine.intent, spared_at=now)
        self.rebuilt = forgot == self._forgot

    def forget(self) -> None:
        """Somebody else may lead: what was read so far is not believed any more."""
        self.rebuilt = False
        self._forgot += 1

    async def refresh_catalogue(self) -> bool:
        """Whether it may lead to other decisions: mostly the same is sold as before."""
        before, room = self.catalogue, self.scripts_free()
        hopeless = (self.ledger.failures.given_up, self.ledger.failures.in_vain)
        hopeless = ({pod: dict(found) for pod, found in hopeless[0].items()}, dict(hopeless[1]))
        found = await self._cloud.catalogue()
        if found.offers == self.catalogue.offers:  # the same objects: what was made of them serves again
            found = replace(found, offers=self.catalogue.offers)
        self.catalogue = found
        await self.ledger.heed_tokens()
        await self._count_scripts()
        return (
            replace(found, at=before.at) != before
            or self.scripts_free() != room
            or (self.ledger.failures.given_up, self.ledger.failures.in_vain) != hopeless
        )

    async def _count_scripts(self) -> None:
        if not any(pool.own_script for pool in self.policy.pools):
            return
        try:
            scripts = await self._cloud.scripts("")
        except CloudError as error:
            log.info("startup scripts are not counted", extra={"error": error.message})
        else:
            self.flights.scripts.listed(self.policy, scripts, self.machines())

    async def refresh_inventory(self) -> bool:
        """Whether it is worth a look at once: it tells what was not known, or is one more list without a machine."""
        logins, before = self._listing.logins, self._sightings.told
        inventory, number = await self._listing.ask()
        await self._listing.take(inventory, number, self.machines())
        if self._listing.heed_logins(logins):
            self.refusals.logged_in_anew()
            return True
        return self._sightings.told != before or any(
            machine.phase is not Phase.TOMBSTONE and self._sightings.of(machine) is None
            for machine in self.ledger.machines.values()
        )

    @property
    def wants_a_list(self) -> bool:
        return self._listing.wanted

    @property
    def inventory(self) -> Inventory:
        """The last complete list."""
        return self._sightings.inventory

    def everything(self) -> tuple[Machine, ...]:
        """What was bought, and what is switched and not off."""
        switched = self.switchboard.machines() if self.switchboard is not None else ()
        return (*self.machines(), *switched)

    # -- process --------------------------------------------------------------------------------

    def machines(self) -> tuple[Machine, ...]:
        return tuple(sorted(self.ledger.machines.values(), key=lambda m: m.name))

    def second_machines(self) -> tuple[Machine, ...]:
        """What lists show beside the machine of an order: each costs until it is gone, and is in no record."""
        return tuple(
            second(self.policy, self.catalogue, machine, extra)
            for machine, extra in self._sightings.seconds(self.ledger.machines)
        )

    def due(self) -> float | None:
        """The next moment at which time alone makes a look worth while."""
        now, limits = self._clock(), self.policy.deadlines
        moments = [due(machine, limits, now) for machine in self.ledger.machines.values()]
        return min((moment for moment in (*moments, self.flights.due) if moment is not None), default=None)

    @property
    def busy(self) -> bool:
        """Whether anything is under way that the inventory should be watched closely for."""
        return any(m.phase not in (Phase.READY, Phase.TOMBSTONE) for m in self.ledger.machines.values())

    def scripts_free(self) -> int | None:
        """How many more startup scripts the account takes; None: nothing is known against it."""
        return self.flights.scripts.free(self.policy, self.ledger.machines.values())

    def active_refusals(self) -> tuple[Refusal, ...]:
        """Offers to be left alone: refused ones, those of the sick types while the repair brake holds, and all of
        them while the account is in doubt."""
        now = self._clock()
        found = {r.offer: r for r in self.refusals.active(self.catalogue.offers, now)}
        until = now + _HOLD
        brake, doubt = self._brake, self._account.doubt
        for offer in self.catalogue.offers if doubt or brake is not None else ():
            if doubt:
                found[offer.key] = Refusal(
                    offer=offer.key, reason=Reason.VANISHED, until=until, message=doubt
                )
            elif brake is not None and offer.type.name in brake.types:
                found[offer.key] = Refusal(
                    offer=offer.key, reason=brake.reason, until=until, message=brake.message
                )
        return (*found.values(), *(self.switchboard.refusals() if self.switchboard is not None else ()))

    async def advance(self) -> None:
        """Follow every machine's life by what is seen now, store it, then act on the new phases."""
        now = self._clock()
        self.reports = self._sightings.reports(self.ledger.machines.values()) | self.flights.unproven
        fresh = self._listing.is_fresh()
        for instance in self._sightings.half_taken_over(self.ledger.machines):
            if fresh:
                self.ledger.look_again()
            self.reports[instance.id] = (
                f"instance {instance.id} ({instance.hostname}) carries our tags and no record speaks of it: it is left "
                "alone unless it is taken over (adopt --apply)"
            )
        self.ledger.launched_by(now)
        if self.switchboard is not None:
            self.switchboard.judge()
            self.reports |= self.switchboard.reports()
        judged = self._see_all(fresh)
        before = self.ledger.account
        self._account.judge(self.inventory, judged, now)
        if self.ledger.account != before:
            self.refusals.logged_in_anew()  # also what was refused since that list
        if self._account.doubt:
            self.reports[PROJECT] = self._account.doubt
        if self._account.strange:
            await self._store()
            self._follow_switched()
            # Nothing is concluded about machines that nobody here can see, and nothing is done to them.
            for machine in self.machines():
                if machine.phase is Phase.DRAINING:
                    self.flights.follow(self.policy, machine)  # it is called off
            return
        if self._adopt_unknown(now):
            judged = self._see_all(fresh)
        steps = [(m, step(m, seen, self.policy.deadlines, now), seen) for m, seen in judged]
        self._pull_brake([after for _, after, _ in steps])
        for machine, after, seen in steps:
            if machine.phase is Phase.READY and after.reason in UNHEALTHY and self._brake_holds(machine):
                continue
            if after != machine:
                self._noticed(machine, after, seen, now)
        if fresh and not self._account.doubt:
            self._enter_left_behind(now)
        self._forget_old(now)
        self.ledger.failures.forget_disappointments({pod.identity for pod in self._view.waiting_pods()})
        self.ledger.failures.date_tries(now)
        self.lessons.heed_those_that_hold(now)
        await self._store()
        self._follow_switched()
        self.flights.shared({m.name for m, _ in self._sightings.seconds(self.ledger.machines)})
        for machine in self.machines():
            self.flights.follow(self.policy, machine)
        switched = (m.name for m in self.switchboard.machines()) if self.switchboard is not None else ()
        self.flights.idle_marks.follow({*(m.name for m in self.ledger.machines.values()), *switched})
        lost = self._lost_gpus(steps, now)
        for _, after, seen in steps:
            if seen.node is not None:
                self.flights.node_marks.dress(self.policy, after, seen.node)
                self.flights.node_marks.close_off(
                    after,
                    seen.node,
                    shut=self._takes_no_more(after) or after.intent in lost,
                    may_go=self.flights.may_yet_go(self.policy, after.intent),
                )
                self.flights.lift(after, over(after, seen.node))
        for machine, extra in self._sightings.seconds(self.ledger.machines):
            self.reports[extra.id] = f"instance {extra.id} is a second machine for {machine.name} (surplus)"
            price = price_of(self.policy, self.catalogue, extra)
            self.flights.delete_extra(self.policy, machine, extra, price)

    def _follow_switched(self) -> None:
        if self.switchboard is not None:
            self.switchboard.follow()

    async def _store(self) -> None:
        try:
            await self.ledger.flush()
        except LedgerError:
            if self.switchboard is not None:
                self.switchboard.close()
            raise
        if self.ledger.lost:
            self.forget()
            raise LedgerError("somebody else took machines out of the ledger; everything is read again")

    def _see_all(self, fresh: bool) -> list[tuple[Machine, Seen]]:
        nodes = looking.nodes_of(self.ledger.machines.values(), self._view.nodes())
        now = self._clock()
        blind = self._blindness.lasts(bool(self._view.old()), self.policy.deadlines.ready, now)
        found = []
        for machine in self.machines():
            seen, doubt = looking.see(
                self.policy,
                machine,
                sightings=self._sightings,
                nodes=nodes[machine.intent],
                view=self._view,
                fresh=fresh,
                in_flight=self.flights.launching(machine.intent),
                blind=blind,
                now=self._clock(),
            )
            if doubt:
                self.reports[machine.name] = doubt
            found.append((machine, seen))
        return found

    def _brake_holds(self, machine: Machine) -> bool:
        """It works or it does not: it stays until it is known what is wrong with so many, unless all are to go."""
        pool = self.policy.pool(machine.pool)
        paused = halts("scale-down", self.policy.pause, pool.pause if pool else "")
        return self._brake is not None and (paused or not self.policy.retire)

    def _pull_brake(self, machines: Sequence[Machine]) -> None:
        before, self._brake = self._brake, brake(machines)
        if self._brake is not None:
            self.reports[REPAIR] = self._brake.message
            if before is None:
                log.warning("repair brake", extra={"why": self._brake.message})

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
        self.lessons.learn(before, after, seen.node, now)
        self.flights.tell(before, after)

    def _lost_gpus(self, steps: Sequence[tuple[Machine, Machine, Seen]], now: float) -> set[str]:
        """Intents of busy machines that offer too little for so long that it is believed: nothing new is to run there.

        Where many do at once, the fault is elsewhere.
        """
        lost = {}
        for _, machine, seen in steps:
            if is_lost(machine, self.policy.deadlines, now) and seen.node is not None:
                lost[machine.intent] = replace(machine, reason=Reason.GPU_LOST)
                what = ", ".join(lacking(seen.promised, seen.node))
                self.reports[machine.name] = (
                    f"the node of {machine.name} offers {what} since {clock(machine.gpus_lost_at)}; it is replaced "
                    "once nothing uses its GPUs"
                )
        if brake([lost.get(machine.intent, machine) for _, machine, _ in steps]) is not None:
            return set()
        return {intent for intent, machine in lost.items() if not self.lessons.waiting_for(machine)}

    def _takes_no_more(self, machine: Machine) -> bool:
        """Its pool was taken out of the settings. What it was bought for and still waits runs there all the same."""
        gone = self.policy.pool(machine.pool) is None and self.policy.removed_pools == "drain"
        return gone and not self.lessons.waiting_for(machine)

    def _adopt_unknown(self, now: float) -> bool:
        """Machines that are ours by their marks and that the ledger does not know, or had given up."""
        found = self._sightings.unknown(self.ledger.machines)
        for intent, instance in found:
            known = self.ledger.machines.get(intent)
            if self.flights.closed_lately(instance.id):
                continue  # its deletion was proven by id; the list lags behind
            machine = adopt(self.policy, self.catalogue, instance, intent, now)
            if known is not None:
                machine = replace(machine, name=known.name, pool=known.pool, script_id=known.script_id)
            served = self.flights.served_lately(intent)
            if known is not None or served:
                note = (
                    "a second machine of an order"
                    if served
                    else "it appeared after its order had been proven absent"
                )
                machine = replace(machine, surplus=True, reason=Reason.SURPLUS, note=note)
            self.ledger.put(machine)
            log.warning(
                "machine adopted by its marks", extra={"machine": machine.name, "surplus": machine.surplus}
            )
        return bool(found)

    def _enter_left_behind(self, now: float) -> None:
        """Nodes of machines that are gone and that the ledger does not know any more."""
        for machine in self._left_nodes.vanished(
            self._view.nodes(), self.ledger.machines, self.inventory, self.policy.deadlines, now
        ):
            if not self.flights.served_just_now(machine.intent):  # else the watch lags behind its end
                self.ledger.put(machine)
                log.warning(
                    "a Node was left behind by a machine that is gone", extra={"machine": machine.name}
                )

    def _forget_old(self, now: float) -> None:
        old = [
            m.intent
            for m in self.ledger.machines.values()
            if m.phase is Phase.TOMBSTONE
            and now - m.gone_at > self.policy.deadlines.tombstone
            and not self.runs(m.name)  # nobody lists it, and it is told of as long as it works
        ]
        self.ledger.drop(old)

    def possible(self, plan: Plan) -> Plan:
        """What of it would be carried out now."""
        own = {switch.name for switch in self.switchboard.switches} if self.switchboard is not None else ()
        return self._account.without_removals(plan, own)

    def runs(self, name: str) -> bool:
        """Whether the Node of this name is Ready."""
        node = self._view.node(name)
        return node is not None and node.ready

    def node_as_marked(self, node: Node) -> Node:
        """With what was lately decided about its idleness, whether or not the watch shows it already."""
        return self.flights.idle_marks.shown(node, self._view)

    # -- apply ----------------------------------------------------------------------------------

    async def apply(
        self, actions: Iterable[Action], awaited: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Carry out what was decided. Returns when it is recorded and under way, not when it is done.

        `awaited`: the pods that count on own machines on their way.
        """
        wished: set[str] = set()
        for action in actions:
            if self.switchboard is not None and self._is_switched(action):
                if isinstance(action, Launch):
                    wished.add(action.pool)
                self._turn(self.switchboard, action)
                continue
            match action:
                case Launch():
                    self.request(action)
                case Retire() if not self._account.strange:
                    self.retire(action.machine, action.reason, action.message, action.moving, action.excused)
                case MarkIdle():
                    self.flights.idle_marks.mark(action.machine, action.since, action.avoid)
                case KeepAfterAll():
                    self.flights.call_off(action.machine)
        if self.switchboard is not None:
            self.switchboard.withdraw_all_but(wished)
            self.switchboard.count_on(awaited or {})

    def _is_switched(self, action: Action) -> bool:
        name = action.pool if isinstance(action, Launch) else action.machine
        own = not isinstance(action, Launch) or is_own(action.offer)
        return own and self.switchboard is not None and self.switchboard.knows(name)

    def _turn(self, switchboard: Switchboard, action: Action) -> None:
        match action:
            case Launch():
                switchboard.request(action.pool, action.pods)
            case Retire():
                switchboard.retire(action.machine, action.reason, action.message, action.excused)
            case MarkIdle():
                self.flights.idle_marks.mark(action.machine, action.since, action.avoid)
            case KeepAfterAll():
                switchboard.turning.call_off(action.machine, "a waiting pod fits it")

    def request(self, launch: Launch) -> Machine:
        """One more machine: the record exists from now on, so no later plan buys for the same pods."""
        machine = self.record(launch)
        self.ledger.launched(self._clock())
        self.flights.launch(self.policy, machine, launch.offer.type)
        return machine

    def record(self, launch: Launch) -> Machine:
        """The intent alone; nothing is ordered yet."""
        machine = intend(self.policy, launch, new_intent(self._rng, self.ledger.machines), self._clock())
        self.ledger.put(machine)
        return machine

    def retire(
        self,
        name: str,
        reason: Reason,
        message: str,
        moving: tuple[str, ...] = (),
        excused: tuple[str, ...] = (),
    ) -> None:
        machine = next((m for m in self.ledger.machines.values() if m.name == name), None)
        if machine is not None and machine.phase is Phase.READY:
            self.lessons.goes(machine, self._clock(), excused)
            self.flights.retire(self.policy, machine, reason, message, moving)

    async def stop(self, patience: float) -> None:
        """Let orders that are on the wire end, record them; everything else is resumed after the next start."""
        if self.switchboard is not None:
            await self.switchboard.turning.stop(patience)
        await self.flights.stop(patience)
        try:
            async with asyncio.timeout(patience):
                await self.ledger.flush()
        except (LedgerError, TimeoutError) as error:
            log.warning("the ledger was not written at the end", extra={"error": str(error)})
