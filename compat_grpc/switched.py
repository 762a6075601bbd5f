"""Machines that are switched, as cluster-autoscaler sees them: each is a node group of one.

One that is on its way up or on counts, whoever switched it. One that could not be switched on, or that never showed
itself, is a failed creation until it is collected. While it goes, and until its Node is gone, it is on its way out.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from compat_grpc.failures import Failure
from controller.domain.kube import Node
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.wheel import Wheel

RUNNING, CREATING, DELETING = 1, 2, 3  # states of instances on the wire


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that is switched: what is set, what is recorded, and its Node."""

    switch: Switch
    record: Switched
    node: Node | None
    configured: bool = True


def state_of(seen: Seen, failure: Failure | None) -> int:
    """0: it is off, and nothing of it is left in the cluster."""
    power = seen.record.power
    if power in (Power.RISING, Power.ON):
        return RUNNING if seen.node is not None else CREATING
    if failure is not None and power is not Power.DRAINING:
        return CREATING
    return DELETING if seen.node is not None or power is not Power.OFF else 0


class Served:
    """Those that are served, and those that were.

    One that is not served any more keeps its group while its Node is there: some releases of cluster-autoscaler end
    when a group goes that has nodes.
    """

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._known: dict[str, Switch] = {}

    def get(self, name: str) -> Switch | None:
        return self._known.get(name)

    def names(self) -> Iterable[str]:
        return self._known.keys()

    def look(self) -> list[Seen]:
        lever = self._wheel.lever
        found = [
            Seen(switch=switch, record=record, node=self._wheel.node(switch.name))
            for switch, record in (lever.board.records() if lever is not None else ())
            if switch.delete_node
        ]
        now = {seen.switch.name: seen.switch for seen in found}
        for name, switch in list(self._known.items()):
            if name in now:
                continue
            if (node := self._wheel.node(name)) is None:
                del self._known[name]
            else:
                record = Switched(name=name, power=Power.ON)
                found.append(Seen(switch=switch, record=record, node=node, configured=False))
        self._known |= now
        return found
