"""Defaults of a namespace for the pods that DaemonSets will make on a machine to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controller.domain.kube import DaemonSet, LimitRange, PodShape
from controller.domain.plan import Launch
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, GIB, offers, pod, world


def types_bought(asked: int, *ranges: LimitRange, **of_daemon: Any) -> list[str]:
    """For a pod that asks for so many of the 22 cores of the small machine."""
    values: dict[str, Any] = {"unset": {"cpu": 2, "memory": 2}, "namespace": "agents"} | of_daemon
    shape = PodShape(requests=values.pop("requests", {}), owner_kind="DaemonSet")
    daemon = DaemonSet(name="agent", uid="d", shape=shape, **values)
    wanted = pod("train", requests={"cpu": asked * 1000})
    decided = plan(world(pods=(wanted,), daemonsets=(daemon,), limit_ranges=ranges, offers=offers(A1, A2)))
    return [a.offer.type.name for a in decided.actions if isinstance(a, Launch)]


def limit(name: str = "defaults", namespace: str = "agents", **more: Mapping[str, int]) -> LimitRange:
    return LimitRange(namespace=namespace, name=name, **({"default_requests": {"cpu": 1000}} | more))


@pytest.mark.parametrize(
    ("ranges", "of_daemon", "cores"),
    [
        ((), {}, 22),
        ((limit(),), {}, 20),  # two containers that say nothing
        ((limit(),), {"unset": {}}, 22),
        ((limit(),), {"unset": {"memory": 2}}, 22),
        ((limit(),), {"unset": {"cpu": 1}, "requests": {"cpu": 500}}, 20),
        ((limit(namespace="other"),), {}, 22),
        ((limit(default_requests={}, default_limits={"cpu": 3000}),), {}, 16),
        ((limit(default_limits={"cpu": 3000}),), {}, 20),
        ((limit("a"), limit("b", default_requests={"cpu": 9000})), {}, 20),
        ((limit(default_requests={"memory": GIB}),), {}, 22),
    ],
)
def test_containers_that_say_nothing_get_their_namespaces_default(
    ranges: tuple[LimitRange, ...], of_daemon: dict[str, Any], cores: int
) -> None:
    assert types_bought(cores, *ranges, **of_daemon) == [A1.name]
    assert types_bought(cores + 1, *ranges, **of_daemon) == [A2.name]
