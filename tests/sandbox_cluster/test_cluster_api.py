"""Verbs, refusals and their wording."""

from __future__ import annotations

import base64

import pytest

from .town import JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, Town, pod, taints

MAPS = "/api/v1/namespaces/default/configmaps"


def a_map(name: str = "m", **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


def test_what_does_not_exist_is_told_as_the_real_server_tells_it(town: Town) -> None:
    status = town.refused("GET", f"{PODS}/x")
    assert (status["code"], status["reason"], status["message"]) == (404, "NotFound", 'pods "x" not found')
    assert status["details"] == {"name": "x", "kind": "pods"}
    jobs = town.refused("GET", "/apis/batch/v1/namespaces/default/jobs/y")
    assert jobs["message"] == 'jobs.batch "y" not found'
    assert jobs["details"] == {"name": "y", "group": "batch", "kind": "jobs"}
    assert town.refused("GET", "/apis/batch/v1/things")["code"] == 404
    nowhere = town.ask("GET", "/apis/nope.example/v1/things")
    assert (nowhere.status, nowhere.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("api", "spec", "status"),
    [
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2}, {"phase": "Scheduling"}),
        ("scheduling.volcano.sh/v1beta1", {"minMember": 2, "minTaskMember": {"a": 1}}, {"phase": "Pending"}),
        (
            "scheduling.run.ai/v2alpha2",
            {"minMember": 2, "subGroups": [{"name": "a", "minMember": 1}]},
            {"schedulingConditions": [{"type": "t", "reasons": [{"reason": "OverLimit", "message": "m"}]}]},
        ),
    ],
)
def test_gangs_of_other_schedulers_are_stored_as_they_are_said(
    town: Town, api: str, spec: dict[str, object], status: dict[str, object]
) -> None:
    groups = f"/apis/{api}/namespaces/default/podgroups"
    town.post(groups, {"metadata": {"name": "g"}, "spec": spec})
    town.patch(f"{groups}/g/status", {"status": status})
    found = town.get(f"{groups}/g")
    assert (found["apiVersion"], found["kind"], found["spec"]) == (api, "PodGroup", spec)
    assert found["status"] == status
    assert [each["metadata"]["name"] for each in town.get(f"/apis/{api}/podgroups")["items"]] == ["g"]
    assert "podgroups" in {each["name"] for each in town.get(f"/apis/{api}")["resources"]}


def test_a_name_is_taken_once(town: Town) -> None:
    town.post(MAPS, a_map())
    status = town.refused("POST", MAPS, a_map())
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'configmaps "m" already exists'


def test_an_update_with_a_stale_version_conflicts_and_changes_nothing(town: Town) -> None:
    first = town.post(MAPS, a_map(a="1"))
    assert town.patch(f"{MAPS}/m", {"data": {"a": "2"}}).status == 200
    status = town.refused("PUT", f"{MAPS}/m", first | {"data": {"a": "3"}})
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "m": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert town.get(f"{MAPS}/m")["data"] == {"a": "2"}


def test_an_update_without_a_version_wins(town: Town) -> None:
    town.post(MAPS, a_map(a="1"))
    answer = town.ask("PUT", f"{MAPS}/m", a_map(b="2"))
    assert answer.status == 200
    assert town.get(f"{MAPS}/m")["data"] == {"b": "2"}


def test_a_patch_that_carries_a_stale_version_conflicts(town: Town) -> None:
    old = town.post(MAPS, a_map())["metadata"]["resourceVersion"]
    town.patch(f"{MAPS}/m", {"data": {"a": "1"}})
    answer = town.patch(f"{MAPS}/m", {"metadata": {"resourceVersion": old}, "data": {"a": "2"}})
    assert answer.status == 409


def test_an_update_that_changes_nothing_is_no_event(town: Town) -> None:
    made = town.post(MAPS, a_map(a="1"))
    answer = town.patch(f"{MAPS}/m", {"data": {"a": "1"}})
    assert answer.json()["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_json_patch_tests_before_it_writes(town: Town) -> None:
    town.post(MAPS, a_map(a="1"))
    failed = town.patch(
        f"{MAPS}/m",
        [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "replace", "path": "/data/a", "value": "3"}],
        JSON_PATCH,
    )
    assert failed.status == 422
    done = town.patch(
        f"{MAPS}/m",
        [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/b~1c", "value": "3"},
        ],
        JSON_PATCH,
    )
    assert done.json()["metadata"]["annotations"] == {"b/c": "3"}


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
def test_null_removes_a_key_in_both_merging_patches(town: Town, kind: str) -> None:
    town.post(MAPS, a_map(a="1", b="2"))
    assert town.patch(f"{MAPS}/m", {"data": {"a": None}}, kind).json()["data"] == {"b": "2"}


