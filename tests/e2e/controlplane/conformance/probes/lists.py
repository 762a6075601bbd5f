"""Lists: pages, moments and selectors."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_pod, labelled
from tests.e2e.controlplane.conformance.probe import (
    EVENTS,
    JOBS,
    LEASES,
    MAPS,
    NEW_EVENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SPACES,
    at,
    delete,
    get,
    patch,
    post,
    probe,
)

FAR = "99999999999"


def names(answer: Any) -> Any:
    """Names and the list's own metadata; a refusal as it is."""
    if not isinstance(answer, dict) or "items" not in answer:
        return answer
    meta = {key: answer["metadata"].get(key) for key in ("continue", "remainingItemCount")}
    return {"names": [each["metadata"]["name"] for each in answer["items"]], **meta, "kind": answer["kind"]}


def listed(query: str, collection: str = MAPS, **more: Any) -> Any:
    return get(f"{collection}?{query}", pick=names, **more)


def token(version: int, behind: str, stated: str = "meta.k8s.io/v1") -> str:
    """A continue token as the server makes them; that of version 1 has long expired."""
    held = {"v": stated, "rv": version, "start": f"{behind}\0"}
    return base64.urlsafe_b64encode(json.dumps(held, separators=(",", ":")).encode()).rstrip(b"=").decode()


def five() -> list[Any]:
    return [
        post(MAPS, labelled(f"m-{number}", n=str(number), odd=str(number % 2)), quiet=True)
        for number in range(1, 6)
    ]


SELECTORS = (
    "n=1",
    "n==1",
    "n!=1",
    "n=1,odd=1",
    "n in (1,2)",
    "n notin (1,2)",
    "odd",
    "!odd",
    "n>3",
    "n<3",
    "odd=1,n in (3)",
    "n in ()",
    "n=",
)
BROKEN = ("a=b=c", "=a", "a in b", "a in (b", "a b", "!", "a=b c", "a/b/c=d", "a=-b", "a>b", ",", "x" * 64)
POD_FIELDS = (
    "metadata.name=p-1",
    "metadata.name!=p-1",
    "metadata.namespace=<ns>",
    "metadata.namespace=other",
    "spec.nodeName=none-<tag>",
    "spec.nodeName=",
    "spec.nodeName!=",
    "status.phase=Pending",
    "status.phase!=Pending",
    "spec.schedulerName=nobody",
    "spec.restartPolicy=Never",
    "spec.serviceAccountName=default",
    "spec.hostNetwork=false",
    "status.podIP=",
    "status.nominatedNodeName=",
    "metadata.name=p-1,spec.nodeName=",
    "spec.nodeName==none-<tag>",
)

