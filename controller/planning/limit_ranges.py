"""What LimitRanges add to the pods that DaemonSets will make: pods that exist have it already, those to come not.

A container that says nothing of a resource gets the default of its namespace; a default limit is a request,
too, where no default request is given. Of several LimitRanges the first one speaks.
"""

from __future__ import annotations

import msgspec

from controller.domain.kube import DaemonSet
from controller.domain.plan import Snapshot
from controller.domain.resources import Resources


def with_limit_ranges(snapshot: Snapshot) -> Snapshot:
    """The same picture with the requests that the pods of DaemonSets will really have."""
    defaults: dict[str, dict[str, int]] = {}
    for found in sorted(snapshot.limit_ranges, key=lambda found: (found.namespace, found.name)):
        known = defaults.setdefault(found.namespace, {})
        for name, units in {**found.default_limits, **found.default_requests}.items():
            known.setdefault(name, units)
    if not defaults:
        return snapshot
    daemons = tuple(_with(daemon, defaults.get(daemon.namespace, {})) for daemon in snapshot.daemonsets)
    return msgspec.structs.replace(snapshot, daemonsets=daemons)


def _with(daemon: DaemonSet, defaults: Resources) -> DaemonSet:
    more = {name: daemon.unset[name] * units for name, units in defaults.items() if name in daemon.unset}
    if not more:
        return daemon
    requests = dict(daemon.shape.requests)
    for name, units in more.items():
        requests[name] = requests.get(name, 0) + units
    shape = msgspec.structs.replace(daemon.shape, requests=requests)
    return msgspec.structs.replace(daemon, shape=shape)
