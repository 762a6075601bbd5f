"""DaemonSets: a pod for each node that matches.

Quirks kept: daemon pods are pinned by node affinity on the node's name, so that the scheduler binds
them; they get their own tolerations; a taint that does not execute lets one that is there stay.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.sandbox.cluster.fit import selects_node, tolerates
from controller.sandbox.cluster.making import FINISHED, PodMaker, is_ready, key_of, revision
from controller.sandbox.cluster.resources import DAEMON_SETS, NODES, PODS, Obj

DAEMON_TOLERATIONS: list[Obj] = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


class DaemonSets:
    def __init__(self, maker: PodMaker) -> None:
        self.maker = maker

    def step(self, owner: Obj) -> None:
        by_node: dict[str, Obj] = {}
        for pod in self.maker.mine(owner):
            node = pod["spec"].get("nodeName") or _pinned_to(pod)
            if pod["status"].get("phase") in FINISHED and not pod["metadata"].get("deletionTimestamp"):
                self.maker.store.delete(PODS, key_of(pod))
            else:
                by_node[node] = pod
        wanted: set[str] = set()
        for item in self.maker.store.shelf(NODES).span():
            name = item.key[1]
            runs, stays = _daemon_wanted(owner, item.decode())
            if runs or (stays and name in by_node):
                wanted.add(name)
            if runs and name not in by_node:
                self.maker.make(DAEMON_SETS, owner, _labels(owner), _pin(name))
        for node, pod in by_node.items():
            if node not in wanted and not pod["metadata"].get("deletionTimestamp"):
                self.maker.store.delete(PODS, key_of(pod))
        ready = sum(is_ready(pod) for node, pod in by_node.items() if node in wanted)
        held = sum(node in wanted for node in by_node)
        status = {
            "currentNumberScheduled": held,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": len(wanted),
        }
        status |= {"numberReady": ready, "updatedNumberScheduled": held}
        self.maker.write(
            DAEMON_SETS, owner, status | {"numberAvailable": ready, "numberUnavailable": len(wanted) - ready}
        )


def _labels(owner: Obj) -> dict[str, str]:
    """Of the template's revision, by its sum and by its number."""
    number = (owner["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    labels = {"controller-revision-hash": revision(owner)}
    return labels | ({"pod-template-generation": number} if number else {})


def _daemon_wanted(owner: Obj, node: Obj) -> tuple[bool, bool]:
    """Whether a new daemon pod goes to a node, and whether one that is there stays."""
    spec, meta = owner["spec"]["template"]["spec"], node["metadata"]
    if not selects_node(spec, meta["name"], meta.get("labels") or {}):
        return False, False
    tolerations = [*(spec.get("tolerations") or ()), *DAEMON_TOLERATIONS]
    # A daemon pod may be made for a node that is not ready yet: that taint is about to leave.
    tolerations.append({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"})
    tolerations.append(
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"}
    )
    taints = (node.get("spec") or {}).get("taints") or []
    against = [t for t in taints if t["effect"] != "PreferNoSchedule" and not tolerates(tolerations, t)]
    return not against, not any(t["effect"] == "NoExecute" for t in against)


def _pin(node: str) -> Callable[[Obj], None]:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}

    def edit(pod: Obj) -> None:
        spec = pod["spec"]
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        # The real controller replaces required terms: it has already matched them.
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [field]}
        added = list(DAEMON_TOLERATIONS)
        if spec.get("hostNetwork"):
            added.append(
                {
                    "key": "node.kubernetes.io/network-unavailable",
                    "operator": "Exists",
                    "effect": "NoSchedule",
                }
            )
        held = spec.get("tolerations") or []
        spec["tolerations"] = held + [dict(each) for each in added if each not in held]

    return edit


def _pinned_to(pod: Obj) -> str:
    try:
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return str(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
    except (KeyError, IndexError):
        return ""
