"""No cloud at all: for those who only switch machines of their own. It sells nothing and has nothing."""

from __future__ import annotations

from collections.abc import Callable

from controller.domain.cloudhealth import CloudHealth
from controller.domain.cloudthings import Catalogue, Instance, Inventory, Script, Volumes
from controller.domain.outcome import Outcome, Refused
from controller.domain.reason import Reason

_NOTHING = Refused(Reason.BAD_REQUEST, "no cloud is configured")


class NoCloud:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    async def catalogue(self) -> Catalogue:
        return Catalogue(at=self._clock())

    async def inventory(self) -> Inventory:
        return Inventory(at=self._clock())

    def trust(self, account: str) -> None:
        return None

    async def instance(self, instance_id: str) -> Instance | None:
        return None

    async def create(self, order: object) -> Outcome:
        return _NOTHING

    async def delete(self, instance_id: str, disks: tuple[str, ...]) -> Outcome:
        return _NOTHING

    async def volumes(self) -> Volumes:
        return Volumes()

    async def delete_volume(self, volume_id: str) -> Outcome:
        return _NOTHING

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        return ()

    async def create_script(self, name: str, text: str) -> Outcome:
        return _NOTHING

    async def delete_script(self, script_id: str) -> Outcome:
        return _NOTHING

    def health(self) -> CloudHealth:
        return CloudHealth()

    async def close(self) -> None:
        return None
