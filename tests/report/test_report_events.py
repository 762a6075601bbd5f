"""Events are told once and not per loop, and told anew when something changed."""

from __future__ import annotations

import pytest

from controller.domain.plan import Explanation, Plan, Retire
from controller.domain.reason import Reason
from controller.report.events import Events, Told
from tests.planning.worlds import machine


def of_pod(code: Reason, message: str = "words") -> Plan:
    return Plan(pods={"default/train": Explanation(code, message)})


def test_the_same_refusal_is_told_once_however_often_it_is_planned() -> None:
    events = Events()
    told = [event for _ in range(100) for event in events.of_plan(of_pod(Reason.NO_CAPACITY))]
    assert told == [Told("Pod", "default/train", "Warning", "NotTriggerScaleUp", "words (no_capacity)")]


def test_an_accepted_order_is_an_event_on_each_of_its_pods_and_what_follows_quietly_is_none() -> None:
    events = Events()
    bought = machine(pods=("default/train", "default/other"))
    told = events.of_order(bought)
    assert [(each.type, each.reason, each.name) for each in told] == [
        ("Normal", "TriggeredScaleUp", "default/train"),
        ("Normal", "TriggeredScaleUp", "default/other"),
    ]
    assert told[0].message == "pool a100 launches 1A100.22V in FIN-01 (on-demand, 1.29 an hour) for it"
    assert events.of_order(bought) == []
    assert events.of_plan(of_pod(Reason.ON_THE_WAY)) == []


def test_a_machine_given_up_on_its_way_is_told_to_each_pod_that_goes_on_waiting_for_one() -> None:
    events = Events()
    note = "The machine runs and never joined the cluster."
    lost = machine(pods=("default/train", "default/other"), reason=Reason.JOIN_DEADLINE, note=note)
    events.of_order(lost)
    told = events.of_failure(lost)
    assert [(each.type, each.reason, each.name) for each in told] == [
        ("Warning", "MachineFailed", "default/train"),
        ("Warning", "MachineFailed", "default/other"),
    ]
    assert told[0].message == (
        f"{lost.name} (1A100.22V in FIN-01), which was bought for it, is given up: The machine runs and never "
        "joined the cluster (join_deadline)"
    )
    assert len(events.of_order(lost)) == 2  # of the same kind again: it is news


def test_what_is_only_decided_is_no_event_before_the_order_is_accepted() -> None:
    assert Events().of_plan(of_pod(Reason.LAUNCHING)) == []


@pytest.mark.parametrize(
    "code",
    [Reason.ON_THE_WAY, Reason.FITS_NOW, Reason.GPUS_FREED_SOON, Reason.WAITS_FOR_SIBLINGS, Reason.TOO_YOUNG],
)
def test_quiet_facts_are_no_events(code: Reason) -> None:
    assert Events().of_plan(of_pod(code)) == []


def test_another_reason_or_another_sentence_is_told() -> None:
    events = Events()
    assert events.of_plan(of_pod(Reason.NO_CAPACITY))
    assert events.of_plan(of_pod(Reason.QUOTA))
    assert events.of_plan(of_pod(Reason.QUOTA, "other words"))


def test_a_later_pod_of_the_same_name_is_told_anew() -> None:
    events = Events()
    assert events.of_plan(of_pod(Reason.NO_CAPACITY))
    assert events.of_plan(Plan()) == []
    assert events.of_plan(of_pod(Reason.NO_CAPACITY))


def test_a_removal_is_told_once_on_its_node() -> None:
    events = Events()
    plan = Plan(
        actions=(Retire(machine="m", reason=Reason.IDLE, message="idle"),),
        machines={"m": Explanation(Reason.IDLE, "idle")},
    )
    assert events.of_plan(plan) == [Told("Node", "m", "Normal", "ScaleDown", "idle")]
    assert events.of_plan(plan) == []


def test_nothing_is_remembered_of_pods_and_machines_that_are_gone() -> None:
    events = Events()
    for number in range(500):
        name = f"m-{number}"
        why = Explanation(Reason.IDLE, "idle")
        retire = Retire(machine=name, reason=Reason.IDLE, message="idle")
        pods = {f"default/p-{number}": Explanation(Reason.NO_CAPACITY, "no")}
        events.of_plan(Plan(actions=(retire,), machines={name: why}, pods=pods))
        events.once(Told("Node", name, "Warning", "ScaleDownFailed", "in use"))
    events.of_plan(Plan())
    assert events._last == {}


@pytest.mark.parametrize(
    ("code", "reason"), [(Reason.STOPPED, "MachineStopped"), (Reason.SILENT, "MachineSilent")]
)
def test_a_machine_that_costs_and_is_of_no_use_is_told_once_on_its_node(code: Reason, reason: str) -> None:
    events = Events()
    plan = Plan(machines={"home-a100-aaaaaaaaaa": Explanation(code, "costs 1.29 an hour")})
    told = [event for _ in range(100) for event in events.of_plan(plan)]
    assert told == [Told("Node", "home-a100-aaaaaaaaaa", "Warning", reason, "costs 1.29 an hour")]
