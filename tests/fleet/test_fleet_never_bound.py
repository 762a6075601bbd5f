"""A pod that the scheduler never binds, on machines that are ready and then lose their Nodes."""

from __future__ import annotations

from controller.domain.machine import Phase
from controller.domain.reason import Reason
from tests.fleet.fakes import Town
from tests.fleet.scene import World


class Stubborn(Town):
    """Its scheduler has a reason that nobody else knows."""

    def _schedule(self, now: float) -> None:
        """Binds nothing."""


async def test_machines_that_were_ready_and_broke_before_their_pod_ran_are_not_bought_a_third_time() -> None:
    world = World()
    world.town.__class__ = Stubborn
    waiting = world.town.add_pod()
    controller = world.start()
    broken = 0
    for _ in range(30):
        await world.run(controller, 60)
        world.town.joins = True
        for machine in list(controller.ledger.machines.values()):
            if machine.phase is Phase.READY and machine.name in world.town.nodes:
                # Its Node is deleted, and its kubelet registers no more.
                world.town.cut_off.add(machine.instance_id)
                del world.town.nodes[machine.name]
                broken += 1
    assert broken == len(world.account.orders) == 2
    assert len(controller.ledger.disappointed[waiting.identity]) == 2
    assert controller.plan.pods["default/train"].code is Reason.PREDICTION_WRONG
