"""Snapshots as files: the same file gives the same bytes, and a bad row gives one clear line."""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.app.snapshots import SnapshotError, from_json, read, to_json, write
from controller.cli.main import outcome
from controller.cluster.decode import Decoder
from controller.config.errors import ConfigError
from controller.config.policy import to_policy
from controller.planning.planner import plan
from controller.report.plan_json import plan_json, plan_lines
from tests.planning.worlds import A1, A2, IDLE_TAINT, NOW, machine, node, offers, pod, world

WAITS = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2027-01-15T07:59:10Z",
}


def waiting(name: str, gpus: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": gpus}}}]
        },
        "status": {"phase": "Pending", "conditions": [WAITS]},
    }


GOOD: dict[str, Any] = {
    "now": "2027-01-15T08:00:00Z",
    "settings": {"pools": [{"name": "a100", "min_gpu_memory_gb": 1, "max": 4}]},
    "pods": [waiting("train"), waiting("more"), waiting("large", "16")],
    "nodes": [
        {"metadata": {"name": "cpu-1"}, "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"name": "home-a100-aaaaaaaaaa"}, "status": {"allocatable": {"cpu": "22", "nvidia.com/gpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}},
    ],
    "daemonsets": [{"metadata": {"name": "net", "namespace": "kube-system"}, "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}],
    "jobs": [{"metadata": {"name": "j"}, "spec": {"parallelism": 2}}],
    "poddisruptionbudgets": [{"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}, "status": {"disruptionsAllowed": 1}}],
    "namespaces": [{"metadata": {"name": "default", "labels": {"team": "a"}}}],
    "persistentvolumeclaims": [{"metadata": {"name": "data"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}],
    "persistentvolumes": [{"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "x"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["FIN-01"]}]}]}}}}],
    "storageclasses": [{"metadata": {"name": "fast"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}],
    "csinodes": [{"metadata": {"name": "cpu-1"}, "spec": {"drivers": [{"name": "x", "allocatable": {"count": 3}}]}}],
    "limitranges": [{"metadata": {"name": "l", "namespace": "kube-system"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}}],
    "podgroups": [
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "metadata": {"name": "g"}, "spec": {"minMember": 2}},
        {"apiVersion": "scheduling.run.ai/v2alpha2", "metadata": {"name": "g"}, "spec": {"minMember": 3}},
    ],
    "resourceclaims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}],
    "resourceclaimtemplates": [{"metadata": {"name": "c"}, "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{}]}]}}}}],
    "deviceclasses": [{"metadata": {"name": "gpu.nvidia.com"}}],
    "unreadable": ["podgroups.scheduling.volcano.sh"],
    "machines": [
        {"name": "home-a100-aaaaaaaaaa", "pool": "a100", "instance_type": "1A100.22V", "gpus": 1, "price_per_hour": 1.29},
        {"name": "home-a100-bbbbbbbbbb", "pool": "a100", "instance_type": "1A100.22V", "gpus": 1, "phase": "booting", "vcpus": 22, "memory_gib": 120, "ordered_at": "2027-01-15T07:50:00Z"},
    ],
    "surplus": [{"name": "i-2", "pool": "a100", "instance_type": "1A100.22V", "gpus": 1, "price_per_hour": 1.29}],
    "offers": [
        {"instance_type": "1A100.22V", "model": "A100 80GB", "gpus": 1, "vcpus": 22, "memory_gb": 120, "gpu_memory_gb": 80, "price_per_hour": 1.29, "location": "FIN-01"},
        {"instance_type": "1A100.22V", "model": "A100 80GB", "gpus": 1, "vcpus": 22, "memory_gb": 120, "gpu_memory_gb": 80, "price_per_hour": 0.5, "location": "FIN-02", "market": "spot"},
    ],
    "refusals": [{"offer": "1A100.22V/FIN-03/spot", "reason": "quota", "until": "2027-01-15T08:10:00Z"}],
    "observed": {"1A100.22V": {"cpu": "22", "memory": "117Gi"}},
    "launches": ["2027-01-15T07:59:59Z", 1800000000],
    "disappointed": {"default/train": ["home-a100-cccccccccc"]},
    "given_up": {"default/more": {"home-a100-dddddddddd": "join_deadline"}},
    "tried": {"a100/1A100.22V/FIN-01": {"tries": 2, "last": "2027-01-15T07:59:00Z", "machines": ["home-a100-dddddddddd"]}},
    "in_vain": {"a100": {"tries": 2, "last": "2027-01-15T07:59:00Z", "reason": "join_deadline"}},
    "spent_this_month": "12.50",
}  # fmt: skip


def run(path: Path | str, *more: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["verda-gpu-autoscaler", "plan", "--snapshot", str(path), *more])
    return outcome()


def saved(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def test_a_hand_written_snapshot_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(saved(tmp_path, GOOD), "--json", monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {key: told["code"] for key, told in shown["pods"].items()} == {
        "default/large": "too_large",
        "default/more": "fits_now",
        "default/train": "on_the_way",
    }
    assert shown["currency"] == "usd"
    assert set(shown["machines"]) == {"home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"}


def test_the_same_file_gives_the_same_bytes_in_any_order_of_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for seed in range(6):
        data = copy.deepcopy(GOOD)
        for rows in data.values():
            if isinstance(rows, list):
                random.Random(seed).shuffle(rows)
        keys = list(data)
        random.Random(seed).shuffle(keys)
        path = saved(tmp_path, {key: data[key] for key in keys})
        for _ in range(2):
            assert run(path, "--json", monkeypatch=monkeypatch) == 0
            seen.add(capsys.readouterr().out)
    assert len(seen) == 1


def test_what_kubectl_prints_is_taken_as_it_is() -> None:
    listed = GOOD | {"pods": {"apiVersion": "v1", "kind": "List", "items": GOOD["pods"]}}
    assert from_json(listed)[0] == from_json(GOOD)[0]


@pytest.mark.parametrize("keys", [["now"], ["now", "settings"], ["now", "settings", "offers", "pods"]])
def test_everything_but_the_time_may_be_left_out(keys: list[str]) -> None:
    plan(from_json({key: GOOD[key] for key in keys})[0])
    plan(from_json({"now": GOOD["now"]} | {key: None for key in GOOD if key != "now"})[0])


def test_a_snapshot_that_was_written_reads_back_and_plans_the_same(tmp_path: Path) -> None:
    first, settings = from_json(GOOD)
    path = str(tmp_path / "again.json")
    write(path, first, settings)
    again, _ = read(path)
    assert again == first
    assert plan_json(plan(again), "usd") == plan_json(plan(first), "usd")
    assert to_json(again, settings) == to_json(first, settings)


def test_a_rich_world_survives_the_file(tmp_path: Path) -> None:
    _, settings = from_json(GOOD)
    made = world(
        policy=from_json(GOOD)[0].policy,
        pods=(pod("a", node_selector={"x": "y"}), pod("b", node="gpu-1", deleting_at=NOW + 9)),
        nodes=(node("gpu-1", 2, taints=(IDLE_TAINT,), annotations={"gpu-autoscaler/idle-since": "2027-01-15T07:00:00Z"}, ready_since=NOW - 60),),
        machines=(machine(of=A2, pods=("default/a",)),),
        offers=offers(A1),
        spent_this_month=Decimal("1.5"),
    )  # fmt: skip
    path = str(tmp_path / "world.json")
    write(path, made, settings)
    again, _ = read(path)
    assert again.pods == made.pods
    assert again.nodes == made.nodes
    assert again.machines == made.machines
    assert plan_lines(plan(again), "usd") == plan_lines(plan(made), "usd")


def with_(place: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    at: Any = data
    *path, last = [int(part) if part.isdigit() else part for part in place.split("/")]
    for part in path:
        at = at[part]
    at[last] = value
    return data


MONEY = "expected an amount of money, 0 or more"
WHOLE = "expected a whole number, 0 or more"
TIME = "expected a time such as 2026-11-18T10:00:00Z"


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ([], ["a snapshot is a JSON object, this is []"]),
        ("text", ["is no JSON"]),
        ("{", ["is no JSON"]),
        ("", ["is no JSON"]),
        ('{"now": ' + "9" * 5000 + "}", ["is no JSON"]),
        ("[" * 100_000, ["nested too deeply"]),
        (GOOD | {"podz": []}, ["podz: unknown key; expected one of csinodes"]),
        ({}, ["now: missing; " + TIME]),
        (GOOD | {"now": "noon"}, ['now: "noon"; ' + TIME]),
        (GOOD | {"now": True}, ["now: true; " + TIME]),
        (GOOD | {"now": []}, ["now: []; " + TIME]),
        (GOOD | {"now": 1e300}, [TIME]),
        (GOOD | {"now": float("nan")}, ["now: NaN; " + TIME]),
        (GOOD | {"now": -1}, ["now: -1; " + TIME]),
        (GOOD | {"settings": 5}, ["settings: 5; expected a mapping"]),
        (GOOD | {"settings": {"poolz": []}}, ["poolz"]),
        (GOOD | {"pods": 7}, ["pods: 7; expected a list"]),
        (GOOD | {"pods": {"a": 1}}, ["pods:", "expected a list"]),
        (GOOD | {"pods": [5]}, ["pods[0]: 5; expected a Kubernetes object"]),
        (GOOD | {"pods": [{}]}, ["pods[0].metadata.name: missing"]),
        (GOOD | {"pods": [waiting("a"), waiting("a")]}, ["pods: default/a is there twice"]),
        (with_("pods/0/metadata/name", 5), ["pods[0].metadata.name: 5; expected text"]),
        (with_("pods/0/spec", "x"), ["pods[0]", "$.spec", '"x"']),
        (with_("pods/0/spec/nodeName", 5), ["pods[0]", "$.spec.nodeName", "Expected `str", ": 5"]),
        (with_("pods/0/spec/containers/0/resources/limits/cpu", "lots"), ["pods[0]", "cpu", "'lots'", "expected a number such as"]),
        (with_("pods/0/spec/nodeSelector", 5), ["pods[0]", "nodeSelector", "Expected `object`, got `int`"]),
        (with_("pods/0/spec/affinity", {"nodeAffinity": 5}), ["pods[0]", "affinity", "got `int`"]),
        (with_("pods/0/metadata/creationTimestamp", "then"), ["pods[0]", "creationTimestamp", "'then'"]),
        (with_("pods/0/metadata/creationTimestamp", "2026-01-01T00:00:00"), ["pods[0].metadata.creationTimestamp: '2026-01-01T00:00:00'; expected a time as RFC 3339 has it, such as"]),
        (with_("pods/0/spec/containers/0/resources", "x"), ["pods[0].spec.containers[0].resources: Expected `object`, got `str`: \"x\""]),
        (with_("pods/0/spec/containers/0/resources/limits/cpu", "-1"), ["pods[0].resources.limits[cpu]: '-1' is negative; expected 0 or more"]),
        (with_("nodes/0/status/allocatable/cpu", -1), ["nodes[0].status.allocatable[cpu]: '-1' is negative; expected 0 or more"]),
        (with_("persistentvolumeclaims/0/spec/resources", {"requests": {"storage": "-1Gi"}}), ["persistentvolumeclaims[0].spec.resources[storage]: '-1Gi' is negative"]),
        (with_("observed/1A100.22V/cpu", -1), ["observed.1A100.22V.cpu: '-1' is negative; expected 0 or more"]),
        (with_("nodes/0/status/allocatable/cpu", "x"), ["nodes[0].status.allocatable[cpu]: 'x' is not a quantity"]),
        (with_("nodes/0/status/conditions", 5), ["nodes[0]", "$.status.conditions", ": 5"]),
        (with_("daemonsets/0/spec", []), ["daemonsets[0]", "$.spec", ": []"]),
        (with_("jobs/0/spec/parallelism", "many"), ["jobs[0]", "parallelism", '"many"']),
        (with_("poddisruptionbudgets/0/status/disruptionsAllowed", "1"), ["poddisruptionbudgets[0]", "disruptionsAllowed"]),
        (with_("persistentvolumeclaims/0/spec/resources", {"requests": {"storage": "much"}}), ["persistentvolumeclaims[0].spec.resources[storage]: 'much'"]),
        (with_("persistentvolumes/0/spec/csi", 7), ["persistentvolumes[0]", "$.spec.csi", ": 7"]),
        (with_("podgroups/0/apiVersion", "example.com/v1"), ["podgroups[0].apiVersion: 'example.com/v1'"]),
        (GOOD | {"resourceclaims": GOOD["resourceclaims"] * 2}, ["resourceclaims: default/c is there twice"]),
        (with_("machines/0/phase", "sleepy"), ['machines[0].phase: "sleepy"; expected one of intended, ordered']),
        (with_("machines/0/gpus", -1), ["machines[0].gpus: -1; " + WHOLE]),
        (with_("machines/0/gpus", "two"), ['machines[0].gpus: "two"; ' + WHOLE]),
        (with_("machines/0/price_per_hour", "NaN"), ['machines[0].price: "NaN"; ' + MONEY]),
        (with_("machines/0/reason", "tired"), ['machines[0].reason: "tired"; expected one of launching']),
        (with_("machines/0/ordered_at", "later"), ['machines[0].ordered_at: "later"; ' + TIME]),
        (with_("machines/0/colour", "red"), ["machines[0].colour: unknown key"]),
        (with_("machines/0/pods", "default/a"), ["machines[0]", "$.pods", '"default/a"']),
        (GOOD | {"machines": [{"name": "x"}]}, ["machines[0].pool: missing"]),
        (GOOD | {"machines": [GOOD["machines"][0]] * 2}, ["machines: home-a100-aaaaaaaaaa is there twice"]),
        (with_("offers/0/gpus", "one"), ['offers[0].gpus: "one"; ' + WHOLE]),
        (with_("offers/0/gpus", 1.5), ["offers[0].gpus: 1.5; " + WHOLE]),
        (with_("offers/0/price_per_hour", "free"), ['offers[0].price_per_hour: "free"; ' + MONEY]),
        (with_("offers/0/price_per_hour", -1), ["offers[0].price_per_hour: -1; " + MONEY]),
        (with_("offers/0/price_per_hour", True), ["offers[0].price_per_hour: true; " + MONEY]),
        (with_("offers/0/price_per_hour", float("nan")), ["offers[0].price_per_hour: NaN; " + MONEY]),
        (with_("offers/0/available", "false"), ['offers[0].available: "false"; expected true or false']),
        (with_("offers/0/images", "x"), ['offers[0].images: "x"; expected a list of image names']),
        (with_("offers/0/market", "black"), ['offers[0].market: "black"; expected spot or on-demand']),
        (with_("offers/0/location", None), ["offers[0].location: null; expected text"]),
        (with_("offers/0/cost", 1), ["offers[0].cost: unknown key"]),
        (GOOD | {"offers": [{"gpus": 1}]}, ["offers[0].instance_type: missing"]),
        (GOOD | {"refusals": [{"offer": "x"}]}, ["refusals[0].reason: missing"]),
        (with_("refusals/0/reason", "mood"), ['refusals[0].reason: "mood"; expected one of']),
        (with_("refusals/0/until", "x"), ['refusals[0].until: "x"; ' + TIME]),
        (with_("observed/1A100.22V", 5), ["observed.1A100.22V: 5; expected a mapping"]),
        (with_("observed/1A100.22V/cpu", "x"), ["observed.1A100.22V.cpu: 'x' is not a quantity"]),
        (GOOD | {"given_up": {"default/more": {"home-a100-dddddddddd": "tired"}}}, ["given_up.default/more.home-a100-dddddddddd", '"tired"; expected one of']),
        (GOOD | {"in_vain": {"a100": {"tries": 2, "last": "soon", "reason": "join_deadline"}}}, ["in_vain.a100.last", '"soon"; expected a time']),
        (GOOD | {"in_vain": {"a100": {"often": 2}}}, ["in_vain.a100.often: unknown key; expected one of counted, fine, firsts, last, reason, sorts, tries"]),
        (GOOD | {"tried": {"s": {"often": 2}}}, ["tried.s.often: unknown key; expected one of counted, dates, last, machines, tries"]),
        (GOOD | {"tried": {"s": {"tries": 2, "last": 5, "machines": "x"}}}, ['tried.s.machines: "x"; expected a list']),
        (GOOD | {"tried": {"s": {"tries": 2, "last": 5, "dates": {"a": "x"}}}}, ['tried.s.dates.a: "x"; expected a time']),
        (GOOD | {"tried": {"s": {"tries": 2, "last": 5, "machines": [3]}}}, ["tried.s.machines[0]: 3; expected text"]),
        (GOOD | {"given_up": {"default/more": []}}, ["given_up.default/more: []; expected a mapping"]),
        (GOOD | {"launches": ["x"]}, ['launches[0]: "x"; ' + TIME]),
        (GOOD | {"spent_this_month": "much"}, ['spent_this_month: "much"; ' + MONEY]),
        (GOOD | {"pause": "lunch"}, ['pause: "lunch"; expected scale-up, scale-down or all']),
    ],
)  # fmt: skip
def test_a_bad_row_gives_one_clear_line_and_exit_code_2(
    data: Any,
    parts: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = saved(tmp_path, data)
    assert run(path, "--json", monkeypatch=monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(str(path))
    assert all(part in err for part in parts), err


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_a_file_that_cannot_be_read_is_said_so(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path / name, monkeypatch=monkeypatch) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe\x00")
    assert run(path, monkeypatch=monkeypatch) == 2
    assert "is no JSON" in capsys.readouterr().err


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in rows:
        yield from places(part, (*path, key))


@pytest.mark.parametrize(
    "odd",
    [None, "x", "", 5, -1, 1.5, True, [], {}, [1], {"a": 1}, 10**400, "\ud800", Decimal("1e999")],
    ids=lambda odd: repr(odd)[:12],
)
def test_any_value_in_any_place_is_planned_or_refused_and_never_a_traceback(odd: Any) -> None:
    refused = 0
    for path in places(GOOD):
        if not path:
            continue
        data = copy.deepcopy(GOOD)
        at: Any = data
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = odd
        try:
            picture, _ = from_json(data)
        except (SnapshotError, ConfigError):
            refused += 1
        else:
            json.dumps(plan_json(plan(picture), "usd"))
    assert refused > 0


def test_equal_launches_are_one_action_with_a_count_and_all_their_pods() -> None:
    decided = plan(world(pods=(pod("a", 8), pod("b", 8), pod("c", 1))))
    actions = plan_json(decided, "usd")["actions"]
    assert [(a["verb"], a["instance_type"], a["count"], a["pods"]) for a in actions] == [
        ("launch", "8A100.176V", 2, ["default/a", "default/b"]),
        ("launch", "1A100.22V", 1, ["default/c"]),
    ]
    assert set(actions[0]) >= {
        "verb",
        "pool",
        "instance_type",
        "location",
        "market",
        "count",
        "pods",
        "reason",
    }
    assert actions[0]["price_per_hour"] == 10.32


SECRET = "hunter2"


def leaky(owner: str = "") -> dict[str, Any]:
    """A pod with secrets in every place that pods have for them, and where people put them by mistake."""
    env = [
        {"name": "TOKEN", "value": SECRET},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": SECRET}}},
    ]
    of_container = {
        "image": f"registry.example.com/{SECRET}",
        "command": ["serve", f"--password={SECRET}"],
        "args": [f"--token={SECRET}"],
        "env": env,
        "envFrom": [{"secretRef": {"name": SECRET}}, {"configMapRef": {"name": SECRET}}],
        "livenessProbe": {"httpGet": {"path": f"/{SECRET}", "httpHeaders": [{"name": "a", "value": SECRET}]}},
        "lifecycle": {"postStart": {"exec": {"command": [SECRET]}}},
        "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}},
    }
    return {
        "metadata": {
            "name": f"leaky{owner}",
            "namespace": "default",
            "uid": f"u{owner}",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": {"env": env}}),
                "vault.example.com/token": SECRET,
                "gpu-autoscaler/do-not-disrupt": "true",
            },
            "managedFields": [{"fieldsV1": {SECRET: {}}}],
        },
        "spec": {
            "containers": [{"name": "main", **of_container}],
            "initContainers": [{"name": "before", **of_container}],
            "ephemeralContainers": [{"name": "look", **of_container}],
            "imagePullSecrets": [{"name": SECRET}],
            "serviceAccountName": SECRET,
            "volumes": [
                {"name": "s", "secret": {"secretName": SECRET}},
                {"name": "p", "projected": {"sources": [{"secret": {"name": SECRET}}]}},
                {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"token": SECRET}}},
                {"name": "pvc", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        },
        "status": {"phase": "Pending", "conditions": [WAITS]},
    }


def test_a_saved_snapshot_holds_no_secret_and_no_environment_and_gives_the_same_plan(tmp_path: Path) -> None:
    decoder = Decoder()
    template = {key: leaky("-of-daemon")[key] for key in ("metadata", "spec")}
    daemon = {
        "metadata": {"name": "d", "namespace": "default", "uid": "d"},
        "spec": {"template": template},
    }
    there = json.loads(json.dumps(GOOD["nodes"][0]))
    there["metadata"] |= {"uid": "n"}
    there["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    _, settings = from_json(GOOD | {"settings": SETTINGS})
    first = world(
        pods=(decoder.pod(leaky()),),
        daemonsets=(decoder.daemon_set(daemon),),
        nodes=(decoder.node(there),),
        policy=to_policy(settings, cluster_id="home"),
    )
    path = tmp_path / "saved.json"
    write(str(path), first, settings)
    text = path.read_text(encoding="utf-8")
    assert SECRET not in text
    assert "do-not-disrupt" in text
    again, _ = read(str(path))
    assert msgspec.structs.replace(again, offers=first.offers) == first
    before, after = (json.dumps(plan_json(plan(one), "usd")).encode() for one in (first, again))
    assert before == after


SETTINGS: dict[str, Any] = {
    "pools": [{"name": "a100", "min_gpu_memory_gb": 1, "max": 4, "join": "k3s"}],
    "join": {
        "k3s": {
            "template": "k3s",
            "server": "https://10.0.0.1:6443",
            "token_from": {"secret": {"name": "join", "key": "token"}},
        }
    },
    "verda": {"client_id": SECRET, "client_secret": SECRET},
}
