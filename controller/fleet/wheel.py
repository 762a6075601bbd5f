"""The verbs of a driver that counts machines itself: so many more of this kind, fewer, this one away.

Limits, refusals and pauses hold for it as for the planner. An increase is allowed whole or not at all, and it
returns when the intents are stored; the orders follow, as fast as the rate of launches and the room for
scripts allow. Check and record are one step without a wait, so two increases never share one free place. What had to
wait is checked again when its turn comes: a pause, a limit or a refusal since then holds for it, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from controller.cluster.protocol import View
from controller.domain.cloudthings import InstanceType
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.reason import Reason
from controller.fleet.engine import Fleet
from controller.fleet.identity import node_for
from controller.fleet.ledger import LedgerError
from controller.fleet.looking import nodes_of
from controller.fleet.switching.lever import Lever
from controller.planning.choice import Candidate, candidates
from controller.planning.limits import RATE_WINDOW, Tally, holds_script

_LOOK_AGAIN = 1.0  # seconds, until the next look whether an order may go out
_NO_BRAKE = 10**9
# What is over in a moment is waited for: it says nothing of the offer.
_PASSING = (Reason.RATE_LIMITED, Reason.UNAVAILABLE, Reason.JOIN_UNPREPARED, Reason.UNKNOWN_OUTCOME)
PLACE = tuple[str, str, str]  # pool, instance type, location


class Wheel:
    def __init__(
        self,
        fleet: Fleet,
        *,
        view: View,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self._view = view
        self._clock = clock
        self._sleep = sleep
        self._queue: list[str] = []  # intents that wait for their turn, in order
        self._lever: Lever | None = None
        fleet.flights.on_refusal(self._elsewhere)

    # -- questions ------------------------------------------------------------------------------

    def nodes(self) -> dict[str, Node | None]:
        """By intent: the Node that provably is the machine."""
        machines = self._fleet.machines()
        found = nodes_of(machines, self._view.nodes())
        return {m.intent: node_for(m, found[m.intent])[0] for m in machines}

    def seen_nodes(self) -> tuple[Node, ...]:
        """Every Node as it is watched; the very same tuple until something changes."""
        return self._view.nodes()

    def node(self, name: str) -> Node | None:
        return self._view.node(name)

    def objection(self, place: PLACE, count: int = 1) -> Explanation | None:
        """Why so many more are not bought now."""
        chosen = self._choose(place, count)
        return chosen if isinstance(chosen, Explanation) else None

    def waits(self, machine: Machine) -> bool:
        """Whether its order did not go out yet."""
        return machine.intent in self._queue

    # -- verbs ----------------------------------------------------------------------------------

    @property
    def lever(self) -> Lever | None:
        """The same for machines that are switched; None where there are none."""
        board = self._fleet.switchboard
        if board is None:
            return None
        if self._lever is None or self._lever.board is not board:
            self._lever = Lever(board)
        return self._lever

    async def more(self, place: PLACE, count: int, reason: str) -> tuple[Machine, ...] | Explanation:
        """So many machines, stored before this returns and ordered afterwards; or why none is."""
        chosen = self._choose(place, count)
        if isinstance(chosen, Explanation):
            return chosen
        fleet = self._fleet
        machines = [
            fleet.record(Launch(pool=c.pool.name, offer=c.offer, pods=(), reason=reason)) for c in chosen
        ]
        intents = [machine.intent for machine in machines]
        try:
            await fleet.ledger.flush()
        except LedgerError as error:
            fleet.ledger.drop(intents)
            return Explanation(Reason.UNAVAILABLE, str(error))
        except BaseException:
            fleet.ledger.drop(intents)  # whoever asked does not wait any more, and counts it as refused
            raise
        for machine, candidate in zip(machines, chosen, strict=True):
            self._queue.append(machine.intent)
            fleet.flights.launch(fleet.policy, machine, candidate.offer.type, partial(self._turn, machine))
        return tuple(machines)

    def withdraw(self, machines: Iterable[Machine]) -> list[Machine]:
        """Those of them whose order did not go out; they are forgotten."""
        gone = [m for m in machines if m.phase is Phase.INTENDED and self._fleet.flights.withdraw(m.intent)]
        self._fleet.ledger.drop([m.intent for m in gone])
        return gone

    async def away(self, machine: Machine) -> Explanation | None:
        """Delete it: None once the cloud has accepted that, else why it stays."""
        return await self._fleet.flights.dismiss(self._fleet.policy, machine.intent)

    async def given_up(self, machine: Machine) -> None:
        """Nobody waits any longer to hear what became of that."""
        await self._fleet.flights.given_up(machine.intent)

    # -- what is bought -------------------------------------------------------------------------

    def _picture(self) -> Snapshot:
        fleet, now = self._fleet, self._clock()
        limits = replace(fleet.policy.limits, launches_per_minute=_NO_BRAKE, scripts=_NO_BRAKE)
        return Snapshot(
            now=now,
            policy=replace(fleet.policy, limits=limits),  # what only slows down is waited for
            nodes=self._view.nodes() if limits.cluster_wide else (),
            machines=fleet.everything(),
            surplus=fleet.second_machines(),
            offers=fleet.catalogue.offers,
            refusals=fleet.active_refusals(),
            spent_this_month=fleet.ledger.spent_in_month(now),
        )

    def _options(self, picture: Snapshot, place: PLACE) -> list[Candidate]:
        pool, kind, location = place
        found = [
            c
            for c in candidates(picture)
            if c.pool.name == pool and c.offer.type.name == kind and c.offer.location == location
        ]
        return sorted(found, key=lambda c: (c.market_rank, c.price))

    def _choose(self, place: PLACE, count: int) -> Sequence[Candidate] | Explanation:
        picture = self._picture()
        options = self._options(picture, place)
        if not options:
            return _not_sold(place)
        free = [c for c in options if c.hindrance is None]
        if not free:
            return options[0].hindrance or Explanation(Reason.NO_CAPACITY, "")
        if self._fleet.policy.limits.launches_per_minute < 1:
            return Explanation(Reason.LIMIT_RATE, "limits.launches_per_minute is 0")
        tally = Tally(picture)
        chosen: list[Candidate] = []
        for _ in range(count):
            why = [tally.objection(c) for c in free]
            allowed = [c for c, objection in zip(free, why, strict=True) if objection is None]
            if not allowed:
                return why[0] or Explanation(Reason.NO_CAPACITY, "")
            tally.add(allowed[0])
            chosen.append(allowed[0])
        return chosen

    def _elsewhere(self, machine: Machine, refusal: Refused) -> tuple[Machine, InstanceType] | None:
        """The same machine from another market of its group, where its pool may buy there too."""
        place = (machine.pool, machine.instance_type, machine.location)
        picture = self._picture()
        others = tuple(known for known in picture.machines if known.intent != machine.intent)
        tally = Tally(msgspec.structs.replace(picture, machines=others))
        for candidate in self._options(picture, place):
            if candidate.offer.market == machine.market or candidate.hindrance is not None:
                continue
            if tally.objection(candidate) is None:
                offer = candidate.offer
                return replace(machine, market=offer.market, price=offer.price), offer.type
        return None

    # -- when -----------------------------------------------------------------------------------

    async def _turn(self, machine: Machine, given_up: Callable[[], bool]) -> Refused | None:
        """Returns when it is to be ordered, as the ledger has it then; or why it is not ordered any more."""
        fleet, waited = self._fleet, False
        try:
            while not given_up():
                if not self._is_next(machine):
                    pass
                elif waited and (why := self._forbidden(machine)) is not None:
                    if why.code not in _PASSING:
                        refusal = Refused(why.code, why.message)
                        other = self._elsewhere(machine, refusal)
                        if other is None:
                            return refusal
                        machine, waited = other[0], False
                        fleet.ledger.put(machine)
                        continue
                elif self._may_start(machine):
                    fleet.ledger.launched(self._clock())
                    return None
                await self._sleep(_LOOK_AGAIN)
                waited = True
        finally:
            self._queue = [intent for intent in self._queue if intent != machine.intent]
        return None

    def _is_next(self, machine: Machine) -> bool:
        self._queue = [intent for intent in self._queue if self._fleet.flights.launching(intent)]
        return not self._queue or self._queue[0] == machine.intent

    def _forbidden(self, machine: Machine) -> Explanation | None:
        """Why it would not be bought any more, had it not been promised."""
        if machine.intent not in self._fleet.ledger.machines:
            return None  # nobody knows of it any more, and it is not ordered for that
        place, picture = (machine.pool, machine.instance_type, machine.location), self._picture()
        own = next((c for c in self._options(picture, place) if c.offer.market == machine.market), None)
        if own is None or own.hindrance is not None:
            return own.hindrance if own is not None else _not_sold(place)
        ordered = tuple(known for known in picture.machines if known.intent not in self._queue)
        return Tally(replace(picture, machines=ordered)).objection(own)

    def _may_start(self, machine: Machine) -> bool:
        fleet, now = self._fleet, self._clock()
        lately = sum(1 for at in fleet.ledger.launches if now - RATE_WINDOW < at <= now)
        if lately >= fleet.policy.limits.launches_per_minute:
            return False
        pool = fleet.policy.pool(machine.pool)
        if pool is None or not pool.own_script:
            return True
        waiting = set(self._queue)  # these hold none yet
        known = [m for m in fleet.ledger.machines.values() if m.intent not in waiting]
        held = sum(1 for m in known if holds_script(fleet.policy, m))
        free = fleet.flights.scripts.free(fleet.policy, known)
        return held < fleet.policy.limits.scripts and (free is None or free > 0)


def _not_sold(place: PLACE) -> Explanation:
    words = f"the cloud does not sell {place[1]} in {place[2]}, or pool {place[0]} may not buy it"
    return Explanation(Reason.NO_CAPACITY, words)
