"""Machines that the settings want although nothing runs on them: a pool's minimum, and what headroom keeps free.

A course ends with them, and they are no leak. As few as will do, and not what the controller says of them: one more
than the settings ask for is left over, whoever explains it.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy


def standing(policy: Policy, machines: Iterable[Machine]) -> set[str]:
    """Their names. `machines` as the ledger has them; of a pool that has too many, the largest are over."""
    known = sorted(machines, key=lambda one: (one.gpus, one.name))
    found: set[str] = set()
    for pool in policy.pools:
        free = max((entry.gpus for entry in policy.headroom if entry.pool == pool.name), default=0)
        count = gpus = 0
        for machine in known:
            if machine.pool != pool.name or machine.phase is not Phase.READY or machine.surplus:
                continue
            if count < pool.min or gpus < free:
                found.add(machine.name)
                count, gpus = count + 1, gpus + machine.gpus
    return found
