"""What the sandbox's scheduler says of a pod: the same objects in a store of its own, and every node asked."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import BY_NAME
from controller.sandbox.cluster.scheduler import Scheduler
from controller.sandbox.cluster.store import Store
from tests.e2e.controlplane.differential.compared import Both, Comparison
from tests.e2e.controlplane.differential.worlds import RESIZED, Case, Json, state

GROUPS = {"storageclasses": "storage.k8s.io", "csinodes": "storage.k8s.io"}


def expected(listed: Mapping[str, Sequence[Json]], pod: Json) -> frozenset[str]:
    """The nodes that would take the pod, as it was made."""
    store = Store(time.time, random.Random(0))
    scheduler = Scheduler(store, Agenda(time.time), Recorder(store))
    for plural, found in listed.items():
        for each in found:
            if each["metadata"]["uid"] != pod["metadata"]["uid"]:
                kind = BY_NAME[GROUPS.get(plural, ""), plural]
                # As it is: a store would take away what tells that it is being deleted.
                store.commit(kind, "ADDED", copy.deepcopy(each), None, dry=False)
    return scheduler.fitting(pod)


class Sandboxed(Comparison):
    """Without tolerations that compare numbers: the sandbox's API refuses them, as that of a usual cluster does.

    And without pods that are being resized: no kubelet of the sandbox resizes any.
    """

    def both(self, case: Case) -> Both:
        spec = dict(case.pod["spec"])
        known = [each for each in spec.get("tolerations", ()) if each.get("operator") not in ("Gt", "Lt")]
        if "tolerations" in spec:
            spec["tolerations"] = known
        pods = tuple(map(_as_it_was, case.world.pods))
        world = replace(case.world, pods=pods)
        return super().both(replace(case, world=world, pod={**case.pod, "spec": spec}))


def _as_it_was(pod: Json) -> Json:
    if state(pod) != RESIZED:
        return pod
    return {**pod, "metadata": {k: v for k, v in pod["metadata"].items() if k != "annotations"}}
