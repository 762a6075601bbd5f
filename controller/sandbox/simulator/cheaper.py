"""What the faults of a course may make cheaper: other types and prices, cheaper disks, shorter boots, GPUs cut into several.

Whether and when they happened is not asked: the lower bound takes the best that any of them would have allowed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from controller.domain.cloudthings import InstanceType
from controller.sandbox.cloud.events import CATALOGUE
from controller.sandbox.cloud.ground import Ground
from controller.sandbox.cloud.settings import Settings as CloudSettings
from controller.sandbox.cluster.settings import Settings as ClusterSettings
from controller.sandbox.simulator.bound import Best, shown_as_types
from controller.sandbox.simulator.schedule import Entry
from controller.sandbox.simulator.slices import most_cut


def best_of(trouble: Iterable[Entry], cloud: CloudSettings, cluster: ClusterSettings) -> Best:
    """`cloud`, `cluster`: as they are without trouble."""
    entries = list(trouble)
    turned = [values for entry in entries for values in _cloud_values(entry)]
    clouds = [cloud, *(cloud.changed(values) for values in [*turned, _together(turned)] if values)]
    clusters = [
        cluster,
        *(_turned(cluster, entry["cluster_knobs"]) for entry in entries if "cluster_knobs" in entry),
    ]
    boot = sum(min(getattr(one, stage).low for one in clouds) for stage in ("ordered_s", "provisioning_s"))
    boot += sum(
        min(getattr(one, stage)[0] for one in clusters) for stage in ("boot", "ready", "gpu", "pod_start")
    )
    return Best(
        kinds=list(dict.fromkeys(kind for one in clouds for kind in _sold(one))),
        disk_gb_month=min(one.volume_gb_month for one in clouds),
        shortest_boot=boot,
        slices=max((n for entry in entries for n in most_cut(entry)), default=0),
    )


def _cloud_values(entry: Entry) -> Iterator[dict[str, Any]]:
    event = entry.get("cloud_event") or {}
    if "cloud_knobs" in entry:
        yield entry["cloud_knobs"]
    if event.get("event") == "settings":
        yield event.get("values") or {}
    if event.get("event") == "catalogue":
        yield {key: event[key] for key in CATALOGUE if event.get(key) is not None}


def _together(turned: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What the catalogue is like when all of it holds at once; prices of one type by whoever comes last."""
    found: dict[str, Any] = {}
    for values in turned:
        for key in CATALOGUE:
            if isinstance(value := values.get(key), dict):
                found[key] = {**found.get(key, {}), **value}
    return found


def _turned(settings: ClusterSettings, values: dict[str, Any]) -> ClusterSettings:
    other = ClusterSettings(
        boot=settings.boot, ready=settings.ready, gpu=settings.gpu, pod_start=settings.pod_start
    )
    other.change(values)
    return other


def _sold(settings: CloudSettings) -> list[InstanceType]:
    return shown_as_types(Ground(settings, lambda: 0.0, random.Random(0)).sold())
