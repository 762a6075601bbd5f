"""What a machine's Node must show before the machine counts as usable."""

from __future__ import annotations

import pytest

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy, Pool
from controller.domain.resources import Resources
from controller.fleet.looking import promised

THERE = Machine(
    intent="a",
    name="home-a100-a",
    pool="a100",
    instance_type="2A100.44V",
    location="FIN-01",
    market="on-demand",
    phase=Phase.STARTED,
    gpus=2,
)


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (Pool(name="a100", max=1), {"nvidia.com/gpu": 2}),
        (Pool(name="a100", max=1, resource_claims="always"), {}),  # its GPUs are not on the Node
        (Pool(name="other", max=1), {}),
    ],
)
def test_a_node_must_show_the_gpus_of_its_machine_unless_claims_serve_them(
    pool: Pool, expected: Resources
) -> None:
    assert promised(Policy(cluster_id="home", pools=(pool,)), THERE) == expected
