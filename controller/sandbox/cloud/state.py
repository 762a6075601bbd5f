"""The whole state of the sandbox cloud at one moment, with its clock, its timers and its money.

Everything that happens later is a timer; `advance` fires those that are due in their order, each at
its own time, so that a clock that leaps an hour shows what an hour of small steps would have shown.
The one event without a timer is an empty balance: its moment follows from what is running.
"""

from __future__ import annotations

import heapq
import itertools
import random
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud.billing import Meter, empty_at, seconds
from controller.sandbox.cloud.catalogue import Catalogue, InstanceType, load
from controller.sandbox.cloud.model import Event, Instance, Outcome, Script, SshKey, Tag, Volume
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.stock import Stock


@dataclass(slots=True)
class OutcomeRule:
    instance_type: str
    location: str
    market: str
    outcome: Outcome
    left: int | None  # None = for ever

    def takes(self, kind: str, location: str, market: str) -> bool:
        wanted = ((self.instance_type, kind), (self.location, location), (self.market, market))
        return self.left != 0 and all(want in ("*", actual) for want, actual in wanted)


@dataclass(slots=True)
class State:
    settings: Settings
    clock: Callable[[], float]
    rng: random.Random
    catalogue: Catalogue = field(default_factory=load)
    stock: Stock = field(init=False)
    now: float = field(init=False)
    credit: Decimal = field(init=False)  # all money ever paid in
    instances: dict[str, Instance] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    ssh_keys: dict[str, SshKey] = field(default_factory=dict)
    tags: dict[tuple[str, str], Tag] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    outcomes: list[OutcomeRule] = field(default_factory=list)
    creates: int = 0
    on_empty: Callable[[], None] | None = None  # what happens when the balance is used up
    _empty: tuple[float | None] | None = None  # the moment of an empty balance, while nothing changes it
    _timers: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _addresses: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.stock = Stock(self.catalogue)
        self.now = self.clock()
        self.credit = self.settings.balance

    # -- time

    def advance(self) -> None:
        """Let everything happen that is due by the clock."""
        target = max(self.now, self.clock())
        while True:
            empty = self.empty_moment()
            timer = self._timers[0][0] if self._timers else None
            if empty is not None and empty <= target and (timer is None or empty <= timer):
                self.now = max(self.now, empty)
                self._run_empty()
            elif timer is not None and timer <= target:
                when, _, action = heapq.heappop(self._timers)
                self.now = max(self.now, when)
                action()
            else:
                break
        self.now = target

    def next_moment(self) -> float | None:
        """When something will happen next."""
        moments = [moment for moment in (self.empty_moment(),) if moment is not None]
        moments += [self._timers[0][0]] if self._timers else []
        return min(moments, default=None)

    def later(self, machine_seconds: float, action: Callable[[], None]) -> None:
        when = self.now + machine_seconds / self.settings.speed
        heapq.heappush(self._timers, (when, next(self._order), action))

    def draw(self, span: tuple[float, float]) -> float:
        return self.rng.uniform(*span)

    # -- money

    def meters(self) -> Iterator[Meter]:
        for instance in self.instances.values():
            yield instance.meter
        for volume in self.volumes.values():
            yield volume.meter

    def cost(self, things: Iterable[Instance] | Iterable[Volume]) -> Decimal:
        increment = None if self.settings.refund_unused else Decimal(str(self.settings.billing_increment_s))
        return sum(
            (thing.meter.cost(self.now, self.settings.speed, increment) for thing in things), Decimal(0)
        )

    @property
    def balance(self) -> Decimal:
        return self.credit - self.cost(self.instances.values()) - self.cost(self.volumes.values())

    def empty_moment(self) -> float | None:
        if self._empty is None:
            self._empty = (empty_at(self.balance, self.meters(), self.now, self.settings.speed),)
        return self._empty[0]

    def start(self, meter: Meter) -> None:
        meter.start(self.now)
        self._empty = None

    def stop(self, meter: Meter) -> None:
        meter.stop(self.now, self.settings.speed)
        self._empty = None

    def charge(self, meter: Meter, machine_seconds: float) -> None:
        """Bill time that was not metered while it passed."""
        meter.ran += seconds(machine_seconds)
        self._empty = None

    def change(self, settings: Settings, *, balance: Decimal | None = None) -> None:
        """New knobs. Timers under way keep their moment; meters are booked at the old speed first."""
        for meter in self.meters():
            meter.settle(self.now, self.settings.speed)
        self.settings = settings
        if balance is not None:
            self.credit += balance - self.balance
        self._empty = None

    def _run_empty(self) -> None:
        for meter in self.meters():  # no cent below zero: what runs ends now, whoever listens
            self.stop(meter)
        if self.on_empty is not None:
            self.on_empty()

    # -- catalogue as it is sold today

    def sold(self) -> Iterator[tuple[str, InstanceType]]:
        """Types by the name they are sold under."""
        for name, kind in self.catalogue.types.items():
            if name not in self.settings.removed_types:
                yield self.settings.renamed_types.get(name, name), kind

    def type_named(self, name: str) -> InstanceType | None:
        return dict(self.sold()).get(name)

    def price(self, kind: InstanceType, *, spot: bool) -> Decimal:
        row: dict[str, Any] = self.settings.prices.get(kind.instance_type, {})
        listed: Decimal = row.get("spot_price" if spot else "price_per_hour", kind.price(spot=spot))
        return listed

    # -- names

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def new_ip(self) -> str:
        number = next(self._addresses)
        return f"198.{18 + number // 65536 % 2}.{number // 256 % 256}.{number % 256}"

    def tag(self, key: str, value: str) -> Tag:
        """The project-wide tag of this pair."""
        pair = (key, value)
        if pair not in self.tags:
            self.tags[pair] = Tag(f"tag_{self.rng.getrandbits(64):016x}", key, value)
        return self.tags[pair]

    def note(
        self,
        instance: Instance,
        action: str,
        *,
        by_user: bool = False,
        error: str | None = None,
        **properties: Any,
    ) -> None:
        self.events.append(
            Event(self.new_id(), self.now, instance.id, action, by_user, error, dict(properties))
        )

    def outcome_for(self, kind: str, location: str, market: str) -> Outcome | None:
        for rule in self.outcomes:
            if rule.takes(kind, location, market):
                if rule.left is not None:
                    rule.left -= 1
                return rule.outcome
        return None
