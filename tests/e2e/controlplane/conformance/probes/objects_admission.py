"""What admission adds: tolerations, priority, accounts and runtime classes to pods, taints to nodes."""

from __future__ import annotations

from tests.e2e.controlplane.conformance.manifests import STILL, a_pod
from tests.e2e.controlplane.conformance.probe import (
    CLASSES,
    NODES,
    NS,
    PODS,
    RUNTIMES,
    delete,
    fields,
    get,
    patch,
    post,
    probe,
)

PROBES = (
    probe(
        "tolerations and priority",
        post(PODS, a_pod("tolerant", tolerations=[{"operator": "Exists"}]), pick=fields("spec.tolerations")),
        post(
            PODS,
            a_pod(
                "patient",
                tolerations=[
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 5,
                    }
                ],
            ),
            pick=fields("spec.tolerations"),
        ),
        post(
            PODS,
            a_pod("keyed", tolerations=[{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]),
            pick=fields("spec.tolerations"),
        ),
        post(
            PODS,
            a_pod(
                "plain", tolerations=[{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]
            ),
            pick=fields("spec.tolerations"),
        ),
        post(CLASSES, {"metadata": {"name": "low-<tag>"}, "value": -20}),
        post(
            CLASSES,
            {
                "metadata": {"name": "never-<tag>"},
                "value": 7,
                "preemptionPolicy": "Never",
                "globalDefault": False,
            },
        ),
        post(
            PODS,
            a_pod("low", priorityClassName="low-<tag>"),
            pick=fields("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy"),
        ),
        post(
            PODS,
            a_pod("never", priorityClassName="never-<tag>"),
            pick=fields("spec.priority", "spec.preemptionPolicy"),
        ),
        post(PODS, a_pod("right", priorityClassName="low-<tag>", priority=-20), pick=fields("spec.priority")),
        post(PODS, a_pod("wrong", priorityClassName="low-<tag>", priority=5)),
        post(
            PODS,
            a_pod("usual"),
            pick=fields("spec.priority", "spec.preemptionPolicy", "spec.priorityClassName"),
        ),
        patch(f"{CLASSES}/low-<tag>", {"value": 3}),
        patch(f"{CLASSES}/low-<tag>", {"preemptionPolicy": "Never"}),
        patch(f"{CLASSES}/low-<tag>", {"description": "may change"}),
        get(f"{CLASSES}/system-node-critical"),
        get(f"{CLASSES}/system-cluster-critical"),
        post(
            PODS,
            a_pod("critical", priorityClassName="system-node-critical"),
            pick=fields("spec.priority", "code", "message"),
        ),
    ),
    probe(
        "service accounts and runtime classes",
        post(f"{NS}/serviceaccounts", {"metadata": {"name": "own"}, "imagePullSecrets": [{"name": "a"}]}),
        post(
            PODS,
            a_pod("own", serviceAccountName="own"),
            pick=fields("spec.serviceAccountName", "spec.serviceAccount", "spec.imagePullSecrets"),
        ),
        post(
            PODS,
            a_pod("old", serviceAccount="own"),
            pick=fields("spec.serviceAccountName", "spec.serviceAccount"),
        ),
        post(
            PODS,
            a_pod("no-token", automountServiceAccountToken=False),
            pick=fields(
                "spec.automountServiceAccountToken", "spec.volumes", "spec.containers.0.volumeMounts"
            ),
        ),
        post(
            RUNTIMES,
            {
                "metadata": {"name": "heavy-<tag>"},
                "handler": "nvidia",
                "overhead": {"podFixed": {"cpu": "100m"}},
                "scheduling": {
                    "nodeSelector": {"gpu": "yes"},
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                },
            },
        ),
        post(
            PODS,
            a_pod("heavy", runtimeClassName="heavy-<tag>"),
            pick=fields("spec.runtimeClassName", "spec.overhead", "spec.nodeSelector", "spec.tolerations"),
        ),
        post(PODS, a_pod("overhead", overhead={"cpu": "1"})),
        patch(f"{RUNTIMES}/heavy-<tag>", {"handler": "other"}),
    ),
    probe(
        "a node on its way in",
        post(NODES, {"metadata": {"name": "n1-<tag>", "annotations": STILL}}),
        post(
            NODES,
            {
                "metadata": {"name": "n2-<tag>", "annotations": STILL},
                "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]},
            },
            pick=fields("spec", "status"),
        ),
        post(
            NODES,
            {
                "metadata": {"name": "n3-<tag>", "annotations": STILL},
                "spec": {"unschedulable": True, "externalID": "a"},
                "status": {
                    "capacity": {"cpu": "1000m", "nvidia.com/gpu": 8, "memory": "1024Mi"},
                    "nodeInfo": {"kubeletVersion": "v1"},
                    "images": [],
                    "volumesInUse": [],
                },
            },
            pick=fields("spec.externalID", "status"),
        ),
        post(
            NODES,
            {
                "metadata": {"name": "n4-<tag>", "annotations": STILL},
                "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "2"}},
            },
            pick=fields("status.capacity", "status.allocatable"),
        ),
        post(
            NODES,
            {"metadata": {"generateName": "n5-<tag>-", "annotations": STILL}},
            keep={"made": "metadata.name"},
            pick=fields("metadata.generateName"),
        ),
        delete(f"{NODES}/<made>", pick=fields("status", "details.kind")),
    ),
)
