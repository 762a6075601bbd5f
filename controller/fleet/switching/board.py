"""The switched machines of the fleet: what planning is told of them, and who is told what happens.

As in the fleet's engine, what is seen is judged by pure functions, the changed records are stored, and only then
calls go out. A machine that is no longer in the settings is forgotten as it is: nobody says how to switch it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Set
from datetime import UTC, datetime

from msgspec.structs import replace

from controller.cluster.protocol import View
from controller.domain.cloudthings import Offer
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Refusal
from controller.domain.policy import Policy, Pool
from controller.domain.reason import SENTENCES, Reason
from controller.domain.resources import Resources
from controller.domain.switching import Own, Power, Switch, Switched, as_machine
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Listener
from controller.fleet.switching.aftermath import dated, may_fall
from controller.fleet.switching.closing import taint_wanted
from controller.fleet.switching.driven import lacking_marks, startup_taint
from controller.fleet.switching.ends import off, withdrawn
from controller.fleet.switching.faces import face_of
from controller.fleet.switching.life import first, step
from controller.fleet.switching.seeing import TELLS, Seen
from controller.fleet.switching.turning import Turning
from controller.fleet.switching.waits import hindrance, paused, stays
from controller.fleet.switching.wishes import outdated, wished
from controller.fleet.usable import in_use, lacking
from controller.planning.predict import gpu_resources

log = logging.getLogger("gpu_autoscaler.fleet")

_LEAVING = (Power.ON, Power.DRAINING, Power.FALLING)  # what may be taking it away can be called off


class Switchboard:
    def __init__(
        self,
        *,
        policy: Policy,
        ledger: Ledger,
        turning: Turning,
        view: View,
        listener: Listener,
        clock: Callable[[], float],
        driven: bool = False,
    ) -> None:
        """`driven`: by somebody else than the planner, who knows machines by marks of their Nodes."""
        self._driven = driven
        self.policy = policy
        self.turning = turning
        self._ledger = ledger
        self._view = view
        self._listener = listener
        self._clock = clock
        self._told: dict[str, tuple[str, float]] = {}  # by machine: what its status endpoint said, and when

    # -- questions ------------------------------------------------------------------------------

    @property
    def switches(self) -> tuple[Switch, ...]:
        return self.policy.switches

    def node(self, name: str) -> Node | None:
        return self._view.node(name)

    def switch(self, name: str) -> Switch | None:
        return next((switch for switch in self.switches if switch.name == name), None)

    def records(self) -> list[tuple[Switch, Switched]]:
        """As they stand in the ledger; of a machine that no record speaks of yet, how it looks."""
        known = self._ledger.switched
        return [(switch, known.get(switch.name) or self._glance(switch)) for switch in self.switches]

    def _glance(self, switch: Switch) -> Switched:
        now = self._clock()
        seen = self._seen(switch, now)
        found = first(switch, seen, now)
        if seen.node is None or not seen.up or lacking(seen.promised, seen.node):
            return found
        return replace(
            found, power=Power.ON, on_since=seen.node.created, face=face_of(seen.node, seen.promised)
        )

    def machines(self) -> tuple[Machine, ...]:
        """Those that are not off."""
        now = self._clock()
        found = (
            _closed(machine, record, now)
            for switch, record in self.records()
            if (machine := as_machine(record, switch)) is not None
        )
        return tuple(sorted(found, key=lambda m: m.name))

    def undecided(self) -> frozenset[str]:
        """Machines that are to be switched on, of which nobody has heard: every plan decides about them anew.

        A driver that decides itself is told of them as of any other; it takes back what it wants no more.
        """
        if self._driven:
            return frozenset()
        return frozenset(record.name for _, record in self.records() if record.unheard)

    def _as_planned_with(self, record: Switched) -> Switched:
        return withdrawn(record, self._clock()) if not self._driven and record.unheard else record

    @property
    def busy(self) -> bool:
        return any(record.changing for _, record in self.records())

    def offers(self) -> tuple[Offer, ...]:
        """All of them: of one that is on `refusals` tells that nothing more is to be had of it."""
        return tuple(switch.offer for switch, _ in self.records())

    def own(self) -> dict[str, Own]:
        now = self._clock()
        return {
            switch.name: Own(
                power=self._as_planned_with(record).power.value,
                face=record.face,
                stays=stays(switch, record, now),
            )
            for switch, record in self.records()
        }

    def refusals(self) -> list[Refusal]:
        """Why a machine is not switched on now."""
        now = self._clock()
        found = []
        for switch, record in self.records():
            node = self._view.node(switch.name)
            why = hindrance(switch, self._as_planned_with(record), node, now)
            if why is not None:
                found.append(
                    Refusal(offer=switch.offer.key, reason=why.reason, until=why.until, message=why.message)
                )
        return found

    def reports(self) -> dict[str, str]:
        """What a person should look at."""
        bad = (
            Reason.OFF_DEADLINE,
            Reason.ON_DEADLINE,
            Reason.GPU_DEADLINE,
            Reason.GPU_LOST,
            Reason.SWITCH_FAILED,
        )
        return {
            switch.name: f"{switch.name}: {record.note or SENTENCES[record.reason]} ({record.reason.value})"
            for switch, record in self.records()
            if record.reason in bad
        }

    # -- following ------------------------------------------------------------------------------

    async def ask(self) -> bool:
        """Ask the status endpoints, of those that have one. Whether any answer is new."""
        return any(await asyncio.gather(*(self._ask(one.name) for one in self.switches if one.asked)))

    async def _ask(self, name: str) -> bool:
        """An answer is as old as it is, however long that of another machine takes."""
        told = await self.turning.ask(name)
        before, _ = self._told.get(name, ("", 0.0))
        self._told[name] = (told, self._clock())
        return told != before

    def judge(self) -> None:
        """Follow every machine by what is seen now; the records are stored by the caller."""
        now = self._clock()
        for name in self._left():
            self._forget(name, now)
        for switch in self.switches:
            seen = self._seen(switch, now)
            before = self._ledger.switched.get(switch.name)
            if before is None:
                if not self._view.synced:
                    continue
                before = first(switch, seen, now)
            after = step(before, seen, switch, self.policy.deadlines, now)
            self._ledger.put_switched(after)
            self._noticed(switch, before, after)

    def _left(self) -> set[str]:
        return self._ledger.switched.keys() - {switch.name for switch in self.switches}

    def _forget(self, name: str, now: float) -> None:
        """It is no longer in the settings, and stays as it is; our taints go before its record does.

        A call of ours may have its effect yet, and would take the power from whatever is bound there meanwhile.
        """
        node, record = self._view.node(name), dated(self._ledger.switched[name], now)
        waits = may_fall(record, now)
        if record.power in _LEAVING:
            self.turning.call_off(name, "it is no longer in the settings")
        called = record.power is Power.FALLING and waits
        if record.power is not Power.OFF and not called:  # whatever is under way for it ends here
            log.info("a switched machine is no longer in the settings", extra={"machine": name})
            record = replace(off(record, now), call="", node_goes=False)
        self._ledger.put_switched(record)
        if waits:
            return
        starts = node is not None and any(startup_taint(None, node, {}))
        if not (self.turning.marked(node) or starts or self.turning.running(name)):
            self._ledger.drop_switched(name)

    def _noticed(self, switch: Switch, before: Switched, after: Switched) -> None:
        if after.power is before.power and after.reason is before.reason:
            return
        log.info(
            "switched machine",
            extra={
                "machine": switch.name,
                "from": before.power.value,
                "to": after.power.value,
                "why": after.note,
            },
        )
        self._listener.switched(switch, before, after)

    def _seen(self, switch: Switch, now: float) -> Seen:
        node = self._view.node(switch.name)
        told, at = self._told.get(switch.name, ("", 0.0))
        declared = self.policy.gpu_resources
        return Seen(
            node=node,
            busy=node is not None and any(in_use(pod, declared) for pod in self._view.pods_on(switch.name)),
            told=told if 0 <= now - at <= TELLS else "",
            told_at=at,
            paused=paused(self.policy, switch, node, "scale-down"),
            promised=_promised(switch),
        )

    def close(self) -> None:
        """Keep pods off machines that a call may end: that waits for nothing to be written down."""
        now = self._clock()
        for switch, record in self.records():
            seen = self._seen(switch, now)
            if taint_wanted(record, seen, now):
                self._taint(switch, record, seen, now)
        for name, node in self._left_nodes():
            if self._left_closed(name, now):
                self.turning.taint(name, node, True, meanwhile=True)

    def _left_nodes(self) -> list[tuple[str, Node]]:
        """Nodes of machines that are no longer in the settings, until those are forgotten."""
        return [(name, node) for name in self._left() if (node := self._view.node(name)) is not None]

    def _left_closed(self, name: str, now: float) -> bool:
        record = self._ledger.switched[name]
        return record.power is Power.FALLING or may_fall(record, now)

    def _taint(self, switch: Switch, record: Switched, seen: Seen, now: float) -> None:
        wanted = taint_wanted(record, seen, now)
        if seen.node is not None and wanted is not None:
            undrained = record.power is Power.FALLING and not record.drain_at
            meanwhile = wanted and (undrained or may_fall(record, now))
            self.turning.taint(switch.name, seen.node, wanted, meanwhile=meanwhile)

    def follow(self) -> None:
        """Whatever a machine's record calls for, unless it is being done already."""
        now = self._clock()
        for switch, record in self.records():
            seen = self._seen(switch, now)
            cordoned = seen.node is not None and seen.node.unschedulable
            self.turning.hold(switch.name, cordoned or paused(self.policy, switch, seen.node, "scale-up"))
            self.turning.follow(self.policy, switch, record)
            if record.power in _LEAVING and seen.paused:
                self.turning.pause(switch.name)
            self._taint(switch, record, seen, now)
            if self._driven and switch.delete_node and seen.node is not None:
                taints = startup_taint(record, seen.node, seen.promised)
                self.turning.dress(seen.node, *lacking_marks(switch, seen.node), *taints)
        for name, node in self._left_nodes():
            closed = self._left_closed(name, now)
            self.turning.taint(name, node, closed, meanwhile=closed)
            self.turning.dress(node, {}, "", *startup_taint(None, node, {}))

    # -- what drivers ask for -------------------------------------------------------------------

    def request(self, name: str, pods: tuple[str, ...]) -> bool:
        """Switch it on. The record exists from now on, so no later plan switches another one on for these pods."""
        switch, record = self.switch(name), self._ledger.switched.get(name)
        if switch is None or record is None:
            return False
        planned = self._as_planned_with(record)
        if planned.power is not Power.OFF:
            return False
        if hindrance(switch, planned, self._view.node(name), self._clock()) is not None:
            return False
        if planned is not record:  # it stands, with its key and its tries
            if pods != record.pods:
                self._ledger.change_switched(name, pods=pods, pods_at=self._clock())
        else:
            self.begin(switch, record, self.wish(record, pods))
        return True

    def withdraw_all_but(self, wished: Set[str]) -> None:
        """What the last plan wished no more, of what nobody has heard of."""
        for name in self.undecided() - wished:
            switch, before = self.switch(name), self._ledger.switched[name]
            if switch is not None:
                after = withdrawn(before, self._clock())
                self._ledger.put_switched(after)
                self._noticed(switch, before, after)

    def count_on(self, awaited: Mapping[str, tuple[str, ...]]) -> None:
        """The pods that machines on their way are for now: where a call is still to be made, it is for them."""
        for name, pods in awaited.items():
            record = self._ledger.switched.get(name)
            if record is not None and not self._driven and outdated(record, pods):
                self._ledger.change_switched(name, pods=pods, pods_at=self._clock())

    def wish(self, record: Switched, pods: tuple[str, ...]) -> Switched:
        """Write down that it is to be on."""
        after = wished(record, self.turning.means.new_call(), pods, self._clock())
        self._ledger.put_switched(after)
        return after

    def begin(self, switch: Switch, before: Switched, after: Switched) -> None:
        """Tell of a wish that was written down, and act on it."""
        self._noticed(switch, before, after)
        self.turning.follow(self.policy, switch, after)

    def retire(self, name: str, reason: Reason, message: str, excused: Collection[str] = ()) -> None:
        switch, record = self.switch(name), self._ledger.switched.get(name)
        if switch is not None and record is not None and record.power is Power.ON:
            self._disappointed(record, excused)
            self.turning.retire(self.policy, switch, reason, message)

    def _disappointed(self, record: Switched, excused: Collection[str]) -> None:
        """Pods that it was switched on for and that still wait: what fits there would keep it."""
        for pod in self._view.waiting_pods():
            if (
                pod.key in record.pods
                and pod.key not in excused
                and pod.unschedulable_since is not None
                and pod.created <= max(record.wanted_at, record.pods_at)
            ):
                self._ledger.failures.disappoint(pod.identity, record.name)

    def knows(self, name: str) -> bool:
        return self.switch(name) is not None


def _closed(machine: Machine, record: Switched, now: float) -> Machine:
    """Why nothing is bound to one whose Node is Ready."""
    if machine.phase is not Phase.STARTED or not may_fall(record, now):
        return machine
    until = f"{datetime.fromtimestamp(record.opens_at, UTC):%H:%M:%S} UTC"
    note = f"it is on, and a call that switches it off may act until {until} (off_within): no pod is bound to it before"
    return replace(machine, reason=Reason.LATE_CALL, note=note)


def _promised(switch: Switch) -> Resources:
    return gpu_resources(Pool(name=switch.name, max=1, resources=switch.resources), switch.gpus)
