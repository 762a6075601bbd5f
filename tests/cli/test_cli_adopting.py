"""Which pool a predecessor's machine goes to when the settings are ours already."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from controller.app.exits import Ends
from controller.cli import adopting
from controller.cli.adopting import _judged
from controller.cluster.protocol import ClusterError
from controller.config.load import load, load_dict
from controller.config.policy import to_policy
from controller.domain.cloudthings import Catalogue, Instance
from controller.domain.kube import Node
from controller.domain.outcome import Happened, Outcome
from controller.fleet.ledger import Ledger
from tests.fleet.fakes import A1, Hands
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


class Unwritable(Hands):
    """A cloud, and a cluster without the controller's namespace."""

    def __init__(self) -> None:
        world = World()
        super().__init__(world.account, world.town)
        self.tagged: list[str] = []

    async def tag(self, instance_id: str, key: str, value: str) -> Outcome:
        self.tagged.append(key)
        return Happened(instance_id)

    async def write_config_map(self, name: str, data: Mapping[str, str], version: str | None) -> str:
        raise ClusterError("not_found", "there is no such namespace")

    async def close(self) -> None:
        return None


async def test_where_the_ledger_cannot_be_written_no_tag_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags of a cluster id that has no ledger make a machine nobody's: the right one would leave it alone, too."""
    hands = Unwritable()
    loaded = load_dict(
        {"pools": [{"name": "gpu", "instance_types": [A1.name], "max": 1}], "cluster_id": "home"}
    )
    machine = Instance(
        id="8472bacf-875d-4e86-ad31-4a5d2dcd5f4d", hostname="gpu-1a2b3c4d", description="Autoscaler node for gpu",
        status="running", instance_type=A1.name, location="FIN-01", market="on-demand", price=Decimal(1),
        created_at=0.0, gpus=1,
    )  # fmt: skip
    hands.account.instances[machine.id] = machine

    async def made(*_: object) -> Any:
        return hands

    async def catalogue(*_: object) -> Catalogue:
        return Catalogue(at=0.0)

    async def nodes(_: object) -> list[Node]:
        return [Node(name=machine.hostname, uid="n", provider_id=f"verda://{machine.id}")]

    for name, part in (
        ("make_cloud", lambda *_: hands), ("make_connection", made), ("check_cloud", catalogue),
        ("ClusterWriter", lambda *_, **__: hands), ("_nodes", nodes),
    ):  # fmt: skip
        monkeypatch.setattr(adopting, name, part)
    assert [row["adoptable"] for row in await adopting._adopt("ca-verda", loaded, "", False)] == [True]
    with pytest.raises(Ends, match="ledger cannot be written"):
        await adopting._adopt("ca-verda", loaded, "", True)
    assert hands.tagged == []
