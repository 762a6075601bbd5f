"""What nobody outside knows about the API: under every answer to every open question a whole life goes right.

Each question is a knob of the sandbox cloud, which carries the question's number. Answers meet: so every two
values of any two knobs are together in one of the lives, with the knobs that say how a refusal is dressed. The
life is that of a machine with a script of its own, over real HTTP: script, order, list, by id, delete as soon as
it is taken, and the proof that instance, disk and script are gone.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any

import msgspec
import pytest

from controller.cloud.protocol import Order
from controller.domain import names
from controller.domain.cloudthings import Instance
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason
from controller.sandbox.cloud.settings import Settings
from tests.cloud.test_verda_on_sandbox import INTENT, ORDER, SPOT_ORDER, Scene

QUESTIONS = range(1, 12)
STAGES = ["new", "pending", "ordered", "provisioning", "validating"]
LONGEST = Order(
    hostname=names.hostname("c" * 20, "p" * 20, INTENT),
    description=names.description("c" * 20, INTENT),
    tags=(("gpuas-cluster", "c" * 20), ("gpuas-pool", "p" * 20), ("gpuas-intent", INTENT)),
    instance_type="1A100.22V",
    location="FIN-03",
    market=ORDER.market,
    image="ubuntu-24.04",
    disk_gb=100,
)

# Values of knobs that are no flag and no choice; those take every value that they have.
VALUES: dict[str, list[Any]] = {
    "status_order": [list(order) for order in itertools.permutations(STAGES) if order.index("ordered") < 2][::7],
    "undeletable_statuses": [[], ["provisioning"], ["ordered", "provisioning"], STAGES],
    "discontinued_listed_s": [0, 1_000_000],
    "discontinued_readable_s": [None, 0, 60],
    "hostname_max": [None, 63, 60, 52],
    "description_max": [60, 100],
    "refresh_ttl_s": [86400, 1, 0.001],
    "ordered_s": [0, [5, 30], {"p50": 10, "p99": 300}],
    "provisioning_s": [0, [60, 180], {"p50": 90, "p99": 900}],
    "boot_s": [0, [60, 120]],
    "pending_s": [0, 100],
    "validating_s": [0, 100],
    "gpu_quota": [None, 1],
    "vcpu_quota": [None, 22],
    "instance_quota": [None, 1],
    "storage_quota_gb": [None, 100],
    "volume_quota": [None, 1],
}  # fmt: skip

# Values under which an order cannot be taken: it is refused with a reason, and nothing is bought.
REFUSING: list[tuple[dict[str, Any], Order, Reason]] = [
    ({"hostname_max": 40}, LONGEST, Reason.BAD_REQUEST),
    ({"description_max": 20}, ORDER, Reason.BAD_REQUEST),
    ({"require_ssh_key": True}, ORDER, Reason.BAD_REQUEST),
    ({"gpu_quota": 0}, ORDER, Reason.QUOTA),
    ({"vcpu_quota": 21}, ORDER, Reason.QUOTA),
    ({"instance_quota": 0}, ORDER, Reason.QUOTA),
    ({"storage_quota_gb": 99}, ORDER, Reason.QUOTA),
    ({"volume_quota": 0}, ORDER, Reason.QUOTA),
]


# Without a number, and part of the same answers.
DRESSED: dict[str, list[Any]] = {
    "refusals_as_207": [True, False],
    "all_refused_status": [207, 400],
    "delete_discontinued_status": [204, 403],
    "repeated_permanent_delete_status": [204, 400],
    "error_message_as_list": [True, False],
    "stale_volume_instance_id": [True, False],
    "tags": [True, False],
    "null_on_spot_discontinue": [True, False],
    "new_s": [0, 20],
}


def _values() -> dict[str, list[Any]]:
    """Every value of every knob that answers a question."""
    found: dict[str, list[Any]] = {}
    for knob in fields(Settings):
        if knob.metadata.get("question") is not None:
            flag = [True, False] if knob.metadata["kind"] == "flag" else []
            found[knob.name] = list(knob.metadata.get("options", ())) or VALUES.get(knob.name) or flag
    return found | DRESSED


def _lives() -> list[dict[str, Any]]:
    """Few, and any two values of any two knobs meet in one of them."""
    values = dict(sorted(_values().items(), key=lambda knob: (-len(knob[1]), knob[0])))
    pairs = [
        frozenset({(one, i), (two, j)})
        for one, two in itertools.combinations(values, 2)
        for i, j in itertools.product(range(len(values[one])), range(len(values[two])))
    ]
    unmet, found = set(pairs), []
    for pair in pairs:
        if pair not in unmet:
            continue
        life = dict(pair)
        for name in values:
            if name not in life:
                met = [
                    sum(frozenset({(name, i), other}) in unmet for other in life.items())
                    for i in range(len(values[name]))
                ]
                life[name] = met.index(max(met))
        unmet -= {frozenset(two) for two in itertools.combinations(life.items(), 2)}
        found.append({name: values[name][life[name]] for name in values})
    return found


LIVES = _lives()


def test_every_two_values_of_any_two_knobs_meet_in_one_of_the_lives() -> None:
    values = _values()
    for one, two in itertools.combinations(values, 2):
        for first, second in itertools.product(values[one], values[two]):
            assert any(life[one] == first and life[two] == second for life in LIVES), (
                one,
                first,
                two,
                second,
            )


def test_every_question_has_a_knob_and_every_knob_its_values() -> None:
    knobs = {knob.name: knob.metadata for knob in fields(Settings) if knob.metadata.get("question")}
    assert {knob["question"] for knob in knobs.values()} == set(QUESTIONS)
    listed = {name for name, knob in knobs.items() if "options" not in knob and knob["kind"] != "flag"}
    assert listed == set(VALUES)
    for name, values in VALUES.items():
        assert len(values) > 1, name


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    opened = await Scene().open()
    yield opened
    await opened.close()


@pytest.mark.parametrize("number", range(len(LIVES)))
async def test_a_whole_life_goes_right_whatever_the_answer(scene: Scene, number: int) -> None:
    knobs = LIVES[number]
    scene.set(**knobs)
    ssh_key_ids = ("11111111-2222-4333-8444-555555555555",) if knobs["require_ssh_key"] else ()
    order = (ORDER, LONGEST, SPOT_ORDER)[number % 3]
    await _life(scene, msgspec.structs.replace(order, ssh_key_ids=ssh_key_ids))


async def _life(scene: Scene, order: Order) -> None:
    cloud, cluster = scene.cloud, order.tags[0][1]
    name = names.script_name(cluster, INTENT)
    text = f"#!/bin/bash\n{names.script_mark(cluster, INTENT)}\n"
    script_id = await _script(scene, name, await cloud.create_script(name, text))
    machine = await _ordered(
        scene, await cloud.create(msgspec.structs.replace(order, script_id=script_id)), order
    )
    assert (machine.script_id, machine.market) == (script_id, order.market)
    listed = [one for one in (await cloud.inventory()).instances if one.id == machine.id]
    assert [names.owned_intent(cluster, one.hostname, one.description, one.tags) for one in listed] == [
        INTENT
    ]
    by_id = await cloud.instance(machine.id)
    assert by_id is not None
    assert by_id.state in ("coming", "running")

    asked = await _deleted(scene, machine.id)
    assert asked < 200
    scene.wait(1000)
    gone = await cloud.instance(machine.id)
    assert gone is None or gone.state == "gone"
    assert all(one.state == "gone" for one in (await cloud.inventory()).instances)
    assert (await cloud.volumes()).listed == ()
    # What is gone can be asked to go again.
    assert _is_done(await cloud.delete(machine.id, machine.disks))
    assert _is_done(await cloud.delete_script(script_id))
    assert _is_done(await cloud.delete_script(script_id))
    assert await cloud.scripts("gpuas-") == ()
    assert scene.world.state.creates == 1


async def _script(scene: Scene, name: str, outcome: Outcome) -> str:
    if isinstance(outcome, Happened):
        return outcome.id
    assert isinstance(outcome, Unknown)
    (found,) = await scene.cloud.scripts(name)
    return found.id


async def _ordered(scene: Scene, outcome: Outcome, order: Order) -> Instance:
    """The machine of an order: by the id that was answered, or, where none was, by its marks."""
    if isinstance(outcome, Happened):
        found = await scene.cloud.instance(outcome.id)
        assert found is not None
        return found
    assert isinstance(outcome, Unknown)
    (listed,) = (await scene.cloud.inventory()).instances
    assert names.owned_intent(order.tags[0][1], listed.hostname, listed.description, listed.tags) == INTENT
    return listed


async def _deleted(scene: Scene, instance_id: str) -> int:
    """Asked for again and again, with the disks that it has by then, until it is taken."""
    for count in range(200):
        seen = await scene.cloud.instance(instance_id)
        assert seen is not None
        outcome = await scene.cloud.delete(instance_id, seen.disks)
        if isinstance(outcome, Happened):
            return count
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.NOT_ALLOWED_YET
        scene.wait(10)
    return 200


def _is_done(outcome: Outcome) -> bool:
    gone = isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE
    return gone or isinstance(outcome, Happened)


@pytest.mark.parametrize(("knobs", "order", "reason"), REFUSING, ids=lambda value: str(value)[:40])
async def test_an_order_that_the_answer_forbids_is_refused_with_its_reason(
    scene: Scene, knobs: dict[str, Any], order: Order, reason: Reason
) -> None:
    scene.set(**knobs)
    outcome = await scene.cloud.create(order)
    assert isinstance(outcome, Refused)
    assert outcome.reason is reason
    assert scene.world.state.creates == 0


@pytest.mark.parametrize("ignores_query", [True, False])
@pytest.mark.parametrize("body", ["json", "text"])
async def test_limits_are_understood_however_they_are_told(
    scene: Scene, body: str, ignores_query: bool
) -> None:
    scene.set(rate_limits=True, endpoint_limit=2, rate_limit_body=body, limit_ignores_query=ignores_query)
    outcomes = [await scene.cloud.create(ORDER) for _ in range(4)]
    assert [type(outcome) for outcome in outcomes] == [Happened, Happened, Refused, Refused]
    assert all(getattr(outcome, "reason", Reason.RATE_LIMITED) is Reason.RATE_LIMITED for outcome in outcomes)
    assert all((getattr(outcome, "retry_after", None) or 0) > 0 for outcome in outcomes[2:])


async def test_one_hostname_twice_is_an_order_that_was_carried_out_already(scene: Scene) -> None:
    """Each is made for one order: whoever has it came of the same order, which something on the way repeated."""
    scene.set(unique_hostnames=True)
    scene.fault("POST", "/instances", "twice")
    assert isinstance(await scene.cloud.create(ORDER), Unknown)
    assert [one.hostname for one in (await scene.cloud.inventory()).instances] == [ORDER.hostname]
    assert scene.world.state.creates == 1