def test_node_taints_are_replaced_and_conditions_merged_by_a_strategic_patch(town: Town) -> None:
    town.add_node("n", taints=[{"key": "a", "effect": "NoSchedule"}])
    changed = town.patch(
        f"{NODES}/n", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, STRATEGIC
    )
    assert taints(changed.json()) == {"b:NoSchedule"}
    extra = {"status": {"conditions": [{"type": "Extra", "status": "True"}]}}
    merged = town.patch(f"{NODES}/n/status", extra, STRATEGIC).json()
    assert [each["type"] for each in merged["status"]["conditions"]] == [
        "Extra",
        "Ready",
    ]  # what a patch adds comes first


def test_status_and_spec_have_their_own_doors(town: Town) -> None:
    town.add_node("n")
    through_main = town.patch(
        f"{NODES}/n", {"status": {"capacity": {"cpu": "99"}}, "metadata": {"labels": {"a": "b"}}}
    )
    assert through_main.json()["status"]["capacity"]["cpu"] == "8"
    assert through_main.json()["metadata"]["labels"]["a"] == "b"
    through_status = town.patch(
        f"{NODES}/n/status", {"status": {"capacity": {"cpu": "99"}}, "spec": {"unschedulable": True}}
    )
    assert through_status.json()["status"]["capacity"]["cpu"] == "99"
    assert "unschedulable" not in through_status.json()["spec"]


def test_names_are_generated_on_request(town: Town) -> None:
    made = town.post(PODS, pod("") | {"metadata": {"generateName": "work-"}})
    assert made["metadata"]["name"].startswith("work-")
    assert len(made["metadata"]["name"]) == len("work-") + 5


def test_a_dry_run_answers_but_stores_nothing(town: Town) -> None:
    answer = town.ask("POST", f"{PODS}?dryRun=All", pod("p"))
    assert answer.status == 201
    town.refused("GET", f"{PODS}/p")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (pod("BAD"), 422, 'metadata.name: Invalid value: "BAD": a lowercase RFC 1123 subdomain'),
        ({"metadata": {"name": "p"}, "spec": {"containers": []}}, 422, "spec.containers: Required value"),
        (pod("p", requests={"cpu": "4x"}), 400, "quantities must match the regular expression"),
        (pod("p", requests={"nvidia.com/gpu": "1500m"}), 422, "must be an integer"),
        ({"kind": "Node", "metadata": {"name": "p"}}, 400, "cannot be handled as a Pod"),
        (pod("p", priorityClassName="none"), 403, "no PriorityClass with name none was found"),
    ],
)
def test_obvious_mistakes_are_refused_with_the_field(
    town: Town, body: dict[str, object], code: int, words: str
) -> None:
    status = town.refused("POST", PODS, body)
    assert status["code"] == code
    assert words in status["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "p"}, "spec": {"containers": [3]}},
        {"metadata": {"name": "p", "labels": {"a": 1}}, "spec": pod("p")["spec"]},
        {"metadata": {"name": "p"}, "spec": {"containers": {"a": "b"}}},
        {"metadata": "p"},
        [],
        "text",
    ],
)
def test_a_body_of_the_wrong_shape_is_a_bad_request_and_never_a_crash(town: Town, body: object) -> None:
    assert town.refused("POST", PODS, body)["code"] in (400, 422)
    assert town.refused("POST", PODS, b"{not json")["code"] == 400


def test_an_extended_resource_needs_a_limit(town: Town) -> None:
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": 1}}
    assert "Limit must be set for non overcommitable resources" in town.refused("POST", PODS, body)["message"]


def test_a_pod_gets_what_the_real_server_adds(town: Town) -> None:
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    made = town.post(PODS, body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["priority"] == 0
    assert {each["key"]: each["tolerationSeconds"] for each in made["spec"]["tolerations"]} == {
        "node.kubernetes.io/not-ready": 300,
        "node.kubernetes.io/unreachable": 300,
    }


def test_priority_comes_from_the_class(town: Town) -> None:
    town.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "low"}, "value": -20})
    assert town.add_pod("p", priorityClassName="low")["spec"]["priority"] == -20


def test_a_pod_cannot_be_created_in_a_namespace_that_is_not_there(town: Town) -> None:
    status = town.refused("POST", "/api/v1/namespaces/none/pods", pod("p"))
    assert (status["code"], status["message"]) == (404, 'namespaces "none" not found')


def test_the_spec_of_a_pod_stands_except_for_a_few_fields(town: Town) -> None:
    town.add_pod("p")
    assert town.patch(f"{PODS}/p", {"spec": {"hostNetwork": True}}).status == 422
    assert town.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_a_provider_id_is_set_once(town: Town) -> None:
    town.add_node("n")
    assert town.patch(f"{NODES}/n", {"spec": {"providerID": "verda://n"}}).status == 200
    status = town.patch(f"{NODES}/n", {"spec": {"providerID": "verda://m"}}).json()
    assert status["code"] == 422
    assert "may not change providerID" in status["message"]


def test_a_new_node_is_tainted_until_its_condition_is_seen(town: Town) -> None:
    for name, status in (("n", "False"), ("m", "True")):
        assert taints(town.add_node(name, ready=status)) == {"node.kubernetes.io/not-ready:NoSchedule"}
    town.post(NODES, {"metadata": {"name": "silent"}})
    town.run()
    assert taints(town.node("m")) == set()
    assert taints(town.node("silent")) == set()
    assert "node.kubernetes.io/not-ready:NoExecute" in taints(town.node("n"))


