"""Claims for devices: those for whole GPUs by product or memory are planned, the rest is explained."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.domain.kube import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    NodeTerm,
    PodDeviceClaim,
    Requirement,
)
from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.policy import Headroom
from controller.domain.reason import Reason
from controller.planning.device_claims import Claims
from controller.planning.device_selectors import models_matching
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, NOW, kind, machine, node, offers, pod, policy, pool, world

H1 = kind("1H100.80S", 1, 30, 180, "2.29", model="H100")
GPUS = "gpu.nvidia.com"
A100 = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-80GB"'
LARGE = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'


def claim(count: int = 1, *selectors: str, **more: Any) -> DeviceClaim:
    values: dict[str, Any] = {
        "namespace": "default",
        "name": "gpu",
        "requests": (DeviceRequest(device_class=GPUS, count=count, selectors=selectors),),
    }
    return DeviceClaim(**(values | more))


def claiming(name: str = "train", **more: Any) -> Any:
    values: dict[str, Any] = {
        "gpus": 0,
        "device_claims": (PodDeviceClaim(name="gpu", claim="gpu"),),
    }
    return pod(name, **(values | more))


def serving(**more: Any) -> Snapshot:
    """A world whose pool serves claims."""
    return world(**({"policy": policy(pool(resource_claims="always"))} | more))


def bought(decided: Plan) -> list[str]:
    return [action.offer.type.name for action in decided.actions if isinstance(action, Launch)]


@pytest.mark.parametrize(
    ("count", "selectors", "types"),
    [
        (1, (), ["1A100.22V"]),
        (2, (), ["2A100.44V"]),
        (1, (A100,), ["1A100.22V"]),
        (1, (LARGE,), ["1A100.22V"]),
        (1, ("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'",), ["1H100.80S"]),
        (1, ("device.attributes['gpu.nvidia.com'].productName.contains('H100')",), ["1H100.80S"]),
        (1, (A100, LARGE), ["1A100.22V"]),
    ],
)
def test_a_claim_of_an_exact_count_is_bought_for(count: int, selectors: Any, types: list[str]) -> None:
    decided = plan(
        serving(offers=offers(A1, A2, H1), pods=(claiming(),), device_claims=(claim(count, *selectors),))
    )
    assert bought(decided) == types
    assert decided.pods["default/train"].code is Reason.LAUNCHING


def test_a_template_that_no_claim_was_made_from_yet_counts_for_each_of_its_pods() -> None:
    uses = (PodDeviceClaim(name="gpu", template="gpu"),)
    pods = (claiming("a", device_claims=uses), claiming("b", device_claims=uses))
    decided = plan(serving(offers=offers(A1), pods=pods, device_claims=(claim(1, A100, template=True),)))
    assert bought(decided) == ["1A100.22V", "1A100.22V"]


def test_the_pods_own_affinity_holds_beside_the_claim() -> None:
    terms = (NodeTerm(labels=(Requirement("gpu-autoscaler/gpu", "In", ("h100",)),)),)
    decided = plan(
        serving(
            offers=offers(A1, H1),
            pods=(claiming(required_terms=terms),),
            device_claims=(claim(1, LARGE),),
        )
    )
    assert bought(decided) == ["1H100.80S"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"constrained": True}, "constraints between devices"),
        ({"deleting": True}, "is being deleted"),
        ({"allocated": True, "node": "n"}, "is allocated on node n already"),
        ({"requests": ()}, "asks for nothing"),
        ({"requests": (DeviceRequest(device_class="mig.nvidia.com"),)}, "is of class mig.nvidia.com"),
        ({"requests": (DeviceRequest(device_class=GPUS, admin=True),)}, "adminAccess"),
        ({"requests": (DeviceRequest(device_class=GPUS, plain=False),)}, "more than an exact number"),
        ({"requests": (DeviceRequest(device_class=GPUS, count=0),)}, "no exact number"),
        (
            {"requests": (DeviceRequest(device_class=GPUS, selectors=("device.driver.size() > 3",)),)},
            "a selector that is not planned for (device.driver.size() > 3)",
        ),
        (
            {
                "requests": (
                    DeviceRequest(device_class=GPUS),
                    DeviceRequest(device_class=GPUS, selectors=(A100.replace("A100", "K80"),)),
                )
            },
            "no GPU that is sold matches",
        ),
        ({"name": "other"}, "is not to be seen"),
    ],
)
def test_what_is_not_planned_for_is_explained_and_never_bought_for(more: dict[str, Any], words: str) -> None:
    decided = plan(serving(offers=offers(A1, H1), pods=(claiming(),), device_claims=(claim(**more),)))
    assert bought(decided) == []
    why = decided.pods["default/train"]
    assert why.code is Reason.DRA_UNSUPPORTED
    assert words in why.message


def test_a_claim_that_two_pods_share_is_not_planned_for() -> None:
    decided = plan(serving(offers=offers(A1), pods=(claiming("a"), claiming("b")), device_claims=(claim(),)))
    assert bought(decided) == []
    assert "shared by several pods" in decided.pods["default/a"].message


@pytest.mark.parametrize(("setting", "launches"), [("never", 0), ("always", 1)])
def test_claims_are_bought_for_only_where_a_pool_says_that_it_serves_them(
    setting: str, launches: int
) -> None:
    decided = plan(
        world(
            policy=policy(pool(resource_claims=setting)),
            offers=offers(A1),
            pods=(claiming(),),
            device_claims=(claim(),),
        )
    )
    assert len(bought(decided)) == launches
    if not launches:
        why = decided.pods["default/train"]
        assert why.code is Reason.DRA_UNSUPPORTED
        assert "set pools[].resource_claims to always" in why.message


def test_no_pool_serves_claims_unless_it_says_so() -> None:
    assert pool().resource_claims == "never"
    assert Claims(world(policy=policy(pool()))).pools == ()


def test_a_pod_for_the_plug_in_is_not_kept_waiting_for_gpus_that_claims_serve() -> None:
    there = machine("home-a100-aaaaaaaaaa", A1, ready_at=NOW - 600, pods=("default/train",))
    decided = plan(serving(machines=(there,), nodes=(node(there.name, 0),), offers=offers(A1), pods=(pod(),)))
    why = decided.pods["default/train"]
    assert (bought(decided), why.code) == ([], Reason.DRA_UNSUPPORTED)
    assert why.message == (
        "the pod asks for nvidia.com/gpu, and machines of pool a100 serve GPUs by resource claims only: no DeviceClass "
        "says extendedResourceName for it, so claim them, or add a pool with the device plug-in"
    )


TWO_POOLS = policy(
    pool("dra", instance_types=(A1.name,), resource_claims="always"),
    pool("plug", instance_types=(A2.name,)),
)


def test_a_pod_that_asks_for_gpus_by_name_gets_a_machine_with_the_device_plug_in() -> None:
    """Even a larger one: no plug-in runs in the other pool. A resource that is no GPU is no matter."""
    by_name, gpu = pod(), {"nvidia.com/gpu": 0}
    assert bought(plan(world(policy=TWO_POOLS, offers=offers(A1, A2), pods=(by_name,)))) == [A2.name]
    there = machine("home-dra-aaaaaaaaaa", A1, pool="dra")
    beside = node(there.name, 0, labels={"gpu-autoscaler/pool": "dra"})
    waiting = (by_name, claiming("other"), pod("cpu", 0, requests=gpu))
    decided = plan(
        world(
            policy=TWO_POOLS,
            offers=offers(A1, A2),
            machines=(there,),
            nodes=(beside,),
            pods=waiting,
            device_claims=(claim(),),
        )
    )
    assert bought(decided) == [A2.name]
    assert decided.pods["default/other"].code is Reason.FITS_NOW


CLASS = """device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"""


@pytest.mark.parametrize(
    ("classes", "types"),
    [
        ([DeviceClass(name=GPUS, extended="nvidia.com/gpu", selectors=(CLASS,))], [A1.name]),
        ([DeviceClass(name=GPUS, selectors=(CLASS,))], [A2.name]),
        ([DeviceClass(name="mig", extended="nvidia.com/mig-1g.10gb", selectors=(CLASS,))], [A2.name]),
        ([DeviceClass(name="some", extended="nvidia.com/gpu", selectors=(A100,))], [A2.name]),
        ([DeviceClass(name="odd", extended="nvidia.com/gpu", selectors=("device.x > 3",))], [A2.name]),
        (
            [
                DeviceClass(name="odd", extended="nvidia.com/gpu", selectors=("device.x > 3",), created=2.0),
                DeviceClass(name=GPUS, extended="nvidia.com/gpu", selectors=(CLASS,), created=1.0),
            ],
            [A2.name],  # the newer one counts
        ),
    ],
)
def test_a_device_class_may_give_gpus_to_those_that_ask_by_name(
    classes: list[DeviceClass], types: list[str]
) -> None:
    for listed in (classes, classes[::-1]):
        decided = plan(
            world(policy=TWO_POOLS, offers=offers(A1, A2), pods=(pod(),), device_classes=tuple(listed))
        )
        assert bought(decided) == types


def test_gpus_that_a_device_class_gives_by_name_are_free_and_held_without_any_claim() -> None:
    there = machine("home-a100-aaaaaaaaaa", A2)
    given = DeviceClass(name=GPUS, extended="nvidia.com/gpu", selectors=(CLASS,))
    for running, code in ((0, Reason.FITS_NOW), (1, Reason.FITS_NOW), (2, Reason.LAUNCHING)):
        held = [pod(f"r{number}", node=there.name) for number in range(running)]
        decided = plan(
            serving(
                offers=offers(A1, A2),
                machines=(there,),
                nodes=(node(there.name, 0, labels={"gpu-autoscaler/pool": "a100"}),),
                pods=(pod(), *held),
                device_classes=(given,),
            )
        )
        assert decided.pods["default/train"].code is code


def test_where_device_classes_may_not_be_read_the_pod_says_so() -> None:
    decided = plan(serving(offers=offers(A1), pods=(pod(),), unreadable=("deviceclasses.resource.k8s.io",)))
    assert bought(decided) == []
    assert "may not read deviceclasses.resource.k8s.io" in decided.pods["default/train"].message


def test_gpus_that_are_held_by_claims_are_not_free_and_the_others_are() -> None:
    there = machine("home-a100-aaaaaaaaaa", A2)
    held = claim(1, name="held", allocated=True, node=there.name)
    holder = claiming("holder", node=there.name, device_claims=(PodDeviceClaim(name="gpu", claim="held"),))
    for count, code in ((1, Reason.FITS_NOW), (2, Reason.LAUNCHING)):
        decided = plan(
            serving(
                offers=offers(A1, A2),
                machines=(there,),
                nodes=(node(there.name, 0, labels={"gpu-autoscaler/pool": "a100"}),),
                pods=(claiming(), holder),
                device_claims=(claim(count), held),
            )
        )
        assert decided.pods["default/train"].code is code


def beside(held: DeviceClaim | None, *runners: Any, gpus: int = 1) -> Reason:
    """What a pod that asks for so many GPUs is told beside pods that hold this claim on a machine with two."""
    there = machine("home-a100-aaaaaaaaaa", A2)
    uses = (PodDeviceClaim(name="gpu", claim="held"),)
    on_it: dict[str, Any] = {"node": there.name, "device_claims": uses}
    run = [claiming(f"r{n}", **(on_it | more)) for n, more in enumerate(runners)]
    decided = plan(
        serving(
            offers=offers(A1, A2),
            machines=(there,),
            nodes=(node(there.name, 0, labels={"gpu-autoscaler/pool": "a100"}),),
            pods=(claiming(), *run),
            device_claims=(claim(gpus), held) if held else (claim(gpus),),
        )
    )
    return decided.pods["default/train"].code


@pytest.mark.parametrize(
    ("requests", "devices", "code"),
    [
        ((DeviceRequest(device_class=GPUS, count=0, plain=False),), None, Reason.LAUNCHING),  # all of them
        ((DeviceRequest(plain=False),), None, Reason.LAUNCHING),  # alternatives
        ((DeviceRequest(device_class="vfio.gpu.nvidia.com", count=2),), None, Reason.LAUNCHING),
        ((DeviceRequest(device_class=GPUS, admin=True, count=0, plain=False),), None, Reason.FITS_NOW),
        ((DeviceRequest(device_class=GPUS),), None, Reason.FITS_NOW),
        ((DeviceRequest(plain=False),), 1, Reason.FITS_NOW),
        ((DeviceRequest(plain=False),), 2, Reason.LAUNCHING),
        ((DeviceRequest(device_class="nic.example.com"),), 0, Reason.FITS_NOW),
    ],
)
def test_a_held_claim_takes_what_was_allocated_and_where_that_is_not_told_all_that_it_may_have(
    requests: tuple[DeviceRequest, ...], devices: int | None, code: Reason
) -> None:
    held = claim(name="held", allocated=True, node="home-a100-aaaaaaaaaa", requests=requests, devices=devices)
    assert beside(held, {}) is code


def test_a_held_claim_that_is_not_to_be_seen_may_take_the_whole_machine() -> None:
    assert beside(None, {}) is Reason.LAUNCHING


def test_a_claim_that_several_running_pods_share_takes_its_gpus_once() -> None:
    held = claim(name="held", allocated=True, node="home-a100-aaaaaaaaaa")
    assert beside(held, {}, {}) is Reason.FITS_NOW
    assert beside(held, {}, {}, gpus=2) is Reason.LAUNCHING


def test_a_claim_of_a_pod_that_is_about_to_be_bound_takes_its_gpus() -> None:
    there = "home-a100-aaaaaaaaaa"
    held = claim(name="held", allocated=True, node=there, devices=2)
    assert beside(held, {"node": "", "phase": "Pending", "nominated": there}) is Reason.LAUNCHING


def test_a_shared_claim_is_free_when_the_last_pod_that_holds_it_is_gone() -> None:
    held = claim(name="held", allocated=True, node="home-a100-aaaaaaaaaa")
    going = {"deleting_at": NOW + 20}
    for runners, code in (([going, going], Reason.GPUS_FREED_SOON), ([going, {}], Reason.LAUNCHING)):
        for several in (runners, runners[::-1]):
            assert beside(held, *several, gpus=2) is code


def test_a_claim_that_a_pod_names_twice_is_one_and_shared_with_nobody() -> None:
    twice = (PodDeviceClaim(name="a", claim="gpu"), PodDeviceClaim(name="b", claim="gpu"))
    decided = plan(
        serving(offers=offers(A1, A2), pods=(claiming(device_claims=twice),), device_claims=(claim(),))
    )
    assert bought(decided) == ["1A100.22V"]


def test_a_template_that_a_pod_names_twice_makes_two_claims() -> None:
    twice = (PodDeviceClaim(name="a", template="gpu"), PodDeviceClaim(name="a-b", template="gpu"))
    pods = (claiming(device_claims=twice),)
    template = claim(template=True)
    assert bought(plan(serving(offers=offers(A1, A2), pods=pods, device_claims=(template,)))) == ["2A100.44V"]
    made = [claim(name=f"train-{name}-x", owner_uid="uid-train", owner_name=name) for name in ("a", "a-b")]
    for both in (made, made[::-1]):
        decided = plan(serving(offers=offers(A1, A2), pods=pods, device_claims=(*both, template)))
        assert bought(decided) == ["2A100.44V"]


@pytest.mark.parametrize(
    ("claims", "busy"),
    [
        ((claim(),), True),
        ((claim(requests=(DeviceRequest(device_class=GPUS, admin=True),)),), False),
        ((claim(requests=(DeviceRequest(admin=True), DeviceRequest()))), True),
        ((claim(requests=()),), True),
        ((), True),
        ((claim(requests=(DeviceRequest(device_class="nic.example.com", plain=False),)),), True),
    ],
)
def test_a_pod_with_a_claim_is_busy_unless_it_only_looks_at_devices(claims: Any, busy: bool) -> None:
    found = claims if isinstance(claims, tuple) else (claims,)
    user = claiming(node="n")
    assert Claims(serving(pods=(user,), device_claims=found)).busy(user) is busy


def test_a_pod_without_claims_holds_none() -> None:
    assert not Claims(serving()).busy(pod(node="n"))


EVERY = models_matching("true")
PRODUCT = 'device.attributes["gpu.nvidia.com"].productName'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


@pytest.mark.parametrize(
    ("text", "models"),
    [
        (f'{PRODUCT} == "NVIDIA H200"', {"h200"}),
        (f"{PRODUCT} == 'NVIDIA-H200'", set()),  # the label's form is not the driver's
        (f'{PRODUCT} == "NVIDIA  H200"', set()),  # nor are two blanks one
        (f'\n  {PRODUCT}\n    == "NVIDIA H200"\n  ||\t{PRODUCT}  ==  "NVIDIA B200"\n', {"h200", "b200"}),
        (f'{PRODUCT} in ["NVIDIA H200", "NVIDIA B200"]', {"h200", "b200"}),
        (f'{PRODUCT}.startsWith("Tesla")', {"tesla-v100"}),
        (f'{PRODUCT}.lowerAscii().matches("^.*a100.*$")', {"a100-40gb", "a100-80gb"}),
        (f'{PRODUCT}.matches("^NVIDIA L40S$")', {"l40s"}),
        (f'{PRODUCT}.matches("A100")', {"a100-40gb", "a100-80gb"}),
        (f'{PRODUCT}.matches("A[0-9]+")', None),
        (f'{PRODUCT}.matches("(a+)+$")', None),
        (f'{MEMORY}.compareTo(quantity("150Gi")) >= 0', {"b200", "b300", "gb300"}),
        (f'{MEMORY}.compareTo(quantity("16Gi")) == 0', {"tesla-v100"}),
        (f'{MEMORY}.compareTo(quantity("17Gi")) < 0', {"tesla-v100"}),
        (f'{MEMORY}.compareTo(quantity("much")) < 0', None),
        (f'{MEMORY}.isGreaterThan(quantity("200Gi"))', {"b300", "gb300"}),
        (
            f'device.driver == "gpu.nvidia.com" && {PRODUCT}.contains("A100") && {MEMORY}.isLessThan(quantity("50Gi"))',
            {"a100-40gb"},
        ),
        (f'({PRODUCT} == "NVIDIA H200" || {PRODUCT} == "NVIDIA B200")', {"h200", "b200"}),
        (f'{PRODUCT} == "NVIDIA H200" || device.attributes["x"].y', None),
        (f'{PRODUCT} == "a && b"', set()),
        ('device.attributes["other.example.com"].productName == "NVIDIA H200"', None),
        ("", None),
        ("(" * 5000, None),
        ("(" * 40 + "true" + ")" * 40, EVERY),
        ('"gpu.nvidia.com" in device.capacity', EVERY),
    ],
)
def test_the_usual_spellings_of_selectors_are_read_and_no_others(text: str, models: Any) -> None:
    assert models_matching(text) == (models if models is None else frozenset(models))


def test_no_selector_takes_long_to_read() -> None:
    listed = ", ".join(['"a"'] * 380)
    for text in (f"{PRODUCT} in [{listed} !]", f"{PRODUCT} in [" + '"a" ' * 480, "&&" * 900, "[(" * 49):
        assert models_matching(text) is None


def test_gpus_that_claims_get_on_machines_of_the_same_plan_are_not_free() -> None:
    """One GPU is to stay free beside the one that the claim gets."""
    rules = serving().policy
    kept = msgspec.structs.replace(rules, headroom=(Headroom(pool=rules.pools[0].name, gpus=1),))
    decided = plan(serving(policy=kept, offers=offers(A1), pods=(claiming(),), device_claims=(claim(),)))
    assert bought(decided) == [A1.name, A1.name]
