"""Machines that are switched, as the program is wired for them."""

from __future__ import annotations

import random
from typing import Any

from controller.app.parts import Now
from controller.app.program import Program
from controller.app.switches import make_endpoints
from controller.config.load import load_dict
from controller.config.policy import to_policy
from controller.domain import names
from controller.domain.kube import Node, Taint
from controller.domain.switching import Switched
from tests.app.test_app_lease import Sky
from tests.cluster.scripted import Clock, Scripted
from tests.fleet.clockwork import Time
from tests.fleet.fakes import A1, Account, Town


async def never(name: str, key: str) -> str:
    raise AssertionError("nothing is called")


async def test_a_start_without_machines_takes_its_taints_off_those_of_the_last_settings() -> None:
    """Nothing else would, and their Nodes would never take a pod again."""
    time = Time()
    account = Account(time)
    sky = Sky(account, Town(time, account))
    clock = Clock()
    loaded = load_dict(
        {"pools": [{"name": "a100", "instance_types": [A1.name], "max": 4}], "namespace": "gpu"}
    )
    cluster: Any = Scripted()
    told: Any = sky
    program = Program(
        loaded,
        to_policy(loaded.settings, cluster_id="home"),
        cluster,
        sky,
        told,
        Now(wall=clock.wall, monotonic=clock, rng=random.Random(1)),
        endpoints=make_endpoints(loaded.settings, never, clock.wall),
        identity="us",
    )
    program.ledger.put_switched(Switched(name="w1"))
    left = Node(name="w1", uid="n", taints=(Taint(key=names.TAINT_DRAINING, effect="NoSchedule"),))
    lifted: list[tuple[str, bool]] = []
    board = program.switchboard
    assert board is not None
    view: Any = Only(left)
    board._view = view
    board.turning.taint = lambda name, node, wanted, **_: lifted.append((name, wanted))  # type: ignore[method-assign]
    board.judge()
    assert "w1" in program.ledger.switched  # until the taint is gone
    board.follow()
    assert lifted == [("w1", False)]
    view.found = None
    board.judge()
    assert program.ledger.switched == {}


class Only:
    """A view of one Node."""

    def __init__(self, node: Node) -> None:
        self.found: Node | None = node

    def node(self, name: str) -> Node | None:
        return self.found
