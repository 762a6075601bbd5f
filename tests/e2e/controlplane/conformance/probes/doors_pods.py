"""The doors of pods: binding, and eviction with and without budgets."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import OTHER, a_budget, a_pod, binding, eviction
from tests.e2e.controlplane.conformance.probe import (
    BUDGETS,
    NS,
    PODS,
    STRATEGIC,
    at,
    delete,
    fields,
    get,
    patch,
    post,
    probe,
)

READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
UNREADY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}}


def running(name: str, app: str) -> list[Any]:
    return [
        post(PODS, a_pod(name, app, nodeName="none-<tag>"), pick=fields("kind")),
        patch(f"{PODS}/{name}/status", READY, STRATEGIC, pick=fields("status.phase")),
    ]


state = fields(
    "status.phase", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "code", "reason"
)


def dooming(answer: Any) -> Any:
    held = at(answer, "status.conditions")
    return [each for each in held if each["type"] == "DisruptionTarget"] if isinstance(held, list) else answer


counted = fields("status", "spec")

PROBES = (
    probe(
        "binding",
        post(PODS, a_pod("bound"), keep={"uid": "metadata.uid"}),
        post(f"{PODS}/bound/binding", binding("bound", "")),
        post(f"{PODS}/bound/binding", binding("other", "none-<tag>")),
        post(f"{PODS}/bound/binding", binding("bound", "none-<tag>", uid=OTHER)),
        post(f"{PODS}/bound/binding?dryRun=All", binding("bound", "none-<tag>")),
        post(
            f"{PODS}/bound/binding",
            binding("bound", "none-<tag>", uid="<uid>", annotations={"a": "b"}, labels={"c": "d"}),
        ),
        get(f"{PODS}/bound"),
        post(f"{PODS}/bound/binding", binding("bound", "none-<tag>")),
        post(f"{PODS}/bound/binding", binding("bound", "another")),
        post(f"{PODS}/none/binding", binding("none", "none-<tag>")),
        delete(f"{PODS}/bound", pick=state),
        post(f"{PODS}/bound/binding", binding("bound", "another")),
        delete(f"{PODS}/bound", {"gracePeriodSeconds": 0}, pick=state),
        post(PODS, a_pod("bound-too"), pick=fields("kind")),
        post(f"{NS}/bindings", binding("bound-too", "none-<tag>")),
        get(f"{PODS}/bound-too", pick=fields("spec.nodeName", "status.conditions")),
        post(f"{PODS}/bound-too/binding", {"target": {"kind": "Pod", "name": "a"}}),
        delete(f"{PODS}/bound-too", {"gracePeriodSeconds": 0}, pick=state),
    ),
    probe(
        "eviction without a budget",
        post(
            PODS, a_pod("evicted", nodeName="none-<tag>"), keep={"uid": "metadata.uid"}, pick=fields("kind")
        ),
        post(f"{PODS}/evicted/eviction", eviction("other")),
        get(f"{PODS}/evicted", pick=state),
        post(f"{PODS}/evicted/eviction", eviction("evicted", dryRun=["All"])),
        post(f"{PODS}/evicted/eviction?dryRun=All", eviction("evicted")),
        get(f"{PODS}/evicted", pick=state),
        post(
            f"{PODS}/evicted/eviction",
            {"kind": "Eviction", "apiVersion": "policy/v1beta1", "metadata": {"name": "evicted"}},
        ),
        get(f"{PODS}/evicted", pick=state),
        post(
            f"{PODS}/evicted/eviction",
            eviction("evicted", preconditions={"uid": "<uid>"}, gracePeriodSeconds=20),
        ),
        get(f"{PODS}/evicted", pick=state),
        get(f"{PODS}/evicted", pick=dooming),
        post(f"{PODS}/evicted/eviction", eviction("evicted")),
        delete(f"{PODS}/evicted", {"gracePeriodSeconds": 0}, pick=state),
        post(f"{PODS}/evicted/eviction", eviction("evicted")),
        post(PODS, a_pod("unbound"), pick=fields("kind")),
        post(f"{PODS}/unbound/eviction", {}),
        get(f"{PODS}/unbound", pick=state),
    ),
    probe(
        "evictions that conflict",
        post(
            PODS,
            a_pod("conflicting", nodeName="none-<tag>"),
            keep={"version": "metadata.resourceVersion"},
            pick=fields("kind"),
        ),
        patch(f"{PODS}/conflicting", {"metadata": {"labels": {"a": "b"}}}, pick=fields("kind")),
        post(
            f"{PODS}/conflicting/eviction",
            eviction("conflicting", preconditions={"resourceVersion": "<version>"}),
        ),
        post(f"{PODS}/conflicting/eviction", eviction("conflicting", preconditions={"uid": OTHER})),
        get(f"{PODS}/conflicting", pick=state),
        slow=True,
    ),
    probe(
        "eviction that a budget blocks",
        *running("blocked", "b"),
        post(BUDGETS, a_budget("all-b", "b", minAvailable=1), pick=counted),
        get(
            f"{BUDGETS}/all-b",
            until={"body.status.currentHealthy": 1, "body.status.observedGeneration": 1},
            pick=counted,
        ),
        post(f"{PODS}/blocked/eviction", eviction("blocked")),
        post(f"{PODS}/blocked/eviction", eviction("blocked", dryRun=["All"])),
        post(f"{PODS}/blocked/eviction?dryRun=All", eviction("blocked")),
        get(f"{PODS}/blocked", pick=state),
        *running("blocked-too", "b"),
        get(f"{BUDGETS}/all-b", until={"body.status.disruptionsAllowed": 1}, pick=counted),
        post(f"{PODS}/blocked/eviction", eviction("blocked")),
        get(
            f"{BUDGETS}/all-b",
            until={"body.status.currentHealthy": 1},
            pick=lambda body: {**body["status"], "disruptedPods": "any"},
        ),
        post(f"{PODS}/blocked-too/eviction", eviction("blocked-too")),
        delete(f"{BUDGETS}/all-b"),
        post(f"{PODS}/blocked-too/eviction", eviction("blocked-too")),
        delete(f"{PODS}/blocked", {"gracePeriodSeconds": 0}, pick=state),
        delete(f"{PODS}/blocked-too", {"gracePeriodSeconds": 0}, pick=state),
    ),
    probe(
        "eviction of pods that are not ready, and of finished ones",
        post(PODS, a_pod("sick", "s", nodeName="none-<tag>"), pick=fields("kind")),
        patch(f"{PODS}/sick/status", UNREADY, STRATEGIC, pick=fields("status.phase")),
        post(PODS, a_pod("over", "s", nodeName="none-<tag>"), pick=fields("kind")),
        patch(f"{PODS}/over/status", {"status": {"phase": "Succeeded"}}, pick=fields("status.phase")),
        post(PODS, a_pod("waits", "s"), pick=fields("kind")),
        post(BUDGETS, a_budget("strict", "s", minAvailable=1), pick=counted),
        get(f"{BUDGETS}/strict", until={"body.status.expectedPods": 3}, pick=counted),
        post(f"{PODS}/sick/eviction", eviction("sick")),
        post(f"{PODS}/over/eviction", eviction("over")),
        post(f"{PODS}/waits/eviction", eviction("waits")),
        patch(
            f"{BUDGETS}/strict", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, pick=fields("spec")
        ),
        post(f"{PODS}/sick/eviction", eviction("sick")),
        delete(f"{PODS}/sick", {"gracePeriodSeconds": 0}, pick=state),
        delete(f"{BUDGETS}/strict"),
    ),
    probe(
        "two budgets over one pod",
        *running("shared", "t"),
        post(BUDGETS, a_budget("one", "t", maxUnavailable=1), pick=counted),
        post(BUDGETS, a_budget("two", "t", maxUnavailable="50%"), pick=counted),
        get(f"{BUDGETS}/one", until={"body.status.observedGeneration": 1}, quiet=True),
        get(f"{BUDGETS}/two", until={"body.status.observedGeneration": 1}, quiet=True),
        post(f"{PODS}/shared/eviction", eviction("shared")),
        delete(f"{PODS}/shared", {"gracePeriodSeconds": 0}, pick=state),
    ),
    probe(
        "figures of a budget",
        *running("alone", "u"),
        post(BUDGETS, a_budget("most", "u", maxUnavailable=0), pick=counted),
        get(f"{BUDGETS}/most", until={"body.status.observedGeneration": 1}, pick=counted),
        post(f"{PODS}/alone/eviction", eviction("alone")),
        post(BUDGETS, a_budget("empty", "nobody", minAvailable=2), pick=counted),
        get(f"{BUDGETS}/empty", until={"body.status.observedGeneration": 1}, pick=counted),
        patch(f"{BUDGETS}/empty", {"spec": {"minAvailable": 3}}, pick=fields("metadata.generation", "spec")),
        patch(
            f"{BUDGETS}/empty/status",
            {"status": {"disruptionsAllowed": 5}},
            pick=fields("kind", "status.disruptionsAllowed"),
        ),
        delete(f"{PODS}/alone", {"gracePeriodSeconds": 0}, pick=state),
    ),
)
