"""ReplicaSets and Deployments: so many pods of one template, and one ReplicaSet per template."""

from __future__ import annotations

import copy

from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.creating import new_object
from controller.sandbox.cluster.making import FINISHED, PodMaker, is_ready, key_of, reference, revision
from controller.sandbox.cluster.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Obj


class Replicas:
    def __init__(self, maker: PodMaker) -> None:
        self.maker = maker

    def replica_set(self, owner: Obj) -> None:
        pods = [
            pod
            for pod in self.maker.mine(owner)
            if pod["status"].get("phase") not in FINISHED and not pod["metadata"].get("deletionTimestamp")
        ]
        wanted = owner["spec"].get("replicas", 1)
        made = sum(
            self.maker.make(REPLICA_SETS, owner, {}, lambda pod: None) for _ in range(wanted - len(pods))
        )
        # Those that do not run yet go first, then the youngest.
        surplus = sorted(
            pods, key=lambda pod: (not is_ready(pod), pod["metadata"]["creationTimestamp"]), reverse=True
        )
        for pod in surplus[: max(0, len(pods) - wanted)]:
            self.maker.store.delete(PODS, key_of(pod))
        count, ready = min(len(pods), wanted) + made, sum(is_ready(pod) for pod in pods)
        leaving = sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in self.maker.mine(owner))
        status: Obj = {"replicas": count, "fullyLabeledReplicas": count, "terminatingReplicas": leaving}
        self.maker.write(REPLICA_SETS, owner, status | {"readyReplicas": ready, "availableReplicas": ready})

    def deployment(self, owner: Obj) -> None:
        """One ReplicaSet per template, none while paused; an older one goes down when the new one is there."""
        meta, spec = owner["metadata"], owner["spec"]
        digest = revision(owner)
        name, sets = f"{meta['name']}-{digest}", self.maker.mine(owner, REPLICA_SETS)
        current = next((each for each in sets if each["metadata"]["name"] == name), None)
        if current is None and not spec.get("paused"):
            template = copy.deepcopy(spec["template"])
            labels = {**(template.get("metadata", {}).get("labels") or {}), "pod-template-hash": digest}
            template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
            exact = {**(spec["selector"].get("matchLabels") or {}), "pod-template-hash": digest}
            new_object(
                self.maker.store,
                REPLICA_SETS,
                {
                    "metadata": {
                        "name": name,
                        "namespace": meta["namespace"],
                        "labels": labels,
                        "ownerReferences": [reference(DEPLOYMENTS, owner)],
                    },
                    "spec": {
                        "replicas": spec["replicas"],
                        "selector": {**spec["selector"], "matchLabels": exact},
                        "template": template,
                    },
                },
            )
            text = f"Scaled up replica set {name} from 0 to {spec['replicas']}"
            self.maker.recorder.tell(DEPLOYMENTS, owner, "ScalingReplicaSet", text, "deployment-controller")
            return
        for each in sets if current is not None else ():
            replicas = spec["replicas"] if each is current else 0
            each["spec"]["replicas"] = replicas
            self.maker.store.update(REPLICA_SETS, each)
        ready = sum((each.get("status") or {}).get("readyReplicas", 0) for each in sets)
        count = sum((each.get("status") or {}).get("replicas", 0) for each in sets)
        updated = ((current or {}).get("status") or {}).get("replicas", 0)
        leaving = sum((each.get("status") or {}).get("terminatingReplicas", 0) for each in sets)
        status = {
            "replicas": count,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "terminatingReplicas": leaving,
        }
        status["unavailableReplicas"] = max(0, spec["replicas"] - ready)
        status["conditions"] = copy.deepcopy((owner.get("status") or {}).get("conditions") or [])
        self._tell(status, *_progress(spec, name, ready, updated))
        enough = ready >= spec["replicas"]
        has = "has" if enough else "does not have"
        word = "Available" if enough else "Unavailable"
        text = f"Deployment {has} minimum availability."
        self._tell(status, "Available", str(enough), f"MinimumReplicas{word}", text)
        self.maker.write(DEPLOYMENTS, owner, status)

    def _tell(self, status: Obj, kind: str, value: str, reason: str, message: str) -> None:
        now = self.maker.store.now()
        held = next((each for each in status["conditions"] if each["type"] == kind), None)
        same = held is not None and (held["status"], held.get("reason")) == (value, reason)
        moment = held["lastUpdateTime"] if held is not None and same else now
        told = {"reason": reason, "message": message, "lastUpdateTime": moment}
        set_condition(status, now, type=kind, status=value, **told)


def _progress(spec: Obj, name: str, ready: int, updated: int) -> tuple[str, str, str, str]:
    if spec.get("paused"):
        return "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"
    if ready >= spec["replicas"] and updated == spec["replicas"]:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return "Progressing", "True", "NewReplicaSetAvailable", text
    return "Progressing", "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
