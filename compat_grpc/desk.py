"""Everything that is known when a call comes in: one roster, made anew only when something has changed.

Calls come by the thousand, one after the other, and must not wait for anybody. So what they are answered
from is kept until a record, a Node, a failure, the catalogue or the settings are other ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from compat_grpc import prices, templates
from compat_grpc.failures import Failures
from compat_grpc.groups import Group, Groups
from compat_grpc.held import is_held
from compat_grpc.roster import Roster
from compat_grpc.shortfalls import Shortfalls
from compat_grpc.switched import Served
from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.making import changed, made_with
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Policy, Pool
from controller.domain.remembering import remembered
from controller.domain.resources import Resources
from controller.domain.switching import Face, Power
from controller.fleet.engine import Fleet
from controller.fleet.switching.driven import gpu_label
from controller.fleet.switching.waits import hindrance
from controller.fleet.wheel import Wheel
from controller.planning.planner import plan
from controller.planning.predict import allocatable_of, labels_shown

_SHAPES = {"image", "disk_gb", "join"}  # settings of a pool that make other nodes
_NODE_GOES = 600.0  # seconds, in which the Node of a machine that is off is waited for
_REMEMBERED = 20_000  # ids of machines that are gone
_LEAST = Decimal("0.0001")  # an hour of a machine that costs nothing: prices are compared by dividing


class Desk:
    def __init__(
        self,
        fleet: Fleet,
        wheel: Wheel,
        failures: Failures,
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        cluster_id: str,
        shortfalls: Shortfalls | None = None,
        snapshot: Callable[[], Snapshot] | None = None,
    ) -> None:
        self.clock = clock
        self._snapshot = snapshot
        self._shortfalls = shortfalls
        self.fleet = fleet
        self.wheel = wheel
        self.failures = failures
        self.cluster_id = cluster_id
        self.groups = Groups()
        self._leads = leads
        self._state: tuple[object, ...] = ()
        self._nodes: Mapping[str, Node | None] = {}
        self._roster = Roster({}, (), {}, ())
        self._templates: dict[str, bytes] = {}
        self._made_of: tuple[object, ...] = ()
        self._shown: Mapping[tuple[str, str], Mapping[str, str]] | None = None
        self._served = Served(wheel)
        self._past: dict[str, str] = {}  # names and instance ids of machines that were here -> their group
        self._prices: list[tuple[Resources, Decimal]] | None = None

    @property
    def policy(self) -> Policy:
        return self.fleet.policy

    @property
    def caller_began(self) -> float:
        """When the caller's present life began, also where an earlier life of ours heard of it; 0: nobody knows."""
        began = self.fleet.ledger.driver_began
        return began if began <= self.clock() else 0.0

    def caller_begins(self) -> None:
        self.fleet.ledger.driver_begins(self.clock())

    def led_elsewhere(self) -> str:
        return "" if self._leads() else "this replica does not hold the lease"

    def not_serving(self) -> str:
        """Why nothing can be told, or ""."""
        if elsewhere := self.led_elsewhere():
            return elsewhere
        if not self.fleet.rebuilt:
            return "ledger and inventory were not read yet"
        return ""

    def roster(self) -> Roster:
        fleet, nodes = self.fleet, self.wheel.seen_nodes()
        state = (fleet.ledger.version, self.failures.version, fleet.catalogue, fleet.policy, nodes)
        if len(state) != len(self._state) or any(
            a is not b if index > 1 else a != b
            for index, (a, b) in enumerate(zip(state, self._state, strict=True))
        ):
            self._renew(state)
        return self._roster

    def _renew(self, state: tuple[object, ...]) -> None:
        machines, switched = self.fleet.machines(), self._served.look()
        self.failures.look(machines, [seen.record for seen in switched])
        before = self._roster.keys()
        configured = self.groups.now(self.fleet.policy, self.fleet.catalogue)
        self._nodes = self.wheel.nodes()
        of_switches, now_is = {seen.switch.name: seen for seen in switched}, self.clock()

        def held(group: Group) -> bool:
            return is_held(self.policy, group, of_switches.get(group.id) if group.switched else None, now_is)

        self._roster = Roster(configured, machines, self._nodes, self.failures.all(), switched, held)
        now = self._roster.keys()
        self._past.update({key: entry.group for key, entry in before.items() if key not in now})
        while len(self._past) > _REMEMBERED:
            del self._past[next(iter(self._past))]
        self._shown = None
        self._prices = None
        self._state = (state[0], self.failures.version, *state[2:])

    def lacking(self) -> int:
        """Machines that pods wait for beside all that is on its way, as the planner would buy or switch them on."""
        if self._snapshot is None:
            return 0
        return sum(1 for action in plan(self._snapshot()).actions if isinstance(action, Launch))

    def still_there(self, name: str) -> str:
        """Why a switched machine that is off is not switched on before its Node is gone, or "".

        A Node that was there before and is not Ready is no machine on its way to cluster-autoscaler: it would take
        another one beside it. One that pods keep for longer is no reason to leave it off for ever.
        """
        switch, record = self._served.get(name), self.fleet.ledger.switched.get(name)
        node = self.wheel.node(name)
        if switch is None or record is None or record.power is not Power.OFF or node is None or node.ready:
            return ""
        if hindrance(switch, record, node, self.clock()) is not None:
            return ""  # that is told
        goes = record.node_goes and 0 <= self.clock() - record.off_since < _NODE_GOES
        return f"{name} is off, and its Node is about to be deleted" if goes or record.down_at else ""

    def group_that_was(self, key: str) -> str | None:
        """The group of a machine of ours that is gone; "" where only its name tells that it was ours."""
        if key in self._past:
            return self._past[key]
        found = names.parse_hostname(self.cluster_id, key)
        if found is None:
            return None
        return f"{found[0]}."  # any group of that pool

    # -- what is derived ------------------------------------------------------------------------

    def template(self, group: Group) -> bytes | None:
        """None where neither the catalogue nor memory knows the type."""
        if self._shown is None:
            self._look_at_nodes()
        if group.id not in self._templates:
            self._make_templates(self._shown or {})
        return self._templates.get(group.id)

    def _look_at_nodes(self) -> None:
        """Most changes of machines and Nodes change no template: they are kept then."""
        fleet, nodes = self.fleet, self.wheel.seen_nodes()
        self._shown = labels_shown(
            Snapshot(
                now=0.0,
                policy=self.policy,
                nodes=nodes,
                machines=fleet.machines(),
                offers=fleet.catalogue.offers,
            )
        )
        figures = {name: dict(found) for name, found in fleet.ledger.figures.items()}
        made_of = (fleet.catalogue, fleet.policy, figures, self._shown, self._faces())
        if made_of != self._made_of:
            self._templates.clear()
            self._made_of = made_of

    def _faces(self) -> dict[str, Face | None]:
        """What machines that are switched looked like when they were of use last."""
        known = self.fleet.ledger.switched
        return {name: known[name].face for name in self._served.names() if name in known}

    def _make_templates(self, shown: Mapping[tuple[str, str], Mapping[str, str]]) -> None:
        """All in one go: who asks for one asks for all."""
        fleet = self.fleet
        for group in self._roster.groups.values():
            if group.switched:
                if (switch := self._served.get(group.id)) is not None:
                    made = templates.of_switch(self.policy, switch, self._faces().get(group.id))
                    self._templates[group.id] = made
                continue
            pool = self.policy.pool(group.pool) or Pool(name=group.pool, max=0)
            kind = self.groups.kind(group.instance_type)
            if kind is not None:
                seen = shown.get((group.pool, group.instance_type))
                least = self._offered(group.id)
                self._templates[group.id] = templates.template(
                    self.policy, pool, group, kind, fleet.ledger.figures, seen, least
                )

    def _offered(self, group_id: str) -> Resources:
        if self._shortfalls is None:
            return {}
        return self._shortfalls.offered(group_id, self._predicted(group_id))

    def shortfalls(self) -> list[str]:
        """Compare what ready nodes offer with what was predicted; what people are to be told of it."""
        if self._shortfalls is None or self.not_serving():
            return []
        roster = self.roster()
        nodes: dict[str, list[Node]] = {}
        for group_id in roster.groups:
            for entry in roster.entries(group_id):
                machine = entry.machine
                node = self._nodes.get(machine.intent) if machine is not None else None
                if machine is not None and node is not None and self._is_telling(machine):
                    nodes.setdefault(group_id, []).append(node)
        before = {group_id: self._offered(group_id) for group_id in roster.groups}
        told = self._shortfalls.look(
            nodes, {group_id: self._predicted(group_id) for group_id in roster.groups}
        )
        if before != {group_id: self._offered(group_id) for group_id in roster.groups}:
            self._templates.clear()
        return told

    def _is_telling(self, machine: Machine) -> bool:
        """It is ready, and made as the next one of its pool will be."""
        pool = self.policy.pool(machine.pool)
        others = changed(machine.made_with, _made_with(pool)) if pool is not None else []
        return machine.phase is Phase.READY and not set(others) & _SHAPES

    def _predicted(self, group_id: str) -> Resources:
        group = self._roster.groups[group_id]
        pool, kind = self.policy.pool(group.pool), self.groups.kind(group.instance_type)
        return allocatable_of(self.policy, pool, kind) if pool is not None and kind is not None else {}

    def gpu_type(self, group: Group) -> str:
        """The value of the label that its nodes carry, or "" where they have no GPUs."""
        if group.switched:
            switch = self._served.get(group.id)
            face = self._faces().get(group.id)
            return gpu_label(switch, face.labels if face is not None else {}) if switch is not None else ""
        kind = self.groups.kind(group.instance_type)
        return names.gpu_slug(kind.model) if kind is not None and kind.gpus and group.labelled else ""

    def price(self, group: Group) -> Decimal | None:
        if group.switched:
            switch = self._served.get(group.id)
            return max(switch.price, _LEAST) if switch is not None else None
        pool, kind = self.policy.pool(group.pool), self.groups.kind(group.instance_type)
        if pool is None or kind is None:
            return None
        return prices.of_group(pool, group, self.fleet.catalogue, kind)

    def priced(self) -> list[tuple[Resources, Decimal]]:
        """What a machine of every group that can be bought from has, and an hour of it: asked for each pod that waits."""
        if self._prices is None:
            self._prices = []
            for group in self._roster.groups.values():
                pool, kind = self.policy.pool(group.pool), self.groups.kind(group.instance_type)
                price = self.price(group)
                if pool is not None and kind is not None and price:
                    self._prices.append((allocatable_of(self.policy, pool, kind), price))
        return self._prices


_made_with = remembered(made_with, most=1000)  # one for each pool
