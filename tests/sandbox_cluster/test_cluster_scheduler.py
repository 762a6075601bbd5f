"""Which pod goes where, and the words for why not."""

from __future__ import annotations

from typing import Any

import pytest

from .town import NODES, PODS, Town, condition, pod, seen


def where(town: Town, name: str) -> str | None:
    return town.pod(name)["spec"].get("nodeName")


def why(town: Town, name: str) -> str:
    return condition(town.pod(name), "PodScheduled").get("message", "")


def require(*expressions: Any, fields: Any = ()) -> Any:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def test_a_pod_is_bound_and_an_event_tells_it(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p")
    town.run()
    assert where(town, "p") == "n"
    assert condition(town.pod("p"), "PodScheduled")["status"] == "True"
    (event,) = town.get("/api/v1/events?fieldSelector=reason=Scheduled")["items"]
    assert event["message"] == "Successfully assigned default/p to n"


def test_the_message_counts_the_reasons_in_the_real_order(town: Town) -> None:
    town.add_node("small", figures={"nvidia.com/gpu": "1"})
    for name in ("a", "b"):
        town.add_node(name, taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}])
    town.add_pod("holds", requests={"nvidia.com/gpu": 1})
    town.run()
    town.add_pod("p", requests={"nvidia.com/gpu": 1})
    town.run()
    assert why(town, "p") == (
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {x: y}. "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert condition(town.pod("p"), "PodScheduled")["reason"] == "Unschedulable"
    (event,) = town.get("/api/v1/events?fieldSelector=reason=FailedScheduling")["items"]
    assert event["message"] == why(town, "p")
    assert event["type"] == "Warning"


def test_without_nodes_it_says_so(town: Town) -> None:
    town.add_pod("p")
    town.run()
    assert why(town, "p") == "no nodes available to schedule pods"


def test_the_same_condition_is_never_written_twice(town: Town) -> None:
    town.add_pod("p", requests={"nvidia.com/gpu": 1})
    town.add_node("n")
    town.run()
    stream = town.watch(f"{PODS}?resourceVersion={town.world.store.version}")
    for value in "abc":
        town.patch(f"{NODES}/n", {"metadata": {"labels": {"v": value}}})
        town.run()
    assert seen(stream) == []


def test_nothing_is_planned_while_nothing_changes(town: Town) -> None:
    town.add_pod("p", requests={"nvidia.com/gpu": 1})
    town.run()
    assert town.world.tick() is None


def test_a_waiting_pod_is_tried_again_when_a_node_grows(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p", requests={"nvidia.com/gpu": 1})
    town.run()
    figures = {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}
    town.patch(f"{NODES}/n/status", {"status": figures})
    town.run()
    assert where(town, "p") == "n"


def test_a_waiting_pod_is_tried_again_when_another_leaves(town: Town) -> None:
    town.add_node("n", figures={"nvidia.com/gpu": "1"})
    town.add_pod("first", requests={"nvidia.com/gpu": 1})
    town.run(5)
    town.add_pod("second", requests={"nvidia.com/gpu": 1})
    town.run()
    assert where(town, "second") is None
    town.ask("DELETE", f"{PODS}/first")
    town.run(0.1)
    assert where(town, "second") is None  # the first is still terminating
    town.run(1)
    assert where(town, "second") == "n"


def test_a_finished_pod_takes_no_room(town: Town) -> None:
    town.add_node("n", figures={"nvidia.com/gpu": "1"})
    town.add_pod("first", requests={"nvidia.com/gpu": 1}, command=["sleep", "10"])
    town.run(5)
    town.add_pod("second", requests={"nvidia.com/gpu": 1})
    town.run(10)
    assert town.pod("first")["status"]["phase"] == "Succeeded"
    assert where(town, "second") == "n"


def test_the_higher_priority_goes_first(town: Town) -> None:
    town.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 10})
    town.add_pod("low", requests={"nvidia.com/gpu": 1})
    town.add_pod("high", requests={"nvidia.com/gpu": 1}, priorityClassName="high")
    town.run()
    town.add_node("n", figures={"nvidia.com/gpu": "1"})
    town.run()
    assert (where(town, "high"), where(town, "low")) == ("n", None)


def test_gated_pods_wait_for_their_gates(town: Town) -> None:
    town.add_node("n")
    made = town.add_pod("p", schedulingGates=[{"name": "a.example/wait"}])
    assert condition(made, "PodScheduled")["reason"] == "SchedulingGated"
    town.run()
    assert where(town, "p") is None
    town.patch(f"{PODS}/p", {"spec": {"schedulingGates": None}})
    town.run()
    assert where(town, "p") == "n"


