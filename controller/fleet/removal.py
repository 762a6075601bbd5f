"""The steps of taking one machine away; `leaving` puts them in their order and keeps the record.

Before anything is changed it is asked whether we still lead. A pod that uses an accelerator stops
everything, except that a consolidation moves the pods that it was planned for. Up to the last look the watched pods are looked at; what they show too late, that one list
sees. A pod that is past its grace on a node that is not Ready will never be seen to leave, since
nobody is there to say so; it is not waited for, and if it uses an accelerator it still stops the delete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from controller.cloud.protocol import Cloud, CloudError
from controller.cluster.protocol import ClusterError, View, Writer
from controller.domain import names
from controller.domain.cloudthings import SWITCHED, Instance, Volume, Volumes
from controller.domain.kube import DisruptionBudget, Node, Pod, Taint
from controller.domain.machine import Machine
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.eviction import asked_now
from controller.fleet.identity import claims, node_for
from controller.fleet.tasks import NotYet
from controller.planning.consolidation import OFF
from controller.planning.ending import keeps
from controller.planning.lost import is_due, kept_though_off
from controller.planning.protection import blockers, paused, protected, uses_gpus

SOFT = Taint(key=names.TAINT_IDLE, effect="PreferNoSchedule")
HARD = Taint(key=names.TAINT_DRAINING, effect="NoSchedule")
# Where cluster-autoscaler decides: a taint that it would find in a template keeps pods off every later machine.
UNSEEN = Taint(key=names.TAINT_LEAVING, effect="NoSchedule")
# The same on one that works, and would count as broken under the other: many of them stop all scaling.
CLOSED = Taint(key=names.TAINT_CLOSED, effect="NoSchedule")
LOOSE = ("detached", "deleted")  # a disk that no machine uses
_RETRY = 5.0
_LEAST_GRACE = 2.0  # whatever the settings say: nobody leaves who was never asked to
NOT_OFF = Explanation(
    Reason.IN_USE, "it was shut down in the cloud, and does not look as if it were off any more"
)
_TRANSIENT = (Reason.RATE_LIMITED, Reason.UNAVAILABLE)

Check = Callable[[], None]  # raises when the removal must not go on: CalledOff or Grounded
Waits = Callable[[Refused | None], None]  # hears why pods do not leave; None: nothing refuses (any more)


class CalledOff(Exception):
    """The removal stops, and the machine stays; carries why."""

    def __init__(self, why: Explanation) -> None:
        super().__init__(why.message)
        self.why = why


def _by_identity(machine: Machine, node: Node) -> Node | None:
    return node_for(machine, (node,))[0]


class Removal:
    def __init__(
        self,
        *,
        view: View,
        writer: Writer,
        cloud: Cloud,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        taints: tuple[Taint, ...] = (SOFT, HARD),
        identify: Callable[[Machine, Node], Node | None] = _by_identity,
    ) -> None:
        self._taints = taints  # of one that is drained
        self._view = view
        self._identify = identify
        self._writer = writer
        self._cloud = cloud
        self._clock = clock
        self._sleep = sleep
        self.shared: frozenset[str] = (
            frozenset()
        )  # names that a second instance of an order goes by, too: the Node may be its

    @property
    def closing(self) -> Taint:
        """What keeps new pods off a machine that goes."""
        return self._taints[-1]

    def is_paused(self, policy: Policy, machine: Machine) -> bool:
        """By an annotation or the settings, also of its pool, or on its Node."""
        picture = Snapshot(now=self._clock(), policy=policy)
        return paused(picture, self._view.node(machine.name), "scale-down", machine.pool)

    async def soften(self, policy: Policy, machine: Machine, check: Check) -> None:
        """Ask the scheduler to prefer other nodes, then look again."""
        check()
        await self._writer.taint(machine.name, add=(SOFT,))
        self._refuse(policy, machine, self._watched(machine), self._view.budgets())

    async def close(self, machine: Machine) -> None:
        """No new pods from now on."""
        if await self._node(machine) is not None:
            await self._writer.taint(machine.name, add=(self.closing,))

    def look_closed(self, policy: Policy, machine: Machine) -> None:
        """At one that was closed before, as far as is watched. Raises CalledOff where work still keeps it."""
        node = self._view.node(machine.name)
        closed = node is not None and node.has_taint(self.closing.key, self.closing.effect)
        closed = closed or len(self._names(machine)) > 1  # Nodes of other names are nobody's to close
        if closed and not is_due(machine, policy.deadlines, self._clock()):
            self._refuse(policy, machine, self._watched(machine))

    async def drain(self, policy: Policy, machine: Machine, check: Check, waits: Waits) -> None:
        """Keep new pods away and let the others leave. The grace counts from the drain's first start."""
        node = await self._node(machine)
        if node is None:
            return  # nobody to drain; the last look is at the pods all the same
        begin = machine.drain_at or self._clock()
        since = datetime.fromtimestamp(begin, UTC).isoformat(timespec="seconds")
        check()
        await self._writer.taint(machine.name, add=self._taints)
        await self._writer.annotate(machine.name, {names.NODE_DRAIN_SINCE: since})
        await self._sleep(policy.deadlines.drain_pause)
        end = max(policy.deadlines.drained_by(begin), self._clock() + _LEAST_GRACE)
        refused: Refused | None = None
        while True:
            check()
            if await self._is_off(policy, machine):
                waits(None)
                return  # nobody is there whom an eviction would reach
            if machine.reason is Reason.STOPPED:
                raise CalledOff(NOT_OFF)
            pods = self._watched(machine)
            self._refuse(policy, machine, pods)
            leaving = [pod for pod in pods if self._waited_for(policy, machine, pod)]
            if not leaving:
                waits(None)
                return
            if self._clock() > end:
                words = refused.message if refused else f"{len(leaving)} pods did not leave in time"
                raise CalledOff(Explanation(refused.reason if refused else Reason.IN_USE, words))
            asked = asked_now(leaving, self._clock(), policy.deadlines.terminating_slack)
            refusal = await self._evict(asked, check)
            if refusal is not None and machine.moving and refusal.reason not in _TRANSIENT:
                raise CalledOff(Explanation(refusal.reason, refusal.message))  # work is moved freely, or not
            waits(refusal)
            refused = refusal or refused
            await self._sleep(min(_RETRY, max(0.05, end - self._clock())) if refused else 1.0)

    async def _evict(self, pods: Sequence[Pod], check: Check) -> Refused | None:
        refused = None
        for pod in pods:
            if pod.deleting_at is None:
                check()
                outcome = await self._writer.evict(pod)
                if isinstance(outcome, Refused):
                    refused = replace(outcome, message=f"pod {pod.key} stays: {outcome.message}")
        return refused

    def _waited_for(self, policy: Policy, machine: Machine, pod: Pod) -> bool:
        if pod.finished or pod.shape.is_daemon or pod.shape.mirror:
            return False
        node = self._view.node(machine.name)
        over = (
            pod.deleting_at is not None
            and self._clock() > pod.deleting_at + policy.deadlines.terminating_slack
        )
        return not (over and (node is None or not node.ready))

    async def last_look(self, policy: Policy, machine: Machine, *, drained: bool = True) -> None:
        """The one consistent list, immediately before the delete. Raises CalledOff.

        On a machine that was drained a pod that should have left is one that the watch had not shown yet.
        """
        off = drained and await self._is_off(policy, machine)
        pods = await self._listed(machine)
        if off:
            self._refuse_off(policy, machine, pods)
            return
        if machine.reason is Reason.STOPPED:
            raise CalledOff(NOT_OFF)
        self._refuse(
            policy, replace(machine, moving=()), pods, last=True
        )  # whatever was to move is gone by now
        if drained and self._view.node(machine.name) is not None:
            late = next((pod for pod in pods if self._waited_for(policy, machine, pod)), None)
            if late is not None:
                raise CalledOff(
                    Explanation(Reason.IN_USE, f"pod {late.key} is there and was not asked to leave")
                )

    async def look_at_work(self, policy: Policy, machine: Machine) -> None:
        """The same list, of a machine that somebody else has drained: whatever uses a GPU stops the delete.

        So does a pause, which that somebody knows nothing of; what failed or never joined goes all the same.
        """
        if self.is_paused(policy, machine) and machine.joined_at and not machine.failed:
            raise CalledOff(Explanation(Reason.PAUSED, "scale-down is paused"))
        off = await self._is_off(policy, machine)
        pods = await self._listed(machine)
        if off:
            self._refuse_off(policy, machine, pods)
        else:
            self._refuse(policy, replace(machine, moving=()), pods, work_only=True, last=True)

    def _names(self, machine: Machine) -> tuple[str, ...]:
        """Its own, and those of other Nodes that say that they are it (a kubelet's own idea of its name, two of them):
        whoever is right, work there is work."""
        nodes = self._view.nodes()
        return (machine.name, *sorted(n.name for n in nodes if n.name != machine.name and claims(n, machine)))

    def _watched(self, machine: Machine) -> list[Pod]:
        return [pod for name in self._names(machine) for pod in self._view.pods_on(name)]

    async def _listed(self, machine: Machine) -> list[Pod]:
        return [pod for name in self._names(machine) for pod in await self._writer.list_pods_on(name)]

    async def _is_off(self, policy: Policy, machine: Machine) -> bool:
        """Whether nothing can run there: the cloud has said for long that it is off, and says so now when asked for
        it by its id, and its Node, read and not watched, is not Ready. Raises CloudError, ClusterError: nobody can say.
        """
        if not is_due(machine, policy.deadlines, self._clock()) or not machine.instance_id:
            return False
        node = await self._writer.get_node(machine.name)
        if node is not None and node.ready:
            return False
        instance = await self.look_up(machine.instance_id)
        return instance is not None and instance.state == "stopped"

    def _refuse_off(self, policy: Policy, machine: Machine, pods: Sequence[Pod]) -> None:
        """Nothing runs there, so only what people said keeps it."""
        picture = Snapshot(now=self._clock(), policy=policy)
        if kept := kept_though_off(picture, machine, self._view.node(machine.name), pods):
            raise CalledOff(Explanation(Reason.DO_NOT_DISRUPT, kept))

    def _refuse(
        self,
        policy: Policy,
        machine: Machine,
        pods: Sequence[Pod],
        budgets: tuple[DisruptionBudget, ...] = (),
        *,
        work_only: bool = False,
        last: bool = False,
    ) -> None:
        """What forbids the removal now. A broken machine is kept by its work and by annotations only."""
        now = self._clock()
        claims = self._view.device_claims() if any(pod.shape.has_claims for pod in pods) else ()
        picture = Snapshot(now=now, policy=policy, budgets=budgets, device_claims=claims)
        if machine.failed or work_only:
            pods = [pod for pod in pods if uses_gpus(picture, pod) or protected(pod, now)]
        node = self._view.node(machine.name) or Node(name=machine.name, uid="")
        # One that is only switched is the user's own: that all that was bought is to go says nothing of its work.
        if policy.retire and machine.market != SWITCHED and not last:
            why = keeps(picture, node, pods)
        else:
            why = blockers(picture, node, pods, machine.moving if policy.consolidate != OFF else ())
        if why is not None:
            raise CalledOff(why)

    async def look_up(self, instance_id: str) -> Instance | None:
        """The instance by its id, or None when the cloud says that it is gone. Raises CloudError."""
        instance = await self._cloud.instance(instance_id)
        return None if instance is None or instance.state == "gone" else instance

    async def delete(self, instance: Instance, disks: Sequence[str]) -> Outcome:
        """With every disk of ours that it has by now: what is not named stays and costs money.

        A disk of ours that was moved to another machine is not named: it is in use there.
        """
        attached = {*instance.disks, *(d for d in disks if d in instance.volume_ids)}
        named = tuple(d for d in dict.fromkeys((*disks, *instance.disks)) if d in attached)
        return await self._cloud.delete(instance.id, named)

    async def disks_left(self, cluster_id: str, machine: Machine) -> Volumes:
        """Disks that came with a machine that is gone. Raises CloudError when nobody can say.

        Ours by two marks: recorded as its system disk and not in use elsewhere, or its name and tags.
        """
        disks = await self._cloud.volumes()
        return replace(disks, listed=tuple(v for v in disks.listed if _is_left_of(v, cluster_id, machine)))

    async def delete_disk(self, volume: Volume) -> str:
        """Ask for it; why it was refused, where that will not pass by itself, or ""."""
        if volume.status == "deleting":
            return ""
        outcome = await self._cloud.delete_volume(volume.id)
        if isinstance(outcome, Refused) and outcome.reason in (Reason.BAD_REQUEST, Reason.UNAUTHORISED):
            return outcome.message
        return ""

    async def delete_node(self, machine: Machine, check: Check) -> None:
        """The Node object, by its UID. One that is Ready although its machine vanished is kept."""
        node = await self.look_at_node(machine)
        if node is None or machine.name in self.shared:
            return
        check()
        await self._writer.delete_node(node.name, node.uid)

    def leaves_a_silent_node(self, machine: Machine) -> bool:
        """As far as is watched."""
        node = self._view.node(machine.name)
        silent = node is not None and not node.ready and self._identify(machine, node) is not None
        return silent and machine.name not in self.shared

    async def delete_silent_node(self, machine: Machine, check: Check) -> None:
        """Read anew: one that is Ready again may be another machine that took over the name."""
        node = await self._node(machine)
        if node is None or node.ready or machine.name in self.shared:
            return
        check()
        await self._writer.delete_node(node.name, node.uid)

    async def look_at_node(self, machine: Machine) -> Node | None:
        """The Node of one that is gone. Raises NotYet where it is Ready and nobody asked for the machine's end."""
        node = await self._node(machine)
        if node is not None and node.ready and not machine.delete_at:
            raise NotYet(f"machine {machine.name} is gone and its Node is Ready: the Node is kept", 30.0)
        return node

    async def _node(self, machine: Machine) -> Node | None:
        """The Node of this name, if it is this machine: a foreign one of the same name is never touched."""
        node = await self._writer.get_node(machine.name)
        return self._identify(machine, node) if node is not None else None

    async def delete_script(self, script_id: str) -> None:
        outcome = await self._cloud.delete_script(script_id)
        if isinstance(outcome, Happened):
            return
        if isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE:
            return
        raise CloudError(Reason.UNAVAILABLE, f"script {script_id} is not deleted: {outcome.message}")

    async def restore(self, machine: Machine, check: Check) -> None:
        """Undo taints and marks of a removal that was called off."""
        check()
        try:
            await self._writer.taint(machine.name, remove=tuple(dict.fromkeys((SOFT, HARD, *self._taints))))
            await self._writer.annotate(
                machine.name, {names.NODE_DRAIN_SINCE: None, names.NODE_IDLE_SINCE: None}
            )
        except ClusterError as error:
            if error.kind != "not_found":
                raise


def _is_left_of(volume: Volume, cluster_id: str, machine: Machine) -> bool:
    if volume.instance_id and volume.instance_id != machine.instance_id:
        return False
    if volume.id in machine.disks:
        return True
    tags = dict(volume.tags)
    tagged = tags.get(names.TAG_CLUSTER) == cluster_id and tags.get(names.TAG_INTENT) == machine.intent
    attached = bool(machine.instance_id) and volume.instance_id == machine.instance_id
    return volume.name == machine.name and (tagged or attached)
