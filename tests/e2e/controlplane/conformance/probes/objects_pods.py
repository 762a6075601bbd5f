"""What becomes of a pod on its way in: defaults and figures."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_pod
from tests.e2e.controlplane.conformance.probe import MAPS, NS, PODS, fields, get, post, probe


def a_map(name: str, **more: Any) -> Any:
    return {"metadata": {"name": name}, "data": {"a": "1"}, **more}


def asking(name: str, *containers: Any, **spec: Any) -> Any:
    made = [
        {"name": f"c{number}", "image": "example/work:1", "resources": each}
        for number, each in enumerate(containers)
    ]
    return post(PODS, a_pod(name, containers=made, **spec), pick=figures)


def figures(body: Any) -> Any:
    if "spec" not in body:
        return body
    return {
        "resources": [each["resources"] for each in body["spec"]["containers"]],
        "qos": body["status"]["qosClass"],
    }


FULL = {
    "initContainers": [
        {"name": "init", "image": "init"},
        {"name": "side", "image": "side:1", "restartPolicy": "Always"},
    ],
    "containers": [
        {
            "name": "main",
            "image": "host:5000/work",
            "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP", "hostPort": 81}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B"}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            "volumeMounts": [{"name": "config", "mountPath": "/config"}],
            "securityContext": {"privileged": True},
        },
        {"name": "digest", "image": "work@sha256:" + "0" * 64},
        {"name": "latest", "image": "work:latest"},
    ],
    "volumes": [
        {"name": "config", "configMap": {"name": "a"}},
        {"name": "secret", "secret": {"secretName": "a"}},
        {"name": "empty", "emptyDir": {}},
        {"name": "nothing"},
        {"name": "host", "hostPath": {"path": "/a"}},
        {"name": "projected", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}},
        {
            "name": "downward",
            "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "b", "value": "c"}],
    "nodeSelector": {"a": "b"},
    "terminationGracePeriodSeconds": 0,
    "hostNetwork": True,
}

PROBES = (
    probe(
        "a pod in full",
        post(PODS, a_pod("full", **FULL)),
        get(f"{PODS}/full"),
        post(PODS, a_pod("least")),
        post(
            PODS,
            {
                **a_pod("empties"),
                "metadata": {
                    "name": "empties",
                    "labels": {},
                    "annotations": {},
                    "finalizers": [],
                    "ownerReferences": [],
                },
                "status": {"phase": "Running", "podIP": "1.2.3.4"},
            },
        ),
        post(
            PODS,
            a_pod(
                "nulls",
                nodeSelector=None,
                tolerations=None,
                volumes=[],
                nodeName="",
                affinity={},
                hostNetwork=False,
            ),
        ),
    ),
    probe(
        "what pods get for a token",
        post(
            PODS,
            {
                "metadata": {"name": "trusted"},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "a"}]},
            },
        ),
    ),
    probe(
        "limits that others set",
        post(
            f"{NS}/limitranges",
            {
                "metadata": {"name": "least"},
                "spec": {
                    "limits": [
                        {"type": "Container", "defaultRequest": {"cpu": "10m"}, "max": {"memory": "1Gi"}}
                    ]
                },
            },
            quiet=True,
        ),
        post(PODS, a_pod("ranged"), pick=figures),
        post(
            PODS,
            a_pod(
                "too-much",
                containers=[{"name": "a", "image": "a", "resources": {"limits": {"memory": "2Gi"}}}],
            ),
            pick=fields("code", "reason"),
        ),
        post(
            f"{NS}/resourcequotas",
            {"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}},
            quiet=True,
        ),
        get(
            f"{NS}/resourcequotas/none",
            until={"body.status.hard": {"count/configmaps": "0"}},
            within=3,
            quiet=True,
        ),
        post(MAPS, a_map("one-more"), pick=fields("code", "reason")),
        space="limited",
        slow=True,
    ),
    probe(
        "what a pod asks for",
        asking("none", {}),
        asking("limits", {"limits": {"cpu": "1", "memory": "1Gi"}}),
        asking("requests", {"requests": {"cpu": "100m"}}),
        asking("mixed", {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
        asking("gpu", {"limits": {"nvidia.com/gpu": 1}}),
        asking(
            "gpus",
            {"limits": {"nvidia.com/gpu": "2", "cpu": 2, "memory": "4G"}, "requests": {"nvidia.com/gpu": 2}},
        ),
        asking("two", {"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
        asking("half", {"limits": {"cpu": "1", "memory": "1Gi"}}, {}),
        asking("numbers", {"requests": {"cpu": 0.5, "memory": 1073741824, "ephemeral-storage": "1e3"}}),
        asking("shapes", {"requests": {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "0.5Gi"}}),
        asking("long", {"requests": {"cpu": "0.1", "memory": "1500000k", "ephemeral-storage": "1000000"}}),
        asking("fine", {"requests": {"cpu": "1u", "memory": "1.5", "ephemeral-storage": "1Mi"}}),
        asking("zero", {"requests": {"cpu": "0", "memory": "0Mi"}}),
        asking("huge", {"requests": {"memory": "9223372036854775808", "cpu": "1E"}}),
        asking("pod-level", {}, resources={"requests": {"cpu": "1"}}),
    ),
)
