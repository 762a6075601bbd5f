"""What watches tell: selectors, deletions, forms, both groups of events."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_pod, labelled
from tests.e2e.controlplane.conformance.probe import (
    CORE,
    MAPS,
    PARTIAL,
    PODS,
    SPACES,
    STRATEGIC,
    TABLE,
    at,
    delete,
    get,
    patch,
    post,
    probe,
    put,
    told,
    watch,
)


def brief(events: Any) -> Any:
    """Type, name and version of each event; what is no object stays whole."""
    return [
        (
            each["type"],
            at(each, "object.metadata.name"),
            at(each, "object.metadata.resourceVersion") != "<missing>",
        )
        if at(each, "object.metadata.name") != "<missing>"
        else each
        for each in events
    ]


def shape(events: Any) -> Any:
    """The cells under their own name, by which ages are known."""
    return [
        {
            "type": each["type"],
            "columns": each["object"]["columnDefinitions"] and "columns",
            "rows": [{"cells": row["cells"]} for row in each["object"]["rows"]],
        }
        for each in events
    ]


STARTED = get(f"{MAPS}/begin", keep={"begin": "metadata.resourceVersion"}, quiet=True)
BEGIN = post(MAPS, labelled("begin"), quiet=True)

PROBES = (
    probe(
        "a selector by labels",
        BEGIN,
        STARTED,
        watch("w", f"{MAPS}?watch=1&resourceVersion=<begin>&labelSelector=a=1"),
        post(MAPS, labelled("chosen"), quiet=True),
        patch(f"{MAPS}/chosen", {"metadata": {"labels": {"a": "1"}}}, quiet=True),
        patch(f"{MAPS}/chosen", {"data": {"a": "2"}}, quiet=True),
        patch(f"{MAPS}/chosen", {"metadata": {"labels": {"a": "2"}}, "data": {"a": "3"}}, quiet=True),
        patch(f"{MAPS}/chosen", {"data": {"a": "4"}}, quiet=True),
        patch(f"{MAPS}/chosen", {"metadata": {"labels": {"a": "1"}}}, quiet=True),
        delete(f"{MAPS}/chosen", quiet=True),
        told("w", 5),
        watch("again", f"{MAPS}?watch=1&resourceVersion=<begin>&labelSelector=a=1"),
        told("again", 5),
        space="labels",
    ),
    probe(
        "a selector by fields",
        post(PODS, a_pod("on-node"), keep={"begin": "metadata.resourceVersion"}, quiet=True),
        watch("w", f"{PODS}?watch=1&resourceVersion=<begin>&fieldSelector=spec.nodeName=none-<tag>"),
        post(
            f"{PODS}/on-node/binding",
            {"metadata": {"name": "on-node"}, "target": {"name": "none-<tag>"}},
            quiet=True,
        ),
        patch(f"{PODS}/on-node/status", {"status": {"phase": "Succeeded"}}, quiet=True),
        watch("done", f"{PODS}?watch=1&resourceVersion=<begin>&fieldSelector=status.phase!=Succeeded"),
        delete(f"{PODS}/on-node", quiet=True),
        told("w", 3, pick=brief),
        told("done", 2, pick=brief),
        space="by-fields",
    ),
    probe(
        "one object",
        BEGIN,
        STARTED,
        watch("field", f"{MAPS}?watch=1&resourceVersion=<begin>&fieldSelector=metadata.name=single"),
        watch("old", f"{CORE}/watch/namespaces/<ns>/configmaps/single?resourceVersion=<begin>"),
        post(MAPS, labelled("other"), quiet=True),
        post(MAPS, labelled("single"), quiet=True),
        told("field", 1),
        told("old", 1),
        space="single",
    ),
    probe(
        "the way of a pod",
        post(PODS, a_pod("begin"), keep={"begin": "metadata.resourceVersion"}, quiet=True),
        watch("w", f"{PODS}?watch=1&resourceVersion=<begin>"),
        post(PODS, a_pod("way", nodeName="none-<tag>", terminationGracePeriodSeconds=5), quiet=True),
        patch(
            f"{PODS}/way/status",
            {"status": {"conditions": [{"type": "A", "status": "True"}]}},
            STRATEGIC,
            quiet=True,
        ),
        delete(f"{PODS}/way", quiet=True),
        delete(f"{PODS}/way", {"gracePeriodSeconds": 0}, quiet=True),
        told("w", 5),
        post(PODS, a_pod("short"), quiet=True),
        delete(f"{PODS}/short", quiet=True),
        told("w", 2),
        post(PODS, a_pod("sudden", nodeName="none-<tag>"), quiet=True),
        delete(f"{PODS}/sudden", {"gracePeriodSeconds": 0}, quiet=True),
        told("w", 2),
        post(PODS, a_pod("last"), quiet=True),
        told("w", 1),
        space="way",
    ),
    probe(
        "deletions that wait",
        BEGIN,
        STARTED,
        watch("w", f"{MAPS}?watch=1&resourceVersion=<begin>"),
        post(MAPS, {"metadata": {"name": "held", "finalizers": ["example.com/a"]}}, quiet=True),
        delete(f"{MAPS}/held", quiet=True),
        patch(f"{MAPS}/held", {"metadata": {"finalizers": None}, "data": {"last": "word"}}, quiet=True),
        post(MAPS, labelled("again"), quiet=True),
        delete(f"{MAPS}/again", quiet=True),
        post(MAPS, labelled("again"), quiet=True),
        told("w", 6),
        space="waiting",
    ),
    probe(
        "in other forms",
        BEGIN,
        STARTED,
        watch("table", f"{MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name=begin", headers=TABLE),
        watch(
            "partial", f"{MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name=begin", headers=PARTIAL
        ),
        put(f"{MAPS}/begin", labelled("begin", now="changed"), quiet=True),
        delete(f"{MAPS}/begin", quiet=True),
        told("table", 3, pick=shape),
        told("partial", 3),
        space="forms",
    ),
    probe(
        "events in both groups",
        post(f"{MAPS}", labelled("begin"), keep={"begin": "metadata.resourceVersion"}, quiet=True),
        post(
            f"{SPACES}/<ns>/events",
            {
                "metadata": {"name": "told"},
                "involvedObject": {"kind": "Pod", "namespace": "<ns>", "name": "a"},
                "reason": "Tried",
                "type": "Normal",
                "message": "once",
            },
            quiet=True,
        ),
        patch(f"{SPACES}/<ns>/events/told", {"count": 2}, quiet=True),
        watch("core", f"{SPACES}/<ns>/events?watch=1&resourceVersion=<begin>"),
        watch("new", "/apis/events.k8s.io/v1/namespaces/<ns>/events?watch=1&resourceVersion=<begin>"),
        told("core", 2),
        told("new", 2),
        space="events",
    ),
    probe(
        "across namespaces",
        BEGIN,
        STARTED,
        watch(
            "w", "/api/v1/configmaps?watch=1&resourceVersion=<begin>&fieldSelector=metadata.namespace=<ns>"
        ),
        watch("label", "/api/v1/configmaps?watch=1&resourceVersion=<begin>&labelSelector=across=<tag>"),
        post(MAPS, labelled("across", across="<tag>"), quiet=True),
        told("w", 1, pick=brief),
        told("label", 1, pick=brief),
        space="across",
    ),
)
