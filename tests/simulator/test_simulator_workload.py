from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from controller.domain.machine import Machine, Phase
from controller.sandbox.simulator import schedule, workload
from controller.sandbox.simulator.needs import Need, all_placed

MINIMAL = "arrival_s,duration_s,gpus,cpu_milli,memory_mib,gpu_model\n"
TRACE = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "pods.csv"
    path.write_text(text)
    return str(path)


def test_the_minimal_form_is_read_and_keeps_its_moments(tmp_path: Path) -> None:
    found = workload.read(written(tmp_path, MINIMAL + "100,60,1,1000,2048,\n160,30,8,8000,65536,h100|h200\n"))
    assert [(w.arrives, w.lasts, w.gpus, w.models) for w in found] == [
        (100.0, 60.0, 1, ()),
        (160.0, 30.0, 8, ("h100", "h200")),
    ]


def test_a_model_may_be_written_as_people_write_it(tmp_path: Path) -> None:
    rows = "0,60,1,1000,2048,A100 80GB | H100\n0,60,1,1000,2048,a100-80gb\n"
    found = workload.read(written(tmp_path, MINIMAL + rows))
    assert [work.models for work in found] == [("a100-80gb", "h100"), ("a100-80gb",)]


def test_a_trace_leaves_out_pods_without_gpu_and_counts_from_where_they_were_scheduled(
    tmp_path: Path,
) -> None:
    rows = "a,6000,12288,1,460,,LS,Running,1000,5000,2000\nb,6000,12288,0,0,,LS,Running,1000,5000,1000\nc,1,1,2,1000,,BE,Pending,3000,4000,\n"
    found = workload.read(written(tmp_path, TRACE + rows), compress=10)
    assert [(w.arrives, w.lasts, w.gpus) for w in found] == [(0.0, 300.0, 1), (200.0, 100.0, 2)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL + "x,60,1,1000,2048,\n", "pods.csv:2: arrival_s: got 'x', expected a number"),
        (MINIMAL + "0,60,1.5,1000,2048,\n", "pods.csv:2: gpus: got '1.5', expected a whole number"),
        (MINIMAL + "0,-1,1,1000,2048,\n", "pods.csv:2: duration_s: got '-1', expected a number of 0 or more"),
        ("a,b\n1,2\n", "columns a, b; expected arrival_s"),
        (MINIMAL, "no pod that needs a GPU"),
        (MINIMAL + "0,60,1,1000,2048,h100,5\n", "pods.csv:2: got 7 fields, expected 6"),
        (
            MINIMAL + "0,1e300,1,1000,2048,\n",
            "pods.csv:2: the pod runs 1e+300 s long, expected 31622400 s (a year) at most",
        ),
        (
            MINIMAL + "0,60,1,1000,2048,\n4e7,60,1,1000,2048,\n",
            "pods.csv:3: the pod arrives 4e+07 s after the beginning",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_line_and_value(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(workload.BadWorkload) as told:
        workload.read(written(tmp_path, text))
    assert expected in str(told.value)


def test_the_standard_day_is_the_same_for_the_same_seed_and_has_its_pods() -> None:
    day = workload.standard(7, 24)
    assert day == workload.standard(7, 24) != workload.standard(8, 24)
    assert len(day) == workload.STANDARD_PODS
    assert all(work.arrives >= 0 and workload.SHORTEST <= work.lasts <= workload.LONGEST for work in day)


def test_drawn_trouble_can_be_written_into_a_file_and_read_again(tmp_path: Path) -> None:
    import json

    for seed in range(5):
        drawn = schedule.drawn("harsh", seed, 24, "simulated")
        path = tmp_path / f"{seed}.json"
        path.write_text(json.dumps(drawn))
        assert schedule.read(str(path)) == drawn


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([{"at_s": 1}], "expected at_s and one of cloud_fault"),
        ([{"at_s": "x", "controller": "die"}], "at_s: got 'x', expected a number"),
        (
            [{"at_s": float("nan"), "controller": "die"}],
            "at_s: got nan, expected a number of seconds from 0 to",
        ),
        (
            [{"at_s": float("inf"), "controller": "die"}],
            "at_s: got inf, expected a number of seconds from 0 to",
        ),
        ([{"at_s": -1, "controller": "die"}], "at_s: got -1, expected a number of seconds from 0 to"),
        ([{"at_s": 1, "for_s": -5, "controller": "second"}], "for_s: got -5, expected a number of seconds"),
        (
            [{"at_s": 1, "seconds": -5, "controller": "stand_still"}],
            "seconds: got -5, expected a number of seconds",
        ),
        (
            [{"at_s": 1, "awaits": 1.5, "controller": "die"}],
            "awaits: got 1.5, expected a whole number of 1 or more",
        ),
        (
            [{"at_s": 1, "awaits": 0, "controller": "die"}],
            "awaits: got 0, expected a whole number of 1 or more",
        ),
        ([{"at_s": 1, "late": {"methode": "POST"}}], "late.methode"),
        ([{"at_s": 1, "late": {"method": "post"}}], 'late.method: got "post", expected one of *, GET, POST'),
        (
            [{"at_s": 1, "late": {"path": 5}}],
            "late.path: got 5, expected what the path of the calls ends with",
        ),
        ([{"at_s": 1, "late": {"path": "*"}}], "leave it out for all"),
        (
            [{"at_s": 1, "late": {"seconds": "soon"}}],
            "late.seconds: got 'soon', expected a number of seconds",
        ),
        (
            [{"at_s": 1, "late": {"seconds": float("nan")}}],
            "late.seconds: got nan, expected a number of seconds",
        ),
        ([{"at_s": 1, "late": {"times": 1.5}}], "late.times: got 1.5, expected a whole number of 1 or more"),
        ([{"at_s": 1, "controller": "fly"}], "got 'fly', expected one of die"),
        ([{"at_s": 1, "cloud_fault": {"fault": "none"}}], "expected one of delay_answer"),
        ([{"at_s": 1, "cloud_knobs": {"colour": 1}}], "no such knob"),
        ([{"at_s": 1, "cluster": "lag", "colour": 1}], "colour: no such key"),
        (
            [{"cloud_event": {"event": "plant", "things": [{"disk": {"name": "d"}}]}}],
            "cloud_event.event: got 'plant', expected another event",
        ),
        ([{"cloud_knobs": 5}], "faults.yaml[0].cloud_knobs: got 5, expected an object of knobs"),
        (
            [{"cloud_knobs": {"delete_s": "x"}}],
            'faults.yaml[0].cloud_knobs.delete_s: got "x", expected one number',
        ),
        (
            [{"cluster_knobs": {"never_join": [5]}}],
            "[0].cluster_knobs.never_join: got [5], expected a list of patterns",
        ),
        (
            [{"cluster_knobs": {"gpus_lost": {"*": "x"}}}],
            "gpus_lost.*: got 'x', expected a whole number of 0 or more",
        ),
        (
            [{"cluster_knobs": {"gpus_sliced": {"*": -1}}}],
            "gpus_sliced.*: got -1, expected a whole number of 0 or more",
        ),
        (
            [{"cluster_knobs": {"gpus_fewer": {"*": 1.5}}}],
            "gpus_fewer.*: got 1.5, expected a whole number of 0 or more",
        ),
        ([{"cluster_knobs": {"gpus_never": "*"}}], "gpus_never: got '*', expected a list of patterns"),
        (
            [{"cluster_knobs": {"require_token": True}}],
            "require_token: got True, expected none in a simulation",
        ),
        ([{"cluster_knobs": {"speed": 40}}], "cluster_knobs.speed: got 40, expected none in a simulation"),
        ([{"cloud_event": {"event": "settings", "values": {"speed": 2}}}], "cloud_event.values.speed: got 2"),
        ([{"cloud_event": {"event": "evict", "at_s": 5}}], "cloud_event.at_s: got 5, expected no such key"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_told_by_entry(tmp_path: Path, raw: object, expected: str) -> None:
    import json

    path = tmp_path / "faults.yaml"
    path.write_text(json.dumps(raw).replace("NaN", ".nan").replace("Infinity", ".inf"))
    with pytest.raises(schedule.BadSchedule) as told:
        schedule.read(str(path))
    assert expected in str(told.value)


def machine(gpus: int, memory_gib: int = 100) -> Machine:
    return Machine(
        intent="aaaaaaaaaa", name="m", pool="all", instance_type="t", location="FIN-01", market="on-demand",
        phase=Phase.ORDERED, price=Decimal(1), gpus=gpus, vcpus=20 * gpus, memory_gib=memory_gib, model="A100 80GB",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("needs", "machines", "placed"),
    [
        ([Need(1, 1000, 1024)], [machine(1)], True),
        ([Need(1, 1000, 1024)] * 2, [machine(1)], False),
        ([Need(4, 1000, 1024), Need(2, 1000, 1024), Need(2, 1000, 1024)], [machine(4), machine(4)], True),
        ([Need(1, 1000, 200 * 1024)], [machine(1)], False),
        ([Need(1, 1000, 1024, ("h100",))], [machine(8)], False),
        ([Need(1, 1000, 1024, ("a100-80gb",))], [machine(8)], True),
    ],
)
def test_whether_pods_find_places(needs: list[Need], machines: list[Machine], placed: bool) -> None:
    assert all_placed(needs, machines) is placed