def test_other_schedulers_pods_are_left_alone(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p", schedulerName="other")
    town.run()
    assert where(town, "p") is None
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert town.ask("POST", f"{PODS}/p/binding", binding).status == 201
    again = town.refused("POST", f"{PODS}/p/binding", binding)
    assert 'pod p is already assigned to node "n"' in again["message"]


@pytest.mark.parametrize(
    ("wish", "goes"),
    [
        ({"nodeSelector": {"zone": "a"}}, "first"),
        ({"nodeSelector": {"zone": "c"}}, None),
        ({"affinity": require({"key": "zone", "operator": "In", "values": ["b"]})}, "second"),
        ({"affinity": require({"key": "zone", "operator": "NotIn", "values": ["a"]})}, "second"),
        ({"affinity": require({"key": "only", "operator": "Exists"})}, "second"),
        ({"affinity": require({"key": "only", "operator": "DoesNotExist"})}, "first"),
        ({"affinity": require({"key": "size", "operator": "Gt", "values": ["3"]})}, "second"),
        ({"affinity": require({"key": "size", "operator": "Lt", "values": ["3"]})}, "first"),
        ({"affinity": require({"key": "size", "operator": "Gt", "values": ["9"]})}, None),
        (
            {"affinity": require(fields=[{"key": "metadata.name", "operator": "In", "values": ["second"]}])},
            "second",
        ),
        ({"nodeName": "second"}, "second"),
    ],
)
def test_where_a_pod_wants_to_be(town: Town, wish: Any, goes: str | None) -> None:
    town.add_node("first", labels={"zone": "a", "size": "2"})
    town.add_node("second", labels={"zone": "b", "size": "4", "only": "here"})
    town.add_pod("p", **wish)
    town.run()
    assert where(town, "p") == goes
    if goes is None:
        assert "2 node(s) didn't match Pod's node affinity/selector" in why(town, "p")


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "x", "value": "y", "effect": "NoSchedule"}, True),
        ({"key": "x", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "x", "value": "z", "effect": "NoSchedule"}, False),
        ({"key": "x", "value": "y", "effect": "NoExecute"}, False),
        ({"key": "w", "operator": "Exists"}, False),
    ],
)
def test_tolerations(town: Town, toleration: Any, fits: bool) -> None:
    town.add_node("n", taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}])
    town.add_pod("p", tolerations=[toleration])
    town.run()
    assert (where(town, "p") == "n") is fits


def test_a_cordoned_node_takes_nothing(town: Town) -> None:
    town.add_node("n", unschedulable=True)
    town.add_pod("p")
    town.run()
    assert "1 node(s) were unschedulable" in why(town, "p")


def test_the_least_allocated_node_is_chosen(town: Town) -> None:
    town.add_node("a")
    town.add_node("b")
    for name in ("p", "q", "r"):
        town.add_pod(name, requests={"cpu": "1", "memory": "1Gi"})
    town.run()
    assert [where(town, name) for name in ("p", "q", "r")] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("toleration", "goes"),
    [({}, "full"), ({"tolerations": [{"key": "idle", "operator": "Exists"}]}, "empty")],
)
def test_a_soft_taint_weighs_more_than_what_is_free_and_keeps_nobody_away(
    town: Town, toleration: Any, goes: str
) -> None:
    town.add_node("empty", taints=[{"key": "idle", "effect": "PreferNoSchedule"}])
    town.add_node("full", figures={"nvidia.com/gpu": "1"})
    town.add_pod("first", requests={"cpu": "1", "nvidia.com/gpu": 1})
    town.run()
    town.add_pod("p", requests={"cpu": "1"}, **toleration)
    town.run()
    assert (where(town, "first"), where(town, "p")) == ("full", goes)
    town.patch(f"{NODES}/full", {"spec": {"unschedulable": True}})
    town.add_pod("last", requests={"cpu": "1"})
    town.run()
    assert where(town, "last") == "empty"


def test_init_containers_count_by_their_maximum_and_sidecars_add_up(town: Town) -> None:
    town.add_node("n", figures={"cpu": "4"})
    body = pod("p", requests={"cpu": "2"})
    image = {"image": "busybox"}
    body["spec"]["initContainers"] = [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}, **image},
        {"name": "big", "resources": {"requests": {"cpu": "3500m"}}, **image},
    ]
    town.post(PODS, body)
    town.run()
    assert "Insufficient cpu" in why(town, "p")  # 3500m beside the sidecar
    body["metadata"]["name"] = "q"
    body["spec"]["initContainers"][1]["resources"]["requests"]["cpu"] = "3"
    town.post(PODS, body)
    town.run()
    assert where(town, "q") == "n"


