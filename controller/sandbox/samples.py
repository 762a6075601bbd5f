"""Pods and nodes as large and as various as real ones, for benchmarks, demonstrations and tests.

Six in ten pods are replicas of Deployments, the others come from indexed Jobs, StatefulSets,
DaemonSets and nobody: what replicas share and what is each pod's own decides how fast and how small a
reader of them can be.
"""

from __future__ import annotations

import hashlib
from typing import Any

from controller.domain.names import LABEL_HOSTNAME, LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE

Obj = dict[str, Any]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def _digest(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _uid(*parts: object) -> str:
    d = _digest(*parts)
    return f"{d[:8]}-{d[8:12]}-4{d[13:16]}-a{d[17:20]}-{d[20:32]}"


def _suffix(length: int, *parts: object) -> str:
    return "".join(_ALPHABET[int(c, 16)] for c in _digest(*parts)[:length])


def _when(i: int) -> str:
    return f"2026-03-{1 + i // 7200 % 28:02d}T{i // 300 % 24:02d}:{i // 5 % 60:02d}:{i % 60:02d}Z"


def pod_json(i: int, *, node: str = "", gpus: int = 0) -> Obj:
    """The i-th pod, bound when a node is named, asking for GPUs when they are counted."""
    app = i // 50  # replicas are created together
    kind = ("Deployment",) * 6 + ("Job",) * 2 + ("StatefulSet", "")
    meta = _metadata(i, app, kind[app % len(kind)])
    spec = _spec(i, app, meta, gpus)
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": _status(i, meta, spec, gpus) if node else _waiting(i, gpus),
    }


def _metadata(i: int, app: int, kind: str) -> Obj:
    name, labels = f"service-{app}", {"app.kubernetes.io/name": f"service-{app}", "team": f"team-{app % 7}"}
    owner: Obj | None = None
    if kind == "Deployment":
        labels["pod-template-hash"] = template = _suffix(10, "template", app)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-{template}"}
        full = f"{name}-{template}-{_suffix(5, i)}"
    elif kind == "Job":
        labels |= {
            "batch.kubernetes.io/controller-uid": _uid("owner", app),
            "batch.kubernetes.io/job-name": name,
        }
        labels |= {"controller-uid": _uid("owner", app), "job-name": name}
        labels["batch.kubernetes.io/job-completion-index"] = str(i % 50)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name}
        full = f"{name}-{i % 50}-{_suffix(5, i)}"
    elif kind == "StatefulSet":
        full = f"{name}-{i % 50}"
        labels |= {"statefulset.kubernetes.io/pod-name": full, "apps.kubernetes.io/pod-index": str(i % 50)}
        labels["controller-revision-hash"] = f"{name}-{_suffix(10, 'revision', app)}"
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}
    else:
        full = f"notebook-{i}"
    meta: Obj = {
        "name": full,
        "generateName": f"{name}-",
        "namespace": f"team-{app % 7}",
        "uid": _uid("pod", i),
        "resourceVersion": str(100_000 + i),
        "creationTimestamp": _when(i - i % 50),
        "labels": labels,
        "annotations": {
            "cni.projectcalico.org/containerID": _digest("container", i),
            "cni.projectcalico.org/podIP": f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}/32",
            "prometheus.io/scrape": "true",
        },
    }
    if owner:
        more = {"uid": _uid("owner", app), "controller": True, "blockOwnerDeletion": True}
        meta["ownerReferences"] = [owner | more]
    return meta


def _spec(i: int, app: int, meta: Obj, gpus: int) -> Obj:
    token = f"kube-api-access-{_suffix(5, 'token', i)}"
    mounts = [
        {"name": "data", "mountPath": "/var/lib/data"},
        {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    requests = {"cpu": f"{250 * (1 + app % 8)}m", "memory": f"{256 * (1 + app % 16)}Mi"}
    limits = {"memory": requests["memory"]}
    if gpus:
        requests["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = str(gpus)
    return {
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": token, "projected": {"sources": _token_sources(), "defaultMode": 420}},
        ],
        **({"initContainers": [_preparation(app)]} if app % 3 == 0 else {}),
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/team/service@sha256:{_digest('image', app)}",
                "args": ["--listen=:8080", f"--shard={app}", "--log-format=json"],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [
                    {
                        "name": "POD_NAME",
                        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                    },
                    {"name": "LOG_LEVEL", "value": "info"},
                    {"name": "DATABASE", "value": f"postgres://database.team-{app % 7}.svc:5432/service"},
                ],
                "resources": {"limits": limits, "requests": requests},
                "volumeMounts": mounts,
                "readinessProbe": _probe("/readyz"),
                "imagePullPolicy": "IfNotPresent",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        **({"affinity": {"podAntiAffinity": {PREFERRED: [_apart(meta)]}}} if app % 2 else {}),
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _preparation(app: int) -> Obj:
    return {
        "name": "prepare",
        "image": f"registry.example/team/prepare:{app % 5}",
        "command": ["/bin/sh", "-c", "until nc -z database 5432; do sleep 1; done"],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
        "imagePullPolicy": "IfNotPresent",
    }


def _apart(meta: Obj) -> Obj:
    labels = {"app.kubernetes.io/name": meta["labels"]["app.kubernetes.io/name"]}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": LABEL_HOSTNAME}
    return {"weight": 100, "podAffinityTerm": term}


def _token_sources() -> list[Obj]:
    return [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]
            }
        },
    ]


