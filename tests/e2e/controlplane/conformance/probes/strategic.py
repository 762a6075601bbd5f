"""Strategic merge: lists by their keys, directives, order."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.probe import (
    DEPLOYMENTS,
    NODES,
    PODS,
    QUIET,
    STRATEGIC,
    get,
    patch,
    post,
    probe,
)

NODE = {
    "metadata": {
        "name": "patched-<tag>",
        "labels": {"a": "1"},
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
    },
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]},
    "status": {
        "conditions": [
            {"type": "Healthy", "status": "True", "reason": "Said"},
            {"type": "DiskPressure", "status": "False", "reason": "Said"},
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a"}],
    },
}
POD = {
    "metadata": {"name": "patched", "finalizers": ["example.com/a"]},
    "spec": {
        **QUIET,
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "A", "value": "1"}]},
            {"name": "b", "image": "b:1"},
        ],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
N = f"{NODES}/patched-<tag>"
P = f"{PODS}/patched"
DEPLOYMENT = {
    "metadata": {"name": "patched"},
    "spec": {
        "replicas": 0,
        "paused": True,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "containers": [
                    {"name": "a", "image": "a:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                     "ports": [{"containerPort": 80}], "args": ["x"]},
                    {"name": "b", "image": "b:1"},
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "nodeSelector": {"a": "1"},
                "tolerations": [{"key": "a", "operator": "Exists"}],
            },
        },
    },
}  # fmt: skip


def template(spec: Any) -> Any:
    return {"spec": {"template": {"spec": spec}}}


def deployment(body: Any, **more: Any) -> Any:
    def pick(answer: Any) -> Any:
        return answer.get("spec", answer) if isinstance(answer, dict) else answer

    return patch(f"{DEPLOYMENTS}/patched", body, STRATEGIC, pick=pick, **more)


PROBES = (
    probe(
        "strategic merge of a node",
        post(NODES, NODE, quiet=True),
        get(N, until={"body.spec.taints.2": "<missing>"}),
        patch(N, {"metadata": {"labels": {"a": None, "b": "2"}}}, STRATEGIC),
        patch(N, {"spec": {"taints": [{"key": "c", "effect": "NoSchedule"}]}}, STRATEGIC),
        patch(N, {"spec": {"taints": []}}, STRATEGIC),
        patch(
            N, {"spec": {"unschedulable": True}}, STRATEGIC, pick=lambda body: body["spec"]["unschedulable"]
        ),
        patch(
            N,
            {"spec": {"unschedulable": None}},
            STRATEGIC,
            pick=lambda body: body["spec"].get("unschedulable"),
        ),
        patch(
            f"{N}/status",
            {"status": {"conditions": [{"type": "Healthy", "status": "True", "reason": "Again"}]}},
            STRATEGIC,
            pick=lambda body: body["status"],
        ),
        patch(
            f"{N}/status",
            {"status": {"conditions": [{"type": "New", "status": "True"}]}},
            STRATEGIC,
            pick=lambda body: body["status"],
        ),
        patch(
            f"{N}/status",
            {"status": {"conditions": [{"type": "DiskPressure", "$patch": "delete"}]}},
            STRATEGIC,
            pick=lambda body: body["status"],
        ),
        patch(
            f"{N}/status",
            {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}},
            STRATEGIC,
            pick=lambda body: body["status"]["addresses"],
        ),
        patch(
            f"{N}/status",
            {"status": {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": 2}}},
            STRATEGIC,
            pick=lambda body: body["status"],
        ),
        patch(
            f"{N}/status",
            {"status": {"conditions": [{"status": "True"}]}},
            STRATEGIC,
            pick=lambda body: body.get("message", body.get("code")),
        ),
    ),
    probe(
        "strategic merge of a pod",
        post(PODS, POD),
        patch(P, {"spec": {"containers": [{"name": "a", "image": "a:2"}]}}, STRATEGIC),
        patch(P, {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC),
        patch(P, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC),
        patch(P, {"metadata": {"finalizers": None}}, STRATEGIC),
        patch(f"{P}/status", {"status": {"conditions": [{"type": "A", "status": "True"}]}}, STRATEGIC),
        patch(
            f"{P}/status",
            {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]}},
            STRATEGIC,
        ),
    ),
    probe(
        "strategic merge of a template",
        post(DEPLOYMENTS, DEPLOYMENT, pick=lambda body: body["spec"]),
        deployment(template({"containers": [{"name": "a", "image": "a:2"}]})),
        deployment(
            template(
                {
                    "containers": [
                        {"name": "a", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}
                    ]
                }
            )
        ),
        deployment(template({"containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}]}]})),
        deployment(template({"containers": [{"name": "a", "args": ["y", "z"]}]})),
        deployment(template({"containers": [{"name": "a", "ports": [{"containerPort": 90}]}]})),
        deployment(template({"containers": [{"name": "b", "$patch": "delete"}]})),
        deployment(
            template(
                {
                    "containers": [{"name": "c", "image": "c:1"}],
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                }
            )
        ),
        deployment(
            template(
                {"volumes": [{"name": "v", "configMap": {"name": "a"}, "$retainKeys": ["name", "configMap"]}]}
            )
        ),
        deployment(template({"nodeSelector": {"$patch": "replace", "b": "2"}})),
        deployment(template({"nodeSelector": {"$patch": "delete"}})),
        deployment(template({"tolerations": [{"key": "b", "operator": "Exists"}]})),
        deployment(template({"containers": [{"$patch": "replace"}, {"name": "only", "image": "only:1"}]})),
        deployment(template({"containers": [{"image": "nameless"}]})),
        deployment({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        deployment({"spec": {"selector": {"matchLabels": {"app": "b"}}}}),
        deployment({"spec": {"template": {"metadata": {"labels": {"app": "b"}}}}}),
        deployment({"spec": {"$patch": "invent"}}),
    ),
)
