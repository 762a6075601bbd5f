"""Machines become nodes, run pods, and fall silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.cluster.join import Defaults, from_script, refused_labels
from controller.sandbox.cluster.machines import Poll
from controller.sandbox.cluster.pods import run_time, seconds_of

from .town import NODES, PODS, Town, condition, machine, pod, taints

GPU = "nvidia.com/gpu"


@pytest.fixture
def town() -> Town:
    return Town(boot=(60.0, 60.0), ready=(10.0, 10.0), gpu=(20.0, 20.0), pod_start=(1.0, 1.0))


def test_a_node_appears_gets_ready_and_only_then_shows_its_gpus(town: Town) -> None:
    town.world.boot(
        machine("m", 2, labels={"gpu-autoscaler/pool": "a"}, taints=[{"key": GPU, "effect": "NoSchedule"}])
    )
    town.run(59)
    town.refused("GET", f"{NODES}/m")
    town.run(2)
    node = town.node("m")
    assert node["spec"]["providerID"] == "verda://m"
    assert node["metadata"]["labels"]["gpu-autoscaler/pool"] == "a"
    assert condition(node, "Ready")["status"] == "False"
    not_ready = "node.kubernetes.io/not-ready"
    assert taints(node) == {f"{GPU}:NoSchedule", f"{not_ready}:NoSchedule", f"{not_ready}:NoExecute"}
    town.run(10)
    node = town.node("m")
    assert condition(node, "Ready")["status"] == "True"
    assert taints(node) == {f"{GPU}:NoSchedule"}
    assert GPU not in node["status"]["capacity"]
    town.run(20)
    node = town.node("m")
    assert (node["status"]["capacity"][GPU], node["status"]["allocatable"][GPU]) == ("2", "2")


def test_pods_are_ready_again_when_their_node_is(town: Town) -> None:
    """The control plane takes it back while nothing is heard; the kubelet that comes back says how they are."""
    town.world.boot(machine("m"))
    town.run(100)
    town.post(PODS, pod("p"))
    town.run(5)
    town.world.gone("id-m")
    town.run(120)
    assert condition(town.get(f"{PODS}/p"), "Ready")["status"] == "False"
    town.world.boot(machine("m"))
    town.run(80)
    assert condition(town.get(f"{PODS}/p"), "Ready")["status"] == "True"


def test_memory_is_what_the_kernel_leaves(town: Town) -> None:
    town.world.boot(machine("m"))
    town.run(61)
    status = town.node("m")["status"]
    assert status["capacity"]["memory"] == f"{120 * 1024 * 63 // 64 - 320}Mi"
    assert status["allocatable"]["memory"] == f"{120 * 1024 * 63 // 64 - 420}Mi"
    assert (status["capacity"]["cpu"], status["capacity"]["pods"]) == ("22", "110")


def test_speed_divides_machine_time(town: Town) -> None:
    town.settings(speed=40)
    town.world.boot(machine("m"))
    town.run(90 / 40 + 0.1)
    assert town.node("m")["status"]["allocatable"][GPU] == "1"


def test_a_forbidden_label_means_that_the_machine_never_joins(town: Town) -> None:
    town.world.boot(machine("m", labels={"node-role.kubernetes.io/gpu": "", "team": "ml"}))
    town.run(1000)
    town.refused("GET", f"{NODES}/m")
    state = town.get("/_sandbox/state")
    assert state["machines"][0]["phase"] == "refused"
    assert "node-role.kubernetes.io/gpu" in state["log"][-1]


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("team", True),
        ("gpu-autoscaler/pool", True),
        ("nvidia.com/gpu.product", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/anything", True),
        ("x.node.kubernetes.io/anything", True),
        ("kubelet.kubernetes.io/x", True),
        ("node-role.kubernetes.io/worker", False),
        ("node-restriction.kubernetes.io/x", False),
        ("kubernetes.io/role", False),
        ("feature.k8s.io/x", False),
        ("notkubernetes.io/x", True),
    ],
)
def test_which_labels_a_kubelet_may_set(key: str, allowed: bool) -> None:
    assert (refused_labels({key: "v"}) == []) is allowed


def test_a_reused_name_keeps_the_identity_of_the_old_node(town: Town) -> None:
    town.add_node(
        "m", ready="False", providerID="verda://old", taints=[{"key": "old", "effect": "NoSchedule"}]
    )
    town.world.boot(machine("m", labels={"team": "new", "topology.kubernetes.io/zone": "FIN-01"}))
    town.run(100)
    node = town.node("m")
    assert node["spec"]["providerID"] == "verda://old"
    assert taints(node) == {"old:NoSchedule"}
    assert "team" not in node["metadata"]["labels"]
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "FIN-01"


def test_heartbeats_renew_a_lease_that_goes_with_the_node(town: Town) -> None:
    town.settings(heartbeat=10)
    town.world.boot(machine("m"))
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/m"
    town.run(61)
    first = town.get(path)["spec"]["renewTime"]
    town.run(30)
    assert town.get(path)["spec"]["renewTime"] > first
    town.ask("DELETE", f"{NODES}/m")
    town.run(1)
    town.refused("GET", path)


def test_gpus_may_never_appear_or_be_fewer_or_be_lost(town: Town) -> None:
    town.settings(
        gpus_never=["never-*"], gpus_fewer={"few-*": 3}, gpus_lost={"lost-*": 1}, gpus_lost_after=100
    )
    for name in ("never-1", "few-1", "lost-1"):
        town.world.boot(machine(name, 4))
    town.run(95)
    assert GPU not in town.node("never-1")["status"]["allocatable"]
    assert town.node("few-1")["status"]["capacity"][GPU] == "3"
    assert town.node("lost-1")["status"]["allocatable"][GPU] == "4"
    town.run(100)
    lost = town.node("lost-1")["status"]
    assert (lost["capacity"][GPU], lost["allocatable"][GPU]) == ("4", "3")
    town.settings(gpus_never=[])
    assert town.node("never-1")["status"]["allocatable"][GPU] == "4"


def test_settings_are_taken_whole_or_not_at_all(town: Town) -> None:
    answer = town.ask("PUT", "/_sandbox/settings", {"speed": 5, "boots": 3})
    assert answer.status == 400
    assert "boots: no such setting" in answer.json()["message"]
    assert town.get("/_sandbox/settings")["speed"] == 1.0
    assert town.ask("PUT", "/_sandbox/settings", {"boot": [9, 1]}).status == 400
    assert town.ask("PUT", "/_sandbox/settings", {"speed": 0}).status == 400


# ---- pods


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("soon", None), ("", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        (["sleep", "30"], 30),
        (["/bin/sleep", "2m"], 120),
        (["sh", "-c", "nvidia-smi; sleep 5 && echo done"], 5),
        (["sleep", "infinity"], None),
        (["train.py"], None),
    ],
)
def test_how_long_a_command_runs(command: list[str], seconds: float | None) -> None:
    assert run_time(pod("p", command=command)) == seconds


def test_a_pod_starts_runs_and_succeeds(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p", annotations={"gpu-autoscaler-sandbox/run-for": "1m"})
    town.run(0.5)
    assert town.pod("p")["status"]["phase"] == "Pending"
    town.run(1)
    running = town.pod("p")
    assert running["status"]["phase"] == "Running"
    assert running["status"]["containerStatuses"][0]["ready"] is True
    town.run(59)
    assert town.pod("p")["status"]["phase"] == "Running"
    town.run(1)
    assert town.pod("p")["status"]["phase"] == "Succeeded"


def test_a_pod_may_be_made_to_fail(town: Town) -> None:
    town.add_node("n")
    notes = {"gpu-autoscaler-sandbox/run-for": "5", "gpu-autoscaler-sandbox/fail": "true"}
    town.add_pod("p", annotations=notes)
    town.run(7)
    assert town.pod("p")["status"]["phase"] == "Failed"


def test_a_bound_pod_is_terminating_until_its_kubelet_confirms(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p")
    town.run(3)
    deleted = town.ask("DELETE", f"{PODS}/p").json()
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    town.run(0.5)
    assert town.pod("p")["metadata"]["deletionTimestamp"]
    town.run(1)
    town.refused("GET", f"{PODS}/p")


def test_an_unbound_pod_and_a_forced_one_go_at_once(town: Town) -> None:
    town.add_pod("p")
    town.ask("DELETE", f"{PODS}/p")
    town.refused("GET", f"{PODS}/p")
    town.add_node("n")
    town.add_pod("q")
    town.run(3)
    town.ask("DELETE", f"{PODS}/q?gracePeriodSeconds=0")
    town.refused("GET", f"{PODS}/q")


# ---- the end of machines


def test_a_machine_that_is_gone_leaves_unknown_taints_and_terminating_pods(town: Town) -> None:
    town.world.boot(machine("m"))
    town.run(100)
    town.add_pod("p", requests={GPU: 1})
    town.run(5)
    assert town.pod("p")["status"]["phase"] == "Running"
    town.world.gone("id-m")
    town.run(49)
    assert condition(town.node("m"), "Ready")["status"] == "True"
    town.run(2)
    node = town.node("m")
    assert condition(node, "Ready")["status"] == "Unknown"
    unreachable = "node.kubernetes.io/unreachable"
    assert taints(node) == {f"{unreachable}:NoSchedule", f"{unreachable}:NoExecute"}
    assert condition(town.pod("p"), "Ready")["status"] == "False"
    town.run(295)
    assert "deletionTimestamp" not in town.pod("p")["metadata"]
    town.run(10)
    assert town.pod("p")["metadata"]["deletionTimestamp"]
    town.run(3600)
    assert town.pod("p")["metadata"]["deletionTimestamp"]  # nobody confirms
    town.ask("DELETE", f"{NODES}/m")
    town.run(61)
    town.refused("GET", f"{PODS}/p")


def test_a_machine_that_comes_back_in_time_keeps_its_pods(town: Town) -> None:
    town.world.boot(machine("m"))
    town.run(100)
    town.add_pod("p")
    town.run(5)
    town.world.gone("id-m")
    town.run(100)
    town.world.boot(machine("m"))
    town.run(100)
    assert taints(town.node("m")) == set()
    town.run(400)
    assert "deletionTimestamp" not in town.pod("p")["metadata"]


def test_a_pod_whose_end_fell_into_the_silence_of_its_machine_ends_when_it_is_back(town: Town) -> None:
    town.world.boot(machine("m"))
    town.run(100)
    town.add_pod("p", annotations={"gpu-autoscaler-sandbox/run-for": "1m"})
    town.run(5)
    town.world.gone("id-m")
    town.run(100)
    assert town.pod("p")["status"]["phase"] == "Running"
    town.world.boot(machine("m"))
    town.run(100)
    assert town.pod("p")["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("first_goes", "apart"), [(True, 0), (False, 0), (True, 50), (False, 50), (False, 95)]
)
def test_of_two_machines_with_one_name_the_one_that_is_left_keeps_the_node(
    town: Town, first_goes: bool, apart: float
) -> None:
    twins = [replace(machine("m"), id="id-first"), replace(machine("m"), id="id-second")]
    town.world.boot(twins[0])
    town.run(apart)
    town.world.boot(twins[1])
    town.run(65)
    town.world.gone(twins[0 if first_goes else 1].id)
    town.run(200)
    node = town.node("m")
    assert condition(node, "Ready")["status"] == "True"
    assert node["status"]["allocatable"][GPU] == "1"
    town.add_pod("p", requests={GPU: 1})
    town.run(5)
    assert town.pod("p")["status"]["phase"] == "Running"


def test_a_deleted_node_does_not_come_back_unless_its_kubelet_restarts(town: Town) -> None:
    town.world.boot(machine("m"))
    town.run(100)
    town.ask("DELETE", f"{NODES}/m")
    town.run(500)
    town.refused("GET", f"{NODES}/m")
    town.post("/_sandbox/machines/id-m/restart", {})
    town.run(100)
    assert condition(town.node("m"), "Ready")["status"] == "True"


@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("knob", ["never_join", "never_ready"])
def test_a_kubelet_that_restarts_after_it_had_joined_is_stopped_by_nothing_that_keeps_new_ones_away(
    town: Town, knob: str, off: bool
) -> None:
    """It would look Ready for ever else, or never be so again, and its pods would never end."""
    town.world.boot(machine("m"))
    town.run(100)
    town.add_pod("p", annotations={"gpu-autoscaler-sandbox/run-for": "300s"})
    town.run(5)
    town.world.settings.change({knob: ["*"]})
    if off:
        town.world.gone("id-m")
        town.run(120)
        town.world.boot(machine("m"))
        town.run(60)
    else:
        town.post("/_sandbox/machines/id-m/restart", {})
    town.world.settings.change({knob: []})
    town.run(400)
    assert condition(town.node("m"), "Ready")["status"] == "True"
    assert town.pod("p")["status"]["phase"] == "Succeeded"


def test_a_taint_that_does_not_execute_lets_pods_run_and_one_that_does_evicts(town: Town) -> None:
    town.add_node("n")
    town.add_pod("p")
    first = {"key": "x", "operator": "Exists", "effect": "NoSchedule"}
    then = {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    town.add_pod("patient", tolerations=[first, then])
    town.run(3)
    town.patch(f"{NODES}/n", {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
    town.run(100)
    assert "deletionTimestamp" not in town.pod("p")["metadata"]
    town.patch(f"{NODES}/n", {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
    town.run(5)
    town.refused("GET", f"{PODS}/p")
    assert "deletionTimestamp" not in town.pod("patient")["metadata"]
    town.run(60)
    town.refused("GET", f"{PODS}/patient")


# ---- how machines join


def test_the_join_line_of_a_script_is_read() -> None:
    script = '#!/bin/sh\n# gpuas home x\n# gpuas-join {"node":"n","provider_id":"verda://n","labels":{"a":"b"},"taints":["k=v:NoSchedule"]}\n'
    join = from_script(script, "host")
    assert join is not None
    assert (join.node, join.provider_id, join.labels) == ("n", "verda://n", {"a": "b"})
    assert join.taints == [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    assert from_script("#!/bin/sh\n", "host") is None
    assert from_script("# gpuas-join {broken\n# gpuas-join {}}", "host") is None


def test_defaults_join_machines_by_the_beginning_of_their_name() -> None:
    rows = [{"hostname_prefix": "home-", "labels": {"a": "b"}, "provider_id": "verda://{hostname}"}]
    join = Defaults(rows).of("home-x")
    assert join is not None
    assert (join.node, join.provider_id) == ("home-x", "verda://home-x")
    assert Defaults(rows).of("other") is None


def test_defaults_are_a_list_or_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "defaults.yaml"
    for text in ("- {hostname_prefix: home-, labels: {a: b}}", "home-: {labels: {a: b}}"):
        file.write_text(text)
        join = Defaults.read(str(file)).of("home-x")
        assert join is not None
        assert (join.node, join.labels) == ("home-x", {"a": "b"})
    file.write_text("")
    assert Defaults.read(str(file)).of("home-x") is None


@pytest.mark.parametrize(
    "text",
    ["a: [", "just words", "[1]", "home-: 3", "home-: {labels: [a]}", "home-: {taints: 5}", "- {labels: {}}"],
)
def test_defaults_that_cannot_be_read_are_told_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "defaults.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"\Ajoin defaults[^\n]*\Z"):
        Defaults.read(str(file))
    with pytest.raises(ValueError, match="cannot be read"):
        Defaults.read(str(tmp_path))


def test_the_cloud_s_state_boots_and_ends_machines(town: Town) -> None:
    instance = {
        "id": "1",
        "hostname": "m",
        "status": "provisioning",
        "gpu": {"number_of_gpus": 1},
        "memory": {"size_in_gigabytes": 120},
        "cpu": {"number_of_cores": 22},
        "location": "FIN-01",
        "ip": None,
        "script": '# gpuas-join {"node":"m"}',
    }
    poll = Poll(town.world)
    poll.see({"instances": [instance]})
    town.run(200)
    town.refused("GET", f"{NODES}/m")
    poll.see({"instances": [instance | {"status": "running", "ip": "1.2.3.4"}]})
    town.run(100)
    assert town.node("m")["status"]["addresses"][0]["address"] == "1.2.3.4"
    poll.see({"instances": []})
    town.run(60)
    assert condition(town.node("m"), "Ready")["status"] == "Unknown"


def instance_of(cluster_id: str) -> dict[str, Any]:
    script = f'#!/bin/sh\n# gpuas {cluster_id} abcdefghij\n# gpuas-join {{"node":"{cluster_id}"}}'
    return {"id": cluster_id, "hostname": cluster_id, "status": "running", "script": script}


def keep_ledger(town: Town, text: str) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    town.post(maps, {"metadata": {"name": "gpu-autoscaler-ledger"}, "data": {"ledger.json": text}})


def test_clusters_without_a_ledger_boot_every_machine(town: Town) -> None:
    Poll(town.world).see({"instances": [instance_of("ours"), instance_of("theirs")]})
    assert set(town.world.machines.on) == {"ours", "theirs"}


def test_a_machine_of_another_cluster_boots_only_once_a_ledger_claims_it(town: Town) -> None:
    poll, state = Poll(town.world), {"instances": [instance_of("ours"), instance_of("theirs")]}
    keep_ledger(town, '{"cluster_id": "ours"}')
    poll.see(state)
    assert set(town.world.machines.on) == {"ours"}
    town.patch(
        "/api/v1/namespaces/default/configmaps/gpu-autoscaler-ledger",
        {"data": {"ledger.json": '{"cluster_id": "theirs"}'}},
    )
    first = town.world.machines.on["ours"]
    poll.see(state)
    assert set(town.world.machines.on) == {"ours", "theirs"}
    assert town.world.machines.on["ours"] is first
    poll.see({"instances": []})
    assert not town.world.machines.on


def test_a_machine_whose_script_names_no_cluster_boots_beside_a_ledger(town: Town) -> None:
    keep_ledger(town, "{")
    nameless = instance_of("x") | {"script": '#!/bin/sh\n# gpuas-join {"node":"x"}'}
    Poll(town.world).see({"instances": [nameless]})
    assert set(town.world.machines.on) == {"x"}


def test_one_seed_gives_one_history() -> None:
    def history() -> list[object]:
        town = Town()
        town.world.boot(machine("m"))
        town.add_pod("p", requests={GPU: 1})
        stream = town.watch(f"{NODES}?resourceVersion=1000")
        town.run(300)
        return [town.pod("p"), stream.drain()]

    assert history() == history()
