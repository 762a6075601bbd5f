"""What is refused in objects, with the field and the words of the real API."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.cluster.rules import names

from .town import NODES, PODS, STRATEGIC, Town, pod

MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ONE = {"containers": [{"name": "a", "image": "a"}]}


def spec(**more: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {**ONE, **more}}


def asking(**resources: Any) -> Any:
    return spec(containers=[{"name": "a", "image": "a", "resources": resources}])


def meta(**more: Any) -> Any:
    return {"metadata": {"name": "m", **more}}


def taint(*taints: Any) -> Any:
    return {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        (MAPS, meta(name="A"), "metadata.name", "a lowercase RFC 1123 subdomain"),
        (MAPS, meta(name="x" * 254), "metadata.name", "must be no more than 253 characters"),
        (MAPS, meta(labels={"a": "b c"}), "metadata.labels", "a valid label must be"),
        (MAPS, meta(labels={"a": "x" * 64}), "metadata.labels", "must be no more than 63 bytes"),
        (MAPS, meta(labels={"a/b/c": ""}), "metadata.labels", "a valid label key must consist"),
        (MAPS, meta(annotations={"a b": ""}), "metadata.annotations", "name part must consist"),
        (MAPS, meta(finalizers=["plain"]), "metadata.finalizers[0]", "nor is it fully qualified"),
        (MAPS, meta(ownerReferences=[{"kind": "Pod", "name": "a"}]), "metadata.ownerReferences.apiVersion", "empty"),
        (MAPS, meta() | {"data": {"a b": ""}}, "data[a b]", "a valid config key must consist"),
        ("/api/v1/namespaces", meta(name="a.b"), "metadata.name", "must not contain dots"),
        (PODS, {"metadata": {"name": "p"}}, "spec.containers", "Required value"),
        (PODS, spec(containers=[{"name": "A", "image": "a"}]), "spec.containers[0].name", "RFC 1123 label"),
        (PODS, spec(tolerations=[{"key": "a", "operator": "Near"}]), "spec.tolerations[0].operator", '"Equal", "Exists"'),
        (PODS, spec(tolerations=[{"operator": "Equal"}]), "spec.tolerations[0].operator", "must be Exists when `key`"),
        (PODS, spec(nodeSelector={"a b": ""}), "spec.nodeSelector", "name part must consist"),
        (PODS, spec(dnsPolicy="None"), "spec.dnsConfig", "Required value"),
        (PODS, spec(schedulingGates=[{"name": "a"}, {"name": "a"}]), "spec.schedulingGates[1]", "Duplicate value"),
        (PODS, spec(nodeName="n", schedulingGates=[{"name": "a"}]), "spec.nodeName", "until all schedulingGates"),
        (PODS, spec(volumes=[{"name": "a"}, {"name": "a"}]), "spec.volumes[1].name", "Duplicate value"),
        (PODS, asking(limits={"unknown": "1"}), "spec.containers[0].resources.limits[unknown]", "fully qualified"),
        (PODS, asking(limits={"cpu": "-1"}), "spec.containers[0].resources.limits[cpu]", "greater than or equal to 0"),
        (PODS, asking(limits={"hugepages-2Mi": "1Mi"}), "spec.containers[0].resources", "require cpu or memory"),
        (NODES, taint({"key": "a", "effect": "Never"}), "metadata.taints[0].effect", "Unsupported value"),
        (NODES, taint({"effect": "NoSchedule"}), "metadata.taints[0].key", "must be non-empty"),
        (NODES, taint(*[{"key": "a", "effect": "NoSchedule"}] * 2), "metadata.taints[1]", "unique by key and effect"),
        (NODES, {"metadata": {"name": "n"}, "spec": {"podCIDR": "x"}}, "spec.podCIDRs[0]", "must be a valid CIDR"),
        (JOBS, meta() | {"spec": {"template": {"spec": ONE}}}, "spec.template.spec.restartPolicy", "valid values"),
        (JOBS, meta() | {"spec": {"parallelism": -1, "template": {"spec": ONE}}}, "spec.parallelism", "equal to 0"),
        (DEPLOYMENTS, meta() | {"spec": {}}, "spec.selector", "Required value"),
        (BUDGETS, meta() | {"spec": {"minAvailable": "half"}}, "spec.minAvailable", "a valid percent string"),
        (BUDGETS, meta() | {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, "spec", "cannot be both set"),
        (LEASES, meta() | {"spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds", "greater than 0"),
        (CLASSES, meta() | {"value": 2_000_000_000}, "value", "maximum allowed value"),
        (CLASSES, meta(name="system-mine") | {"value": 1}, "metadata.name", "reserved for system use"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_field(
    town: Town, path: str, body: Any, field: str, words: str
) -> None:
    status = town.refused("POST", path, body)
    assert status["code"] == 422, status["message"]
    told = {each["field"]: each["message"] for each in status["details"]["causes"]}
    assert field in told
    assert words in " ".join(
        each["message"] for each in status["details"]["causes"] if each["field"] == field
    )
    assert words in status["message"]


def test_several_mistakes_are_told_together(town: Town) -> None:
    body = spec(restartPolicy="Sometimes", containers=[{"image": "a"}, {"name": "b"}])
    status = town.refused("POST", PODS, body)
    assert status["message"].startswith('Pod "p" is invalid: [spec.containers[0].name: Required value, ')
    assert len(status["details"]["causes"]) == 3


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"serviceAccountName": "none"}, 'error looking up service account default/none: serviceaccount "none" not found'),
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ],
)  # fmt: skip
def test_admission_forbids_what_it_cannot_resolve(town: Town, more: Any, words: str) -> None:
    status = town.refused("POST", PODS, spec(**more))
    assert (status["code"], status["details"]) == (403, {"name": "p", "kind": "pods"})
    assert words in status["message"]


def test_a_runtime_class_brings_its_overhead_and_its_place(town: Town) -> None:
    place = {"nodeSelector": {"gpu": "yes"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    heavy = meta(name="vm") | {
        "handler": "vm",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": place,
    }
    town.post("/apis/node.k8s.io/v1/runtimeclasses", heavy)
    made = town.post(PODS, spec(runtimeClassName="vm"))["spec"]
    assert made["overhead"] == {"cpu": "100m"}
    assert made["nodeSelector"] == {"gpu": "yes"}
    assert made["tolerations"][-1] == {"key": "gpu", "operator": "Exists"}


def test_the_two_highest_priorities_are_there_from_the_beginning(town: Town) -> None:
    assert town.get(f"{CLASSES}/system-node-critical")["value"] == 2000001000
    assert town.add_pod("p", priorityClassName="system-cluster-critical")["spec"]["priority"] == 2000000000


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec": {"hostNetwork": True}}, "spec"),
        ({"spec": {"containers": [{"name": "more", "image": "a"}]}}, "spec.containers"),
        ({"spec": {"activeDeadlineSeconds": 90}}, "spec.activeDeadlineSeconds"),
        ({"spec": {"schedulingGates": [{"name": "new"}]}}, "spec.schedulingGates[0].name"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, "spec"),
        ({"metadata": {"uid": "other"}}, "metadata.uid"),
    ],
)
def test_little_may_change_in_a_pod(town: Town, change: Any, field: str) -> None:
    town.add_pod("p", activeDeadlineSeconds=60)
    answer = town.patch(f"{PODS}/p", change, STRATEGIC)
    assert answer.status == 422
    assert field in [each["field"] for each in answer.json()["details"]["causes"]]


def test_a_gated_pod_may_be_narrowed_and_never_widened(town: Town) -> None:
    town.add_pod("p", schedulingGates=[{"name": "a"}], nodeSelector={"a": "1"})
    assert town.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"b": "2"}}}).status == 200
    refused = town.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"a": "3"}}}).json()
    assert refused["details"]["causes"][0]["field"] == "spec.nodeSelector"


def test_tolerations_come_back_after_an_update_that_took_them_away(town: Town) -> None:
    town.add_pod("p")
    made = town.patch(f"{PODS}/p", {"spec": {"tolerations": []}}).json()
    assert len(made["spec"]["tolerations"]) == 2


def test_an_immutable_map_stays_as_it_is_but_for_its_labels(town: Town) -> None:
    town.post(MAPS, meta() | {"data": {"a": "1"}, "immutable": True})
    for change in ({"data": {"a": "2"}}, {"immutable": False}):
        assert town.patch(f"{MAPS}/m", change).status == 422
    assert town.patch(f"{MAPS}/m", {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_the_newer_group_of_events_lets_only_a_series_grow(town: Town) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    told = {"reason": "R", "action": "A", "type": "Normal", "note": "once", "reportingInstance": "i"}
    told |= {"reportingController": "example.com/c", "eventTime": "2026-01-01T00:00:00.000000Z"}
    town.post(path, meta() | told | {"regarding": {"kind": "Pod", "name": "p", "namespace": "default"}})
    assert town.patch(f"{path}/m", {"note": "twice"}).status == 422
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    assert town.patch(f"{path}/m", {"series": series}).json()["series"] == series
    assert town.patch("/api/v1/namespaces/default/events/m", {"message": "twice"}).status == 200
    assert town.refused("POST", path, meta(name="n") | {"regarding": {"namespace": "default"}})["code"] == 422


def test_pods_of_a_template_are_checked_where_the_template_stands(town: Town) -> None:
    bad = {
        "spec": {
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"nvidia.com/gpu": 1}}}]
        }
    }
    body = meta() | {"spec": {"template": bad | {"spec": bad["spec"] | {"restartPolicy": "Never"}}}}
    causes = town.refused("POST", JOBS, body)["details"]["causes"]
    assert [each["field"] for each in causes] == ["spec.template.spec.containers[0].resources.limits"]


@pytest.mark.parametrize("key", ["a", "a.b/c", "nvidia.com/gpu.product", "A_b", "x" * 63])
def test_a_right_key_has_nothing_wrong(key: str) -> None:
    assert names.qualified(key) == ()


def test_a_pod_keeps_what_the_rules_let_through(town: Town) -> None:
    made = town.post(PODS, pod("p", requests={"nvidia.com/gpu": "2", "cpu": "500m"}))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "2", "cpu": "500m"}
