"""The status has one shape, money has four decimals, and metrics never carry the name of a pod or machine."""

from __future__ import annotations

import json
from decimal import Decimal

from controller.domain.cloudhealth import CloudHealth
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Plan, Refusal
from controller.domain.policy import Policy, Pool
from controller.domain.reason import Reason
from controller.domain.switching import Own, Power, Switch, Switched
from controller.report.metrics import Metrics
from controller.report.status import MOST_BYTES, as_text, status_json

NOW = 1_800_000_000.0


def machine(number: int, phase: Phase = Phase.READY, **more: object) -> Machine:
    values: dict[str, object] = {
        "intent": f"intent{number}", "name": f"home-a100-intent{number}", "pool": "a100", "gpus": 1,
        "instance_type": "1A100.22V", "location": "FIN-01", "market": "on-demand",
        "price": Decimal("1.29"), "intended_at": NOW, "pods": (f"default/pod-{number}",),
    }  # fmt: skip
    return Machine(phase=phase, **(values | more))  # type: ignore[arg-type]


PLAN = Plan(
    pods={"default/train": Explanation(Reason.NO_CAPACITY, "sold out")},
    machines={"home-a100-intent1": Explanation(Reason.COOLDOWN, "idle since")},
    pools={"a100": Explanation(Reason.JOIN_DEADLINE, "the next is ordered later")},
)


def status() -> dict[str, object]:
    return status_json(
        policy=Policy(cluster_id="home", pools=(Pool(name="a100", max=4),)),
        plan=PLAN,
        machines=[machine(1), machine(2, Phase.TOMBSTONE), machine(3, Phase.DELETING, gone_at=NOW), machine(4, surplus=True)],
        refusals=[Refusal(offer="x/FIN-01/spot", reason=Reason.NO_CAPACITY, until=NOW, message="sold out")],
        costs={"2027-01-15": Decimal("3.14159")},
        reports={"i-9": "a second machine"},
        leader=True,
        currency="usd",
        problems=["the inventory cannot be read"],
        cloud=CloudHealth(breaker="open", since=NOW, message="the connection was refused", waiting=3, calls_left=7),
    )  # fmt: skip


def test_the_status_is_json_of_one_shape() -> None:
    found = json.loads(json.dumps(status()))
    assert set(found) == {
        "cluster_id", "leader", "paused", "retiring", "currency", "price_per_hour", "closed_costs_by_day", "pools", "machines",
        "pods", "refusals", "reports", "problems", "cloud",
    }  # fmt: skip
    assert found["pods"] == {"default/train": {"code": "no_capacity", "message": "sold out"}}
    assert found["refusals"][0]["until"] == "2027-01-15T08:00:00+00:00"
    # Nothing that changes with every call: the status is written when it changed.
    assert found["cloud"] == {
        "breaker": "open", "since": "2027-01-15T08:00:00+00:00", "message": "the connection was refused",
    }  # fmt: skip
    assert found["pools"]["a100"] == {
        "min": 0, "max": 4, "machines": 3, "gpus": 3, "code": "join_deadline", "message": "the next is ordered later",
    }  # fmt: skip


def test_the_published_text_is_the_whole_document_where_it_fits() -> None:
    assert json.loads(as_text(status())) == json.loads(json.dumps(status()))


def test_ten_thousand_waiting_pods_still_fit_a_config_map_and_the_rest_is_counted() -> None:
    pods = {f"team/job-{number}": {"code": "no_capacity", "message": "é" * 60} for number in range(10_000)}
    text = as_text(status() | {"pods": pods})
    shown = json.loads(text)
    assert len(text.encode()) <= MOST_BYTES
    assert shown["pods"]
    assert len(shown["pods"]) + shown["pods_left_out"] == 10_000
    assert len(shown["machines"]) == 3
    assert "machines_left_out" not in shown


def test_as_many_machines_are_shown_as_fit() -> None:
    machines = [{"name": f"home-a100-{number}", "message": "x" * 300} for number in range(5_000)]
    text = as_text(status() | {"machines": machines})
    shown = json.loads(text)
    assert len(text.encode()) <= MOST_BYTES
    assert len(shown["machines"]) + shown["machines_left_out"] == 5_000


def test_tombstones_are_not_shown_as_machines_and_surplus_is_never_hidden() -> None:
    shown = {m["name"]: m for m in status()["machines"]}  # type: ignore[attr-defined]
    assert sorted(shown) == ["home-a100-intent1", "home-a100-intent3", "home-a100-intent4"]
    assert shown["home-a100-intent4"]["surplus"] is True
    assert shown["home-a100-intent1"]["code"] == "cooldown"


def test_money_has_four_decimals_and_what_is_gone_costs_nothing_more() -> None:
    found = status()
    assert found["price_per_hour"] == 2.58
    assert found["closed_costs_by_day"] == {"2027-01-15": 3.1416}
    assert found["currency"] == "usd"


