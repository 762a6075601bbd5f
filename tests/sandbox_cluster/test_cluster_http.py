"""The same core behind real HTTP, as the official client sees it."""

from __future__ import annotations

import time

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from .conftest import Served
from .town import node, pod

NAMES = "default"


def test_pods_are_created_scheduled_and_run(served: Served) -> None:
    core = client.CoreV1Api(served.client())
    core.create_node(node("n"))
    core.create_namespaced_pod(NAMES, pod("p"))
    phases = []
    for event in watch.Watch().stream(core.list_namespaced_pod, NAMES, timeout_seconds=5):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            break
    assert phases[-1] == "Running"
    assert core.read_namespaced_pod("p", NAMES).spec.node_name == "n"
    assert core.list_node().items[0].status.allocatable["cpu"] == "8"


def test_patches_conflicts_and_refusals_are_what_the_client_expects(served: Served) -> None:
    core = client.CoreV1Api(served.client())
    made = core.create_namespaced_config_map(NAMES, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    assert core.patch_namespaced_config_map("m", NAMES, {"data": {"b": "2"}}).data == {"a": "1", "b": "2"}
    operations = [{"op": "replace", "path": "/data/a", "value": "3"}]
    assert core.patch_namespaced_config_map("m", NAMES, operations).data["a"] == "3"
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("m", NAMES, made)
    assert stale.value.status == 409
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_pod("x", NAMES)
    assert 'pods \\"x\\" not found' in missing.value.body


def test_an_eviction_goes_through_and_a_budget_stops_it(served: Served) -> None:
    api = served.client()
    core = client.CoreV1Api(api)
    core.create_node(node("n"))
    core.create_namespaced_pod(NAMES, pod("p", labels={"app": "x"}))
    for event in watch.Watch().stream(core.list_namespaced_pod, NAMES, timeout_seconds=5):
        if event["object"].status.phase == "Running":
            break
    spec = client.V1PodDisruptionBudgetSpec(max_unavailable=0, selector={"matchLabels": {"app": "x"}})
    budget = client.V1PodDisruptionBudget(metadata={"name": "b"}, spec=spec)
    client.PolicyV1Api(api).create_namespaced_pod_disruption_budget(NAMES, budget)
    eviction = client.V1Eviction(metadata={"name": "p"})
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("p", NAMES, eviction)
    assert refused.value.status == 429
    client.PolicyV1Api(api).delete_namespaced_pod_disruption_budget("b", NAMES)
    core.create_namespaced_pod_eviction("p", NAMES, eviction)
    tries = 0
    while core.list_namespaced_pod(NAMES).items and tries < 500:
        tries += 1
        time.sleep(0.01)
    assert core.list_namespaced_pod(NAMES).items == []


def test_too_old_versions_are_gone_for_lists_and_watches(served: Served) -> None:
    core = client.CoreV1Api(served.client())
    for name in "abc":
        core.create_namespaced_config_map(NAMES, {"metadata": {"name": name}})
    page = core.list_namespaced_config_map(NAMES, limit=1)
    core.create_namespaced_config_map(NAMES, {"metadata": {"name": "d"}})
    served.client().rest_client.POST(f"{served.url}/_sandbox/compact", body={})
    with pytest.raises(ApiException) as expired:
        core.list_namespaced_config_map(NAMES, _continue=page.metadata._continue)
    assert expired.value.status == 410
    with pytest.raises(ApiException) as gone:
        list(
            watch.Watch().stream(
                core.list_namespaced_config_map, NAMES, resource_version="1001", timeout_seconds=2
            )
        )
    assert gone.value.status == 410


def test_a_token_without_rights_is_forbidden(served: Served) -> None:
    served.world.settings.change({"tokens": {"weak": {"user": "weak", "rules": []}}})
    with pytest.raises(ApiException) as refused:
        client.CoreV1Api(served.client("weak")).list_node()
    assert refused.value.status == 403
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "nodes"}}}
    answer = client.AuthorizationV1Api(served.client("weak")).create_self_subject_access_review(review)
    assert answer.status.allowed is False