PROBES = (
    probe(
        "pages",
        *five(),
        get(f"{MAPS}?labelSelector=n", keep={"version": "metadata.resourceVersion"}),
        listed("limit=2", keep={"token": "metadata.continue"}),
        listed("limit=2&continue=<token>", keep={"next": "metadata.continue"}),
        listed("limit=2&continue=<next>"),
        listed("limit=6"),
        listed("limit=0"),
        listed("limit=-1"),
        listed("limit=many"),
        listed("limit=2&labelSelector=n", keep={"chosen": "metadata.continue"}),
        listed("limit=2&labelSelector=n&continue=<chosen>"),
        listed("limit=2&fieldSelector=metadata.name!=m-1"),
        listed("continue=nonsense"),
        listed("limit=2&continue=<token>&resourceVersion=<version>"),
        listed("limit=2&resourceVersion=0"),
        listed("limit=2&resourceVersion=<version>"),
        listed(
            "limit=2&resourceVersion=<version>&resourceVersionMatch=Exact",
            keep={"exact": "metadata.continue"},
        ),
        post(MAPS, labelled("m-25", n="25"), quiet=True),
        delete(f"{MAPS}/m-4", quiet=True),
        listed("limit=2&continue=<next>"),
        listed("limit=2&continue=<exact>"),
        listed("limit=10", collection="/api/v1/namespaces/none-<tag>/configmaps"),
        space="pages",
    ),
    probe(
        "moments",
        *five(),
        get(f"{MAPS}/m-1", keep={"first": "metadata.resourceVersion"}),
        patch(
            f"{MAPS}/m-1",
            {"metadata": {"labels": {"n": "9"}}},
            keep={"second": "metadata.resourceVersion"},
            quiet=True,
        ),
        # Any moment will do of the second list: asked after the first, it is none before the change.
        listed("labelSelector=n=9&resourceVersion=<second>"),
        listed("labelSelector=n=9&resourceVersion=0"),
        listed("labelSelector=n=1&resourceVersion=<first>&resourceVersionMatch=NotOlderThan"),
        listed("labelSelector=n=9&resourceVersion=<second>&resourceVersionMatch=Exact"),
        listed("resourceVersion=<second>&resourceVersionMatch=Exactly"),
        listed("resourceVersionMatch=Exact"),
        listed("resourceVersion=0&resourceVersionMatch=Exact"),
        listed("resourceVersionMatch=NotOlderThan"),
        listed("resourceVersion=text"),
        listed("resourceVersion=-1"),
        get(
            f"{MAPS}?resourceVersion=<second>&resourceVersionMatch=Exact&labelSelector=n=9",
            pick=lambda body: (
                body["metadata"]["resourceVersion"] == body["items"][0]["metadata"]["resourceVersion"]
            ),
        ),
        get(f"{MAPS}/m-1?resourceVersion=0", pick=lambda body: at(body, "metadata.name")),
        get(f"{MAPS}/m-1?resourceVersion=<first>", pick=lambda body: at(body, "metadata.name")),
        get(f"{MAPS}/m-1?resourceVersion=text"),
        space="moments",
    ),
    probe(
        "pages of a moment that is forgotten",
        *five(),
        listed(f"limit=2&continue={token(1, '/m-1')}", keep={"rest": "metadata.continue"}),
        listed("limit=2&continue=<rest>"),
        listed(f"limit=2&continue={token(-1, '/m-2')}"),
        listed(f"limit=2&continue={token(0, '/m-2')}"),
        listed(f"limit=2&continue={token(1, '/m-2', 'v9')}"),
        listed("resourceVersion=1&resourceVersionMatch=Exact"),
        space="forgotten",
    ),
    probe(
        "moments that have not come",
        listed(f"resourceVersion={FAR}"),
        listed(f"resourceVersion={FAR}&resourceVersionMatch=NotOlderThan"),
        listed(f"resourceVersion={FAR}&resourceVersionMatch=Exact"),
        get(f"{MAPS}/kube-root-ca.crt?resourceVersion={FAR}"),
        space="moments",
        slow=True,
    ),
    probe(
        "label selectors", *five(), *(listed(f"labelSelector={each}") for each in SELECTORS), space="labels"
    ),
    probe(
        "label selectors that are broken",
        *(listed(f"labelSelector={each}") for each in BROKEN),
        space="labels",
    ),
    probe(
        "field selectors of pods",
        post(PODS, a_pod("p-1", nodeName="none-<tag>"), quiet=True),
        post(PODS, a_pod("p-2", restartPolicy="Never"), quiet=True),
        *(listed(f"fieldSelector={each}", PODS) for each in POD_FIELDS),
        space="fields",
    ),
    probe(
        "field selectors of other kinds",
        listed("fieldSelector=metadata.name=kube-root-ca.crt"),
        listed("fieldSelector=metadata.name=none"),
        listed("fieldSelector=spec.unschedulable=true,metadata.name=none", NODES),
        listed("fieldSelector=spec.unschedulable=false,metadata.name=none", NODES),
        listed("fieldSelector=status.phase=Active,metadata.name=<ns>", SPACES),
        listed("fieldSelector=type=Opaque", SECRETS),
        listed(
            "fieldSelector=involvedObject.kind=Pod,involvedObject.name=none,involvedObject.namespace=<ns>,involvedObject.uid=a,reason=b,type=Normal,source=c,reportingComponent=d",
            EVENTS,
        ),
        listed("fieldSelector=regarding.kind=Pod,regarding.name=none,reason=b,type=Normal", NEW_EVENTS),
        listed("fieldSelector=regarding.uid=a,reportingController=b", NEW_EVENTS),
        listed("fieldSelector=status.successful=0", JOBS),
        listed("fieldSelector=status.replicas=0", REPLICA_SETS),
        listed("fieldSelector=spec.nodeName=a,spec.driver=b", "/apis/resource.k8s.io/v1/resourceslices"),
        listed("fieldSelector=metadata.name=none", LEASES),
        space="fields",
    ),
    probe(
        "field selectors that are refused",
        listed("fieldSelector=spec.magic=1", PODS),
        listed("fieldSelector=spec.magic=1"),
        listed("fieldSelector=spec.providerID=a", NODES),
        listed("fieldSelector=data.a=1"),
        listed("fieldSelector=metadata.labels.a=1"),
        listed("fieldSelector=metadata.uid=1", PODS),
        listed("fieldSelector=metadata.name", PODS),
        listed("fieldSelector=metadata.name>a", PODS),
        listed("fieldSelector=status.phase=Running", JOBS),
        listed("fieldSelector=spec.holderIdentity=a", LEASES),
        listed("fieldSelector=spec.nodeName=a&labelSelector=a in (", PODS),
        delete(f"{PODS}?fieldSelector=spec.magic=1"),
        space="fields",
    ),
    probe(
        "everything in a cluster",
        get(
            "/api/v1/configmaps?fieldSelector=metadata.namespace=<ns>",
            pick=lambda body: (body["kind"], [each["metadata"]["name"] for each in body["items"]]),
        ),
        get("/api/v1/configmaps?fieldSelector=metadata.namespace=<ns>,metadata.name=none"),
        get("/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name=<ns>"),
        get(
            "/api/v1/namespaces?labelSelector=kubernetes.io/metadata.name in (default,kube-system,kube-public,kube-node-lease)",
            pick=names,
        ),
        space="fields",
    ),
)
