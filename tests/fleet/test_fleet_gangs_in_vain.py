"""Gangs whose machines come up and do not take them, for a rule that nobody can predict: two tries, and no more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.cloudthings import Offer
from controller.domain.kube import HostPort, PodShape
from controller.domain.reason import Reason
from tests.fleet.fakes import A1
from tests.fleet.scene import POOL, World

PORT = (HostPort(80),)


class Closed(World):
    """On each machine something that came with it holds the port that the gang wants."""

    def __init__(self, *, one_location: bool, places: tuple[str, ...], most: int = 40) -> None:
        super().__init__(pools=(replace(POOL, max=most),), cooldown=600.0)
        self.account.offers = [Offer(type=A1, location=place, market="on-demand") for place in places]
        said = {names.POD_GANG: "g", names.POD_GANG_SIZE: "2"}
        said |= {names.POD_GANG_ONE_LOCATION: "true"} if one_location else {}
        for number in range(2):
            self._shape(f"g-{number}", 1, annotations=said)
        self._step, self.town.step = self.town.step, self._and_more
        self.town._schedule = lambda now: None  # type: ignore[method-assign]

    def _shape(self, name: str, gpus: int, **more: object) -> str:
        pod = self.town.add_pod(name, gpus=gpus, **more)
        shape: PodShape = replace(pod.shape, host_ports=PORT, mirror=not gpus)
        self.town.pods[pod.key] = replace(pod, shape=shape)
        return pod.key

    def _and_more(self) -> None:
        self._step()
        places = {one.hostname: one.location for one in self.account.instances.values()}
        for name, node in list(self.town.nodes.items()):
            place = {names.LABEL_ZONE: places[name], names.LABEL_LOCATION: places[name]}
            self.town.nodes[name] = replace(node, labels={**node.labels, **place})
            if f"default/static-{name}" not in self.town.pods:
                key = self._shape(f"static-{name}", 0)
                held = replace(self.town.pods[key], node=name, phase="Running", unschedulable_since=None)
                self.town.pods[key] = held
        for key, pod in list(self.town.pods.items()):
            if pod.node and pod.node not in self.town.nodes:
                del self.town.pods[key]


@pytest.mark.parametrize("most", [40, 2])
@pytest.mark.parametrize(
    ("one_location", "places"),
    [(False, ("FIN-01",)), (True, ("FIN-01",)), (True, ("FIN-01", "FIN-02", "FIN-03"))],
)
async def test_a_gang_that_its_machines_do_not_take_is_bought_for_twice(
    one_location: bool, places: tuple[str, ...], most: int
) -> None:
    world = Closed(one_location=one_location, places=places, most=most)
    controller = world.start()
    await world.run(controller, 4 * 3600, step=60)
    assert len(world.account.orders) == 4
    assert world.account.alive() == []
    assert all(why.code is Reason.GANG_INCOMPLETE for why in controller.plan.pods.values())