def test_overhead_pods_and_host_ports_are_counted(town: Town) -> None:
    town.add_node("n", figures={"cpu": "2", "pods": "2"})
    overhead = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "1500m"}}}
    town.post("/apis/node.k8s.io/v1/runtimeclasses", overhead)
    town.add_pod("heavy", requests={"cpu": "1"}, runtimeClassName="vm")
    one, two = pod("one"), pod("two")
    for each in (one, two):
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        town.post(PODS, each)
    town.run()
    assert "Insufficient cpu" in why(town, "heavy")
    assert where(town, "one") == "n"
    assert "1 node(s) didn't have free ports for the requested pod ports" in why(town, "two")
    town.add_pod("three")
    town.run()
    town.add_pod("four")
    town.run()
    assert "1 Too many pods" in why(town, "four")


def near(kind: str, topology: str, **labels: str) -> Any:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_that_keep_apart_take_different_nodes(town: Town) -> None:
    for name in ("a", "b"):
        town.add_node(name)
    apart = near("podAntiAffinity", "kubernetes.io/hostname", app="x")
    for name in ("p", "q", "r"):
        town.add_pod(name, labels={"app": "x"}, affinity=apart)
    town.run()
    assert {where(town, "p"), where(town, "q")} == {"a", "b"}
    assert "2 node(s) didn't match pod anti-affinity rules" in why(town, "r")
    town.add_pod("meek", labels={"app": "x"})
    town.run()
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in why(town, "meek")


def test_pods_that_want_company_wait_for_it(town: Town) -> None:
    for name in ("a", "b"):
        town.add_node(name)
    town.add_pod("follower", affinity=near("podAffinity", "kubernetes.io/hostname", app="leader"))
    town.run()
    assert "2 node(s) didn't match pod affinity rules" in why(town, "follower")
    town.add_pod("leader", labels={"app": "leader"}, nodeSelector={"kubernetes.io/hostname": "b"})
    town.run()
    assert where(town, "follower") == "b"


def test_pods_spread_over_zones(town: Town) -> None:
    town.add_node("a", labels={"zone": "1"}, figures={"cpu": "100"})
    town.add_node("b", labels={"zone": "2"})
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "x"}}
    for name in ("p", "q"):
        town.add_pod(name, labels={"app": "x"}, topologySpreadConstraints=[spread], requests={"cpu": "1"})
    town.run()
    assert {where(town, "p"), where(town, "q")} == {"a", "b"}


CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ZONE = "topology.kubernetes.io/zone"


def from_claim(name: str) -> dict[str, Any]:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def claim(town: Town, name: str, kind: str = "local", mode: str = "ReadWriteOnce", **more: Any) -> None:
    spec = {
        "accessModes": [mode],
        "storageClassName": kind,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    town.post(CLAIMS, {"metadata": {"name": name}, "spec": spec | more})


def waits(
    town: Town, name: str = "local", provisioner: str = "kubernetes.io/no-provisioner", **more: Any
) -> None:
    kind = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    town.post("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": name}} | kind | more)


def volume(town: Town, name: str, zone: str, size: str = "1Gi", **more: Any) -> None:
    only = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "hostPath": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [only]}},
    }
    town.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec | more})


def two_zones(town: Town) -> None:
    town.add_node("a", labels={ZONE: "1"}, figures={"cpu": "100"})
    town.add_node("b", labels={ZONE: "2"})


