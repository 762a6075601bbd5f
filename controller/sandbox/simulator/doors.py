"""The worlds as one process reaches them: everything that it sends is shown to the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.sandbox.simulator.carrier import Carried
from controller.sandbox.simulator.judge import Judge
from controller.sandbox.simulator.worlds import Worlds
from controller.sandbox.wire import Request

if TYPE_CHECKING:
    from controller.sandbox.simulator.process import Process


class Door:
    process: Process  # set when it is born

    def __init__(self, worlds: Worlds, judge: Judge) -> None:
        self._worlds = worlds
        self._judge = judge


class SkyDoor(Door):
    def carried(self, request: Request, *, late: bool) -> Carried:
        self._judge.cloud_asked(request)
        found = self._worlds.sky.carried(request)
        self._judge.cloud_arrived(request, late=late)
        return found

    def lateness(self, request: Request) -> float:
        self._judge.sent(self.process, request)
        return self._worlds.sky.late(request)


class GroundDoor(Door):
    def carried(self, request: Request) -> Carried:
        self._judge.cluster_asked(self.process, request)
        found = self._worlds.ground.carried(request)
        status = found.response.status if found.response is not None else 0
        self._judge.cluster_arrived(self.process, request, status)
        return found