def _probe(path: str) -> Obj:
    get = {"path": path, "port": "http", "scheme": "HTTP"}
    return {
        "httpGet": get,
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _condition(kind: str, when: str, **more: str) -> Obj:
    return {"type": kind, "status": "True", "lastTransitionTime": when} | more


def _status(i: int, meta: Obj, spec: Obj, gpus: int) -> Obj:
    when, main = meta["creationTimestamp"], spec["containers"][0]
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    started = {"running": {"startedAt": when}}
    return {
        "phase": "Running",
        "conditions": [_condition(kind, when) for kind in kinds],
        "hostIP": f"192.168.{i % 4}.{i % 250}",
        "podIP": f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}",
        "startTime": when,
        "containerStatuses": [
            {
                "name": "main",
                "state": started,
                "ready": True,
                "restartCount": 0,
                "image": main["image"],
                "imageID": main["image"],
                "containerID": f"containerd://{_digest('running', i)}",
                "started": True,
            }
        ],
        "qosClass": "Burstable",
    }


def _waiting(i: int, gpus: int) -> Obj:
    lacking = "nvidia.com/gpu" if gpus else "cpu"
    words = f"0/12 nodes are available: 12 Insufficient {lacking}. preemption: 0/12 nodes are available."
    told = _condition("PodScheduled", _when(i), status="False", reason="Unschedulable", message=words)
    return {"phase": "Pending", "conditions": [told], "qosClass": "Burstable"}


def node_json(i: int) -> Obj:
    """The i-th node: every fourth has GPUs and the labels that NVIDIA's discovery gives it."""
    name, location = f"node-{i:04d}", f"FIN-0{1 + i % 3}"
    gpus = 8 if i % 4 == 0 else 0
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        LABEL_HOSTNAME: name,
        LABEL_INSTANCE_TYPE: "8A100.176V" if gpus else "CPU.16V.64G",
        LABEL_REGION: location,
        LABEL_ZONE: location,
    }
    labels |= {
        f"feature.node.kubernetes.io/cpu-cpuid.{flag}": "true"
        for flag in ("AVX", "AVX2", "AVX512F", "FMA3", "SHA")
    }
    resources = {
        "cpu": "176" if gpus else "16",
        "memory": "974340Ki" if gpus else "65000000Ki",
        "pods": "110",
    }
    resources |= {"ephemeral-storage": "101430960Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    if gpus:
        labels |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.memory": "81920",
        }
        labels |= {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/cuda.driver.major": "570"}
        resources["nvidia.com/gpu"] = str(gpus)
    conditions = [
        _condition(kind, _when(i), status="False")
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": _uid("node", i),
            "resourceVersion": str(50_000 + i),
            "creationTimestamp": _when(i),
            "labels": labels,
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "projectcalico.org/IPv4Address": f"192.168.{i % 4}.{i % 250}/24",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": f"10.{i >> 8 & 255}.{i & 255}.0/24",
            "podCIDRs": [f"10.{i >> 8 & 255}.{i & 255}.0/24"],
            "providerID": f"verda://{name}",
            **(
                {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}
                if gpus
                else {}
            ),
        },
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "conditions": [
                *conditions,
                _condition(
                    "Ready", _when(i), reason="KubeletReady", message="kubelet is posting ready status"
                ),
            ],
            "addresses": [
                {"type": "InternalIP", "address": f"192.168.{i % 4}.{i % 250}"},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": _digest("machine", i)[:32],
                "systemUUID": _uid("system", i),
                "bootID": _uid("boot", i),
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 24.04.2 LTS",
                "containerRuntimeVersion": "containerd://2.0.5",
                "kubeletVersion": "v1.33.1",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [
                {
                    "names": [f"registry.example/team/image-{k}@sha256:{_digest('image', k)}"],
                    "sizeBytes": 10_000_000 + k,
                }
                for k in range(8)
            ],
        },
    }
