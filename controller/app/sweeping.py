"""What a dead process may have left in the account: removed where it is certainly ours, told where it is not.

Swept now and then. A sentence about something doubtful stands in the status until a sweep finds nothing to say of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from controller.cloud.protocol import Cloud
from controller.fleet import sweep
from controller.fleet.engine import Fleet
from controller.fleet.flights import Flights
from controller.fleet.ledger import Ledger

log = logging.getLogger("gpu_autoscaler")


class Sweeping:
    """`problem(key, sentence)` puts a sentence into the status, and takes it away again with None."""

    def __init__(
        self,
        *,
        cloud: Cloud,
        ledger: Ledger,
        fleet: Fleet,
        flights: Flights,
        cluster_id: Callable[[], str],
        problem: Callable[[str, str | None], None],
    ) -> None:
        self._cloud = cloud
        self._ledger = ledger
        self._fleet = fleet
        self._flights = flights
        self._cluster_id = cluster_id
        self._problem = problem
        self._told: set[str] = set()
        self._attached: set[str] = set()  # disks that were to go and are attached, when it was swept last

    async def sweep(self) -> None:
        orphans = await sweep.find(
            self._cloud,
            self._cluster_id(),
            self._ledger.machines,
            self._fleet.inventory,
            self._flights.launching,
            self._fleet.runs,
        )
        # A Node may miss a heartbeat in the moment in which the cloud hides its machine.
        orphans, self._attached = sweep.agreed(orphans, self._attached)
        for script in orphans.scripts:
            log.info("script without a machine is removed", extra={"script": script.name})
        for disk in orphans.disks:
            log.warning("disk without a machine is removed", extra={"disk": disk.name})
        refused = await sweep.remove(self._cloud, orphans, self._flights.may_act)
        told = {*orphans.doubtful, *refused}
        for sentence in self._told - told:
            self._problem(sentence, None)
        for sentence in sorted(told):
            self._problem(sentence, sentence)
        self._told = told
