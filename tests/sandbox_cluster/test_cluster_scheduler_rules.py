"""Where the sandbox's scheduler once let a pod in, or kept it out, and the real one did not."""

from __future__ import annotations

from typing import Any

import pytest

from .town import PODS, Town, condition, pod

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def where(town: Town, name: str) -> str | None:
    town.run()
    found: str | None = town.pod(name)["spec"].get("nodeName")
    return found


def why(town: Town, name: str) -> str:
    town.run()
    return str(condition(town.pod(name), "PodScheduled").get("message", ""))


def on_port(name: str, address: str = "") -> Any:
    made = pod(name)
    port = {"containerPort": 80, "hostPort": 80} | ({"hostIP": address} if address else {})
    made["spec"]["containers"][0]["ports"] = [port]
    return made


@pytest.mark.parametrize(
    ("there", "wanted", "fits"),
    [
        ("10.0.0.1", "10.0.0.2", True),
        ("10.0.0.1", "10.0.0.1", False),
        ("10.0.0.1", "", False),
        ("", "10.0.0.1", False),
        ("0.0.0.0", "10.0.0.1", False),
    ],
)
def test_a_port_of_the_host_is_taken_on_its_address(town: Town, there: str, wanted: str, fits: bool) -> None:
    town.add_node("n")
    town.post(PODS, on_port("there", there))
    town.post(PODS, on_port("wanted", wanted))
    assert where(town, "there") == "n"
    assert (where(town, "wanted") == "n") is fits


def near(*apps: tuple[str, str]) -> Any:
    terms = [{"labelSelector": {"matchLabels": {key: value}}, "topologyKey": HOST} for key, value in apps]
    return {"podAffinity": {REQUIRED: terms}}


def test_company_is_one_pod_that_all_terms_speak_of(town: Town) -> None:
    for name in ("a", "b"):
        town.add_node(name)
    on_a, on_b = ({HOST: name} for name in ("a", "b"))
    town.add_pod("front", labels={"app": "x"}, nodeSelector=on_a)
    town.add_pod("back", labels={"tier": "1"}, nodeSelector=on_a)
    town.run()
    town.add_pod("picky", affinity=near(("app", "x"), ("tier", "1")))
    assert "node(s) didn't match pod affinity rules" in why(town, "picky")
    town.add_pod("both", labels={"app": "x", "tier": "1"}, nodeSelector=on_b)
    assert where(town, "both") == "b"
    assert where(town, "picky") == "b"


def test_whoever_is_all_the_company_that_it_wants_may_start_anywhere(town: Town) -> None:
    town.add_node("n")
    town.add_pod("half", labels={"app": "x"}, affinity=near(("app", "x"), ("tier", "1")))
    town.add_pod("whole", labels={"app": "x", "tier": "1"}, affinity=near(("app", "x"), ("tier", "1")))
    assert where(town, "whole") == "n"
    assert where(town, "half") == "n"  # beside that one


def spread(key: str, **more: Any) -> Any:
    chosen = {"labelSelector": {"matchLabels": {"app": "x"}}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **chosen, **more}


def test_a_node_that_lacks_a_key_of_one_spread_counts_for_none(town: Town) -> None:
    """Else the zone of `b`, where nobody is, would be waited for for ever."""
    town.add_node("a", labels={ZONE: "1", "rack": "r"})
    town.add_node("b", labels={ZONE: "2"})
    both = [spread(ZONE), spread("rack", maxSkew=9)]
    for name in ("p", "q"):
        town.add_pod(name, labels={"app": "x"}, topologySpreadConstraints=both)
    assert (where(town, "p"), where(town, "q")) == ("a", "a")


def test_an_empty_selector_counts_nobody(town: Town) -> None:
    town.add_node("a")
    town.add_node("b", labels={"other": "yes"}, unschedulable=True)
    for name in ("p", "q"):
        town.add_pod(name, topologySpreadConstraints=[spread(HOST, labelSelector={})])
    assert (where(town, "p"), where(town, "q")) == ("a", "a")


def test_pods_that_are_leaving_are_not_spread_over(town: Town) -> None:
    for name in ("a", "b"):
        town.add_node(name)
    town.add_pod("old", labels={"app": "x"}, nodeSelector={HOST: "a"}, terminationGracePeriodSeconds=600)
    assert where(town, "old") == "a"
    town.ask("DELETE", f"{PODS}/old")
    only = {HOST: "a"}
    town.add_pod(
        "new", labels={"app": "x"}, nodeSelector=only,
        topologySpreadConstraints=[spread(HOST, nodeAffinityPolicy="Ignore")],
    )  # fmt: skip
    assert where(town, "new") == "a"


