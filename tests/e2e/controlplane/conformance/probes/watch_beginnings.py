"""How watches begin and end: first events, bookmarks, refusals, versions too old."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import labelled
from tests.e2e.controlplane.conformance.probe import (
    MAPS,
    PARTIAL,
    SPACES,
    at,
    delete,
    get,
    patch,
    post,
    probe,
    told,
    watch,
)

FAR = "99999999999"


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


def tried(path: str, **more: Any) -> list[Any]:
    """A watch that is refused, or the first that it tells."""
    return [watch(path, path, **more), told(path, 1, pick=brief)]


STARTED = get(f"{MAPS}/begin", keep={"begin": "metadata.resourceVersion"}, quiet=True)
BEGIN = post(MAPS, labelled("begin"), quiet=True)

PROBES = (
    probe(
        "from a version on",
        BEGIN,
        STARTED,
        post(MAPS, labelled("seen", n="1"), quiet=True),
        patch(f"{MAPS}/seen", {"data": {"a": "2"}}, quiet=True),
        patch(f"{MAPS}/seen", {"data": {"a": "2"}}, quiet=True),
        delete(f"{MAPS}/seen", quiet=True),
        watch("w", f"{MAPS}?watch=1&resourceVersion=<begin>"),
        told("w", 3),
        post(MAPS, labelled("later"), quiet=True),
        told("w", 1),
        space="from",
    ),
    probe(
        "from now on",
        BEGIN,
        watch("empty", f"{MAPS}?watch=true&fieldSelector=metadata.name=begin"),
        watch("zero", f"{MAPS}?watch=true&resourceVersion=0&fieldSelector=metadata.name=begin"),
        told("empty", 1),
        told("zero", 1),
        patch(f"{MAPS}/begin", {"data": {"a": "5"}}, quiet=True),
        told("empty", 1),
        told("zero", 1),
        space="now",
    ),
    probe(
        "bookmarks and the first events",
        BEGIN,
        STARTED,
        watch(
            "w",
            f"{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=begin",
        ),
        told("w", 2),
        patch(f"{MAPS}/begin", {"data": {"a": "7"}}, quiet=True),
        told("w", 1, pick=brief),
        watch(
            "from",
            f"{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=<begin>&fieldSelector=metadata.name=begin",
        ),
        told("from", 2, pick=brief),
        watch(
            "off",
            f"{MAPS}?watch=1&sendInitialEvents=false&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=<begin>&fieldSelector=metadata.name=begin",
        ),
        told("off", 1, pick=brief),
        watch(
            "empty",
            f"{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=none",
        ),
        told("empty", 1),
        watch(
            "partial",
            f"{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=begin",
            headers=PARTIAL,
        ),
        told("partial", 2),
        space="bookmarks",
    ),
    probe(
        "first events that are refused",
        *tried(f"{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"),
        *tried(f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true"),
        *tried(f"{MAPS}?watch=1&resourceVersionMatch=NotOlderThan"),
        *tried(f"{MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        *tried(f"{MAPS}?watch=1&sendInitialEvents=maybe&resourceVersionMatch=NotOlderThan"),
        space="refused",
    ),
    probe(
        "beginnings that are refused",
        *tried(f"{MAPS}?watch=1&resourceVersion=text"),
        *tried(f"{MAPS}?watch=1&resourceVersion=-5"),
        *tried(f"{MAPS}?watch=1&labelSelector=a=b=c"),
        *tried(f"{MAPS}?watch=1&fieldSelector=data.a=1"),
        *tried(f"{MAPS}?watch=1&timeoutSeconds=long"),
        *tried(f"{MAPS}?watch=1&resourceVersion=0&continue=abc"),
        *tried(f"{MAPS}?watch=1", headers={"Accept": "text/html"}),
        *tried(f"{SPACES}/none-<tag>/configmaps?watch=1&resourceVersion=text"),
        *tried("/api/v1/things?watch=1"),
        *tried(f"{MAPS}?watch=perhaps&fieldSelector=metadata.name=kube-root-ca.crt"),
        get(f"{MAPS}?watch=false&limit=1", pick=lambda body: at(body, "kind")),
        get(f"{MAPS}/none?watch=1"),
        space="refused",
    ),
    probe(
        "too old",
        # Events alone are watched in the store itself, so what it has forgotten is gone at once.
        watch("w", f"{SPACES}/<ns>/events?watch=1&resourceVersion=1"),
        told("w"),
        watch("all", "/apis/events.k8s.io/v1/events?watch=1&resourceVersion=1&allowWatchBookmarks=true"),
        told("all"),
        watch("name", f"{SPACES}/<ns>/events?watch=1&resourceVersion=1&fieldSelector=metadata.name=a"),
        told("name"),
        space="refused",
    ),
    probe(
        "an end that was asked for",
        watch("w", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name=none"),
        watch("far", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={FAR}"),
        watch(
            "marked",
            f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true&fieldSelector=metadata.name=none",
        ),
        watch("listed", f"{MAPS}?watch=0&timeoutSeconds=1&fieldSelector=metadata.name=none"),
        told("w"),
        told("far"),
        told("listed"),
        space="ended",
        slow=True,
    ),
)
