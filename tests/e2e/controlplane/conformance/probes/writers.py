"""Who wins when two write, and the preconditions and options of a delete."""

from __future__ import annotations

from tests.e2e.controlplane.conformance.manifests import OTHER, a_map, options
from tests.e2e.controlplane.conformance.probe import (
    EVENTS,
    LEASES,
    MAPS,
    NODES,
    NS,
    ROLES,
    SECRETS,
    Changed,
    at,
    delete,
    patch,
    post,
    probe,
    put,
)

PROBES = (
    probe(
        "two writers",
        post(MAPS, a_map("two"), keep={"first": ""}),
        put(f"{MAPS}/two", Changed("first", {"data": {"a": "2"}})),
        put(f"{MAPS}/two", Changed("first", {"data": {"a": "3"}})),
        put(f"{MAPS}/two", a_map("two")),
        put(f"{MAPS}/two", a_map("two", resourceVersion="0")),
        put(f"{MAPS}/two", a_map("two", resourceVersion="text")),
        put(f"{MAPS}/two", a_map("two", uid=OTHER)),
        post(MAPS, a_map("two")),
        post(MAPS, a_map("versioned", resourceVersion="5")),
        post(MAPS, a_map("identified", uid=OTHER), keep={}),
        put(
            f"{MAPS}/two",
            Changed(
                "first",
                {
                    "metadata": {
                        "resourceVersion": None,
                        "creationTimestamp": "2020-01-01T00:00:00Z",
                        "generation": 5,
                        "deletionTimestamp": "2020-01-01T00:00:00Z",
                    }
                },
            ),
        ),
    ),
    probe(
        "a lease is compared and swapped",
        post(
            LEASES,
            {
                "metadata": {"name": "swap"},
                "spec": {
                    "holderIdentity": "a",
                    "leaseDurationSeconds": 15,
                    "renewTime": "2026-01-01T00:00:00.000000Z",
                },
            },
            keep={"mine": ""},
        ),
        put(f"{LEASES}/swap", Changed("mine", {"spec": {"holderIdentity": "b"}})),
        put(f"{LEASES}/swap", Changed("mine", {"spec": {"holderIdentity": "c"}})),
        put(f"{LEASES}/swap", Changed("mine", {"metadata": {"resourceVersion": None}})),
        patch(f"{LEASES}/swap", {"spec": {"renewTime": "2026-01-01T00:00:01Z"}}),
        patch(
            f"{LEASES}/swap",
            {"spec": {"renewTime": "2026-01-01T00:00:01.5+02:00"}},
            pick=lambda body: str(at(body, "spec.renewTime"))[:13],
        ),
        patch(f"{LEASES}/swap", {"spec": {"holderIdentity": "", "leaseTransitions": 3}}),
        patch(f"{LEASES}/swap", {"spec": {"leaseDurationSeconds": -3}}),
    ),
    probe(
        "what an update makes",
        put(f"{LEASES}/made", {"metadata": {"name": "made"}, "spec": {"holderIdentity": "a"}}),
        put(f"{LEASES}/made", {"metadata": {"name": "made"}, "spec": {"holderIdentity": "a"}}),
        put(
            f"{LEASES}/versioned",
            {"metadata": {"name": "versioned", "resourceVersion": "5"}, "spec": {"holderIdentity": "a"}},
        ),
        put(
            f"{LEASES}/known",
            {"metadata": {"name": "known", "uid": OTHER, "resourceVersion": "5"}, "spec": {}},
        ),
        put(f"{LEASES}/tried?dryRun=All", {"metadata": {"name": "tried"}, "spec": {"holderIdentity": "a"}}),
        put(f"{ROLES}/made", {"metadata": {"name": "made"}, "rules": []}),
        put(f"{NS}/limitranges/made", {"metadata": {"name": "made"}, "spec": {"limits": []}}),
        put(f"{EVENTS}/made", {"metadata": {"name": "made"}, "involvedObject": {"namespace": "<ns>"}}),
        put(f"{SECRETS}/made", {"metadata": {"name": "made"}}),
        put(f"{NODES}/made-<tag>", {"metadata": {"name": "made-<tag>"}}),
    ),
    probe(
        "preconditions of a delete",
        post(MAPS, a_map("guarded"), keep={"uid": "metadata.uid", "old": "metadata.resourceVersion"}),
        patch(f"{MAPS}/guarded", {"data": {"a": "2"}}, keep={"new": "metadata.resourceVersion"}),
        delete(f"{MAPS}/guarded", options(preconditions={"uid": OTHER})),
        delete(f"{MAPS}/guarded", options(preconditions={"resourceVersion": "<old>"})),
        delete(f"{MAPS}/guarded", options(preconditions={"uid": "<uid>", "resourceVersion": "<old>"})),
        delete(f"{MAPS}/guarded", options(preconditions={"uid": ""})),
        post(MAPS, a_map("guarded"), keep={"uid": "metadata.uid", "new": "metadata.resourceVersion"}),
        delete(f"{MAPS}/guarded", options(preconditions={"uid": "<uid>", "resourceVersion": "<new>"})),
        delete(f"{MAPS}/guarded", options(preconditions={"uid": "<uid>"})),
    ),
    probe(
        "options of a delete that are refused",
        post(MAPS, a_map("opted")),
        delete(f"{MAPS}/opted", options(propagationPolicy="Sideways")),
        delete(f"{MAPS}/opted", options(propagationPolicy="Orphan", orphanDependents=True)),
        delete(f"{MAPS}/opted", b"{not json"),
        delete(f"{MAPS}/opted", {"kind": "Pod", "apiVersion": "v1"}),
        delete(f"{MAPS}/opted", options(dryRun=["Some"])),
        delete(f"{MAPS}/opted?dryRun=Some"),
        delete(f"{MAPS}/opted", options(dryRun=["All"])),
        delete(f"{MAPS}/opted?dryRun=All"),
        delete(f"{MAPS}/opted", options(gracePeriodSeconds=5)),
        post(MAPS, a_map("opted-too", finalizers=["example.com/a"]), quiet=True),
        delete(f"{MAPS}/opted-too", options(orphanDependents=False)),
        patch(f"{MAPS}/opted-too", {"metadata": {"finalizers": None}}, quiet=True),
        delete(f"{MAPS}/opted"),
    ),
)