def test_a_missing_volume_claim_is_the_reason(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p", volumes=[from_claim("data")])
    town.run()
    assert 'persistentvolumeclaim "data" not found' in why(town, "p")
    waits(town, provisioner="example.com/csi")
    claim(town, "data")
    town.run()
    assert where(town, "p") == "n"


def test_a_claim_that_nobody_binds_is_the_reason(town: Town) -> None:
    town.add_node("n")
    claim(town, "data", kind="unknown")
    town.add_pod("p", volumes=[from_claim("data")])
    town.run()
    assert why(town, "p") == (
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_goes_where_its_bound_volume_can_be_reached(town: Town) -> None:
    two_zones(town)
    volume(town, "pv", "2")
    claim(town, "data", volumeName="pv")
    town.add_pod("p", volumes=[from_claim("data")])
    town.run()
    assert where(town, "p") == "b"
    town.add_pod("q", volumes=[from_claim("data")], nodeSelector={ZONE: "1"})
    town.run()
    assert "1 node(s) didn't match PersistentVolume's node affinity" in why(town, "q")


def test_a_claim_that_waits_is_bound_to_the_smallest_volume_that_fits_where_the_pod_goes(town: Town) -> None:
    two_zones(town)
    waits(town)
    volume(town, "large", "2", "9Gi")
    volume(town, "right", "2", "1Gi")
    volume(town, "small", "1", "1Mi")
    claim(town, "data")
    town.add_pod("p", volumes=[from_claim("data")])
    town.run()
    assert where(town, "p") == "b"
    bound = town.get(f"{CLAIMS}/data")
    assert (bound["spec"]["volumeName"], bound["status"]["phase"]) == ("right", "Bound")
    assert town.get("/api/v1/persistentvolumes/right")["spec"]["claimRef"]["name"] == "data"
    claim(town, "more")
    town.add_pod("q", volumes=[from_claim("more")], nodeSelector={ZONE: "1"})
    town.run()
    assert "node(s) didn't find available persistent volumes to bind" in why(town, "q")


def test_a_volume_is_made_in_the_zone_of_the_first_consumer(town: Town) -> None:
    two_zones(town)
    only = [{"matchLabelExpressions": [{"key": ZONE, "values": ["2"]}]}]
    waits(town, provisioner="example.com/csi", allowedTopologies=only)
    claim(town, "data")
    town.add_pod("p", volumes=[from_claim("data")])
    town.run()
    assert where(town, "p") == "b"
    town.add_pod("q", volumes=[from_claim("data")])
    town.run()
    assert where(town, "q") == "b"


def test_the_claim_of_an_ephemeral_volume_is_made_for_its_pod(town: Town) -> None:
    town.add_node("n", labels={ZONE: "1"})
    waits(town, provisioner="example.com/csi")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    made = town.add_pod("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])
    town.run()
    assert where(town, "p") == "n"
    (owner,) = town.get(f"{CLAIMS}/p-v")["metadata"]["ownerReferences"]
    assert owner["name"] == "p"
    assert made is None or owner["uid"] == made["metadata"]["uid"]


def test_a_node_attaches_no_more_volumes_of_a_driver_than_it_can(town: Town) -> None:
    town.add_node("n")
    drivers = [{"name": "example.com/csi", "nodeID": "n", "allocatable": {"count": 1}}]
    town.post("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
    waits(town, provisioner="example.com/csi")
    for name in ("one", "two"):
        claim(town, name)
    town.add_pod("p", volumes=[from_claim("one")])
    town.add_pod("shares", volumes=[from_claim("one")])
    town.run()
    assert (where(town, "p"), where(town, "shares")) == ("n", "n")
    town.add_pod("q", volumes=[from_claim("two")])
    town.run()
    assert "node(s) exceed max volume count" in why(town, "q")


def test_a_volume_for_one_pod_alone_is_used_by_one(town: Town) -> None:
    town.add_node("n")
    waits(town, provisioner="example.com/csi")
    claim(town, "data", mode="ReadWriteOncePod")
    town.add_pod("p", volumes=[from_claim("data")])
    town.run()
    town.add_pod("q", volumes=[from_claim("data")])
    town.run()
    assert "ReadWriteOncePod access mode already in-use" in why(town, "q")


def test_an_affinity_chooses_namespaces_by_their_labels(town: Town) -> None:
    two_zones(town)
    town.post("/api/v1/namespaces", {"metadata": {"name": "team", "labels": {"of": "us"}}})
    rule = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchLabels": {"of": "us"}},
    }
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    other = pod("other", labels={"app": "x"}, nodeSelector={ZONE: "1"})
    town.post("/api/v1/namespaces/team/pods", other)
    town.run()
    town.add_pod("p", affinity=anti)
    town.run()
    assert where(town, "p") == "b"


def test_a_spread_over_too_few_domains_counts_from_zero(town: Town) -> None:
    two_zones(town)
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "minDomains": 3,
    }
    for name in ("p", "q", "r"):
        town.add_pod(name, labels={"app": "x"}, topologySpreadConstraints=[spread])
        town.run()
    assert {where(town, "p"), where(town, "q")} == {"a", "b"}
    assert "topology spread constraints" in why(town, "r")


def test_a_sidecars_host_port_counts(town: Town) -> None:
    town.add_node("n")
    for name in ("p", "q"):
        town.add_pod(
            name,
            initContainers=[
                {
                    "name": "side",
                    "image": "example/side:1",
                    "restartPolicy": "Always",
                    "ports": [{"containerPort": 1, "hostPort": 99}],
                }
            ],
        )
        town.run()
    assert where(town, "p") == "n"
    assert "free ports" in why(town, "q")


def test_events_are_forgotten_an_hour_after_they_were_told_last_and_then_told_anew(town: Town) -> None:
    def told() -> list[str]:
        return [event["involvedObject"]["name"] for event in town.get("/api/v1/events")["items"]]

    town.add_pod("old")
    town.run(3000)
    town.add_pod("young")
    town.run(700)
    town.world.recorder.forget(town.now - 3600)
    assert told() == ["young"]
    town.world.recorder.forget(town.now + 1)
    town.run(1)
    assert told() == []
    town.add_pod("new")
    town.run(1)
    assert "new" in told()