@pytest.mark.parametrize(
    ("label", "fits"), [("4", True), ("3", False), ("007", True), ("1_0", False), (f"{2**63}", False)]
)
def test_labels_are_compared_as_numbers_of_sixty_four_bits(town: Town, label: str, fits: bool) -> None:
    town.add_node("n", labels={"gen": label})
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    town.add_pod("p", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    assert (where(town, "p") == "n") is fits


def test_labels_that_rules_name_by_key_are_written_into_their_selectors(town: Town) -> None:
    term = {"topologyKey": HOST, "labelSelector": {}, "matchLabelKeys": ["rev", "none"]}
    other = {"topologyKey": HOST, "labelSelector": {}, "mismatchLabelKeys": ["rev"]}
    made = town.add_pod(
        "p", labels={"rev": "1"}, topologySpreadConstraints=[spread(HOST, matchLabelKeys=["rev"])],
        affinity={
            "podAffinity": {REQUIRED: [term]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": other}]
            },
        },
    )["spec"]  # fmt: skip
    said = {"key": "rev", "operator": "In", "values": ["1"]}
    assert made["affinity"]["podAffinity"][REQUIRED][0]["labelSelector"]["matchExpressions"] == [said]
    anti = made["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert anti["podAffinityTerm"]["labelSelector"]["matchExpressions"] == [said | {"operator": "NotIn"}]
    assert made["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [said]


def volume(town: Town, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "hostPath": {"path": "/data"}, **spec,
    }  # fmt: skip
    town.post(VOLUMES, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})


def claim(town: Town, name: str, **spec: Any) -> Any:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return town.post(CLAIMS, {"metadata": {"name": name}, "spec": asked | spec})


def using(name: str) -> Any:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


def by_hand(town: Town) -> None:
    kind = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    town.post(CLASSES, {"metadata": {"name": "by-hand"}, **kind})


def test_a_claim_that_is_being_deleted_is_used_by_nobody_anew(town: Town) -> None:
    town.add_node("n")
    volume(town, "disk")
    claim(town, "data", storageClassName="by-hand", volumeName="disk")
    town.ask("PATCH", f"{CLAIMS}/data", {"metadata": {"finalizers": ["example.com/a"]}},
             content_type="application/merge-patch+json")  # fmt: skip
    town.ask("DELETE", f"{CLAIMS}/data")
    town.add_pod("p", volumes=using("data"))
    assert 'persistentvolumeclaim "data" is being deleted' in why(town, "p")


def test_a_volume_may_say_by_its_labels_where_it_is(town: Town) -> None:
    town.add_node("a", labels={ZONE: "1"}, figures={"cpu": "100"})
    town.add_node("b", labels={ZONE: "2"})
    volume(town, "disk", {ZONE: "2__3"})
    claim(town, "data", storageClassName="by-hand", volumeName="disk")
    town.add_pod("p", volumes=using("data"))
    assert where(town, "p") == "b"


def test_a_claim_takes_only_volumes_that_it_selects_or_that_are_kept_for_it(town: Town) -> None:
    town.add_node("n")
    by_hand(town)
    volume(town, "plain")
    claim(town, "choosy", storageClassName="by-hand", selector={"matchLabels": {"fast": "yes"}})
    town.add_pod("p", volumes=using("choosy"))
    assert "didn't find available persistent volumes to bind" in why(town, "p")
    volume(town, "kept", claimRef={"namespace": "default", "name": "choosy"})
    assert where(town, "p") == "n"
    town.run()
    assert town.get(f"{CLAIMS}/choosy")["spec"]["volumeName"] == "kept"


def test_a_claim_without_a_class_gets_the_newest_that_is_the_default(town: Town) -> None:
    usual = {"storageclass.kubernetes.io/is-default-class": "true"}
    assert "storageClassName" not in claim(town, "before")["spec"]
    for name in ("old", "new"):
        meta = {"name": name, "annotations": usual}
        town.post(CLASSES, {"metadata": meta, "provisioner": "example.com/none"})
        town.run(2)
    assert claim(town, "usual")["spec"]["storageClassName"] == "new"
    assert claim(town, "none", storageClassName="")["spec"]["storageClassName"] == ""
