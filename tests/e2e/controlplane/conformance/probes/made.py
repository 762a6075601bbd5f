"""What the cluster itself makes and writes: pods of controllers, what the scheduler says, selectors written out."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_container, a_node, a_pod, named
from tests.e2e.controlplane.conformance.probe import (
    DAEMON_SETS,
    EVENTS,
    JOBS,
    NODES,
    NS,
    PODS,
    QUIET,
    REPLICA_SETS,
    at,
    delete,
    fields,
    get,
    post,
    probe,
)

HOST = "kubernetes.io/hostname"
CLASS = "/apis/storage.k8s.io/v1/storageclasses"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
REVISION = "controller-revision-hash"  # of the template, by a sum of its own


def first(answer: Any) -> Any:
    """The only pod of its owner: everything but its revision."""
    items = at(answer, "items")
    if not isinstance(items, list) or len(items) != 1:
        return answer
    meta = dict(items[0]["metadata"])
    meta["labels"] = {key: value for key, value in meta.get("labels", {}).items() if key != REVISION}
    return {"metadata": meta, "spec": items[0]["spec"]}


def pods_of(app: str, **spec: Any) -> Any:
    return {"metadata": {"labels": {"app": app}}, "spec": {**QUIET, "containers": [a_container()], **spec}}


def judged(answer: Any) -> Any:
    """The scheduler's condition; its message counts nodes, which others make meanwhile."""
    held = at(answer, "status.conditions")
    return [{**each, "message": ""} for each in held] if isinstance(held, list) else answer


def told(answer: Any) -> Any:
    """The scheduler's event, without its words and the name of its host."""
    items = at(answer, "items")
    if not isinstance(items, list) or not items:
        return answer
    gone = ("metadata", "message", "reportingInstance", "firstTimestamp", "lastTimestamp", "eventTime", "count",
            "series")  # fmt: skip
    return {key: value for key, value in items[0].items() if key not in gone}


TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
KEYED = TERM | {"matchLabelKeys": ["rev", "none"]}
OTHER = TERM | {"mismatchLabelKeys": ["tier"]}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
LABELLED = {"labels": {"app": "x", "rev": "1", "tier": "a"}}

PROBES = (
    probe(
        "rules that name labels by key",
        post(
            PODS,
            a_pod(
                "keyed",
                affinity={
                    "podAffinity": {REQUIRED: [KEYED], PREFERRED: [{"weight": 1, "podAffinityTerm": OTHER}]},
                    "podAntiAffinity": {
                        REQUIRED: [KEYED | OTHER],
                        PREFERRED: [{"weight": 1, "podAffinityTerm": KEYED}],
                    },
                },
                topologySpreadConstraints=[SPREAD | KEYED],
            )
            | {"metadata": {"name": "keyed", **LABELLED}},
            pick=fields("spec.affinity", "spec.topologySpreadConstraints", "message"),
        ),
    ),
    probe(
        "a class that is the default",
        post(
            CLASS,
            {
                "metadata": {
                    "name": "usual-<tag>",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "example.com/none",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            quiet=True,
        ),
        post(
            f"{NS}/persistentvolumeclaims?dryRun=All",
            named("usual", spec=CLAIM),
            until={"body.spec.storageClassName": "usual-<tag>"},
            within=5,
            pick=fields("spec", "code"),
        ),
        post(
            f"{NS}/persistentvolumeclaims?dryRun=All",
            named("none", spec={**CLAIM, "storageClassName": ""}),
            pick=fields("spec", "code"),
        ),
        delete(f"{CLASS}/usual-<tag>", quiet=True),
    ),
    probe(
        "a pod that no node takes",
        post(
            PODS,
            a_pod("unplaced", schedulerName="default-scheduler", nodeSelector={"no": "node-<tag>"}),
            quiet=True,
        ),
        get(f"{PODS}/unplaced", until={"body.status.conditions.0.reason": "Unschedulable"}, pick=judged),
        delete(f"{PODS}/unplaced", quiet=True),
    ),
    probe(
        "what the scheduler tells of it",
        post(
            PODS,
            a_pod("told", schedulerName="default-scheduler", nodeSelector={"no": "node-<tag>"}),
            quiet=True,
        ),
        get(
            f"{EVENTS}?fieldSelector=involvedObject.name=told",
            until={"body.items.0.reason": "FailedScheduling"},
            pick=told,
        ),
        delete(f"{PODS}/told", quiet=True),
    ),
    probe(
        "the pod of a ReplicaSet",
        post(
            REPLICA_SETS,
            named(
                "makes-one",
                spec={"replicas": 1, "selector": {"matchLabels": {"app": "rs"}}, "template": pods_of("rs")},
            ),
            quiet=True,
        ),
        get(f"{PODS}?labelSelector=app=rs", until={"body.items.0.kind": "<missing>",
            "body.items.0.spec.schedulerName": "nobody"}, pick=first),
        delete(f"{REPLICA_SETS}/makes-one", {"propagationPolicy": "Background"}, quiet=True),
    ),
    probe(
        "the pod of a Job",
        post(JOBS, named("runs-one", spec={"template": pods_of("job", restartPolicy="Never")}), quiet=True),
        get(f"{PODS}?labelSelector=app=job", until={"body.items.0.spec.schedulerName": "nobody"}, pick=first),
        delete(f"{JOBS}/runs-one", {"propagationPolicy": "Background"}, quiet=True),
    ),
    probe(
        "the pod of a DaemonSet",
        post(NODES, a_node("daemon") | {"metadata": {"name": "daemon-<tag>", "labels": {"daemon": "<tag>"}}},
             quiet=True),
        post(
            DAEMON_SETS,
            named(
                "one-each",
                spec={
                    "selector": {"matchLabels": {"app": "ds"}},
                    "template": pods_of(
                        "ds", nodeSelector={"daemon": "<tag>"}, tolerations=[{"key": "a", "operator": "Exists"}]
                    ),
                },
            ),
            quiet=True,
        ),
        get(f"{PODS}?labelSelector=app=ds", until={"body.items.0.spec.schedulerName": "nobody"}, pick=first),
        delete(f"{DAEMON_SETS}/one-each", {"propagationPolicy": "Background"}, quiet=True),
        delete(f"{NODES}/daemon-<tag>", quiet=True),
    ),
)  # fmt: skip
