from __future__ import annotations

import pytest

from controller.domain.machine import Phase
from tests.compat_grpc.generations import GENERATIONS
from tests.compat_grpc.scene import served


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_machine_comes_and_goes(generation: str) -> None:
    async with served() as one:
        client = one.client(generation)
        answer = await client.NodeGroups()
        assert [(g.id, g.minSize, g.maxSize) for g in answer.nodeGroups] == [("g", 0, 3), ("h", 1, 2)]
        await client.NodeGroupIncreaseSize(id="g", delta=2)
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 2
        listed = (await client.NodeGroupNodes(id="g")).instances
        assert [i.status.instanceState for i in listed] == [2, 2]
        machines = await one.until(Phase.READY, 2)
        listed = (await client.NodeGroupNodes(id="g")).instances
        assert {i.id for i in listed} == {f"verda://{m.name}" for m in machines}
        assert [i.status.instanceState for i in listed] == [1, 1]
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(listed[0].id)])
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1
        await one.run(120)
        assert len(one.world.town.nodes) == 1
        assert len((await client.NodeGroupNodes(id="g")).instances) == 1
