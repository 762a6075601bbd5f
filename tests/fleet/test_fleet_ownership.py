"""Whose a thing is, by its marks alone; and that the sweep never claims what the controller would not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.sweep_report import as_json, as_lines
from controller.domain import names
from controller.domain.cloudthings import Instance, Inventory, Script, Volume
from controller.fleet import ownership
from controller.fleet.orphans import Account, Living, survey

INTENT, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"
IDS = ("home", "home-two", "home-two-a100", "x")


def instance(**more: Any) -> Instance:
    values: dict[str, Any] = {
        "id": "i-1", "hostname": "", "description": "", "status": "running", "instance_type": "1A100.22V",
        "location": "FIN-01", "market": "on-demand", "price": Decimal("1.29"), "created_at": 1000.0,
    }  # fmt: skip
    return Instance(**(values | more))


def tags(cluster_id: str = "home", intent: str = INTENT) -> tuple[tuple[str, str], ...]:
    return (("gpuas-cluster", cluster_id), ("gpuas-intent", intent))


@pytest.mark.parametrize(
    ("marks", "owner"),
    [
        ({"hostname": f"home-a100-{INTENT}", "description": f"gpuas home {INTENT}"}, "home"),
        ({"hostname": f"home-a100-{INTENT}", "tags": tags()}, "home"),
        ({"hostname": "renamed", "description": f"gpuas home {INTENT}", "tags": tags()}, "home"),
        ({"hostname": f"home-two-a100-{INTENT}", "tags": tags("home-two")}, "home-two"),
        ({"hostname": f"home-two-a100-{INTENT}", "tags": tags("home")}, "home"),  # a pool named two-a100
        ({"hostname": f"home-a100-{INTENT}", "description": f"gpuas home {INTENT}", "tags": (("gpuas-cluster", "home"),)}, "home"),
        ({"hostname": f"home-two-a100-{INTENT}", "description": f"gpuas home {INTENT}", "tags": tags("home-two")}, ""),
        ({"hostname": f"home-a100-{INTENT}", "description": f"gpuas home {OTHER}"}, ""),
        ({"hostname": f"home-a100-{INTENT}", "description": f"gpuas home {INTENT}", "tags": tags("x")}, ""),
        ({"hostname": f"home-a100-{INTENT}"}, ""),
        ({"tags": tags()}, ""),
        ({"description": f"gpuas home {INTENT}"}, ""),
        ({"hostname": f"home-a100-{INTENT}", "tags": (("gpuas-cluster", "home"),)}, ""),
        ({"hostname": f"home-a100-{INTENT}", "description": f"gpuas home {INTENT} and more"}, ""),
    ],
)  # fmt: skip
def test_two_marks_that_agree_prove_an_instance(marks: dict[str, Any], owner: str) -> None:
    claim = ownership.of_instance(instance(**marks), IDS)
    assert (claim.cluster_id if claim and claim.proven else "") == owner
    if claim is not None and not claim.proven:
        assert claim.because


def test_what_carries_no_mark_is_nobodys() -> None:
    assert ownership.of_instance(instance(hostname="my-web-production", description="prod"), IDS) is None
    assert ownership.of_volume(Volume(id="v", name="data", status="detached"), IDS) is None
    assert ownership.of_script(Script(id="s", name="init", text="#!/bin/bash\nexit 0\n"), IDS) is None


hostnames = st.sampled_from(
    [f"{c}-{p}-{i}" for c in IDS for p in ("a", "two", "a100") for i in (INTENT, OTHER)] + ["web"]
)
descriptions = st.sampled_from(
    [f"gpuas {c} {i}" for c in IDS for i in (INTENT, OTHER)] + ["", "gpuas", f"gpuas home {INTENT} "]
)
tagged = st.sampled_from(
    [*(tags(c, i) for c in IDS for i in (INTENT, OTHER, "")), (), (("gpuas-intent", INTENT),)]
)


@given(hostnames, descriptions, tagged)
def test_the_sweep_claims_nothing_that_the_controller_would_not_adopt(
    hostname: str, description: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    one = instance(hostname=hostname, description=description, tags=pairs)
    adopted = {c: i for c in IDS if (i := names.owned_intent(c, hostname, description, pairs))}
    claim = ownership.of_instance(one, IDS)
    if claim is not None and claim.proven:
        assert adopted.get(claim.cluster_id) == claim.intent


@given(
    st.sampled_from(
        [f"gpuas-{c}-{i}" for c in IDS for i in (INTENT, OTHER)] + ["mine", f"gpuas-home-{INTENT}-x"]
    ),
    descriptions,
)
def test_a_script_is_claimed_when_the_controller_would_claim_it(name: str, mark: str) -> None:
    text = f"#!/bin/bash\n# {mark}\n"
    claim = ownership.of_script(Script(id="s", name=name, text=text), IDS)
    adopted = {c: i for c in IDS if (i := names.owned_script(c, name, text))}
    assert ({claim.cluster_id: claim.intent} if claim is not None and claim.proven else {}) == adopted


def account(*things: Any, asked: dict[str, Instance | None] | None = None) -> Account:
    return Account(
        inventory=Inventory(at=1.0, instances=tuple(t for t in things if isinstance(t, Instance))),
        volumes=tuple(t for t in things if isinstance(t, Volume)),
        scripts=tuple(t for t in things if isinstance(t, Script)),
        asked=asked or {},
    )


OURS = instance(
    hostname=f"home-a100-{INTENT}", description=f"gpuas home {INTENT}", tags=tags(), os_volume_id="v-1"
)


def disk(**more: Any) -> Volume:
    values = {"id": "v-1", "name": f"home-a100-{INTENT}", "status": "detached", "tags": tags()}
    return Volume(**(values | {"price_per_hour": Decimal("0.02"), "created_at": 1000.0} | more))


def test_costs_count_from_the_beginning_and_the_trash_costs_nothing() -> None:
    found = {
        f.id: f
        for f in survey(account(OURS, disk(id="v-2"), disk(id="v-3", status="deleted")), 8200.0, "home")
    }
    assert found["i-1"].cost_so_far == Decimal("2.58")
    assert found["v-2"].cost_so_far == Decimal("0.04")
    assert (found["v-3"].kind, found["v-3"].price_per_hour, found["v-3"].cost_so_far) == ("trash", 0, 0)
    assert all(f.removes for f in found.values())


def test_amounts_of_different_currencies_are_never_added() -> None:
    things = (
        OURS,
        disk(id="v-2", currency="usd"),
        disk(id="v-3", currency="usd"),
        disk(id="v-4", currency="eur"),
    )
    found = survey(account(*things), 8200.0, "home")
    assert {f.id: f.currency for f in found} == {"i-1": "", "v-2": "usd", "v-3": "usd", "v-4": "eur"}
    told = as_json(found, wanted="home", currency="eur", state="none", warnings=(), applied=False)
    assert told["totals"] == [
        {"currency": None, "price_per_hour": 1.29, "cost_so_far": 2.58},
        {"currency": "eur", "price_per_hour": 0.02, "cost_so_far": 0.04},
        {"currency": "usd", "price_per_hour": 0.04, "cost_so_far": 0.08},
    ]
    assert (told["price_per_hour"], told["cost_so_far"], told["currency"]) == (None, None, None)
    lines = as_lines(found, currency="eur", applied=False)
    assert lines[0] == (
        "cluster id home: 4 to remove, 1.29 of the account's currency an hour, 2.58 so far; "
        "0.02 eur an hour, 0.04 so far; 0.04 usd an hour, 0.08 so far"
    )


def test_a_machine_whose_row_tells_no_currency_is_paid_in_that_of_the_accounts_disks() -> None:
    found = survey(account(OURS, disk(id="v-2", currency="usd")), 8200.0, "home")
    assert [f.currency for f in found] == ["usd", "usd"]


def test_a_disk_on_a_machine_that_the_list_does_not_show_stays_until_that_is_gone() -> None:
    attached = disk(status="attached", instance_id="i-9")
    for state, goes in (("running", False), ("discontinued", True)):
        asked: dict[str, Instance | None] = {"i-9": instance(id="i-9", hostname="web", status=state)}
        (found,) = survey(account(attached, asked=asked), 0.0, "home")
        assert found.removes is goes
    (found,) = survey(account(attached, asked={"i-9": None}), 0.0, "home")
    assert found.removes


def test_what_is_being_deleted_is_left_to_its_deletion() -> None:
    leaving = instance(hostname=f"home-a100-{INTENT}", tags=tags(), status="deleting")
    found = survey(account(leaving, disk(id="v-2", status="deleting")), 0.0, "home")
    assert [f.removes for f in found] == [False, False]


def test_the_script_of_a_machine_that_stays_stays() -> None:
    script = Script(id="s", name=f"gpuas-home-{INTENT}", text=f"#!/bin/bash\n# gpuas home {INTENT}\n")
    busy = Living(cluster_id="home", busy={f"home-a100-{INTENT}": "pods on it use its GPUs: default/train"})
    found = {f.id: f for f in survey(account(OURS, script), 0.0, "home", busy)}
    assert not found["i-1"].removes
    assert "may still have to read it" in found["s"].why
    assert survey(account(script), 0.0, "home", busy)[0].removes


def test_the_ledger_of_another_cluster_says_nothing() -> None:
    living = Living(cluster_id="x", intents={INTENT: "ready"})
    assert [f.removes for f in survey(account(OURS), 0.0, "home", living)] == [True]
