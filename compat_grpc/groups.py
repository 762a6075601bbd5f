"""Node groups made of pools: cluster-autoscaler needs one type, one location and one set of labels in each.

A pool of one type and one location is one group with the pool's name; any other is one group for each type
and location. A group that was shown once stays while its pool may buy such machines, because one that goes
while nodes of it are there ends some releases; machines that no setting speaks of any more have groups of
their own, which cannot grow.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controller.domain.cloudthings import Catalogue, InstanceType
from controller.domain.machine import Machine
from controller.domain.policy import Policy, Pool
from controller.domain.switching import Switch
from controller.planning.choice import allows_type

Place = tuple[str, str, str]  # pool, instance type, location


class Group(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    pool: str
    instance_type: str
    location: str
    min: int = 0
    max: int = 0
    configured: bool = True
    switched: bool = False  # one machine that is not bought
    labelled: bool = True  # its nodes carry the GPU label, where they have GPUs

    @property
    def place(self) -> Place:
        return (self.pool, self.instance_type, self.location)


def is_one_group(pool: Pool) -> bool:
    """By the settings alone: an id never depends on what the cloud happens to sell today."""
    return len(pool.instance_types) == 1 and len(pool.locations) == 1


def long_id(pool: str, instance_type: str, location: str) -> str:
    return f"{pool}.{instance_type}.{location}".lower()


def objections(policy: Policy) -> list[str]:
    """What the settings ask for and cluster-autoscaler cannot do."""
    ids = {
        long_id(pool.name, kind, location)
        for pool in policy.pools
        for kind in pool.instance_types
        for location in pool.locations
    }
    taken = [
        f"machines: {switch.name}: expected another name than a pool's node group has, because the machine is a node "
        "group of its own for cluster-autoscaler"
        for switch in policy.switches
        if switch.delete_node and switch.name in ids
    ]
    return taken + [
        f"pools: min = {pool.min} of pool {pool.name}: expected a pool of one instance type and one location, "
        "because each of them is a node group of its own for cluster-autoscaler"
        for pool in policy.pools
        if pool.min and not is_one_group(pool)
    ]


class Groups:
    """What is configured, resolved against the catalogue; kept while the process lives."""

    def __init__(self) -> None:
        self._kinds: dict[str, InstanceType] = {}  # by upper-case name, the last that was known
        self._sold: set[tuple[str, str, str]] = set()  # types, locations and markets that were ever on sale

    def kind(self, name: str) -> InstanceType | None:
        """What the catalogue says of the type, or said last."""
        return self._kinds.get(name.upper())

    def now(self, policy: Policy, catalogue: Catalogue) -> dict[str, Group]:
        for offer in catalogue.offers:
            self._kinds[offer.type.name.upper()] = offer.type
            self._sold.add((offer.type.name, offer.location, offer.market))
        found: dict[str, Group] = {}
        for pool in policy.pools:
            if is_one_group(pool):
                named = self.kind(pool.instance_types[0])
                kind = named.name if named else pool.instance_types[0]
                found[pool.name] = Group(
                    id=pool.name,
                    pool=pool.name,
                    instance_type=kind,
                    location=pool.locations[0],
                    min=pool.min,
                    max=pool.max,
                    labelled=not pool.waits_by_taint,
                )
                continue
            for kind, location in sorted(self._on_sale(pool)):
                group_id = long_id(pool.name, kind, location)
                found[group_id] = Group(
                    id=group_id,
                    pool=pool.name,
                    instance_type=kind,
                    location=location,
                    max=pool.max,
                    labelled=not pool.waits_by_taint,
                )
        return found | {s.name: of_switch(s) for s in policy.switches if s.delete_node}

    def _on_sale(self, pool: Pool) -> set[tuple[str, str]]:
        """By the settings of now: what the pool may not buy any more is no group, or a scale-up would be lost on it."""
        markets = pool.markets()
        allowed = {name for name, kind in self._kinds.items() if allows_type(pool, kind)}
        found = {
            (name, location)
            for name, location, market in self._sold
            if market in markets
            and name.upper() in allowed
            and (not pool.locations or location in pool.locations)
        }
        sold = {name.upper() for name, _ in found}
        unknown = [name for name in pool.instance_types if name.upper() not in sold]
        return found | {(name, location) for name in unknown for location in pool.locations}


def of_switch(switch: Switch, *, configured: bool = True) -> Group:
    """A machine that is switched is a pool of one kind and one place, with room for one."""
    return Group(
        id=switch.name,
        pool=switch.name,
        instance_type=switch.name,
        location=switch.location,
        min=1 if switch.keep_on else 0,
        max=1,
        configured=configured,
        switched=True,
    )


def group_of(groups: dict[str, Group], pool: str, instance_type: str, location: str) -> str:
    """The id of the group that a machine belongs to, whether it is configured or not."""
    short = groups.get(pool)
    if short is not None and short.instance_type == instance_type and short.location == location:
        return pool
    return long_id(pool, instance_type, location)


def left_over(groups: dict[str, Group], machines: Iterable[Machine]) -> dict[str, Group]:
    """Groups of machines that the settings do not speak of: they shrink, and never grow."""
    sizes: dict[str, Group] = {}
    for machine in machines:
        group_id = group_of(groups, machine.pool, machine.instance_type, machine.location)
        if group_id in groups:
            continue
        known = sizes.get(group_id)
        sizes[group_id] = Group(
            id=group_id,
            pool=machine.pool,
            instance_type=machine.instance_type,
            location=machine.location,
            max=(known.max if known else 0) + 1,
            configured=False,
        )
    return sizes
