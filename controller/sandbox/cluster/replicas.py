"""ReplicaSets and Deployments: so many pods of one template, and one ReplicaSet per template."""

from __future__ import annotations

import copy

from controller.sandbox.cluster.making import FINISHED, PodMaker, is_ready, key_of, reference, revision
from controller.sandbox.cluster.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Obj
from controller.sandbox.cluster.writing import new_object, set_condition


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
        status: Obj = {"replicas": count, "fullyLabeledReplicas": count}
        self.maker.write(REPLICA_SETS, owner, status | {"readyReplicas": ready, "availableReplicas": ready})

    def deployment(self, owner: Obj) -> None:
        """One ReplicaSet per template; an older one goes down when the new one is there."""
        meta, spec = owner["metadata"], owner["spec"]
        digest = revision(owner)
        name, sets = f"{meta['name']}-{digest}", self.maker.mine(owner, REPLICA_SETS)
        current = next((each for each in sets if each["metadata"]["name"] == name), None)
        if current is None:
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
        for each in sets:
            replicas = spec["replicas"] if each is current else 0
            each["spec"]["replicas"] = replicas
            self.maker.store.update(REPLICA_SETS, each)
        ready = sum((each.get("status") or {}).get("readyReplicas", 0) for each in sets)
        count = sum((each.get("status") or {}).get("replicas", 0) for each in sets)
        updated = (current.get("status") or {}).get("replicas", 0)
        status = {
            "replicas": count,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        status["unavailableReplicas"] = max(0, spec["replicas"] - ready)
        status["conditions"] = copy.deepcopy((owner.get("status") or {}).get("conditions") or [])
        available = "True" if ready >= spec["replicas"] else "False"
        reason = "MinimumReplicasAvailable" if available == "True" else "MinimumReplicasUnavailable"
        set_condition(status, self.maker.store.now(), type="Available", status=available, reason=reason)
        self.maker.write(DEPLOYMENTS, owner, status)
