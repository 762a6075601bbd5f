"""Who is in which group, for cluster-autoscaler: one picture in memory that every read is answered from.

The target of a group is what is listed for it and not on its way out, so it is always backed by machines or
placeholders. Ids are provider IDs: before a machine registers the one that its script will use, then the
Node's own. Nodes are found by their provider ID alone, because fake ones have no other mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from compat_grpc.failures import Failure, failed_on_the_way
from compat_grpc.groups import Group, group_of, left_over, of_switch
from compat_grpc.switched import CREATING, DELETING, RUNNING, Seen, state_of
from compat_grpc.wire import externalgrpc_pb2 as wire
from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.switching import Power
from controller.fleet.switching.driven import provider_id

TEMPLATE = "verda://template/"  # a provider ID that no machine has


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    group: str
    state: int
    machine: Machine | None = None  # None: it never existed, or is gone
    failure: Failure | None = None
    switched: bool = False
    asked_at: float = 0.0  # of one that is on its way because somebody asked for it; 0: any other

    @property
    def counts(self) -> bool:
        return self.state != DELETING


def _state(machine: Machine, failure: Failure | None) -> int:
    if machine.phase.leaving:
        return CREATING if failure is not None and failed_on_the_way(machine) else DELETING
    return CREATING if machine.phase in (Phase.INTENDED, Phase.ORDERED) else RUNNING


class Roster:
    def __init__(
        self,
        configured: dict[str, Group],
        machines: Iterable[Machine],
        nodes: Mapping[str, Node | None],
        failures: Iterable[Failure],
        switched: Iterable[Seen] = (),
        held: Callable[[Group], bool] = lambda group: False,
    ) -> None:
        """`held`: which of them nothing may be taken from now."""
        self._held = held
        alive = [m for m in machines if m.phase is not Phase.TOMBSTONE]
        failed = {failure.name: failure for failure in failures}
        switched = tuple(switched)
        others = {s.switch.name: of_switch(s.switch, configured=False) for s in switched if not s.configured}
        self.groups = configured | left_over(configured, alive) | others
        self._of: dict[str, list[Entry]] = {group_id: [] for group_id in self.groups}
        self._by_key: dict[str, Entry] = {}
        self._by_id: dict[str, Entry] = {}  # of machines whose provider IDs may have any form
        self._listed: dict[str, wire.NodeGroupNodesResponse] = {}
        self._costing: dict[str, int] = {}  # by pool: machines that are there or about to be
        for machine in alive:
            node = nodes.get(machine.intent)
            failure = failed.pop(machine.name, None)
            state = _state(machine, failure)
            self._add(
                machine,
                Entry(
                    id=(node.provider_id if node else "") or names.provider_id(machine.name),
                    name=machine.name,
                    group=group_of(configured, machine.pool, machine.instance_type, machine.location),
                    state=state,
                    machine=machine,
                    failure=failure if state == CREATING else None,
                    asked_at=machine.intended_at if machine.phase.on_the_way else 0.0,
                ),
            )
            if not machine.gone_at:
                self._costing[machine.pool] = self._costing.get(machine.pool, 0) + 1
        for seen in switched:
            self._add_switched(seen, failed.pop(seen.switch.name, None))
        for failure in failed.values():
            if failure.machine is None:
                continue  # it is not in the settings any more
            machine = failure.machine
            group_id = group_of(configured, machine.pool, machine.instance_type, machine.location)
            if group_id in self.groups:
                self._add(
                    machine,
                    Entry(
                        id=names.provider_id(machine.name),
                        name=machine.name,
                        group=group_id,
                        state=CREATING,
                        failure=failure,
                    ),
                )
        self._targets = {
            group_id: sum(1 for entry in entries if entry.counts) for group_id, entries in self._of.items()
        }
        self.shown = wire.NodeGroupsResponse(
            nodeGroups=[self.message(self.groups[group_id]) for group_id in sorted(self.groups)]
        )
        self._messages: dict[str, wire.NodeGroup] = {found.id: found for found in self.shown.nodeGroups}

    def _add(self, machine: Machine, entry: Entry) -> None:
        self._of[entry.group].append(entry)
        self._by_key[machine.name] = entry
        if machine.instance_id:
            self._by_key[machine.instance_id.lower()] = entry

    def _add_switched(self, seen: Seen, failure: Failure | None) -> None:
        """Its Node is known by its name, which the settings tell; it may carry any provider ID, or none yet."""
        name, state = seen.switch.name, state_of(seen, failure)
        entry = Entry(
            id=provider_id(seen.switch, seen.record, seen.node),
            name=name,
            group=name,
            state=state or DELETING,
            failure=failure if state == CREATING else None,
            switched=True,
            asked_at=seen.record.wanted_at if seen.record.power is Power.RISING and seen.record.call else 0.0,
        )
        if state:
            self._of[name].append(entry)
        self._by_key[name] = entry
        self._by_id[entry.id] = entry

    # -- questions ------------------------------------------------------------------------------

    def target(self, group_id: str) -> int:
        return self._targets.get(group_id, 0)

    def entries(self, group_id: str) -> list[Entry]:
        return self._of.get(group_id, [])

    def keys(self) -> Mapping[str, Entry]:
        return self._by_key

    def find(self, provider_id: str) -> Entry | None:
        return self._by_key.get(names.resolve(provider_id)) or self._by_id.get(provider_id)

    def nameless(self, name: str) -> Entry | None:
        """The switched machine whose Node has no provider ID yet."""
        entry = self._by_key.get(name)
        return entry if entry is not None and entry.switched else None

    def named(self, name: str) -> Entry | None:
        entry = self._by_key.get(name)
        return entry if entry is not None and entry.name == name else None

    def message(self, group: Group) -> wire.NodeGroup:
        """Its maximum is what the pool leaves to it: machines of its other groups, or on their way out, are paid too."""
        target, entries = self.target(group.id), self._of[group.id]
        least, most = group.min, group.max
        if self._held(group):
            # What could not be made goes all the same, and is no minimum that somebody fills.
            least = max(least, sum(1 for e in entries if e.counts and e.failure is None))
        if group.configured and not group.switched:
            here = sum(1 for e in entries if e.counts and e.machine is not None)
            most = max(group.min, group.max - (self._costing.get(group.pool, 0) - here))
        most = max(target, most)
        return wire.NodeGroup(id=group.id, minSize=least, maxSize=most, debug=_words(group, target))

    def group_message(self, group_id: str) -> wire.NodeGroup:
        return self._messages[group_id]

    def listed(self, group_id: str) -> wire.NodeGroupNodesResponse:
        known = self._listed.get(group_id)
        if known is None:
            known = wire.NodeGroupNodesResponse(instances=[_instance(e) for e in self.entries(group_id)])
            self._listed[group_id] = known
        return known


def _words(group: Group, target: int) -> str:
    place = "switched" if group.switched else f"in {group.location}"
    words = f"{group.instance_type} {place}, {target} wanted"
    if group.configured:
        return words
    return (
        f"{words}; not served any more"
        if group.switched
        else f"{words}; not in the settings any more, so it only shrinks"
    )


def _instance(entry: Entry) -> wire.Instance:
    status = wire.InstanceStatus(instanceState=entry.state)  # type: ignore[arg-type]  # an enum is an int
    if entry.failure is not None:
        status.errorInfo.errorCode = entry.failure.code
        status.errorInfo.errorMessage = entry.failure.message
        status.errorInfo.instanceErrorClass = entry.failure.kind
    return wire.Instance(id=entry.id, status=status)
