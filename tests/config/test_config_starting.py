"""Which settings make another start of machines, so that what was given up is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from controller.config.load import load_dict
from controller.config.starting import starting_digest

POOL = {"name": "a100", "instance_types": ["1A100.22V"], "max": 4, "join": "k3s"}
TOKEN = {"secret": {"name": "join", "key": "token"}}
JOIN = {"template": "k3s", "server": "https://10.0.0.1:6443", "token_from": TOKEN}


def digest(pool: dict[str, Any] | None = None, join: dict[str, Any] | None = None, **more: Any) -> str:
    settings = {"pools": [POOL | (pool or {})], "join": {"k3s": JOIN | (join or {})}} | more
    return starting_digest(load_dict(settings).settings)


@pytest.mark.parametrize(
    "other",
    [
        {"join": {"server": "https://10.0.0.2:6443"}},
        {"join": {"version": "v1.33.4+k3s1"}},
        {"pool": {"image": "ubuntu-24.04"}},
        {"pool": {"resources": {"nvidia.com/gpu": "2"}}},
        {"pool": {"instance_types": ["1H100.80S.30V"]}},
        {"pool": {"locations": ["FIN-03"]}},
        {"pool": {"locations": ["FIN-01", "FIN-03"]}},
        {"pool": {"market": "spot_only"}},
        {"pool": {"labels": {"team": "ml"}}},
        {"pool": {"startup_taint": True}},
        {"join": {"token_from": {"secret": {"name": "another", "key": "token"}}}},
        {"join": {"token_from": {"secret": {"name": "join", "key": "another"}}}},
        {"deadlines": {"join": "30m"}},
        {"deadlines": {"ready": "30m"}},
        {"deadlines": {"gpu": "30m"}},
    ],
)
def test_what_decides_whether_a_machine_becomes_usable_is_part_of_it(other: dict[str, Any]) -> None:
    assert digest(**other) != digest()


@pytest.mark.parametrize(
    "other",
    [
        {"pool": {"max": 9, "min": 1, "max_price_per_hour": 3}},
        {"pool": {"pause": "scale-up"}},
        {"limits": {"machines": 1}},
        {"prices": {"*": {"discount": "10%"}}},
        {"scale_down": {"cooldown": "1h"}},
        {"deadlines": {"launch": "30m"}},
        {"verda": {"client_id": "me", "client_secret": "never-told"}},
        {"deadlines": {"backoff": {"first": "1m"}}},
    ],
)
def test_how_many_there_may_be_what_they_cost_and_who_pays_is_not(other: dict[str, Any]) -> None:
    assert digest(**other) == digest()
