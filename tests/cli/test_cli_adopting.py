"""Which pool a predecessor's machine goes to when the settings are ours already."""

from __future__ import annotations

import json
from decimal import Decimal

from controller.cli.adopting import _judged
from controller.config.load import load
from controller.config.policy import to_policy
from controller.domain.cloudthings import Instance
from controller.domain.kube import Node
from controller.fleet.ledger import Ledger
from tests.fleet.scene import World

GROUP = "A-Group.With-A-Very-Long-Name"


def test_a_shortened_pool_is_found_also_after_the_configuration_was_converted() -> None:
    group = {"instance_type": "1V100.6V", "image": "b", "max_size": 1, "startup_script_id": "s"}
    theirs = load(
        "config.yaml", {}, text=json.dumps({"node_groups": {GROUP: group}}), service_account="/nowhere"
    )
    ours = load("config.yaml", {}, service_account="/nowhere", text=json.dumps({
        "pools": [{"name": theirs.settings.pools[0].name, "instance_types": ["1V100.6V"], "max": 1}],
        "join": {"own": {"startup_script_id": "s"}},
    }))  # fmt: skip
    machine = Instance(
        id="8472bacf-875d-4e86-ad31-4a5d2dcd5f4d", hostname=f"{GROUP}-1a2b3c4d", description=f"Autoscaler node for {GROUP}",
        status="running", instance_type="1V100.6V", location="FIN-03", market="on-demand", price=Decimal(1), created_at=0.0,
    )  # fmt: skip
    node = Node(name=machine.hostname.lower(), uid="n", provider_id=f"verda://{machine.id}")
    ledger = Ledger(World().start().hands, "home")
    for loaded in (theirs, ours):
        policy = to_policy(loaded.settings, cluster_id="home")
        (found,) = _judged("ca-verda", loaded, policy, (machine,), (node,), ledger)
        assert (found.because, found.pool) == ("", theirs.settings.pools[0].name)