def test_strings_of_a_secret_become_data(town: Town) -> None:
    path = "/api/v1/namespaces/default/secrets"
    made = town.post(path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert made["data"] == {"a": base64.b64encode(b"b").decode()}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


def test_finalizers_hold_an_object_until_the_last_is_taken_off(town: Town) -> None:
    town.post(MAPS, {"metadata": {"name": "m", "finalizers": ["a.example/b"]}})
    town.ask("DELETE", f"{MAPS}/m")
    assert town.get(f"{MAPS}/m")["metadata"]["deletionTimestamp"]
    town.patch(f"{MAPS}/m", {"metadata": {"finalizers": None}})
    town.refused("GET", f"{MAPS}/m")


def test_deleting_asks_for_the_preconditions(town: Town) -> None:
    made = town.post(MAPS, a_map())
    wrong = town.refused("DELETE", f"{MAPS}/m", {"preconditions": {"uid": "other"}})
    assert wrong["code"] == 409
    assert "the UID in the precondition (other) does not match the UID in record" in wrong["message"]
    assert wrong["details"]["kind"] == "ConfigMap"
    assert town.refused("DELETE", f"{MAPS}/m", {"preconditions": {"resourceVersion": "1"}})["code"] == 409
    right = town.ask("DELETE", f"{MAPS}/m", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert right.json()["status"] == "Success"


def test_many_are_deleted_by_their_labels(town: Town) -> None:
    for name in "abc":
        town.post(MAPS, {"metadata": {"name": name, "labels": {"x": name}}})
    town.ask("DELETE", f"{MAPS}?labelSelector=x+in+(a,b)")
    names = [each["metadata"]["name"] for each in town.get(MAPS)["items"]]
    assert names == ["c", "kube-root-ca.crt"]


def test_a_namespace_is_emptied_before_it_goes(town: Town) -> None:
    town.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    town.run(0.1)
    path = "/api/v1/namespaces/team"
    assert "ca.crt" in town.get(f"{path}/configmaps/kube-root-ca.crt")["data"]
    town.post(f"{path}/pods", pod("p"))
    assert town.ask("DELETE", path).json()["status"]["phase"] == "Terminating"
    town.run(1)
    town.refused("GET", path)
    assert town.get("/api/v1/pods")["items"] == []


def test_the_scale_door_changes_replicas(town: Town) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "d"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]},
    }
    town.post(path, {"metadata": {"name": "d"}, "spec": spec})
    assert town.get(f"{path}/d/scale")["spec"] == {"replicas": 1}
    assert town.patch(f"{path}/d/scale", {"spec": {"replicas": 3}}).status == 200
    town.run(1)
    assert len(town.get(PODS)["items"]) == 3


def test_events_are_one_set_of_objects_in_both_groups(town: Town) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    body = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
        "type": "Normal",
        "reason": "R",
    }
    body |= {
        "reportingController": "us",
        "reportingInstance": "us-1",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    town.post(path, body)
    core = town.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")["items"]
    assert [(each["message"], each["reportingComponent"]) for each in core] == [("hello", "us")]
    assert town.get(f"{path}/e")["note"] == "hello"


def test_a_server_side_apply_creates_and_then_merges(town: Town) -> None:
    kind = "application/apply-patch+yaml"
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"
    answer = town.ask("PATCH", f"{MAPS}/m?fieldManager=t", head + b"data: {a: '1'}", content_type=kind)
    assert answer.status == 201
    assert town.ask("PATCH", f"{MAPS}/m", head, content_type=kind).status == 422
    answer = town.ask("PATCH", f"{MAPS}/m?fieldManager=t", head + b"data: {b: '2'}", content_type=kind)
    assert answer.json()["data"] == {"a": "1", "b": "2"}


def test_kubectl_s_protobuf_is_understood(town: Town) -> None:
    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    meta = field(1, b"m") + field(3, b"")  # a name and an empty namespace, as Go writes them
    entry = field(2, field(1, b"k") + field(2, b"v"))
    unknown = field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, field(1, meta) + entry)
    answer = town.ask("POST", MAPS, b"k8s\0" + unknown, content_type="application/vnd.kubernetes.protobuf")
    assert answer.status == 201, answer.body
    assert town.get(f"{MAPS}/m")["data"] == {"k": "v"}
    broken = town.ask(
        "POST", MAPS, b"k8s\0" + unknown[:-3], content_type="application/vnd.kubernetes.protobuf"
    )
    assert broken.status == 400


def test_tables_carry_the_columns_that_kubectl_prints(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p")
    town.run(5)
    answer = town.get(PODS, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    assert [c["name"] for c in answer["columnDefinitions"] if not c["priority"]] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    cells = answer["rows"][0]["cells"]
    assert cells[:4] == ["p", "1/1", "Running", "0"]
    assert cells[6] == "n"
    assert answer["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
