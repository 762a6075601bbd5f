"""Who decides on sizes: the planner, or somebody else who is served by a module that need not be there.

Whatever drives, the fleet is the same. Another driver than the planner gets the fleet's verbs when all is put
together, says how a pass of the main loop is explained, and hears what becomes of machines.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry

from controller.domain.plan import Plan, Snapshot
from controller.domain.policy import Policy
from controller.fleet.engine import Fleet
from controller.fleet.listener import Listener
from controller.fleet.wheel import Wheel


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver finds before it."""

    fleet: Fleet
    wheel: Wheel
    leads: Callable[[], bool]
    snapshot: Callable[[], Snapshot]  # what the planner would plan on now
    registry: CollectorRegistry
    warn: Callable[[str, str], Coroutine[Any, Any, None]]  # an event for people: its reason, and words
    wake: Callable[[], None]  # the main loop looks at once


class Driver(Protocol):
    @property
    def listeners(self) -> Sequence[Listener]: ...

    def objections(self, policy: Policy) -> list[str]:
        """What of the settings it cannot drive."""

    def shaped(self, policy: Policy) -> Policy:
        """The settings as they are to be read under it."""

    def take(self, seat: Seat) -> None: ...

    def decide(self, snapshot: Snapshot) -> Plan:
        """A pass of the main loop."""

    def not_ready(self) -> str: ...

    async def start(self) -> None:
        """Begin to serve. Raises ValueError or OSError where that cannot be."""

    async def stop(self) -> None: ...
