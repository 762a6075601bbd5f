"""All probes, by theme."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.controlplane.conformance.probe import Probe
from tests.e2e.controlplane.conformance.probes import (
    access,
    discovery,
    doors_parts,
    doors_pods,
    kinds,
    lists,
    made,
    objects_admission,
    objects_others,
    objects_pods,
    patches,
    refused_objects,
    refused_pods,
    refused_requests,
    removal,
    strategic,
    tables,
    watch_beginnings,
    watch_events,
    writers,
)

THEMES: Mapping[str, tuple[Probe, ...]] = {
    "kinds": kinds.PROBES,
    "refused": (*refused_requests.PROBES, *refused_objects.PROBES, *refused_pods.PROBES),
    "patches": (*patches.PROBES, *strategic.PROBES),
    "removal": (*writers.PROBES, *removal.PROBES),
    "doors": (*doors_parts.PROBES, *doors_pods.PROBES),
    "lists": (*lists.PROBES, *tables.PROBES),
    "watches": (*watch_beginnings.PROBES, *watch_events.PROBES),
    "objects": (*objects_pods.PROBES, *objects_admission.PROBES, *objects_others.PROBES),
    "made": made.PROBES,
    "discovery": discovery.PROBES,
    "access": access.PROBES,
}
