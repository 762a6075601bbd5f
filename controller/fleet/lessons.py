"""What the fate of one machine says of the next one: kept of offers, pools, types and the pods that it was bought for.

A failure on the way speaks against the offer; one that cost a whole boot, or that came before those it was bought for ran,
is counted with its pods and its pool; a machine that works takes back what was held against its kind.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.cluster.protocol import View
from controller.domain import names
from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.flights import Flights
from controller.fleet.identity import CLOCK_SLACK
from controller.fleet.ledger import Ledger
from controller.fleet.marks import offer_of
from controller.fleet.refusals import Refusals
from controller.fleet.repair import UNHEALTHY
from controller.fleet.usable import in_use

# Failures on the way that speak against the offer, not only against the one machine.
QUARANTINE = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.LAUNCH_FAILED,
        Reason.LAUNCH_DEADLINE,
        Reason.JOIN_DEADLINE,
        Reason.READY_DEADLINE,
        Reason.GPU_DEADLINE,
    }
)
# Failures that cost the time of a whole boot, for what is ordered is billed: the machine is replaced once, and then no more
# for its pods.
REPLACED_ONCE = frozenset(
    {Reason.LAUNCH_DEADLINE, Reason.JOIN_DEADLINE, Reason.READY_DEADLINE, Reason.GPU_DEADLINE}
)


class Lessons:
    def __init__(
        self, policy: Policy, *, ledger: Ledger, refusals: Refusals, flights: Flights, view: View
    ) -> None:
        self.policy = policy
        self._ledger = ledger
        self._refusals = refusals
        self._flights = flights
        self._view = view

    def learn(self, before: Machine, after: Machine, node: Node | None, now: float) -> None:
        """From one step of its life."""
        if after.phase is Phase.READY and before.phase is not Phase.READY and node is not None:
            self._ledger.learn(after.instance_type, node.allocatable)
            self._refusals.succeeded(offer_of(after))
            self._ledger.failures.works(after, now)
            self._ledger.failures.comes_up(after)
        if after.reason is not None and after.reason is not before.reason and before.phase.on_the_way:
            if after.reason in QUARANTINE:
                self._refusals.add(offer_of(after), after.reason, after.note, now)
            if after.reason in REPLACED_ONCE:
                pods = self.waiting_for(after)
                known = all(pod.identity in self._ledger.failures.given_up for pod in pods) and bool(pods)
                first = bool(after.pods) and not known  # those that are gone may be made anew again and again
                if after.reason is not Reason.LAUNCH_DEADLINE:
                    self._ledger.failures.tried_in_vain(after, after.reason, now, first=first)
                elif pods:
                    self._ledger.failures.late(after, now)
                for pod in pods:
                    self._ledger.failures.give_up(pod.identity, after.name, after.reason)
        never_was = before.phase is Phase.INTENDED and after.phase is Phase.TOMBSTONE
        if never_was and after.reason is Reason.UNKNOWN_OUTCOME:
            self._refusals.add(offer_of(after), after.reason, after.note, now)
        # Nobody heard that it was granted; or we died of it, and only its Node shows who asked.
        wished = self._flights.may_yet_go(self.policy, before.intent) or (
            node is not None and node.has_taint(names.CA_TO_BE_DELETED, "NoSchedule")
        )
        vanished = after.reason is Reason.VANISHED is not before.reason
        if vanished and after.reason is not None and not wished and self._was_of_no_use(before, now):
            self._refusals.add(offer_of(after), after.reason, after.note, now)
        if after.reason in UNHEALTHY and before.phase is Phase.READY and after.phase is not Phase.READY:
            self._broke(before, after.reason, before.node_missing_at or before.gpus_lost_at or now, now)

    def goes(self, machine: Machine, now: float, excused: Collection[str] = ()) -> None:
        """It is ready and is to go; `excused`: pods that did not run there for no fault of its."""
        node = self._view.node(machine.name)
        if node is not None and node.ready:
            if machine.pods and not self.waiting_for(machine):
                self._ledger.failures.holds(machine)  # it has served
            self._disappointed(machine, excused)  # what fits there would keep it
        else:
            since = node.ready_since if node is not None else machine.node_missing_at
            self._broke(machine, Reason.READY_DEADLINE, min(since or now, now), now)

    def heed_those_that_hold(self, now: float) -> None:
        for machine in self._ledger.machines.values():
            if machine.phase is Phase.READY and self._holds(machine, now):
                node = self._view.node(machine.name)
                if node is not None and node.ready:
                    self._ledger.failures.holds(machine)

    def waiting_for(self, machine: Machine) -> list[Pod]:
        """Pods that it was bought for and that still wait; not later ones of the same names."""
        youngest = machine.intended_at + CLOCK_SLACK
        return [p for p in self._view.waiting_pods() if p.key in machine.pods and p.created <= youngest]

    def _disappointed(self, machine: Machine, excused: Collection[str]) -> None:
        """Pods that it was bought for and that still wait never ran on it."""
        for pod in self.waiting_for(machine):
            if pod.unschedulable_since is not None and pod.key not in excused:
                self._ledger.failures.disappoint(pod.identity, machine.name)

    def _broke(self, machine: Machine, reason: Reason, since: float, now: float) -> None:
        """It was ready, and broke before pods that it was bought for ran there: the next one may hold.

        Its pool remembers that of each: pods that are there no more and made anew would get another one at once, and so would
        a minimum or headroom. Unless it was of use for long.
        """
        waiting = [pod for pod in self.waiting_for(machine) if pod.unschedulable_since is not None]
        known = all(pod.identity in self._ledger.failures.given_up for pod in waiting) and bool(waiting)
        if not self._holds(machine, since):
            first = bool(machine.pods) and not known
            self._ledger.failures.broke_soon(machine, reason, since, now, first=first)
        for pod in waiting:
            self._ledger.failures.give_up(pod.identity, machine.name, reason)
        if waiting:
            self._ledger.failures.broke(machine, since, now)

    def _holds(self, machine: Machine, until: float) -> bool:
        return until - machine.ready_at > self.policy.deadlines.backoff_unusable

    def _was_of_no_use(self, machine: Machine, now: float) -> bool:
        """Whether it vanished before a pod that it was bought for ran; of spot machines, also soon after that.

        Bought again at once, the next one would be taken away as well: the market has none to spare. Where nobody says
        whom it was bought for, whoever uses its GPUs is the proof.
        """
        spot = machine.market == "spot"
        if self.waiting_for(machine) or (machine.phase.on_the_way and spot):
            return True
        users = (in_use(pod, self.policy.gpu_resources) for pod in self._view.pods_on(machine.name))
        if not spot and any(users):
            return False
        soon = now < machine.ready_at + self.policy.deadlines.backoff_most
        return machine.phase.on_the_way or (
            machine.phase is Phase.READY and soon and (spot or not machine.pods)
        )
