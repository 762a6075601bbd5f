"""Lists of what the cloud has, one asked for after the other, and what it says by id about machines that a list lacks.

A machine whose id is known is asked for by that id before any list is believed that lacks it. Answers may overtake
each other, so lists are numbered in the order in which they were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from controller.cloud.protocol import Cloud, CloudError
from controller.domain.cloudthings import Instance, Inventory
from controller.domain.machine import Machine
from controller.fleet.sightings import Sightings


class Listing:
    def __init__(self, cloud: Cloud, sightings: Sightings) -> None:
        self._cloud = cloud
        self._sightings = sightings
        self._asked = 0  # how many were asked for
        self._judged = 0  # the number of the list that was judged last
        self._logins = 0

    async def ask(self) -> tuple[Inventory, int]:
        self._asked += 1
        number = self._asked
        return await self._cloud.inventory(), number

    async def take(self, inventory: Inventory, number: int, machines: Sequence[Machine]) -> None:
        missing = self._sightings.missing(inventory, machines)
        answers = await asyncio.gather(*(self._cloud.instance(i) for i in missing), return_exceptions=True)
        unsure = [i for i, answer in zip(missing, answers, strict=True) if isinstance(answer, CloudError)]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, CloudError):
                raise answer
        found = [answer for answer in answers if isinstance(answer, Instance)]
        self._sightings.take(inventory, found, unsure, number=number)

    def is_fresh(self) -> bool:
        """Whether the last list is complete and was not judged before: asked once for each look."""
        fresh = self._sightings.inventory.complete and self._sightings.number > self._judged
        self._judged = self._sightings.number
        return fresh

    @property
    def logins(self) -> int:
        return self._cloud.health().logins

    @property
    def wanted(self) -> bool:
        """Nothing is changed with other credentials before a list was read with them."""
        return self.logins != self._logins

    def heed_logins(self, before: int) -> bool:
        """A list was read; `before` it so many logins had been made (one made meanwhile is none of its own). Whether
        it is the first after a login."""
        anew, self._logins = before != self._logins, before
        return anew