def test_labels_of_metrics_are_bounded_and_never_name_a_pod_or_a_machine() -> None:
    metrics = Metrics()
    for number in range(200):
        plan = Plan(pods={f"default/pod-{number}": Explanation(Reason.QUOTA, "no")})
        metrics.show(plan, [machine(number)])
    text = metrics.text().decode()
    assert "intent" not in text.replace("intended", "")
    assert "pod-" not in text
    series = [line for line in text.splitlines() if line.startswith("gpu_autoscaler_machines{")]
    assert series == ['gpu_autoscaler_machines{phase="ready",pool="a100"} 1.0']


def test_gauges_fall_to_nothing_when_what_they_count_is_gone() -> None:
    metrics = Metrics()
    metrics.show(PLAN, [machine(1)])
    assert 'gpu_autoscaler_waiting_pods{reason="no_capacity"} 1.0' in metrics.text().decode()
    metrics.show(Plan(), [])
    text = metrics.text().decode()
    assert "gpu_autoscaler_waiting_pods{" not in text
    assert "gpu_autoscaler_machines{" not in text
    assert "gpu_autoscaler_price_per_hour 0.0" in text


def test_the_way_to_the_cloud_is_measured_at_each_scrape() -> None:
    metrics, health = Metrics(), CloudHealth()
    metrics.follow_cloud(lambda: health)
    text = metrics.text().decode()
    assert 'gpu_autoscaler_cloud_breaker{state="closed"} 1.0' in text
    assert "gpu_autoscaler_cloud_calls_left NaN" in text
    health = CloudHealth(breaker="open", waiting=3, calls_left=0)
    text = metrics.text().decode()
    for line in (
        'cloud_breaker{state="closed"} 0.0',
        'cloud_breaker{state="open"} 1.0',
        'cloud_breaker{state="half_open"} 0.0',
        "cloud_calls_waiting 3.0",
        "cloud_calls_left 0.0",
    ):
        assert f"gpu_autoscaler_{line}" in text


def test_every_metric_has_our_prefix_and_a_sentence() -> None:
    for line in Metrics().text().decode().splitlines():
        if line.startswith("# HELP"):
            _, _, name, *words = line.split()
            assert name.startswith("gpu_autoscaler_")
            assert len(words) >= 3


def test_switched_machines_have_their_place_in_status_and_metrics() -> None:
    switch = Switch(name="w1", gpus=4, price=Decimal("0.3"))
    record = Switched(name="w1", power=Power.RISING, call="k", pods=("default/train",), ons=(NOW,))
    found = status_json(
        policy=Policy(cluster_id="home"), plan=PLAN, machines=(), switched=[(switch, record)], refusals=(), costs={},
        reports={}, leader=True, currency="usd", problems=[],
    )["switched"]  # fmt: skip
    assert found == [
        {
            "name": "w1", "gpus": 4, "price_per_hour": 0.3, "power": "switching_on", "code": "", "message": "",
            "pods": ["default/train"], "on_since": None, "off_since": None, "switched_on_last_day": 1,
            "left_alone_until": None,
        }
    ]  # fmt: skip
    metrics = Metrics()
    metrics.show(Plan(), (), {"w1": Own(power="off"), "w2": Own(power="off"), "w3": Own(power="on")})
    text = metrics.text().decode()
    assert 'gpu_autoscaler_switched_machines{power="off"} 2.0' in text
    assert 'gpu_autoscaler_switched_machines{power="on"} 1.0' in text


def test_what_is_paid_for_machines_that_are_of_no_use_is_a_metric_by_reason() -> None:
    metrics = Metrics()
    told = {
        machine(1).name: Explanation(Reason.STOPPED, "shut down"),
        machine(2).name: Explanation(Reason.SILENT, "silent"),
        machine(3).name: Explanation(Reason.SILENT, "silent"),
        machine(4).name: Explanation(Reason.IN_USE, "a pod uses it"),
    }
    failed = machine(5, Phase.DRAINING, reason=Reason.LAUNCH_FAILED)
    gone = machine(6, Phase.DELETING, reason=Reason.VANISHED, gone_at=NOW)
    metrics.show(Plan(machines=told), [*(machine(n) for n in range(1, 5)), failed, gone])
    shown = metrics.text().decode()
    assert 'gpu_autoscaler_lost_price_per_hour{reason="stopped"} 1.29' in shown
    assert 'gpu_autoscaler_lost_price_per_hour{reason="silent"} 2.58' in shown
    assert 'gpu_autoscaler_lost_price_per_hour{reason="launch_failed"} 1.29' in shown
    assert shown.count("gpu_autoscaler_lost_price_per_hour{") == 3
    metrics.show(Plan(), [])
    assert "gpu_autoscaler_lost_price_per_hour{" not in metrics.text().decode()
