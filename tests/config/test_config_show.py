"""`show` prints settings that load again as the same settings, and never a secret."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.config.load import load, load_dict, show
from controller.config.values import parse_duration, parse_money, show_duration, show_money

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?", fullmatch=True)
counts = st.integers(0, 10_000)
money = st.decimals(0, 10_000, places=4).map(str) | st.floats(0, 1e6) | counts
spans = st.integers(1, 10**12).map(lambda micro: show_duration(timedelta(microseconds=micro))) | st.integers(
    1, 10**6
)
texts = st.text(st.characters(categories=("L", "N", "P"), max_codepoint=0x2FF), min_size=1, max_size=20)
values = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
taints = st.builds(
    lambda key, value, effect: {"key": f"example.com/{key}", "value": value, "effect": effect},
    values,
    values | st.just(""),
    st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
)
pools = st.fixed_dictionaries(
    {"name": names, "gpu_models": st.lists(texts, min_size=1, max_size=3), "max": counts},
    optional={
        "min_gpu_memory_gb": counts,
        "locations": st.lists(texts, max_size=3),
        "market": st.sampled_from(["spot_only", "prefer_spot", "prefer_on_demand", "on_demand_only"]),
        "max_price_per_hour": money,
        "image": st.just("auto") | texts | st.lists(texts, max_size=3),
        "labels": st.dictionaries(values, values | st.just(""), max_size=3),
        "taints": st.lists(taints, max_size=3, unique_by=lambda taint: (taint["key"], taint["effect"])),
        "resources": st.dictionaries(values.map(lambda name: f"example.com/{name}"), counts, max_size=2),
        "arm64": st.booleans(),
        "feature_discovery": st.booleans(),
        "pause": st.sampled_from(["", "scale-up", "scale-down", "all"]),
    },
)
snapshots = st.fixed_dictionaries(
    {},
    optional={
        "cluster_id": names,
        "pools": st.lists(pools, max_size=3, unique_by=lambda pool: pool["name"]),
        "limits": st.fixed_dictionaries(
            {}, optional={"gpus": counts, "price_per_hour": money, "machines": counts}
        ),
        "scale_down": st.fixed_dictionaries(
            {"cooldown": spans},
            optional={
                "order": st.sampled_from(["largest", "dearest"]),
                "consolidate": st.sampled_from(["off", "cheaper", False]),
                "min_age": spans,
            },
        ),
        "prices": st.dictionaries(texts, st.just({"price_per_hour": "1.5", "discount": "12.5%"}), max_size=2),
        "gpu_labels": st.dictionaries(texts, st.just({"product": "X-1", "memory": 81251}), max_size=2),
        "deadlines": st.fixed_dictionaries({}, optional={"launch": spans, "gpu": spans, "job_wait": spans}),
        "disruption": st.fixed_dictionaries(
            {"budget": st.integers(0, 100).map(lambda n: f"{n}%") | counts},
            optional={
                "budgets": st.dictionaries(st.sampled_from(["idle", "expired", "drifted"]), counts),
                "windows": st.just(["Mon-Fri 08:00-18:00 Europe/Helsinki"]),
            },
        ),
        "join": st.dictionaries(names, st.just({"startup_script_id": "s"}), max_size=1),
        "verda": st.just({"client_secret": "hunter2", "client_id": "me"}),
        "namespaces": st.dictionaries(names, st.fixed_dictionaries({"price_per_hour": money}), max_size=2),
    },
)


# The first example builds tables of Unicode, which takes seconds on a busy machine and says nothing of us.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(snapshots)
def test_what_is_shown_loads_again_as_the_same(data: dict[str, Any]) -> None:
    first = load_dict(data).settings
    shown = show(first)
    text = json.dumps(shown)
    assert "hunter2" not in text
    second = load_dict(json.loads(text)).settings
    assert show(second) == shown
    without = {"verda"}
    assert second.model_dump(exclude=without) == first.model_dump(exclude=without)


@given(st.integers(0, 10**14))
def test_a_duration_is_shown_exactly(micro: int) -> None:
    span = timedelta(microseconds=micro)
    assert parse_duration(show_duration(span)) == span


@given(st.decimals(0, 10**9, allow_nan=False))
def test_money_is_shown_exactly_or_as_text(amount: Decimal) -> None:
    shown = show_money(amount)
    assert Decimal(str(shown)) == amount
    if isinstance(shown, int | float):
        assert parse_money(shown) == amount


def test_settings_show_as_people_write_them() -> None:
    text = "verda: {client_secret: hunter2, client_id: me}\nscale_down: {cooldown: 90}\nlimits: {price_per_hour: 2.50}\n"
    loaded = load("config.yaml", {}, text=text, service_account="/nonexistent")
    shown = show(loaded.settings)
    assert shown["verda"]["client_secret"] == "***"
    assert shown["scale_down"] == {
        "cooldown": "1m30s",
        "order": "largest",
        "min_age": "0s",
        "removed_pools": "drain",
        "consolidate": "off",
        "consolidate_saving": 1,
    }
    assert shown["limits"]["price_per_hour"] == 2.5
    assert shown["deadlines"]["tombstone"] == "24h"
    assert shown["timing"]["quiet"] == "100ms"
    assert "hunter2" not in repr(loaded) + str(loaded.settings) + repr(loaded.settings.verda)
