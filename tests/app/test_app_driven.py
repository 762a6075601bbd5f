"""The program under somebody else than the planner."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller.app.parts import Now
from controller.app.program import Program
from controller.config.load import load_dict
from controller.config.policy import to_policy
from controller.domain.policy import Policy
from tests.app.test_app_lease import Sky
from tests.cluster.scripted import Clock, Scripted
from tests.fleet.clockwork import Time
from tests.fleet.fakes import A1, Account, Town


def settings(name: str) -> Any:
    return load_dict({"pools": [{"name": name, "instance_types": [A1.name], "max": 4}], "namespace": "gpu"})


async def test_the_settings_are_read_as_the_driver_reads_them_at_the_start_and_when_they_change() -> None:
    def shaped(policy: Policy) -> Policy:
        return replace(policy, pools=tuple(replace(pool, labels={"by": "driver"}) for pool in policy.pools))

    time, clock, cluster = Time(), Clock(), Scripted()
    account = Account(time)
    sky: Any = Sky(account, Town(time, account))
    driver: Any = SimpleNamespace(
        shaped=shaped, listeners=(), take=lambda seat: None, decide=None, registry=CollectorRegistry()
    )
    loaded = settings("a100")
    program = Program(
        loaded,
        to_policy(loaded.settings, cluster_id="home"),
        cluster,  # type: ignore[arg-type]
        sky,
        sky,
        Now(wall=clock.wall, monotonic=clock, rng=random.Random(1)),
        identity="us",
        driver=driver,
    )
    program._joiner = SimpleNamespace(change=lambda entries: None)  # type: ignore[assignment]
    for name in ("a100", "other"):
        if name == "other":
            again = settings(name)
            program.change(again, to_policy(again.settings, cluster_id="home"), {}, None)
        for policy in (program.policy, program.fleet.policy, program.loop.policy):
            assert [(pool.name, pool.labels) for pool in policy.pools] == [(name, {"by": "driver"})]
