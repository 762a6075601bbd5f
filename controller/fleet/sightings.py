"""What the cloud's list says about our machines: which instance is which record's, and what is too much.

An instance whose id a record holds is that record's, whatever its marks say by now: somebody may have
edited them, and then it is reported, but it has not vanished. The cloud does not enforce unique
hostnames, so several instances may carry one intent; all but one of them are surplus.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from controller.domain import names
from controller.domain.cloudthings import Instance, Inventory
from controller.domain.machine import Machine, Phase
from controller.fleet.marks import carries_marks, intent_of

_OVER = ("gone", "leaving")


class Sightings:
    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self.inventory = Inventory(at=0.0, complete=False)  # the last complete list
        self.number = 0  # which one that was, in the order in which lists were asked for
        self._by_id: dict[str, Instance] = {}
        self._by_intent: dict[str, list[Instance]] = {}
        self.unsure: frozenset[str] = frozenset()  # ids that the list lacks and about which nobody could say

    def missing(self, inventory: Inventory, machines: Iterable[Machine]) -> list[str]:
        """Ids that this list should show, and does not."""
        shown = {instance.id for instance in inventory.instances}
        if not inventory.complete:
            shown |= self._by_id.keys()
        return [
            machine.instance_id
            for machine in machines
            if machine.instance_id
            and machine.phase not in (Phase.DELETING, Phase.TOMBSTONE)
            and machine.instance_id not in shown
        ]

    def take(
        self,
        inventory: Inventory,
        found: Collection[Instance] = (),
        unsure: Collection[str] = (),
        *,
        number: int,
    ) -> None:
        """Keep the list that was asked for last (a clock may be set back, numbers are not), and what was told by id about machines that it lacks: a list may lag, or be
        empty once. One that is known to be cut short only ever adds knowledge."""
        if inventory.complete:
            if number < self.number:
                return  # overtaken by a later one
            self.inventory, self.number = inventory, number
            self._by_id = {instance.id: instance for instance in inventory.instances}
        elif inventory.account != self.inventory.account:
            return  # of another account nothing is known before it told all
        else:
            self._by_id = self._by_id | {instance.id: instance for instance in inventory.instances}
        self._by_id |= {instance.id: instance for instance in found}
        self.unsure = frozenset(unsure)
        self._sort()

    def _sort(self) -> None:
        self._by_intent = {}
        for instance in sorted(self._by_id.values(), key=lambda i: (i.created_at, i.id)):
            intent = intent_of(self._cluster_id, instance)
            if intent:
                self._by_intent.setdefault(intent, []).append(instance)

    @property
    def told(self) -> tuple[object, ...]:
        """All that lists have told; equal as long as they tell the same."""
        return self.inventory.complete, self.inventory.account, self._by_id, self.unsure

    def of(self, machine: Machine) -> Instance | None:
        """The record's own instance: by its id, or, while that is not known, by the marks."""
        if machine.instance_id:
            return self._by_id.get(machine.instance_id)
        found = self._by_intent.get(machine.intent, [])
        return next((i for i in found if i.state not in _OVER), found[0] if found else None)

    def unknown(self, machines: Mapping[str, Machine]) -> list[tuple[str, Instance]]:
        """Ours by their marks, alive, and without a record, or with one that had been given up."""
        result = []
        for intent, found in sorted(self._by_intent.items()):
            known = machines.get(intent)
            if known is not None and known.phase is not Phase.TOMBSTONE:
                continue
            alive = [instance for instance in found if instance.state not in _OVER]
            if alive:
                result.append((intent, alive[0]))
        return result

    def seconds(self, machines: Mapping[str, Machine]) -> list[tuple[Machine, Instance]]:
        """Second instances of an intent, each beside the record whose machine it is not."""
        result = []
        for intent, found in sorted(self._by_intent.items()):
            machine = machines.get(intent)
            if machine is None or machine.phase is Phase.TOMBSTONE or not machine.instance_id:
                continue
            result += [
                (machine, instance)
                for instance in found
                if instance.id != machine.instance_id and instance.state not in _OVER
            ]
        return result

    def half_taken_over(self, machines: Mapping[str, Machine]) -> list[Instance]:
        """Tagged as ours and otherwise not: somebody takes it over just now, or the ledger has lost it."""
        known = {machine.instance_id for machine in machines.values()}
        return [
            instance
            for instance in self._by_id.values()
            if instance.state not in _OVER
            and instance.id not in known
            and dict(instance.tags).get(names.TAG_CLUSTER) == self._cluster_id
            and dict(instance.tags).get(names.TAG_INTENT)
            and not intent_of(self._cluster_id, instance)
            and names.parse_hostname(self._cluster_id, instance.hostname) is None
        ]

    def reports(self, machines: Collection[Machine]) -> dict[str, str]:
        """What a person should look at."""
        told = {}
        for machine in machines:
            instance = self._by_id.get(machine.instance_id) if machine.instance_id else None
            if instance is None or instance.state in _OVER:
                continue
            if not carries_marks(self._cluster_id, machine, instance):
                told[machine.name] = (
                    f"instance {instance.id} no longer carries the marks of {machine.name}: it is not deleted "
                    "unless hostname, description or tags say again whose it is"
                )
        return told
