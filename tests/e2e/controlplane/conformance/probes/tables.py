"""The other forms of objects and lists: tables, and metadata alone."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import labelled
from tests.e2e.controlplane.conformance.probe import (
    BUDGETS,
    CLAIMS,
    CLASSES,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    MAPS,
    NODES,
    NS,
    PARTIAL,
    PODS,
    QUIET,
    REPLICA_SETS,
    RUNTIMES,
    SECRETS,
    SPACES,
    TABLE,
    at,
    delete,
    get,
    patch,
    post,
    probe,
)

PARTIAL_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}


def rows(answer: Any) -> Any:
    """A table without its prose: columns by name, type, format and width, and the rows' cells."""
    if at(answer, "kind") != "Table":
        return answer
    columns = [
        {key: each[key] for key in ("name", "type", "format", "priority")}
        for each in answer["columnDefinitions"]
    ]
    made = [
        {"cells": row["cells"], "object": {**row["object"], "metadata": row["object"]["metadata"]["name"]}}
        for row in answer["rows"]
    ]
    return {"columns": columns, "rows": made, "metadata": answer["metadata"]}


def table(collection: str, name: str, body: Any, settled: dict[str, Any] | None = None) -> list[Any]:
    """`settled`: what a controller writes into the row soon after it was made."""
    return [
        post(collection, {"metadata": {"name": name}, **body}, quiet=True),
        *([get(f"{collection}/{name}", until=settled, quiet=True)] if settled else []),
        get(f"{collection}?fieldSelector=metadata.name={name}", headers=TABLE, pick=rows),
        get(f"{collection}/{name}", headers=TABLE, pick=rows),
    ]


TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b:1"}],
        "nodeSelector": {"no": "node"},
        **QUIET,
    },
}
WORKLOAD = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}

PROBES = (
    probe(
        "metadata alone",
        post(MAPS, labelled("alone", a="b"), quiet=True),
        get(f"{MAPS}/alone", headers=PARTIAL),
        get(f"{MAPS}?fieldSelector=metadata.name=alone", headers=PARTIAL_LIST),
        get(f"{MAPS}?fieldSelector=metadata.name=none", headers=PARTIAL_LIST),
        get(f"{MAPS}/alone", headers=PARTIAL_LIST),
        get(f"{MAPS}?fieldSelector=metadata.name=alone", headers=PARTIAL),
        get(f"{MAPS}/none", headers=PARTIAL),
        get(f"{MAPS}/alone", headers={"Accept": "application/json;as=Thing;v=v1;g=meta.k8s.io"}),
        get(
            f"{MAPS}/alone",
            headers={"Accept": "application/json;as=Thing;v=v1;g=meta.k8s.io, application/json"},
        ),
        get(f"{MAPS}/alone", headers={"Accept": "application/json;as=Table;v=v1beta1;g=meta.k8s.io"}),
        patch(f"{MAPS}/alone", {"data": {"a": "2"}}, headers=PARTIAL),
        delete(f"{MAPS}/alone", headers=TABLE),
        space="forms",
    ),
    probe(
        "tables",
        get(f"{MAPS}?fieldSelector=metadata.name=none", headers=TABLE),
        get(
            f"{MAPS}?fieldSelector=metadata.name=kube-root-ca.crt&includeObject=None",
            headers=TABLE,
            pick=lambda body: body["rows"],
        ),
        get(
            f"{MAPS}?fieldSelector=metadata.name=kube-root-ca.crt&includeObject=Object",
            headers=TABLE,
            pick=lambda body: [row["object"]["kind"] for row in body["rows"]],
        ),
        get(f"{MAPS}?includeObject=Some", headers=TABLE),
        get(f"{MAPS}/none", headers=TABLE),
        *table(MAPS, "rows", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAE="}}),
        *table(SECRETS, "rows", {"data": {"a": "AAE="}}),
        *table(PODS, "rows", {"spec": {**TEMPLATE["spec"], "readinessGates": [{"conditionType": "a"}]}}),
        *table(f"{NS}/serviceaccounts", "rows", {}),
        *table(DAEMON_SETS, "rows", {"spec": WORKLOAD}),
        *table(REPLICA_SETS, "rows", {"spec": {**WORKLOAD, "replicas": 0}}),
        *table(DEPLOYMENTS, "rows", {"spec": {**WORKLOAD, "replicas": 0, "paused": True}}),
        *table(
            "/apis/apps/v1/namespaces/<ns>/statefulsets",
            "rows",
            {"spec": {**WORKLOAD, "replicas": 0, "serviceName": "a"}},
        ),
        *table(
            JOBS,
            "rows",
            {
                "spec": {
                    "suspend": True,
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
                    },
                }
            },
            settled={"body.status.conditions.0.type": "Suspended"},
        ),
        *table(BUDGETS, "rows", {"spec": {"minAvailable": 1}}),
        *table(LEASES, "rows", {"spec": {"holderIdentity": "a"}}),
        *table(CLASSES, "rows-<tag>", {"value": 5}),
        *table(RUNTIMES, "rows-<tag>", {"handler": "nvidia"}),
        *table("/apis/storage.k8s.io/v1/storageclasses", "rows-<tag>", {"provisioner": "example.com/none"}),
        *table(
            f"{NS}/persistentvolumeclaims",
            "rows",
            {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "none",
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            },
        ),
        *table("/apis/resource.k8s.io/v1/deviceclasses", "rows-<tag>", {"spec": {}}),
        *table(
            CLAIMS,
            "rows",
            {
                "spec": {
                    "devices": {
                        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "a.example.com"}}]
                    }
                }
            },
        ),
        *table(
            f"{NODES}",
            "rows-<tag>",
            {
                "metadata": {"name": "rows-<tag>", "labels": {"node-role.kubernetes.io/gpu": ""}},
                "spec": {"unschedulable": True},
                "status": {
                    "nodeInfo": {"kubeletVersion": "v1.36.3"},
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                },
            },
        ),
        *table(
            EVENTS,
            "rows",
            {
                "involvedObject": {"kind": "Pod", "namespace": "<ns>", "name": "a", "fieldPath": "spec"},
                "reason": "Tried",
                "message": " twice ",
                "type": "Normal",
                "count": 2,
                "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:00:00Z",
                "source": {"component": "probe", "host": "here"},
            },
        ),
        get(f"{SPACES}/<ns>", headers=TABLE, pick=rows),
        space="forms",
    ),
)
