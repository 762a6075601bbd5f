"""The planner's idea of where a pod fits, and the sandbox's, beside the real scheduler's, over random worlds and pods.

`DIFF_SEED` repeats a run, `DIFF_PODS` lengthens it. Whatever differs is shrunk to a pod and a node, as YAML.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.e2e.controlplane.differential import draw, left_out, oracle, replayed, run, sandboxed
from tests.e2e.controlplane.differential.compared import Comparison
from tests.e2e.controlplane.differential.reality import Bare, Reality
from tests.e2e.controlplane.differential.sandboxed import Sandboxed
from tests.e2e.controlplane.differential.sets import Sets
from tests.e2e.controlplane.differential.worlds import Json, World

FEW, MANY = 250, 5000
MOST = int(os.environ.get("DIFF_MOST", "3"))  # differences that are looked for before the run ends
pytestmark = pytest.mark.long  # all of them together
# What random pods are expected to say; a field that none of them had was not compared.
FIELDS = {
    "nodeSelector", "tolerations", "topologySpreadConstraints", "initContainers", "resources", "overhead",
    "nodeAffinity required", "nodeAffinity preferred", "podAffinity required", "podAffinity preferred",
    "podAntiAffinity required", "podAntiAffinity preferred", "host ports", "volumes", "sidecars", "cpu", "memory",
    "nvidia.com/gpu", "example.com/rdma", "hugepages-2Mi", "ephemeral-storage", "toleration Equal",
    "toleration Exists", "toleration Gt", "toleration Lt",
}  # fmt: skip


@pytest.fixture(scope="module")
def reality(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reality]:
    programs = Path(os.environ.get("CONTROL_PLANE_BIN", ""))
    if not (programs / "kube-scheduler").is_file():
        pytest.fail("CONTROL_PLANE_BIN names no control plane; run tests/e2e/run", pytrace=False)
    with Reality(Bare(programs, tmp_path_factory.mktemp("bare") / "files")) as made:
        yield made


@pytest.fixture(scope="module")
def comparison(reality: Reality) -> Comparison:
    return Comparison(reality)


def seed_of(usual: str) -> str:
    return os.environ.get("DIFF_SEED") or usual


def pods_agree(comparison: Comparison, seed: str, usual: int, seconds: float) -> None:
    count = int(os.environ.get("DIFF_PODS") or usual)
    print(f"DIFF_SEED={seed} DIFF_PODS={count}")
    tally = run.pods(comparison, seed, count, most=MOST)
    print(tally.told())
    found = [run.shrunk(comparison, each, seconds) for each in tally.differences]
    told = "\n---\n".join(each.told() for each in found)
    assert not found, f"DIFF_SEED={seed}: {len(found)} pods are judged differently\n{told}"
    assert not FIELDS - set(tally.fields), "no pod said anything of these"
    assert min(tally.count["bound"], tally.count["unschedulable"]) * 5 > tally.count["pods"]
    assert tally.count["refused by the API server"] * 10 < count


def test_a_pod_binds_if_and_only_if_the_planner_finds_a_node_and_to_none_but_those(
    comparison: Comparison,
) -> None:
    pods_agree(comparison, seed_of("1"), FEW, seconds=20)


@pytest.mark.full(limit=3600)
def test_thousands_of_pods_bind_where_the_planner_says_and_nowhere_else(comparison: Comparison) -> None:
    pods_agree(comparison, seed_of(str(random.randrange(10**6))), MANY, seconds=180)


@pytest.fixture(scope="module")
def beside_the_sandbox(reality: Reality) -> Comparison:
    return Sandboxed(reality, sandboxed.expected, "sandbox")


def test_the_sandboxs_scheduler_passes_the_nodes_that_the_real_one_does(
    beside_the_sandbox: Comparison,
) -> None:
    pods_agree(beside_the_sandbox, seed_of("sandbox"), FEW, seconds=20)


@pytest.mark.full(limit=3600)
def test_many_more_pods_pass_in_the_sandbox_where_they_really_do(beside_the_sandbox: Comparison) -> None:
    pods_agree(beside_the_sandbox, seed_of(str(random.randrange(10**6))), MANY // 2, seconds=180)


def blind_to_taints(listed: Mapping[str, Sequence[Json]], pod: Json) -> frozenset[str]:
    bare = [node | {"spec": {**node["spec"], "taints": []}} for node in listed["nodes"]]
    return oracle.expected({**listed, "nodes": bare}, pod)


@pytest.mark.full(limit=300)
def test_a_planner_that_overlooks_something_is_found_out_and_told_by_one_pod_and_one_node(
    reality: Reality,
) -> None:
    comparison = Comparison(reality, blind_to_taints)
    (found,) = run.pods(comparison, "blind", 40, most=1).differences
    small = run.shrunk(comparison, found, seconds=60)
    assert not small.agree
    (node,) = small.case.world.nodes
    assert list(node["spec"]) == ["taints"]
    assert small.case.world == World(nodes=(node,))
    assert set(small.case.pod["spec"]) == {"containers"}
    assert "taints:" in small.told()


def test_what_is_left_out_is_told_with_its_reason_and_nothing_else_is() -> None:
    assert left_out.documented() == left_out.FIELDS
    there = draw.world("left out")
    for number in range(500):
        assert not list(left_out.found_in(draw.case("left out", number, there)))


def sets_work(reality: Reality, seed: str, count: int) -> None:
    print(f"DIFF_SEED={seed} DIFF_SETS={count}")
    sets, planned = Sets(reality), 0
    for number in range(count):
        one = f"{seed}-{number}"
        found = sets.carried_out(one)
        assert not replayed.objections(found), f"DIFF_SEED={seed}, set {number}\n{found.told()}"
        assert not found.unbound, f"DIFF_SEED={seed}, set {number}\n{found.told()}"
        planned += len(found.planned)
    print(f"{count} sets, {planned} pods planned, all bound as planned")
    assert planned > count


def test_every_planned_pod_binds_on_nodes_made_as_they_were_predicted(reality: Reality) -> None:
    sets_work(reality, seed_of("1"), 3)


@pytest.mark.full(limit=3600)
def test_every_pod_of_many_random_sets_binds_as_planned(reality: Reality) -> None:
    sets_work(reality, seed_of(str(random.randrange(10**6))), int(os.environ.get("DIFF_SETS") or 60))
