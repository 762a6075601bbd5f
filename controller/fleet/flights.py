"""What is under way: one task for each machine that needs something slow done.

A task may die with the program at any point; the machine's phase in the ledger says where to go on.
Errors of the outside end one attempt, never the task's purpose: it is tried again with a back-off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from decimal import Decimal

from controller.cloud.protocol import Cloud
from controller.cluster.protocol import Writer
from controller.domain.cloudthings import Instance, InstanceType
from controller.domain.kube import Taint
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused
from controller.domain.plan import Explanation
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.account import Account
from controller.fleet.buying import Again, Buying, Turn
from controller.fleet.dismissal import Dismissal
from controller.fleet.idle_marks import IdleMarks
from controller.fleet.launch import Launcher
from controller.fleet.leaving import Leaving
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Listener
from controller.fleet.node_marks import NodeMarks
from controller.fleet.refusals import Refusals
from controller.fleet.removal import Removal
from controller.fleet.scripts import ScriptRoom
from controller.fleet.tasks import Tasks

__all__ = ["Flights", "Listener"]

# A machine whose deletion was proven by id may still be listed for a while.
_LIST_LAG = 300.0
# What was written to a Node is not seen at once: the watch lags behind.
_WATCH_LAG = 10.0

# The script has run, or never will.
_SCRIPT_DONE = (Phase.JOINED, Phase.STARTED, Phase.READY, Phase.TOMBSTONE)


def _script_done(policy: Policy, machine: Machine) -> bool:
    """Whether its script has served, as far as the settings trust that; a failure needs it no more."""
    if machine.phase.leaving:
        return machine.failed and machine.reason is not Reason.VANISHED  # one that vanished may come back
    if machine.phase in (Phase.ORDERED, Phase.BOOTING):
        pool = policy.pool(machine.pool)
        return pool is not None and pool.script_after_create
    return machine.phase in _SCRIPT_DONE


class Flights:
    def __init__(
        self,
        *,
        ledger: Ledger,
        launcher: Launcher,
        removal: Removal,
        refusals: Refusals,
        cloud: Cloud,
        writer: Writer,
        listener: Listener,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        wake: Callable[[], None],
        may_act: Callable[[], bool],
        account: Account,
        driven: bool = False,
    ) -> None:
        """`driven`: by somebody else than the planner, who knows machines by marks of their Nodes."""
        self._writer = writer
        self._cloud = cloud
        self._listener = listener
        self._clock = clock
        self._may_act = may_act
        self._tasks = Tasks(clock, wake)
        self._closed: dict[
            str, tuple[float, str]
        ] = {}  # instances that are gone: since when, and their intent
        self.scripts = ScriptRoom(clock)
        self.idle_marks = IdleMarks(writer, self._tasks, clock, may_act)
        self.node_marks = NodeMarks(
            writer, self._tasks, clock, may_act, closing=removal.closing, driven=driven
        )
        self._buying = Buying(
            ledger=ledger,
            launcher=launcher,
            removal=removal,
            refusals=refusals,
            scripts=self.scripts,
            listener=listener,
            tasks=self._tasks,
            clock=clock,
        )
        self._leaving = Leaving(
            ledger=ledger,
            removal=removal,
            listener=listener,
            clock=clock,
            sleep=sleep,
            may_act=may_act,
            account=account,
            closed=self._remember,
            restored=self.idle_marks.cleared,
            wake=wake,
        )
        self._removal = removal
        self._dismissal = Dismissal(
            ledger=ledger,
            removal=removal,
            listener=listener,
            clock=clock,
            may_act=may_act,
            account=account,
            withdraw=self.withdraw,
            wake=wake,
        )

    def heed(self, policy: Policy) -> None:
        """What is in force from now on, also for removals that have begun."""
        self._leaving.policy = policy

    # -- questions ------------------------------------------------------------------------------

    def launching(self, intent: str) -> bool:
        return self._buying.under_way(intent)

    def closed_lately(self, instance_id: str) -> bool:
        """By the id: a second machine of the same order is another one, and has to go too."""
        since, _ = self._closed.get(instance_id, (None, ""))
        return since is not None and 0 <= self._clock() - since < _LIST_LAG

    def served_lately(self, intent: str) -> bool:
        """Its machine came and went: another one is needed by nobody."""
        return any(known == intent for _, known in self._closed.values())

    def served_just_now(self, intent: str) -> bool:
        now = self._clock()
        return any(known == intent and 0 <= now - since < _LIST_LAG for since, known in self._closed.values())

    @property
    def unproven(self) -> dict[str, str]:
        """By machine: disks that nobody saw go."""
        return self._leaving.unproven

    def may_act(self) -> bool:
        return self._may_act()

    def tell(self, before: Machine, after: Machine) -> None:
        self._listener.phase_changed(before, after)

    @property
    def idle(self) -> bool:
        return self._tasks.idle

    @property
    def due(self) -> float | None:
        """When something that failed may be tried again."""
        return self._tasks.due

    def _remember(self, machine: Machine) -> None:
        now = self._clock()
        for old in [one for one, (since, _) in self._closed.items() if now - since >= _LIST_LAG]:
            del self._closed[old]
        if machine.instance_id:
            self._closed[machine.instance_id] = (now, machine.intent)
        self.idle_marks.forget(machine.name)
        self.node_marks.forget(machine.node_uid)

    # -- starting things ------------------------------------------------------------------------

    def launch(self, policy: Policy, machine: Machine, kind: InstanceType, turn: Turn | None = None) -> None:
        self._buying.begin(policy, machine, kind, turn)

    def withdraw(self, intent: str) -> bool:
        """Whether its order was not sent yet, and never will be."""
        return self._buying.withdraw(intent)

    def on_refusal(self, another: Callable[[Machine, Refused], Again | None]) -> None:
        """Who may order a refused intent once more, as something else."""
        self._buying.another = another

    async def dismiss(self, policy: Policy, intent: str) -> Explanation | None:
        """Delete it now, for a driver that has drained it; None once the cloud has accepted that."""
        return await self._dismissal.dismiss(policy, intent)

    async def given_up(self, intent: str) -> None:
        """Whoever wanted it deleted waits no longer for the answer."""
        await self._dismissal.given_up(intent)

    def may_yet_go(self, policy: Policy, intent: str) -> bool:
        """Whether nobody can say what became of the wish to delete it."""
        return self._dismissal.in_doubt(intent, policy.deadlines.unknown_over)

    def retire(
        self, policy: Policy, machine: Machine, reason: Reason, message: str, moving: tuple[str, ...] = ()
    ) -> None:
        self._leave(machine, lambda: self._leaving.retire(policy, machine.intent, reason, message, moving))

    def _leave(self, machine: Machine, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            finally:
                self._leaving.called_off.discard(machine.name)

        self._tasks.start(machine.name, run)

    def shared(self, names: Collection[str]) -> None:
        """By two instances of one order that are both there."""
        self._removal.shared = frozenset(names)

    def follow(self, policy: Policy, machine: Machine) -> None:
        """Whatever this machine's phase calls for, unless it is being done already."""
        if not self._may_act():
            return
        if machine.phase is Phase.DRAINING:
            if not self._leaving.still_kept(policy, machine):
                self._leave(machine, lambda: self._leaving.drain(policy, machine.intent))
        elif machine.phase is Phase.DELETING:
            self._leave(machine, lambda: self._leaving.delete(policy, machine.intent))
            if self._leaving.has_a_ghost(machine):
                self._tasks.start(f"ghost {machine.name}", lambda: self._leaving.free_node(machine.intent))
        elif machine.awaits_restoring:
            self._leave(machine, lambda: self._leaving.restore(machine.intent))
        if machine.script_id and _script_done(policy, machine):
            self._buying.drop_script(machine)

    def delete_extra(self, policy: Policy, machine: Machine, extra: Instance, price: Decimal) -> None:
        if self._may_act() and not self._buying.under_way(machine.intent):
            self._tasks.start(
                f"surplus {extra.id}",
                lambda: self._leaving.delete_extra(policy, machine.intent, extra, price),
            )

    def lift(self, machine: Machine, taints: tuple[Taint, ...]) -> None:
        """Taints of the start. One that keeps pods off goes before the GPUs are there: GPU DaemonSets do not tolerate
        it, and would never come."""
        if taints and self._may_act():
            self._tasks.start(
                f"startup taint {machine.name}", lambda: self._writer.taint(machine.name, remove=taints)
            )

    def call_off(self, name: str) -> None:
        if self._tasks.running(name):
            self._leaving.called_off.add(name)

    async def stop(self, patience: float) -> None:
        """Orders that are on the wire may end; everything else is resumed from the ledger."""
        await self._dismissal.stop(patience)
        await self._tasks.stop("launch ", patience)
