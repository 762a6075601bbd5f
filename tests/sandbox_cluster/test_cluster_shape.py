"""The shape of stored objects: unknown fields, wrong types, empty things, figures, times, defaults."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.cluster import schema
from controller.sandbox.cluster.quantity import canonical
from controller.sandbox.cluster.shape import Notes, WrongType, shaped

from .town import NODES, PODS, Town, machine, pod

APPS = "/apis/apps/v1/namespaces/default"
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
WORKLOAD = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}


def busy() -> Town:
    """A cluster in which every controller has written something."""
    town = Town(heartbeat=10.0)
    town.world.boot(machine("gpu-1", gpus=2))
    town.world.boot(machine("gone"))
    town.run(400)
    town.post(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": {"replicas": 2, **WORKLOAD}})
    town.post(f"{APPS}/daemonsets", {"metadata": {"name": "ds"}, "spec": WORKLOAD})
    job = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "a", "image": "a", "command": ["sleep", "5"]}],
        }
    }
    town.post(
        "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": {"template": job}}
    )
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    town.post(path, {"metadata": {"name": "b"}, "spec": budget})
    town.add_pod("waits", requests={"nvidia.com/gpu": "8"})
    town.add_pod("gated", schedulingGates=[{"name": "example.com/a"}])
    town.add_pod("evicted")
    town.add_pod("stuck", nodeName="gone")
    town.run(60)
    town.post(f"{PODS}/evicted/eviction", {"metadata": {"name": "evicted"}})
    town.patch(f"{NODES}/gpu-1", {"spec": {"unschedulable": True}})
    town.world.gone("id-gone")
    town.run(500)
    return town


def test_what_controllers_write_has_the_shape_that_the_api_would_give_it() -> None:
    """Else a patch that changes nothing would change the object."""
    town = busy()
    checked = 0
    for resource, shelf in town.world.store.shelves.items():
        for item in shelf.items.values():
            assert shaped(schema.of_resource(resource).name, item.decode()) == item.decode(), item.key
            checked += 1
    assert checked > 40


def test_a_patch_that_says_nothing_new_changes_no_object_of_any_controller() -> None:
    town = busy()
    for path in (
        f"{NODES}/gpu-1",
        f"{NODES}/gone",
        f"{APPS}/deployments/d",
        f"{APPS}/daemonsets/ds",
        f"{PODS}/waits",
    ):
        before = town.get(path)
        assert town.patch(path, {"metadata": {"name": before["metadata"]["name"]}}).json() == before, path


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        (0.5, "500m"),
        ("0.1", "100m"),
        (2, "2"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("100Ki", "100Ki"),
        ("1000Ki", "1000Ki"),
        ("512", "512"),
        ("1000", "1k"),
        ("1500000k", "1500M"),
        ("1.5", "1500m"),
        ("1e3", "1e3"),
        ("12e1", "120"),
        ("0Mi", "0"),
        ("-2", "-2"),
        ("1u", "1m"),
        ("9223372036854775808", "9223372036854775808"),
        ("1E", "1E"),
        ("1023Mi", "1023Mi"),
    ],
)
def test_a_quantity_has_one_form(given: Any, stored: str) -> None:
    assert canonical(given) == stored
    assert canonical(stored) == stored


@pytest.mark.parametrize("given", ["", "much", "1 Gi", True, None, "1e", "--1"])
def test_what_is_no_quantity_has_none(given: Any) -> None:
    with pytest.raises(ValueError):
        canonical(given)


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("core.ConfigMap", {"metadata": {"name": 3}}, "number into Go struct field ObjectMeta.metadata.name of type string"),
        ("core.Pod", {"spec": {"containers": [3]}}, "number into Go struct field PodSpec.spec.containers of type v1.Container"),
        ("core.Pod", {"spec": {"containers": {}}}, "object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        ("core.Pod", {"spec": {"hostNetwork": "yes"}}, "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ("core.Pod", {"spec": {"priority": 1 << 40}}, "number 1099511627776 into Go struct field PodSpec.spec.priority of type int32"),
        ("core.Node", {"status": {"capacity": []}}, "array into Go struct field NodeStatus.status.capacity of type v1.ResourceList"),
        ("core.ConfigMap", {"data": {"a": 1}}, "number into Go struct field ConfigMap.data of type string"),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_refused_in_the_words_of_the_decoder(
    name: str, given: Any, told: str
) -> None:
    with pytest.raises(WrongType) as refused:
        shaped(name, given)
    assert str(refused.value) == f"json: cannot unmarshal {told}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"status": {"capacity": {"cpu": "much"}}}, "quantities must match the regular expression"),
        ({"spec": {"taints": [{"key": "a", "effect": "b", "timeAdded": "now"}]}}, 'parsing time "now" as'),
    ],
)
def test_a_value_that_means_nothing_is_refused(given: Any, told: str) -> None:
    with pytest.raises(WrongType, match=told):
        shaped("core.Node", given)


def test_unknown_fields_are_dropped_and_told_where_they_stood() -> None:
    notes = Notes()
    given = {
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "resource": {}, "env": [{"names": "b"}]}], "x": 1},
    }
    made = shaped("core.Pod", given, notes)
    assert "x" not in made["spec"]
    assert notes.unknown == ["spec.containers[0].resource", "spec.containers[0].env[0].names", "spec.x"]


def test_empty_things_that_mean_nothing_are_left_out_and_others_stay() -> None:
    given = {
        "metadata": {"name": "p", "labels": {}, "finalizers": []},
        "spec": {"nodeName": "", "hostNetwork": False},
    }
    given["spec"] |= {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "activeDeadlineSeconds": 0,
        "affinity": None,
    }
    made = shaped("core.Pod", given)
    assert made["metadata"] == {"name": "p"}
    assert "nodeName" not in made["spec"]
    assert "affinity" not in made["spec"]
    assert made["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert made["spec"]["activeDeadlineSeconds"] == 0


def test_what_is_always_written_is_there() -> None:
    made = shaped(
        "core.Node", {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "A", "status": "True"}]}}
    )
    assert made["spec"] == {}
    assert made["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert made["status"]["nodeInfo"]["kubeletVersion"] == ""
    assert made["status"]["conditions"][0]["lastHeartbeatTime"] is None


def test_times_are_stored_in_one_zone_and_micro_times_need_their_digits(town: Town) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    made = town.post(
        leases, {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01T02:00:00.500000+02:00"}}
    )
    assert made["spec"]["renewTime"] == "2026-01-01T00:00:00.500000Z"
    refused = town.refused(
        "POST", leases, {"metadata": {"name": "m"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}
    )
    assert 'cannot parse "Z" as ".000000"' in refused["message"]


@pytest.mark.parametrize(
    ("query", "code", "warned"),
    [
        ("", 201, '299 - "unknown field \\"unknown\\""'),
        ("?fieldValidation=Warn", 201, '299 - "unknown field \\"unknown\\""'),
        ("?fieldValidation=Ignore", 201, ""),
        ("?fieldValidation=Strict", 400, ""),
        ("?fieldValidation=Perhaps", 422, ""),
    ],
)
def test_a_client_says_how_strictly_it_wants_to_be_read(
    town: Town, query: str, code: int, warned: str
) -> None:
    body = {"metadata": {"name": "m"}, "unknown": {"a": 1}}
    answer = town.ask("POST", f"/api/v1/namespaces/default/configmaps{query}", body)
    assert answer.status == code
    assert answer.headers.get("Warning", "") == warned
    assert "unknown" not in answer.json()


def test_a_doubled_field_is_noticed(town: Town) -> None:
    body = b'{"metadata": {"name": "m"}, "data": {"a": "1", "a": "2"}}'
    path = "/api/v1/namespaces/default/configmaps"
    refused = town.refused("POST", f"{path}?fieldValidation=Strict", body)
    assert refused["message"].endswith('strict decoding error: duplicate field "data.a"')
    assert town.ask("POST", path, body).json()["data"] == {"a": "2"}


def test_a_template_is_not_given_what_only_pods_get(town: Town) -> None:
    limited = {"name": "a", "image": "a", "resources": {"limits": {"cpu": "1"}}}
    spec = {**WORKLOAD, "template": {**TEMPLATE, "spec": {"containers": [limited]}}}
    made = town.post(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": spec})
    held = made["spec"]["template"]["spec"]
    assert held["dnsPolicy"] == "ClusterFirst"
    assert "enableServiceLinks" not in held
    assert "requests" not in held["containers"][0]["resources"]
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}
    whole = pod("p")
    whole["spec"]["containers"] = [limited]
    assert town.post(PODS, whole)["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
