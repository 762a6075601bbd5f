"""Taking one machine away, always in this order, and resumable at any step.

soft taint → look again → hard taint → a pause → evict → the consistent list, immediately before the
delete → delete with its disks → proven gone → Node object, script, ledger entry. Up to the delete it
can be called off, and then the taints come off again; a refusal always says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import msgspec

from controller.cloud.protocol import Cloud, CloudError
from controller.cluster.protocol import ClusterError, View, Writer
from controller.domain import names
from controller.domain.kube import Pod, Taint
from controller.domain.machine import Machine
from controller.domain.outcome import Happened, Refused
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.domain.resources import uses_accelerator
from controller.fleet.marks import intent_of
from controller.planning.scale_down import blockers

SOFT = Taint(key=names.TAINT_IDLE, effect="PreferNoSchedule")
HARD = Taint(key=names.TAINT_DRAINING, effect="NoSchedule")
_RETRY = 5.0


class CalledOff(Exception):
    """The removal stops, and the machine stays; carries why."""

    def __init__(self, why: Explanation) -> None:
        super().__init__(why.message)
        self.why = why


class Still(msgspec.Struct, frozen=True):
    """What of a deleted machine is still there."""

    instance: bool = False
    disks: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.instance and not self.disks


class Removal:
    """The steps; the engine decides which of them a machine's phase calls for."""

    def __init__(
        self,
        *,
        view: View,
        writer: Writer,
        cloud: Cloud,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._view = view
        self._writer = writer
        self._cloud = cloud
        self._clock = clock
        self._sleep = sleep

    async def soften(self, policy: Policy, machine: Machine) -> None:
        """Ask the scheduler to prefer other nodes, then look again with fresh eyes."""
        await self._writer.taint(machine.name, add=(SOFT,))
        await self._look(policy, machine)

    async def drain(self, policy: Policy, machine: Machine, wanted: Callable[[], bool]) -> None:
        """Keep new pods away and let the others leave. Raises CalledOff."""
        since = datetime.fromtimestamp(machine.drain_at or self._clock(), UTC).isoformat(timespec="seconds")
        await self._writer.taint(machine.name, add=(SOFT, HARD))
        await self._writer.annotate(machine.name, {names.NODE_DRAIN_SINCE: since})
        await self._sleep(policy.deadlines.drain_pause)
        end = self._clock() + policy.deadlines.eviction_grace
        refused: Refused | None = None
        while True:
            if not wanted():
                raise CalledOff(Explanation(Reason.NEEDED, "a waiting pod fits it"))
            leaving = self._movable(policy, await self._writer.list_pods_on(machine.name))
            if not leaving:
                return
            if self._clock() > end:
                words = refused.message if refused else f"{len(leaving)} pods did not leave in time"
                raise CalledOff(Explanation(refused.reason if refused else Reason.IN_USE, words))
            for pod in leaving:
                if pod.deleting_at is not None:
                    continue
                outcome = await self._writer.evict(pod)
                if isinstance(outcome, Refused):
                    refused = outcome
            await self._sleep(min(_RETRY, max(0.05, end - self._clock())) if refused else 1.0)

    async def last_look(self, policy: Policy, machine: Machine) -> None:
        """The one consistent list, immediately before the delete. Raises CalledOff."""
        pods = await self._writer.list_pods_on(machine.name)
        self._movable(policy, pods)

    async def delete(self, cluster_id: str, machine: Machine) -> Explanation | None:
        """Ask the cloud; None when it accepted, else why not (yet).

        The machine is read once more: its marks must still say that it is ours, and every disk that
        it has by now goes with it.
        """
        if not machine.instance_id:
            return None
        try:
            instance = await self._cloud.instance(machine.instance_id)
        except CloudError as error:
            return Explanation(error.reason, error.message)
        if instance is None or instance.state == "gone":
            return None
        if intent_of(cluster_id, instance) != machine.intent:
            return Explanation(
                Reason.IDENTITY_CLASH,
                f"instance {instance.id} does not carry the marks of {machine.name}; not deleted",
            )
        disks = tuple(dict.fromkeys((*machine.disks, *instance.disks)))
        outcome = await self._cloud.delete(machine.instance_id, disks)
        if isinstance(outcome, Happened):
            return None
        if isinstance(outcome, Refused):
            return (
                None
                if outcome.reason is Reason.ALREADY_GONE
                else Explanation(outcome.reason, outcome.message)
            )
        return Explanation(Reason.UNKNOWN_OUTCOME, outcome.message)

    async def still_there(self, machine: Machine) -> Still:
        """What the cloud still has of it. Raises CloudError when nobody can say."""
        instance = await self._cloud.instance(machine.instance_id) if machine.instance_id else None
        if instance is not None and instance.state != "gone":
            return Still(instance=True)
        disks = [
            volume
            for volume in await self._cloud.volumes()
            if volume.id in machine.disks
            or (
                volume.name == machine.name
                and machine.instance_id
                and volume.instance_id == machine.instance_id
            )
        ]
        for volume in disks:
            if volume.status != "deleting":
                await self._cloud.delete_volume(volume.id)
        return Still(disks=tuple(volume.id for volume in disks))

    async def clean_up(self, machine: Machine) -> None:
        """The Node object and the script of a machine that is proven gone."""
        node = await self._writer.get_node(machine.name)
        if node is not None and (not machine.node_uid or node.uid == machine.node_uid):
            await self._writer.delete_node(node.name, node.uid)
        if machine.script_id:
            outcome = await self._cloud.delete_script(machine.script_id)
            if not isinstance(outcome, Happened) and not (
                isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE
            ):
                raise CloudError(
                    Reason.UNAVAILABLE, f"script of {machine.name} is not deleted: {outcome.message}"
                )

    async def restore(self, machine: Machine) -> None:
        """Undo taints and marks of a removal that was called off."""
        try:
            await self._writer.taint(machine.name, remove=(SOFT, HARD))
            await self._writer.annotate(
                machine.name, {names.NODE_DRAIN_SINCE: None, names.NODE_IDLE_SINCE: None}
            )
        except ClusterError as error:
            if error.kind != "not_found":
                raise

    async def _look(self, policy: Policy, machine: Machine) -> None:
        node = self._view.node(machine.name)
        if node is None:
            return
        picture = Snapshot(now=self._clock(), policy=policy, nodes=(node,), budgets=self._view.budgets())
        why = blockers(picture, node, await self._writer.list_pods_on(machine.name))
        if why is not None:
            raise CalledOff(why)

    @staticmethod
    def _movable(policy: Policy, pods: Sequence[Pod]) -> list[Pod]:
        """The pods that have to leave. One that uses an accelerator stops everything."""
        leaving = []
        for pod in pods:
            if pod.finished or pod.shape.is_daemon or pod.shape.mirror:
                continue
            if uses_accelerator(pod.shape.requests, policy.gpu_resources) or pod.shape.has_claims:
                raise CalledOff(Explanation(Reason.IN_USE, f"pod {pod.key} uses its GPUs"))
            leaving.append(pod)
        return leaving
