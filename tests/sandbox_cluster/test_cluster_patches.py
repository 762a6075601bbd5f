"""The patch dialects, and what a strategic merge does to lists."""

from __future__ import annotations

from typing import Any

import pytest

from .town import JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, Town

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployment() -> Any:
    first = {
        "name": "a",
        "image": "a:1",
        "args": ["x"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    }
    held = {"containers": [first, {"name": "b", "image": "b:1"}], "volumes": [{"name": "v", "emptyDir": {}}]}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": held}
    spec = {"replicas": 0, "paused": True, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"metadata": {"name": "d"}, "spec": spec}


def strategic(town: Town, spec: Any) -> Any:
    answer = town.patch(f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": spec}}}, STRATEGIC)
    return answer.json()["spec"]["template"]["spec"] if answer.status == 200 else answer.json()


@pytest.mark.parametrize(
    ("change", "order"),
    [
        ([{"name": "a", "image": "a:2"}], ["a", "b"]),
        ([{"name": "c", "image": "c:1"}], ["c", "a", "b"]),
        ([{"name": "b", "$patch": "delete"}], ["a"]),
        ([{"$patch": "replace"}, {"name": "only", "image": "only:1"}], ["only"]),
    ],
)
def test_a_list_with_a_key_is_merged_by_it(town: Town, change: Any, order: list[str]) -> None:
    town.post(DEPLOYMENTS, deployment())
    assert [each["name"] for each in strategic(town, {"containers": change})["containers"]] == order


def test_the_order_of_a_merged_list_may_be_said(town: Town) -> None:
    town.post(DEPLOYMENTS, deployment())
    change = {
        "containers": [{"name": "c", "image": "c"}],
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
    }
    assert [each["name"] for each in strategic(town, change)["containers"]] == ["a", "b", "c"]


def test_lists_inside_of_lists_are_merged_too_and_those_without_a_key_replaced(town: Town) -> None:
    town.post(DEPLOYMENTS, deployment())
    env = [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}]
    held = strategic(town, {"containers": [{"name": "a", "env": env, "args": ["y", "z"]}]})["containers"][0]
    assert held["env"] == [{"name": "B", "value": "3"}]
    assert held["args"] == ["y", "z"]


def test_what_belongs_together_is_kept_together(town: Town) -> None:
    town.post(DEPLOYMENTS, deployment())
    volume = {"name": "v", "configMap": {"name": "c"}, "$retainKeys": ["name", "configMap"]}
    held = strategic(town, {"volumes": [volume]})["volumes"]
    assert held == [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"containers": [{"image": "nameless"}]},
            "map: map[image:nameless] does not contain declared merge key: name",
        ),
        ({"$patch": "invent"}, "unknown patch type: invent in map: map[$patch:invent]"),
    ],
)
def test_a_patch_that_cannot_be_merged_is_an_error_of_the_server(town: Town, change: Any, told: str) -> None:
    town.post(DEPLOYMENTS, deployment())
    status = strategic(town, change)
    assert (status["code"], status["message"]) == (500, told)


def test_finalizers_are_added_and_taken_off_one_by_one(town: Town) -> None:
    town.post(MAPS, {"metadata": {"name": "m", "finalizers": ["example.com/a"]}})
    added = town.patch(f"{MAPS}/m", {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC).json()
    assert added["metadata"]["finalizers"] == ["example.com/b", "example.com/a"]
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    assert town.patch(f"{MAPS}/m", less, STRATEGIC).json()["metadata"]["finalizers"] == ["example.com/b"]


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "replace", "path": "/data/new", "value": "1"}], 200),
        ([{"op": "add", "path": "/metadata/finalizers", "value": []}], 200),
        ([{"op": "remove", "path": "/data/none"}], 422),
        ([{"op": "add", "path": "/none/none", "value": 1}], 422),
        ([{"op": "invent", "path": "/data/a"}], 422),
        ([{"op": "add"}], 422),
        ([{"op": "replace", "path": "/data", "value": "text"}], 422),
        ([{"op": "remove", "path": "/metadata/name"}], 400),
        ({"data": {}}, 400),
    ],
)
def test_json_patches_are_applied_or_refused(town: Town, operations: Any, code: int) -> None:
    town.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    assert town.patch(f"{MAPS}/m", operations, JSON_PATCH).status == code


@pytest.mark.parametrize("dialect", [MERGE, STRATEGIC])
def test_a_patch_whose_result_does_not_decode_is_an_invalid_patch(town: Town, dialect: str) -> None:
    town.post(MAPS, {"metadata": {"name": "m"}})
    for change in ({"data": "text"}, {"kind": "Secret"}, {"apiVersion": "v2"}):
        status = town.patch(f"{MAPS}/m", change, dialect).json()
        assert (status["code"], status["details"]["causes"][0]["field"]) == (422, "patch")


def test_a_status_can_be_patched_without_touching_the_rest(town: Town) -> None:
    made = town.add_node("n")
    answer = town.patch(
        f"{NODES}/n/status", {"status": {"phase": "Running"}, "spec": {"unschedulable": True}}
    )
    assert answer.json()["status"]["phase"] == "Running"
    assert "unschedulable" not in answer.json()["spec"]
    assert answer.json()["metadata"]["uid"] == made["metadata"]["uid"]


def test_only_changes_of_what_is_wanted_count_as_a_generation(town: Town) -> None:
    path = f"{DEPLOYMENTS}/d"
    town.post(DEPLOYMENTS, deployment())
    assert town.patch(path, {"metadata": {"labels": {"a": "b"}}}).json()["metadata"]["generation"] == 1
    assert town.patch(path, {"metadata": {"annotations": {"a": "b"}}}).json()["metadata"]["generation"] == 2
    assert town.patch(path, {"spec": {"replicas": 1}}).json()["metadata"]["generation"] == 3
    town.add_node("n")
    town.add_pod("p")
    town.run(5)
    assert town.get(f"{PODS}/p")["metadata"]["generation"] == 1  # also when it was bound
