"""What a probe is: a short sequence of raw HTTP requests that both clusters are asked in the same words.

Texts in angle brackets are filled in for each side: `<ns>` is the probe's namespace there, `<tag>` makes
names outside of namespaces unique, and everything that an earlier step kept has its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
CORE = "/api/v1"
NS = "/api/v1/namespaces/<ns>"
MAPS = f"{NS}/configmaps"
SECRETS = f"{NS}/secrets"
PODS = f"{NS}/pods"
EVENTS = f"{NS}/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/<ns>/events"
NODES = f"{CORE}/nodes"
SPACES = f"{CORE}/namespaces"
DEPLOYMENTS = "/apis/apps/v1/namespaces/<ns>/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/<ns>/replicasets"
DAEMON_SETS = "/apis/apps/v1/namespaces/<ns>/daemonsets"
JOBS = "/apis/batch/v1/namespaces/<ns>/jobs"
BUDGETS = "/apis/policy/v1/namespaces/<ns>/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/<ns>/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/<ns>/roles"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/<ns>/resourceclaims"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"}
# Pods that no scheduler touches, without the volume that real ones get for a token that nothing reads here.
QUIET = {"schedulerName": "nobody", "automountServiceAccountToken": False}

Pick = Callable[[Any], Any]


@dataclass(frozen=True)
class Changed:
    """A body: an object that an earlier step kept, with a merge patch (RFC 7386) applied."""

    kept: str
    patch: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    method: str
    path: str
    body: Any = None
    kind: str = JSON  # content type of the body
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)  # name -> dotted path into the answer
    until: Mapping[str, Any] = field(default_factory=dict)  # asked again until these paths have these values
    within: float = 0.0  # seconds that `until` is waited for; 0: as long as for any answer
    pick: Pick | None = None  # what of the answer is compared; all of it by default
    watch: str = ""  # opens a watch under this name; nothing is compared yet
    told: str = ""  # reads from the watch of this name ...
    events: int = 0  # ... so many events; 0: until the server ends it
    quiet: bool = False  # done, but not compared


@dataclass(frozen=True)
class Probe:
    name: str
    steps: tuple[Step, ...]
    space: str = ""  # the namespace; by default one for each theme
    slow: bool = False  # the API server lets its clients wait here, so others are asked meanwhile


def probe(name: str, *steps: Step, space: str = "", slow: bool = False) -> Probe:
    return Probe(name, steps, space, slow)


def get(path: str, **more: Any) -> Step:
    return Step("GET", path, **more)


def post(path: str, body: Any, **more: Any) -> Step:
    return Step("POST", path, body, **more)


def put(path: str, body: Any, **more: Any) -> Step:
    return Step("PUT", path, body, **more)


def patch(path: str, body: Any, kind: str = MERGE, **more: Any) -> Step:
    return Step("PATCH", path, body, kind, **more)


def delete(path: str, body: Any = None, **more: Any) -> Step:
    return Step("DELETE", path, body, **more)


def watch(name: str, path: str, **more: Any) -> Step:
    return Step("GET", path, watch=name, **more)


def told(name: str, events: int = 0, **more: Any) -> Step:
    return Step("", "", told=name, events=events, **more)


def fields(*paths: str) -> Pick:
    """Only these dotted paths of the answer; a missing one is told as missing."""

    def pick(answer: Any) -> Any:
        return {path: at(answer, path) for path in paths}

    return pick


MISSING = "<missing>"


def at(value: Any, path: str) -> Any:
    """What lies at a dotted path; numbers count in lists, an empty path is the whole."""
    for part in filter(None, path.split(".")):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return MISSING
    return value
