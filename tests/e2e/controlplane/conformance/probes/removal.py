"""How things go away: finalizers, grace, owners, namespaces."""

from __future__ import annotations

from tests.e2e.controlplane.conformance.manifests import a_job, a_map, a_pod, options
from tests.e2e.controlplane.conformance.probe import (
    JOBS,
    MAPS,
    NODES,
    PODS,
    SPACES,
    delete,
    fields,
    get,
    patch,
    post,
    probe,
    put,
)

BOUND = {"terminationGracePeriodSeconds": 60, "nodeName": "none-<tag>"}
ending = fields(
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.generation",
    "metadata.finalizers",
    "kind",
    "message",
    "reason",
    "details",
)

PROBES = (
    probe(
        "finalizers hold an object",
        post(MAPS, a_map("held", finalizers=["example.com/a", "example.com/b"])),
        delete(f"{MAPS}/held"),
        get(f"{MAPS}/held"),
        delete(f"{MAPS}/held"),
        patch(f"{MAPS}/held", {"metadata": {"labels": {"while": "waiting"}}}),
        post(MAPS, a_map("held")),
        patch(f"{MAPS}/held", {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}}),
        patch(f"{MAPS}/held", {"metadata": {"finalizers": ["example.com/b"]}}),
        patch(f"{MAPS}/held", {"metadata": {"finalizers": None}}),
        get(f"{MAPS}/held"),
    ),
    probe(
        "finalizers hold a node and a pod",
        post(
            NODES,
            {
                "metadata": {
                    "name": "held-<tag>",
                    "finalizers": ["example.com/a"],
                    "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
                }
            },
        ),
        get(f"{NODES}/held-<tag>", until={"body.spec.taints": "<missing>"}),
        delete(f"{NODES}/held-<tag>", pick=ending),
        patch(f"{NODES}/held-<tag>", {"metadata": {"finalizers": []}}, pick=ending),
        get(f"{NODES}/held-<tag>"),
        post(PODS, {**a_pod("held"), "metadata": {"name": "held", "finalizers": ["example.com/a"]}}),
        delete(f"{PODS}/held", pick=ending),
        delete(f"{PODS}/held", options(gracePeriodSeconds=0), pick=ending),
        get(f"{PODS}/held", pick=ending),
        patch(f"{PODS}/held", {"metadata": {"finalizers": None}}, pick=ending),
        get(f"{PODS}/held", pick=ending),
    ),
    probe(
        "the grace of a pod",
        post(PODS, a_pod("graced", **BOUND)),
        delete(f"{PODS}/graced?dryRun=All", pick=ending),
        delete(f"{PODS}/graced", pick=ending),
        delete(f"{PODS}/graced", pick=ending),
        delete(f"{PODS}/graced", options(gracePeriodSeconds=90), pick=ending),
        delete(f"{PODS}/graced", options(gracePeriodSeconds=20), pick=ending),
        delete(f"{PODS}/graced?gracePeriodSeconds=10", pick=ending),
        delete(f"{PODS}/graced", options(gracePeriodSeconds=-1), pick=ending),
        get(f"{PODS}/graced"),
        delete(f"{PODS}/graced", options(gracePeriodSeconds=0), pick=ending),
        get(f"{PODS}/graced"),
        post(PODS, a_pod("unbound", terminationGracePeriodSeconds=60)),
        delete(f"{PODS}/unbound", pick=ending),
        get(f"{PODS}/unbound", pick=ending),
        post(PODS, a_pod("hasty", nodeName="none-<tag>", terminationGracePeriodSeconds=0)),
        delete(f"{PODS}/hasty", pick=ending),
        get(f"{PODS}/hasty", pick=ending),
        delete(f"{PODS}/hasty", options(gracePeriodSeconds=0)),
    ),
    probe(
        "a finished pod has no grace",
        post(PODS, a_pod("finished", **BOUND)),
        patch(f"{PODS}/finished/status", {"status": {"phase": "Succeeded"}}),
        delete(f"{PODS}/finished", pick=ending),
        get(f"{PODS}/finished", pick=ending),
    ),
    probe(
        "what a Job leaves behind",
        post(JOBS, a_job("kept"), keep={"uid": "metadata.uid"}, pick=fields("kind")),
        post(
            MAPS,
            a_map(
                "of-kept",
                ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "kept", "uid": "<uid>"}],
            ),
        ),
        delete(f"{JOBS}/kept", pick=ending),
        get(f"{JOBS}/kept", until={"code": 404}),
        get(f"{MAPS}/of-kept", until={"body.metadata.ownerReferences": "<missing>"}),
        post(JOBS, a_job("swept"), keep={"uid": "metadata.uid"}, pick=fields("kind")),
        post(
            MAPS,
            a_map(
                "of-swept",
                ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "swept", "uid": "<uid>"}],
            ),
        ),
        delete(f"{JOBS}/swept", options(propagationPolicy="Background")),
        get(f"{MAPS}/of-swept", until={"code": 404}),
        get(f"{JOBS}/swept"),
    ),
    probe(
        "owners and what they own",
        *(
            step
            for policy in ("Background", "Orphan", "Foreground")
            for step in (
                post(MAPS, a_map(f"owner-{policy.lower()}"), keep={"uid": "metadata.uid"}),
                post(
                    MAPS,
                    a_map(
                        f"owned-{policy.lower()}",
                        ownerReferences=[
                            {
                                "apiVersion": "v1",
                                "kind": "ConfigMap",
                                "name": f"owner-{policy.lower()}",
                                "uid": "<uid>",
                                "blockOwnerDeletion": True,
                            }
                        ],
                    ),
                ),
                delete(f"{MAPS}/owner-{policy.lower()}", options(propagationPolicy=policy)),
                get(f"{MAPS}/owner-{policy.lower()}", until={"code": 404}),
                get(
                    f"{MAPS}/owned-{policy.lower()}",
                    until={"code": 404}
                    if policy != "Orphan"
                    else {"body.metadata.ownerReferences": "<missing>"},
                ),
            )
        ),
        post(MAPS, a_map("orphaned"), keep={"uid": "metadata.uid"}),
        post(
            MAPS,
            a_map(
                "left",
                ownerReferences=[
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "orphaned", "uid": "<uid>"}
                ],
            ),
        ),
        delete(f"{MAPS}/orphaned", options(orphanDependents=True)),
        get(f"{MAPS}/left", until={"body.metadata.ownerReferences": "<missing>"}),
    ),
    probe(
        "many at once",
        post(MAPS, a_map("many-1", labels={"many": "yes"})),
        post(MAPS, a_map("many-2", labels={"many": "yes"}, finalizers=["example.com/a"])),
        post(MAPS, a_map("many-3", labels={"many": "no"})),
        delete(
            f"{MAPS}?labelSelector=many=yes&dryRun=All",
            pick=lambda body: [each["metadata"]["name"] for each in body["items"]],
        ),
        delete(f"{MAPS}?labelSelector=many=yes"),
        get(f"{MAPS}?labelSelector=many"),
        patch(f"{MAPS}/many-2", {"metadata": {"finalizers": None}}),
        delete(f"{MAPS}?fieldSelector=metadata.name=many-3"),
        get(f"{MAPS}?labelSelector=many"),
    ),
    probe(
        "a namespace is emptied before it goes",
        post(SPACES, {"metadata": {"name": "gone-<tag>"}}),
        post(SPACES, {"metadata": {"name": "gone-<tag>"}}),
        get(f"{SPACES}/gone-<tag>/configmaps/kube-root-ca.crt", until={"code": 200}, quiet=True),
        post(f"{SPACES}/gone-<tag>/configmaps", a_map("held", finalizers=["example.com/a"])),
        put(
            f"{SPACES}/gone-<tag>/finalize",
            {"metadata": {"name": "gone-<tag>"}, "spec": {"finalizers": ["kubernetes"]}},
            pick=fields("kind", "spec", "status"),
        ),
        delete(f"{SPACES}/gone-<tag>"),
        get(
            f"{SPACES}/gone-<tag>",
            pick=fields(
                "status.phase", "spec", "metadata.deletionGracePeriodSeconds", "metadata.deletionTimestamp"
            ),
        ),
        post(f"{SPACES}/gone-<tag>/configmaps", a_map("late")),
        post(f"{SPACES}/gone-<tag>/pods", a_pod("late")),
        get(f"{SPACES}/gone-<tag>/configmaps/held", until={"body.metadata.deletionGracePeriodSeconds": 0}),
        delete(f"{SPACES}/gone-<tag>", pick=fields("status.phase", "code", "message", "reason", "kind")),
        patch(f"{SPACES}/gone-<tag>/configmaps/held", {"metadata": {"finalizers": None}}),
        get(f"{SPACES}/gone-<tag>", until={"code": 404}),
        delete(f"{SPACES}/default"),
        delete(f"{SPACES}/kube-system"),
        slow=True,
    ),
)
