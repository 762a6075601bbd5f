"""What all projects of the sandbox cloud stand on: time and its timers, what is sold, what is in stock.

Everything that happens later is a timer in machine time; `advance` fires those that are due in their
order, each at its own time, so that a clock that leaps an hour shows what an hour of small steps would
have shown. Machine time is kept in whole microseconds, so that no sum of small steps drifts.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.sandbox.cloud.billing import SECOND
from controller.sandbox.cloud.catalogue import NAMESPACE, Catalogue, InstanceType, load
from controller.sandbox.cloud.model import Outcome
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.spread import Spread
from controller.sandbox.cloud.stock import Place, Stock


@dataclass(slots=True)
class OutcomeRule:
    instance_type: str
    location: str
    market: str
    outcome: Outcome
    left: int | None  # None = for ever
    share: float = 1.0

    def takes(self, kind: str, location: str, market: str) -> bool:
        wanted = ((self.instance_type, kind), (self.location, location), (self.market, market))
        return self.left != 0 and all(want in ("*", actual) for want, actual in wanted)


class Payer(Protocol):
    """A project: it has a next moment at which money matters, and copes with it."""

    def next_payment(self) -> int | None: ...

    def pay(self) -> None: ...


@dataclass(slots=True)
class Ground:
    settings: Settings
    clock: Callable[[], float]
    rng: random.Random
    catalogue: Catalogue = field(default_factory=load)
    stock: Stock = field(init=False)
    now: float = field(init=False)  # real time
    machine: int = 0  # machine time since the world began, in microseconds
    outcomes: list[OutcomeRule] = field(default_factory=list)
    payers: list[Payer] = field(default_factory=list)
    _base: tuple[float, int] = field(init=False)  # a moment in both times, since the last change of speed
    _timers: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    _addresses: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _sold: tuple[Settings, Mapping[str, InstanceType]] | None = None

    def __post_init__(self) -> None:
        self.stock = Stock(self.catalogue)
        self.now = self.clock()
        self._base = (self.now, 0)

    # -- time

    def advance(self) -> None:
        """Let everything happen that is due by the clock."""
        target = max(self.now, self.clock())
        while (moment := self._next()) is not None:
            when, payer = moment
            at = self.real(when)
            if at > target and when > self._machine_at(target):
                break
            self.now = min(max(self.now, at), target)
            self.machine = max(self.machine, when)
            if payer is not None:
                payer.pay()
            else:
                heapq.heappop(self._timers)[2]()
        self.now = target
        self.machine = max(self.machine, self._machine_at(target))

    def _next(self) -> tuple[int, Payer | None] | None:
        """The next thing that happens. Money comes before what else happens at the same moment."""
        first: tuple[int, Payer | None] | None = (self._timers[0][0], None) if self._timers else None
        for payer in self.payers:
            when = payer.next_payment()
            if when is not None and (first is None or when <= first[0]):
                first = (when, payer)
        return first

    def next_moment(self) -> float | None:
        """When something will happen next, in real time."""
        moment = self._next()
        return None if moment is None else self.real(moment[0])

    def real(self, machine: int) -> float:
        real, base = self._base
        return real + (machine - base) / SECOND / self.settings.speed

    def _machine_at(self, real: float) -> int:
        began, base = self._base
        return base + round((real - began) * self.settings.speed * SECOND)

    def later(self, machine_seconds: float, action: Callable[[], None]) -> None:
        when = self.machine + round(machine_seconds * SECOND)
        heapq.heappush(self._timers, (when, next(self._order), action))

    def draw(self, spread: Spread) -> float:
        return spread.draw(self.rng)

    def change(self, settings: Settings) -> None:
        """New knobs. What is under way keeps its machine time, and passes at the new speed."""
        self._base = (self.now, self.machine)
        self.settings = settings

    # -- the catalogue as it is sold today

    def sold(self) -> Mapping[str, InstanceType]:
        """Types by the name they are sold under."""
        if self._sold is None or self._sold[0] is not self.settings:
            self._sold = (self.settings, dict(self._selling()))
        return self._sold[1]

    def _selling(self) -> Iterator[tuple[str, InstanceType]]:
        settings, types = self.settings, dict(self.catalogue.types)
        for new, like in settings.added_types.items():
            if like in types:
                facts = {**types[like].facts, "id": str(uuid.uuid5(NAMESPACE, new))}
                types[new] = dataclasses.replace(types[like], instance_type=new, facts=facts)
        for name, kind in types.items():
            if name not in settings.removed_types:
                supported = tuple(settings.supported_os.get(name, kind.supported_os))
                prices: dict[str, Any] = settings.prices.get(name, {})
                yield (
                    settings.renamed_types.get(name, name),
                    dataclasses.replace(kind, supported_os=supported, **prices),
                )

    def place(self, kind: InstanceType, location: str, market: str) -> Place:
        """Where a type's stock is counted."""
        name = kind.instance_type
        return (self.settings.added_types.get(name, name), location, market)

    def outcome_for(self, kind: str, location: str, market: str) -> Outcome | None:
        for rule in self.outcomes:
            if rule.takes(kind, location, market) and (rule.share >= 1 or self.rng.random() < rule.share):
                if rule.left is not None:
                    rule.left -= 1
                return rule.outcome
        return None

    # -- names

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def new_ip(self) -> str:
        number = next(self._addresses)
        return f"198.{18 + number // 65536 % 2}.{number // 256 % 256}.{number % 256}"
