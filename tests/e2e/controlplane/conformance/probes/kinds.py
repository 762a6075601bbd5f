"""Every kind that the product or its users touch, through all its verbs: made, read, changed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.controlplane.conformance.probe import (
    CORE,
    NS,
    QUIET,
    Changed,
    Probe,
    delete,
    get,
    patch,
    post,
    probe,
    put,
)

APPS = "/apis/apps/v1/namespaces/<ns>"
BATCH = "/apis/batch/v1/namespaces/<ns>"
DRA = "/apis/resource.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
STORAGE = "/apis/storage.k8s.io/v1"
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "example/work:1"}]},
}
ONCE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
WORKLOAD = {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}

# collection -> the least of such an object; those outside of namespaces have the run's tag in their name.
KINDS: Mapping[str, Mapping[str, Any]] = {
    f"{NS}/configmaps": {"data": {"a": "1"}, "binaryData": {"b": "AAE="}},
    f"{NS}/secrets": {"stringData": {"token": "not-a-key"}},
    f"{NS}/serviceaccounts": {},
    f"{NS}/services": {"spec": {"clusterIP": "None", "selector": {"app": "a"}, "ports": [{"port": 80}]}},
    f"{NS}/pods": {"spec": {**QUIET, "containers": [{"name": "main", "image": "example/work:1"}]}},
    f"{NS}/persistentvolumeclaims": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    f"{NS}/limitranges": {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}]}},
    f"{NS}/resourcequotas": {"spec": {"hard": {"count/widgets.example.com": "5"}}},
    f"{NS}/events": {
        "involvedObject": {"kind": "Pod", "namespace": "<ns>", "name": "a", "apiVersion": "v1"},
        "reason": "Tried",
        "message": "for the first time",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "probe"},
    },
    "/apis/events.k8s.io/v1/namespaces/<ns>/events": {
        "regarding": {"kind": "Pod", "namespace": "<ns>", "name": "b", "apiVersion": "v1"},
        "reason": "Tried",
        "note": "for the second time",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/probe",
        "reportingInstance": "probe-1",
        "action": "Trying",
    },
    f"{APPS}/daemonsets": {
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "node"}}},
        }
    },
    f"{APPS}/deployments": {"spec": {**WORKLOAD, "paused": True}},
    f"{APPS}/replicasets": {"spec": WORKLOAD},
    f"{APPS}/statefulsets": {"spec": {**WORKLOAD, "serviceName": "a"}},
    f"{BATCH}/jobs": {"spec": {"suspend": True, "template": ONCE}},
    f"{BATCH}/cronjobs": {
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": ONCE}}}
    },
    "/apis/policy/v1/namespaces/<ns>/poddisruptionbudgets": {
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}
    },
    "/apis/coordination.k8s.io/v1/namespaces/<ns>/leases": {
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.123456Z",
            "leaseTransitions": 0,
        }
    },
    f"{DRA}/namespaces/<ns>/resourceclaims": {
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}]
            }
        }
    },
    f"{DRA}/namespaces/<ns>/resourceclaimtemplates": {
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
            }
        }
    },
    f"{RBAC}/namespaces/<ns>/roles": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    },
    f"{RBAC}/namespaces/<ns>/rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "<ns>"}],
    },
    f"{CORE}/nodes": {
        "metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {"providerID": "verda://<tag>"},
        "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    },
    f"{CORE}/persistentvolumes": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "hostPath": {"path": "/data"},
        }
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": -20, "description": "may wait"},
    "/apis/node.k8s.io/v1/runtimeclasses": {"handler": "nvidia"},
    f"{STORAGE}/storageclasses": {"provisioner": "example.com/none"},
    f"{STORAGE}/csinodes": {"spec": {"drivers": []}},
    f"{STORAGE}/volumeattachments": {
        "spec": {"attacher": "example.com", "nodeName": "none", "source": {"persistentVolumeName": "none"}}
    },
    f"{DRA}/deviceclasses": {
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
    },
    f"{DRA}/resourceslices": {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "none",
            "pool": {"name": "none", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        }
    },
    f"{RBAC}/clusterroles": {"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]},
    f"{RBAC}/clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"},
        "subjects": [{"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"}],
    },
}


# What a controller writes into an object soon after it was made: that is waited for, not raced against.
SETTLED: Mapping[str, Mapping[str, Any]] = {
    "daemonsets": {"body.status.observedGeneration": "<generation>"},
    "deployments": {
        "body.status.observedGeneration": "<generation>",
        "body.status.conditions.1.type": "Available",
    },
    "replicasets": {"body.status.observedGeneration": "<generation>"},
    "jobs": {"body.status.conditions.0.type": "Suspended"},
    "poddisruptionbudgets": {"body.status.observedGeneration": "<generation>"},
    "nodes": {"body.spec.taints": "<missing>"},
    "persistentvolumes": {"body.status.phase": "Available"},
}


def life(collection: str, body: Mapping[str, Any]) -> Probe:
    kind = "/".join(collection.split("/")[2 : 3 if collection.startswith("/api/") else 4]) or "v1"
    plural = collection.rpartition("/")[2]
    name = "k-<tag>"
    one = f"{collection}/{name}"
    meta = {"name": name, "labels": {"probe": "kinds"}, **body.get("metadata", {})}
    made = {**body, "metadata": meta}
    numbered = {"generation": "metadata.generation"}
    settled = [get(one, until=SETTLED[plural], quiet=True)] if plural in SETTLED else []
    return probe(
        f"{kind} {plural}",
        post(collection, made, keep={"made": "", **numbered}),
        post(collection, made),
        *settled,
        get(one, keep={"made": ""}),
        get(f"{collection}?fieldSelector=metadata.name={name}&labelSelector=probe=kinds"),
        put(one, Changed("made", {"metadata": {"labels": {"probe": "changed"}, "resourceVersion": None}})),
        put(one, Changed("made", {"metadata": {"labels": {"probe": "late"}, "resourceVersion": "1"}})),
        patch(one, {"metadata": {"annotations": {"probe": "patched"}}}, keep=numbered),
        *settled,
        patch(one, {"metadata": {"annotations": {"probe": "patched"}}}),
        delete(one),
        get(one, until={"code": 404}),
        delete(one),
    )


def stored_only(collection: str, body: Mapping[str, Any]) -> Probe:
    """Kinds that have no controller in the sandbox: what theirs would write is not waited for."""
    plural = collection.rpartition("/")[2]
    one = f"{collection}/k-<tag>"
    made = {**body, "metadata": {"name": "k-<tag>"}}
    still = lambda answer: {**answer, "metadata": "", "status": ""}  # noqa: E731
    return probe(
        plural,
        post(collection, made),
        post(collection, made),
        patch(one, {"metadata": {"annotations": {"probe": "patched"}}}, pick=still),
        delete(one, pick=still),
        get(one, until={"code": 404}),
    )


PROBES = tuple(
    (stored_only if collection.rpartition("/")[2] in ("statefulsets", "resourcequotas") else life)(
        collection, body
    )
    for collection, body in KINDS.items()
)
