"""The doors of parts of objects: status and the rest, gates, scale."""

from __future__ import annotations

from tests.e2e.controlplane.conformance.manifests import STILL, a_pod, a_set, binding
from tests.e2e.controlplane.conformance.probe import (
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    STRATEGIC,
    Changed,
    at,
    delete,
    fields,
    get,
    patch,
    post,
    probe,
    put,
)

state = fields(
    "status.phase", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "code", "reason"
)
SCALE = f"{DEPLOYMENTS}/scaled/scale"

PROBES = (
    probe(
        "status and the rest of a node",
        post(
            NODES,
            {"metadata": {"name": "doors-<tag>", "annotations": STILL}, "status": {"capacity": {"cpu": "1"}}},
            quiet=True,
        ),
        get(f"{NODES}/doors-<tag>", until={"body.spec.taints": "<missing>"}, keep={"node": ""}),
        patch(
            f"{NODES}/doors-<tag>", {"status": {"capacity": {"cpu": "2"}}, "metadata": {"labels": {"a": "b"}}}
        ),
        patch(
            f"{NODES}/doors-<tag>/status",
            {
                "status": {"capacity": {"cpu": "3"}},
                "spec": {"unschedulable": True},
                "metadata": {"labels": {"a": "c"}, "annotations": {"d": "e"}},
            },
        ),
        get(f"{NODES}/doors-<tag>/status"),
        put(f"{NODES}/doors-<tag>/status", Changed("node", {"status": {"capacity": {"cpu": "4"}}})),
        put(
            f"{NODES}/doors-<tag>/status",
            Changed(
                "node",
                {
                    "metadata": {"resourceVersion": None},
                    "status": {"capacity": {"cpu": "4"}, "phase": "Running"},
                },
            ),
        ),
        put(
            f"{NODES}/doors-<tag>",
            Changed(
                "node",
                {
                    "metadata": {"resourceVersion": None, "labels": {"f": "g"}},
                    "status": {"capacity": {"cpu": "5"}},
                },
            ),
        ),
        patch(f"{NODES}/doors-<tag>/status", {"status": {"capacity": {"cpu": "much"}}}),
        patch(f"{NODES}/doors-<tag>/status", {"status": {"allocatable": {"nvidia.com/gpu": "1.5"}}}),
        patch(
            f"{NODES}/doors-<tag>",
            {"spec": {"providerID": "verda://a"}},
            pick=lambda body: at(body, "spec.providerID"),
        ),
        patch(f"{NODES}/doors-<tag>", {"spec": {"providerID": "verda://b"}}),
        patch(f"{NODES}/doors-<tag>", {"spec": {"podCIDR": "10.0.0.0/24"}}),
        patch(
            f"{NODES}/doors-<tag>",
            {
                "spec": {
                    "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]
                }
            },
        ),
        delete(f"{NODES}/doors-<tag>"),
    ),
    probe(
        "the same through another door",
        post(NODES, {"metadata": {"name": "same-<tag>", "annotations": STILL}}, quiet=True),
        get(f"{NODES}/same-<tag>", until={"body.spec.taints": "<missing>"}, keep={"node": ""}),
        put(
            f"{NODES}/same-<tag>/status",
            Changed("node", {"metadata": {"labels": {"a": "b"}}}),
            keep={"node": ""},
        ),
        put(f"{NODES}/same-<tag>", Changed("node")),
    ),
    probe(
        "status and the rest of a pod",
        post(PODS, a_pod("doors")),
        patch(f"{PODS}/doors", {"status": {"phase": "Running"}, "metadata": {"labels": {"b": "c"}}}),
        patch(
            f"{PODS}/doors/status",
            {"status": {"phase": "Running"}, "spec": {"priority": 7}, "metadata": {"labels": {"d": "e"}}},
        ),
        patch(f"{PODS}/doors/status", {"status": {"phase": "Dancing"}}),
        patch(f"{PODS}/doors", {"spec": {"hostNetwork": True}}),
        patch(f"{PODS}/doors", {"spec": {"nodeName": "none-<tag>"}}),
        patch(
            f"{PODS}/doors",
            {"spec": {"activeDeadlineSeconds": 60}},
            pick=lambda body: at(body, "spec.activeDeadlineSeconds"),
        ),
        patch(f"{PODS}/doors", {"spec": {"activeDeadlineSeconds": 90}}),
        patch(f"{PODS}/doors", {"spec": {"tolerations": []}}),
        patch(f"{PODS}/doors", {"spec": {"nodeSelector": {"a": "b"}}}),
        patch(f"{PODS}/doors", {"spec": {"priority": 5}}),
        patch(
            f"{PODS}/doors",
            {"spec": {"containers": [{"name": "main", "image": "example/work:2"}]}},
            STRATEGIC,
            pick=lambda body: at(body, "spec.containers.0.image"),
        ),
        patch(
            f"{PODS}/doors",
            {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}},
            STRATEGIC,
        ),
        patch(f"{PODS}/doors", {"spec": {"containers": [{"name": "more", "image": "a"}]}}, STRATEGIC),
        patch(f"{PODS}/doors", {"metadata": {"generateName": "b-"}}),
        delete(f"{PODS}/doors", pick=state),
    ),
    probe(
        "gates",
        post(PODS, a_pod("gated", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])),
        post(f"{PODS}/gated/binding", binding("gated", "none-<tag>")),
        patch(f"{PODS}/gated", {"spec": {"schedulingGates": [{"name": "example.com/c"}]}}),
        patch(
            f"{PODS}/gated",
            {"spec": {"nodeSelector": {"a": "b"}}},
            pick=lambda body: at(body, "spec.nodeSelector"),
        ),
        patch(
            f"{PODS}/gated",
            {"spec": {"schedulingGates": [{"name": "example.com/a"}]}},
            pick=lambda body: at(body, "spec.schedulingGates"),
        ),
        patch(
            f"{PODS}/gated",
            {"spec": {"schedulingGates": None}},
            pick=lambda body: at(body, "spec.schedulingGates"),
        ),
        patch(f"{PODS}/gated", {"spec": {"nodeSelector": {"a": "c"}}}),
        delete(f"{PODS}/gated", pick=state),
    ),
    probe(
        "scale",
        post(DEPLOYMENTS, a_set("scaled", paused=True), pick=fields("spec.replicas")),
        get(f"{DEPLOYMENTS}/scaled", until={"body.status.conditions.1.type": "Available"}, quiet=True),
        get(SCALE),
        put(
            SCALE,
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {"name": "scaled", "namespace": "<ns>"},
                "spec": {"replicas": 3},
            },
            pick=fields("kind", "apiVersion", "spec", "status"),
        ),
        patch(SCALE, {"spec": {"replicas": 2}}, pick=fields("kind", "apiVersion", "spec", "status")),
        put(
            SCALE,
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {"name": "scaled", "namespace": "<ns>", "resourceVersion": "1"},
                "spec": {"replicas": 1},
            },
        ),
        patch(SCALE, {"spec": {"replicas": -1}}),
        put(
            SCALE,
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {"name": "other", "namespace": "<ns>"},
                "spec": {"replicas": 1},
            },
        ),
        get(f"{DEPLOYMENTS}/scaled", pick=fields("spec.replicas", "metadata.generation")),
        delete(f"{DEPLOYMENTS}/scaled", {"propagationPolicy": "Background"}),
        post(REPLICA_SETS, a_set("scaled-set"), pick=fields("spec.replicas")),
        get(f"{REPLICA_SETS}/scaled-set", until={"body.status.observedGeneration": 1}, quiet=True),
        get(f"{REPLICA_SETS}/scaled-set/scale"),
        patch(f"{REPLICA_SETS}/scaled-set/scale", {"spec": {"replicas": 2}}, pick=fields("kind", "spec")),
        get(
            f"{PODS}?labelSelector=app=scaled-set",
            until={"body.items.1.kind": "<missing>", "body.items.1.spec.schedulerName": "nobody"},
            pick=lambda body: len(body["items"]),
        ),
        delete(f"{REPLICA_SETS}/scaled-set", {"propagationPolicy": "Background"}),
    ),
)
