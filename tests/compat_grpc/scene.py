"""A fleet on fakes with cluster-autoscaler's server in front of it, over a real channel on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import grpc
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from compat_grpc.driver import ExternalDriver
from compat_grpc.transport import Files
from controller.app.driver import Seat
from controller.config.externalgrpc import ExternalGrpc
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Taint
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy, Pool
from controller.fleet.removal import UNSEEN
from controller.fleet.wheel import Wheel
from tests.compat_grpc.generations import NEW, Client
from tests.fleet.fakes import A1, Hands
from tests.fleet.power import Cabinet, Operator
from tests.fleet.scene import Controller, World
from tests.fleet.scene import policy as fleet_policy

H1 = InstanceType(
    name="1H100.80S.30V", model="H100 80GB", gpus=1, vcpus=30, memory_gib=120, gpu_memory_gib=80,
    price=Decimal("2.29"), spot_price=Decimal("0.80"), images=("ubuntu-24.04-cuda-12.8-open",),
)  # fmt: skip
CPU = InstanceType(
    name="CPU.4V.16G", model="", gpus=0, vcpus=4, memory_gib=16, price=Decimal("0.03"),
    spot_price=Decimal("0.01"), images=("ubuntu-24.04",),
)  # fmt: skip


def pool(name: str = "g", kind: InstanceType = A1, **more: Any) -> Pool:
    given: dict[str, Any] = {
        "instance_types": (kind.name,), "locations": ("FIN-01",), "max": 3, "join": "k3s", "own_script": True,
    }  # fmt: skip
    return Pool(name=name, **given | more)


G = pool("g", taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),), labels={"team": "ml"})
H = pool("h", H1, min=1, max=2)
SOLD = tuple(
    Offer(type=kind, location=location, market=market)
    for kind in (A1, H1, CPU)
    for location in ("FIN-01", "FIN-03")
    for market in ("on-demand", "spot")
)


class Served:
    """One controller process with its server, and clients of it."""

    def __init__(self, world: World, policy: Policy, **settings: Any) -> None:
        self.world = world
        given = ExternalGrpc(**{"listen": "127.0.0.1:0", "insecure": True} | settings)
        files = None
        if given.tls is not None:
            files = Files(cert=given.tls.cert, key=given.tls.key, client_ca=given.tls.client_ca)
        self.driver = ExternalDriver(given, files, clock=world.time.clock)
        self.controller = self._begin(self.driver.shaped(policy))
        self.registry = CollectorRegistry()
        self.warnings: list[str] = []
        controller = self.controller
        self.driver.take(
            Seat(
                fleet=controller.fleet,
                wheel=Wheel(
                    controller.fleet, view=controller.hands, clock=world.time.clock, sleep=world.time.sleep
                ),
                leads=lambda: controller.leads,
                snapshot=lambda: _picture(controller),
                registry=self.registry,
                warn=self._warn,
                wake=lambda: None,
            )
        )
        self._channels: list[Any] = []

    def _begin(self, policy: Policy) -> Controller:
        if isinstance(self.world, Cabinet):
            return Operator(
                self.world, policy, listeners=self.driver.listeners, taints=(UNSEEN,), driven=True
            )
        return Controller(self.world, policy, listeners=self.driver.listeners, taints=(UNSEEN,), driven=True)

    async def _warn(self, reason: str, message: str) -> None:
        self.warnings.append(f"{reason}: {message}")

    @property
    def hands(self) -> Hands:
        return self.controller.hands

    @property
    def port(self) -> int:
        assert self.driver.server is not None
        return self.driver.server.port

    def client(self, generation: str = NEW, timeout: float = 5.0) -> Client:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}")
        self._channels.append(channel)
        return Client(channel, generation, timeout)

    async def look(self) -> None:
        """A pass of the main loop."""
        await self.controller.look(decide=False)
        if self.controller.fleet.rebuilt:
            self.driver.decide(_picture(self.controller))

    async def run(self, seconds: float, step: float = 5.0) -> None:
        end = self.world.time.now + seconds
        while self.world.time.now < end:
            self.world.happen()
            await self.look()
            await self.world.time.advance(step)

    async def until(self, phase: Phase, count: int = 1, within: float = 900) -> list[Machine]:
        end = self.world.time.now + within
        while self.world.time.now < end:
            found = [m for m in self.controller.ledger.machines.values() if m.phase is phase]
            if len(found) >= count:
                return sorted(found, key=lambda m: m.name)
            await self.run(5)
        raise AssertionError(f"not {count} {phase.value}: {list(self.controller.ledger.machines.values())}")

    async def settle(self) -> None:
        await self.world.time.settle()

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        await self.driver.server.stop(0)  # type: ignore[union-attr]
        await self.controller.die()


def _picture(controller: Controller) -> Any:
    from controller.app import picture

    return picture.take(
        controller.fleet.policy, controller.hands, controller.fleet, controller.world.time.now
    )


def world(*pools: Pool, **more: Any) -> World:
    made = World(**{"pools": pools or (G, H)} | more)
    made.account.offers = list(SOLD)
    return made


@asynccontextmanager
async def served(made: World | None = None, *, looked: bool = True, **settings: Any) -> AsyncIterator[Served]:
    place = made or world()
    one = Served(place, place.policy, **settings)
    await one.driver.start()
    try:
        if looked:
            await one.look()
            await one.settle()
        yield one
    finally:
        await one.close()


async def code_of(call: Any) -> tuple[str, str]:
    """The status and the words that a call ended with."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    return "OK", ""


__all__ = [
    "A1",
    "CPU",
    "H1",
    "G",
    "H",
    "Served",
    "code_of",
    "fleet_policy",
    "pool",
    "replace",
    "served",
    "world",
]
