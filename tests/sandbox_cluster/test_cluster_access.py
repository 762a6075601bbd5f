"""Tokens and rights, and what discovery tells."""

from __future__ import annotations

import pytest

from .town import NODES, PODS, Town, pod

READER = {
    "user": "system:serviceaccount:a:reader",
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["mine"]},
    ],
}
BEARER = "Bearer reading"


@pytest.fixture
def guarded() -> Town:
    return Town(tokens={"reading": READER})


def test_without_a_rule_it_is_forbidden_in_the_real_words(guarded: Town) -> None:
    status = guarded.refused("GET", NODES, authorization=BEARER)
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'nodes is forbidden: User "system:serviceaccount:a:reader" cannot list resource "nodes" '
        'in API group "" at the cluster scope'
    )
    created = guarded.refused("POST", PODS, pod("p"), authorization=BEARER)
    assert created["message"].endswith(
        'cannot create resource "pods" in API group "" in the namespace "default"'
    )
    named = guarded.refused("PATCH", f"{PODS}/p/status", {}, authorization=BEARER)
    assert named["message"].startswith('pods "p" is forbidden: ')
    assert 'cannot patch resource "pods/status"' in named["message"]


def test_what_a_rule_allows_works(guarded: Town) -> None:
    assert guarded.get(PODS, authorization=BEARER)["items"] == []
    path = "/api/v1/namespaces/default/configmaps"
    assert guarded.refused("GET", f"{path}/mine", authorization=BEARER)["code"] == 404
    assert guarded.refused("GET", f"{path}/other", authorization=BEARER)["code"] == 403


def test_a_watch_needs_its_own_right(guarded: Town) -> None:
    assert guarded.refused("GET", f"{PODS}?watch=1", authorization=BEARER)["code"] == 403


def test_other_tokens_are_administrators_unless_one_is_required(guarded: Town) -> None:
    assert guarded.get(NODES, authorization="Bearer other")["items"] == []
    guarded.settings(require_token=True)
    assert 'User "system:anonymous" cannot list resource "nodes"' in guarded.refused("GET", NODES)["message"]
    assert guarded.get("/version")["major"] == "1"
    assert guarded.refused("GET", "/apis")["code"] == 403
    assert guarded.refused("GET", NODES, authorization="Bearer other")["code"] == 401
    assert guarded.get(PODS, authorization=BEARER)["items"] == []


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        ({"verb": "list", "resource": "pods"}, True),
        ({"verb": "list", "resource": "nodes"}, False),
        ({"verb": "get", "resource": "configmaps", "name": "mine"}, True),
        ({"verb": "get", "resource": "configmaps"}, False),
        ({"verb": "create", "resource": "pods", "subresource": "eviction"}, False),
    ],
)
def test_an_access_review_answers_as_the_rules_do(
    guarded: Town, attributes: dict[str, str], allowed: bool
) -> None:
    body = {"spec": {"resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = guarded.ask("POST", path, body, authorization=BEARER)
    assert answer.status == 201
    assert answer.json()["status"]["allowed"] is allowed


def test_tokens_are_never_shown(guarded: Town) -> None:
    assert b"reading" not in guarded.ask("GET", "/_sandbox/settings").body


def test_discovery_names_every_group_plainly_and_aggregated(town: Town) -> None:
    groups = {each["name"] for each in town.get("/apis")["groups"]}
    assert {"apps", "batch", "policy", "coordination.k8s.io", "authorization.k8s.io"} <= groups
    pods = next(r for r in town.get("/api/v1")["resources"] if r["name"] == "pods")
    assert (pods["kind"], pods["namespaced"], pods["shortNames"]) == ("Pod", True, ["po"])
    eviction = next(r for r in town.get("/api/v1")["resources"] if r["name"] == "pods/eviction")
    assert (eviction["group"], eviction["kind"]) == ("policy", "Eviction")
    answer = town.ask(
        "GET", "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    assert answer.headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
    assert answer.json()["kind"] == "APIGroupDiscoveryList"
    assert town.get("/version")["major"] == "1"
    assert town.ask("GET", "/readyz").body == b"ok"


def test_validation_on_the_server_is_announced(town: Town) -> None:
    assert "apis/batch/v1" in town.get("/openapi/v3")["paths"]
    paths = town.get("/openapi/v3/apis/batch/v1")["paths"].values()
    job = next(p["patch"] for p in paths if p["patch"]["x-kubernetes-group-version-kind"]["kind"] == "Job")
    assert "fieldValidation" in {each["name"] for each in job["parameters"]}
