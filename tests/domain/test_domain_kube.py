"""What Kubernetes' own rules say about selectors, taints, Jobs and budgets, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import (
    DisruptionBudget,
    Job,
    NodeTerm,
    Pod,
    PodShape,
    Requirement,
    Selector,
    Taint,
    Toleration,
)

LABELS = {
    "zone": "FIN-01",
    "size": "80",
    "text": "x",
    "padded": "007",
    "grouped": "1_0",
    "beyond": "9223372036854775808",
}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ("FIN-01", "FIN-02"), True),
        ("zone", "In", ("FIN-02",), False),
        ("zone", "In", (), False),
        ("zone", "NotIn", ("FIN-02",), True),
        ("zone", "NotIn", ("FIN-01",), False),
        ("zone", "Exists", (), True),
        ("zone", "DoesNotExist", (), False),
        ("absent", "In", ("x",), False),
        ("absent", "Exists", (), False),
        ("absent", "NotIn", ("x",), True),
        ("absent", "DoesNotExist", (), True),
        ("absent", "Gt", ("1",), False),
        ("absent", "Lt", ("1",), False),
        ("size", "Gt", ("79",), True),
        ("size", "Gt", ("80",), False),
        ("size", "Gte", ("80",), True),
        ("size", "Lt", ("81",), True),
        ("size", "Lt", ("80",), False),
        ("size", "Lte", ("80",), True),
        ("size", "Gt", (), False),
        ("size", "Gt", ("1", "2"), False),
        ("size", "Gt", ("1.5",), False),
        ("text", "Gt", ("1",), False),
        ("padded", "Gt", ("6",), True),
        ("grouped", "Gt", ("1",), False),
        ("beyond", "Gt", ("1",), False),
        ("zone", "Like", ("FIN-01",), False),
        ("zone", "", (), False),
    ],
)
def test_each_operator_on_present_and_absent_keys(
    key: str, operator: str, values: tuple[str, ...], matches: bool
) -> None:
    assert Requirement(key, operator, values).matches(LABELS) is matches


ZONE = Requirement("zone", "In", ("FIN-01",))


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (NodeTerm(), False),
        (NodeTerm(labels=(ZONE,)), True),
        (NodeTerm(labels=(ZONE, Requirement("absent", "Exists"))), False),
        (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)), True),
        (NodeTerm(fields=(Requirement("metadata.name", "In", ("n2",)),)), False),
        (NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("n2",)),)), True),
        (NodeTerm(labels=(ZONE,), fields=(Requirement("metadata.name", "In", ("n2",)),)), False),
    ],
)
def test_a_term_holds_when_all_its_expressions_do_and_an_empty_one_never(
    term: NodeTerm, matches: bool
) -> None:
    assert term.matches("n1", LABELS) is matches


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerates"),
    [
        (Toleration("gpu", "Equal", "present", "NoSchedule"), Taint("gpu", "present"), True),
        (Toleration("gpu", "Equal", "other", "NoSchedule"), Taint("gpu", "present"), False),
        (Toleration("gpu", "Exists", "", "NoSchedule"), Taint("gpu", "present"), True),
        (Toleration("gpu", "Exists"), Taint("gpu", "present", "NoExecute"), True),
        (Toleration("gpu", "Exists", "", "NoExecute"), Taint("gpu", "present"), False),
        (Toleration("", "Exists"), Taint("anything", "x", "NoExecute"), True),
        (Toleration("", "Equal"), Taint("anything"), False),
        (Toleration("gpu"), Taint("gpu"), True),
        (Toleration("other", "Exists"), Taint("gpu"), False),
        (Toleration("sla", "Gt", "900"), Taint("sla", "950"), True),
        (Toleration("sla", "Lt", "900"), Taint("sla", "950"), False),
        (Toleration("sla", "Gt", "much"), Taint("sla", "950"), False),
        (Toleration("sla", "Gt", "9"), Taint("sla", "1_0"), False),
        (Toleration("sla", "Gt", "9"), Taint("sla", "010"), False),
        (Toleration("sla", "Lt", "0"), Taint("sla", "-1"), True),
        (Toleration("gpu", "", "present"), Taint("gpu", "present"), True),
        (Toleration("gpu", "Like", "present"), Taint("gpu", "present"), False),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, tolerates: bool) -> None:
    assert toleration.tolerates(taint) is tolerates


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 10}, 4),
        ({"parallelism": 4, "completions": 10, "succeeded": 8}, 2),
        ({"parallelism": 4, "completions": 10, "succeeded": 10}, 0),
        ({"parallelism": 4, "completions": 10, "succeeded": 11}, 0),
        ({"parallelism": 4, "suspended": True}, 0),
        ({"parallelism": 4, "finished": True}, 0),
        ({"parallelism": 0}, 0),
    ],
)
def test_how_many_pods_a_job_wants_at_once(fields: dict[str, Any], wanted: int) -> None:
    assert Job(namespace="default", name="j", uid="j", **fields).wanted == wanted


@pytest.mark.parametrize(
    ("namespace", "selector", "covers"),
    [
        ("default", Selector({"app": "a"}), True),
        ("default", Selector({"app": "b"}), False),
        ("default", Selector(), True),
        ("default", None, False),
        ("other", Selector(), False),
        ("default", Selector({}, (Requirement("app", "Exists"),)), True),
        ("default", Selector({"app": "a"}, (Requirement("app", "NotIn", ("a",)),)), False),
    ],
)
def test_whom_a_budget_covers(namespace: str, selector: Selector | None, covers: bool) -> None:
    pod = Pod(namespace="default", name="p", uid="p", shape=PodShape(labels={"app": "a"}))
    assert DisruptionBudget(namespace=namespace, name="b", uid="b", selector=selector).covers(pod) is covers


def test_a_taint_reads_as_people_write_it() -> None:
    assert str(Taint("gpu", "present")) == "gpu=present:NoSchedule"
    assert str(Taint("gpu", effect="NoExecute")) == "gpu:NoExecute"
