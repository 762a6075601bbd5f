"""Many realistic nodes and running pods at once, for measuring: 3 to 4 KB of JSON a pod, as real ones have.

They are bound and Running when they appear, so neither the scheduler nor a kubelet has anything to do.
"""

from __future__ import annotations

import copy

from controller.sandbox.cluster import defaults, nodeinfo, pods
from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.join import Join, Machine
from controller.sandbox.cluster.nodeinfo import GPU
from controller.sandbox.cluster.resources import NODES, PODS, Obj
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shape import shaped
from controller.sandbox.cluster.store import Store

APPS = ("web", "api", "worker", "cache", "ingest", "search", "billing", "mailer")
GPUS_OF_A_NODE = 8


def load(store: Store, settings: Settings, nodes: int, pod_count: int, gpu_nodes: int) -> Obj:
    """Add `nodes` nodes, `gpu_nodes` of them with 8 GPUs, and pods spread over them."""
    start = sum(1 for key in store.shelf(NODES).keys if key[1].startswith("load-node-"))
    names = [f"load-node-{start + at:05d}" for at in range(nodes)]
    for at, name in enumerate(names):
        store.create(NODES, shaped("core.Node", _node(store, settings, name, has_gpus=at < gpu_nodes)))
    if not names and pod_count:
        raise ValueError("pods: there is no node to put them on")
    first = sum(1 for key in store.shelf(PODS).keys if "-load-" in key[1])
    templates = [_pod(app) for app in APPS]
    for at in range(pod_count):
        store.create(PODS, _one_of(templates[at % len(APPS)], first + at, names[at % len(names)], store))
    return {"nodes": nodes, "pods": pod_count, "resourceVersion": str(store.version)}


def _node(store: Store, settings: Settings, name: str, *, has_gpus: bool) -> Obj:
    at = nodeinfo.hash_of(name)
    machine = Machine(
        id=f"00000000-0000-4000-8000-{at % (1 << 48):012x}",
        hostname=name,
        cpus=176 if has_gpus else 64,
        memory_gib=1480 if has_gpus else 256,
        ip=f"10.{at % 200}.{at // 200 % 250}.{at // 50000 % 250 + 1}",
    )
    labels = {
        "node.kubernetes.io/instance-type": "8H100.80S.176V" if has_gpus else "CPU.64V.256G",
        "topology.kubernetes.io/region": "FIN-01",
        "topology.kubernetes.io/zone": "FIN-01",
    }
    node = nodeinfo.node(machine, Join(name, f"load://{name}", labels), settings, store.now())
    node["status"]["conditions"] = nodeinfo.conditions(store.now(), is_ready=True)
    if has_gpus:
        for figures in ("capacity", "allocatable"):
            node["status"][figures][GPU] = str(GPUS_OF_A_NODE)
    node["status"]["images"] = [
        {
            "names": [
                f"registry.invalid/{app}@sha256:{nodeinfo.hash_of(app):064x}",
                f"registry.invalid/{app}:v1.4.2",
            ],
            "sizeBytes": 180000000 + 1000 * len(app),
        }
        for app in APPS
    ]
    return node


def _pod(app: str) -> Obj:
    """What all pods of an app share."""
    env: list[Obj] = [
        {"name": f"{app.upper()}_OPTION_{at:02d}", "value": f"https://{app}-{at}.internal:8443/path"}
        for at in range(14)
    ]
    env.append(
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    )
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
    }
    spec: Obj = {
        "containers": [
            {
                "name": app,
                "image": f"registry.invalid/{app}:v1.4.2",
                "env": env,
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                "livenessProbe": probe,
                "readinessProbe": probe,
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/app", "readOnly": True},
                    {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            {
                "name": "kube-api-access",
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {
                            "configMap": {
                                "name": "kube-root-ca.crt",
                                "items": [{"key": "ca.crt", "path": "ca.crt"}],
                            }
                        },
                    ],
                },
            },
        ],
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    spec = shaped("core.PodSpec", spec)
    spec |= {"serviceAccountName": "default"}
    defaults.fill(PODS, {"spec": spec})
    labels = {"app": app, "app.kubernetes.io/name": app, "pod-template-hash": "7c9d8f6b5", "tier": "backend"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7c9d8f6b5", "controller": True}
    owner |= {
        "uid": f"10000000-0000-4000-8000-{nodeinfo.hash_of(app) % (1 << 48):012x}",
        "blockOwnerDeletion": True,
    }
    meta = {"labels": labels, "annotations": {"prometheus.io/scrape": "true"}, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": spec}


def _one_of(template: Obj, number: int, node: str, store: Store) -> Obj:
    app = template["metadata"]["labels"]["app"]
    meta = {**template["metadata"], "name": f"{app}-load-{number:06d}", "namespace": "default"}
    meta["uid"] = store.new_uid()
    spec = {**template["spec"], "nodeName": node}
    pod: Obj = {"metadata": meta, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}
    now = store.now()
    set_condition(pod["status"], now, type="PodScheduled", status="True", lastProbeTime=None)
    pods.run(pod, {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}, now)
    return copy.copy(pod)
