"""`config convert`: what is written gives the same settings, and says what changed its meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from controller.config.dialects.convert import as_yaml, is_the_same
from controller.config.errors import ConfigError
from controller.config.load import Loaded, load
from controller.config.policy import to_policy
from tests.config.foreign import DOCUMENTED, MACHINES, documented, in_base64, problems, read
from tests.loop.predecessors import VERDACLOUD_JOIN

Asked = tuple[str | None, dict[str, str], Sequence[str]]
CREDENTIALS = {"VERDA_CLIENT_ID": "me", "VERDA_CLIENT_SECRET": "a-secret-that-must-not-show"}


def converted(loaded: Loaded) -> tuple[str, Loaded]:
    text = as_yaml(loaded)
    return text, load("converted.yaml", {}, text=text, service_account="/nowhere")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_converted_and_original_give_the_same_settings(name: str) -> None:
    text, environ, flags = DOCUMENTED[name]
    loaded = read(text, environ | CREDENTIALS, flags)
    shown, again = converted(loaded)
    assert is_the_same(loaded.settings, again.settings)
    assert again.settings.model_copy(update={"verda": loaded.settings.verda}) == loaded.settings
    assert again.dialect == "native"
    assert "a-secret" not in shown


def test_groups_of_variables_are_converted_too() -> None:
    loaded = read(None, MACHINES)
    _, again = converted(loaded)
    assert again.settings == loaded.settings


def test_what_changed_its_meaning_is_said_beside_it() -> None:
    shown, _ = converted(documented("datacrunch"))
    lines = shown.splitlines()
    assert [line for line in lines if line.startswith("    resources:  # was override_num_gpus")]
    assert [line for line in lines if line.startswith("# ") and "dynamic pricing no longer exists" in line]
    flags = (*DOCUMENTED["datacrunch"][2], "--scale-down-delay-after-add=7m")
    shown, again = converted(read(None, DOCUMENTED["datacrunch"][1], flags))
    assert "min_age: 7m  # was a pause of all removals" in shown
    assert again.settings.scale_down.min_age.total_seconds() == 420


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--scale-down-delay-after-add=0s", "min_age: 0s  # was a pause of all removals"),
        ("--max-node-provision-time=20m", "launch: 20m  # was the time until a node registers"),
        ("--scan-interval=10s", "tick: 10s  # changes are seen at once"),
    ],
)
def test_what_changed_its_meaning_is_said_also_where_the_value_is_the_default(flag: str, line: str) -> None:
    text, environ, flags = DOCUMENTED["datacrunch"]
    loaded = read(text, environ, (*flags, flag))
    shown, again = converted(loaded)
    assert line in shown
    assert again.settings == loaded.settings


scripts = st.text(min_size=1, max_size=60).filter(lambda text: text.strip() and "\x00" not in text)
words = st.text(st.characters(codec="ascii", exclude_characters="\x00"), min_size=1, max_size=12)


@given(script=scripts, group=words, label=words)
@example(script="echo a\x85b", group="g", label="l")
@settings(max_examples=40, deadline=None)
def test_whatever_stands_in_a_configuration_the_converted_one_means_the_same(
    script: str, group: str, label: str
) -> None:
    config: dict[str, Any] = {
        "image_type": "ubuntu-24.04", "startup_script_base64": in_base64("#!/bin/sh\n" + script), "labels": {"a": label},
    }  # fmt: skip
    environ = {"DATACRUNCH_CLUSTER_CONFIG_JSON": json.dumps({"node_configs": {group: config}})}
    flag = f"--nodes=0:3:1A100.22V:FIN-01:{group}"
    try:
        loaded = read(None, environ, (flag,))
    except ConfigError:
        return
    _, again = converted(loaded)
    assert again.settings == loaded.settings


# -- any valid configuration, of each project ------------------------------------------------------------------------

name = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8})?", fullmatch=True)
group_name = st.one_of(name, st.from_regex(r"[A-Z][A-Za-z0-9_.]{0,30}", fullmatch=True))
value = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True)
text = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=20).filter(
    str.isprintable
)
labels = st.dictionaries(
    st.one_of(name, st.just("node-role.kubernetes.io/gpu"), st.just("example.com/a_b")), value, max_size=3
)
taint = st.fixed_dictionaries(
    {"key": name, "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])},
    optional={"value": value},
)
taints = st.lists(taint, max_size=3, unique_by=lambda one: (one["key"], one["effect"]))
kinds = st.sampled_from(["1A100.22V", "2A100.44V", "1V100.6V", "8H200.141S.176V", "1GB300.36V"])
places = st.sampled_from(["FIN-01", "FIN-02", "FIN-03", "ICE-01"])
scripts = st.text(min_size=1, max_size=60).filter(
    lambda text: bool(text.strip()) and "\x00" not in text and text.isascii()
).map(lambda text: "#!/bin/sh\n" + text)  # fmt: skip
prices = st.one_of(
    st.integers(1, 99), st.floats(0.01, 99, allow_nan=False).map(lambda price: round(price, 3))
)
FLAGS = [
    "--scale-down-unneeded-time=7m", "--scale-down-delay-after-add=11m0s", "--max-node-provision-time=1h30m",
    "--max-nodes-total=12", "--cores-total=0:320", "--memory-total=8:6400", "--expander=price", "--expander=least-waste,random",
    "--scale-down-enabled=false", "--scan-interval=20s", "--expendable-pods-priority-cutoff=-7", "--namespace=gpu",
    "--leader-elect=true", "--leader-elect-lease-duration=40s", "--max-pod-eviction-time=2m", "--balance-similar-node-groups",
]  # fmt: skip


@st.composite
def ca_verda(draw: st.DrawFn) -> Asked:
    groups = draw(st.dictionaries(group_name, st.fixed_dictionaries(
        {
            "instance_type": kinds, "image": value, "max_size": st.integers(5, 20), "startup_script_id": text,
        },
        optional={
            "min_size": st.integers(0, 5), "location": places, "ssh_key_ids": st.lists(value, max_size=2),
            "contract": st.sampled_from(["PAY_AS_YOU_GO", "SPOT"]), "pricing": st.sampled_from(["FIXED_PRICE", "DYNAMIC_PRICE"]),
            "hourly_price": prices, "labels": labels, "taints": taints, "os_volume_gb": st.integers(50, 999),
            "resources": st.just({"cpu": 4}), "colour": value,
        },
    ), min_size=1, max_size=3))  # fmt: skip
    top: dict[str, Any] = {"node_groups": groups}
    if draw(st.booleans()):
        top["kubernetes"] = {
            "endpoint": "203.0.113.10:6443",
            "token": "abcdef.0123456789abcdef",
            "ca_hash": "sha256:" + "a" * 64,
        }
    return yaml.safe_dump(top) if draw(st.booleans()) else json.dumps(top, ensure_ascii=False), {}, ()


@st.composite
def datacrunch(draw: st.DrawFn) -> Asked:
    groups = draw(st.dictionaries(name, st.fixed_dictionaries(
        {"image_type": value},
        optional={
            "ssh_key_ids": st.lists(value, max_size=2), "disk_size_gb": st.integers(50, 999),
            "instance_option": st.sampled_from(["prefer_spot", "prefer_on_demand", "spot_only", "on_demand_only"]),
            "override_num_gpus": st.integers(1, 56), "pricing_option": st.sampled_from(["dynamic", "fixed"]),
            "startup_script_base64": scripts.map(in_base64), "taints": taints, "labels": labels,
        },
    ), min_size=1, max_size=3))  # fmt: skip
    form = draw(st.sampled_from(["_JSON", ""]))
    shown = json.dumps({"node_configs": groups})
    environ = {f"DATACRUNCH_CLUSTER_CONFIG{form}": shown if form else in_base64(shown)}
    environ |= draw(st.sampled_from([
        {"DATACRUNCH_STARTUP_SCRIPT": "#!/bin/sh\ntrue\n"}, {"DATACRUNCH_STARTUP_SCRIPT_FILE": "/script"},
        {"DATACRUNCH_STARTUP_SCRIPT_FETCH_URL": "http://startup-script-server:8080/script"},
    ]))  # fmt: skip
    return (
        None,
        environ,
        (*_nodes(draw, groups, "{least}:{most}:{kind}:{place}:{group}"), "--cloud-provider=datacrunch"),
    )


@st.composite
def verdacloud(draw: st.DrawFn) -> Asked:
    billing = st.fixed_dictionaries(
        {},
        optional={
            "price": st.just("FIXED_PRICE"),
            "contract": st.sampled_from(["PAY_AS_YOU_GO", "SPOT", ""]),
        },
    )
    pairs = labels.map(lambda found: [f"{key}={value}" for key, value in found.items()])
    over = {
        "billingConfig": billing, "availableLocations": st.lists(places, min_size=1, max_size=2, unique=True),
        "osVolumeSize": st.integers(0, 999), "labels": pairs, "taints": taints,
    }  # fmt: skip
    top = draw(st.fixed_dictionaries(
        {
            "image": st.just({"gpu": "a-gpu-image", "cpu": "an-image"}), "startupScript": scripts.map(in_base64),
            "availableLocations": over["availableLocations"], "sshKeyIDs": st.lists(value, min_size=1, max_size=2),
        },
        optional={key: value for key, value in over.items() if key != "availableLocations"} | {
            "debug": st.booleans(), "reapOrphanNodes": st.booleans(),
            "startupScriptEnv": st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,8}", fullmatch=True), text, max_size=2),
        },
    ))  # fmt: skip
    groups = draw(st.dictionaries(name, st.fixed_dictionaries({}, optional=over), min_size=1, max_size=3))
    environ = {"VERDA_CLUSTER_CONFIG": in_base64(top | {"groups": groups})} | VERDACLOUD_JOIN
    form = draw(st.sampled_from(["{least}:{most}:{kind}:{group}", "{least}:{most}:{kind}:{group}:a-prefix"]))
    return None, environ, (*_nodes(draw, groups, form), "--cloud-provider=verdacloud")


@st.composite
def webhook(draw: st.DrawFn) -> Asked:
    found = draw(
        st.lists(st.tuples(name, st.integers(1, 16)), min_size=1, max_size=4, unique_by=lambda pair: pair[0])
    )
    rows = [
        {"name": each, "gpuCount": gpus, "scaleUpEndpoint": f"http://power/{each}?on", "scaleDownEndpoint": f"http://power/{each}?off"}
        for each, gpus in found
    ]  # fmt: skip
    if draw(st.booleans()):
        return yaml.safe_dump({"nodeGroups": rows, "image": {"tag": "x"}}), {}, ()
    environ = {}
    for n, row in enumerate(rows):
        environ |= {f"GPU-{n}_{key}": str(row[theirs]) for key, theirs in WEBHOOK.items()}
        environ |= draw(st.sampled_from([
            {}, {f"GPU-{n}_PRICE_PER_HOUR": "0.35", f"GPU-{n}_LABELS": "a=b,c=d", f"GPU-{n}_MIN_ON": "1h30m"},
            {f"GPU-{n}_TAINTS": "a=b:NoSchedule,c:NoExecute", f"GPU-{n}_RESOURCES": '{"cpu": "32", "memory": "128Gi"}'},
        ]))  # fmt: skip
    if draw(st.booleans()):
        environ |= {"A_INSTANCE_TYPES": "1A100.22V,2A100.44V", "A_NAME": "a", "A_MAX": "3", "A_LOCATIONS": "FIN-01",
                    "GPU_AUTOSCALER_JOIN": '{"own": {"startup_script_id": "s"}}'}  # fmt: skip
    return None, environ, ()


WEBHOOK = {
    "NAME": "name", "GPU_COUNT": "gpuCount", "SCALE_UP_ENDPOINT": "scaleUpEndpoint", "SCALE_DOWN_ENDPOINT": "scaleDownEndpoint",
}  # fmt: skip


def _nodes(draw: st.DrawFn, groups: Mapping[str, Any], form: str) -> list[str]:
    most = draw(st.integers(0, 9))
    asked = draw(st.lists(st.sampled_from(sorted(groups)), min_size=1, max_size=3, unique=True))
    flags = [
        "--nodes=" + form.format(least=draw(st.integers(0, most)), most=most, kind=draw(kinds), place=draw(places), group=group)
        for group in asked
    ]  # fmt: skip
    return flags + draw(
        st.lists(st.sampled_from(FLAGS), max_size=4, unique_by=lambda flag: flag.partition("=")[0])
    )


@pytest.mark.parametrize(
    "project", [ca_verda, datacrunch, verdacloud, webhook], ids=lambda made: made.__name__
)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_valid_configuration_converted_gives_the_same_settings(project: Any, data: st.DataObject) -> None:
    """Every field and flag that the projects know, in any combination: none may be refused, none may be lost."""
    text, environ, flags = data.draw(project())
    wrong = problems(text, environ | CREDENTIALS, flags)
    # Two groups may be called alike here where they were not there; that is told, and nothing else may be wrong.
    assert all("a name of its own" in line for line in wrong), wrong
    assume(not wrong)
    loaded = read(text, environ | CREDENTIALS, flags)
    shown, again = converted(loaded)
    assert again.settings.model_copy(update={"verda": loaded.settings.verda}) == loaded.settings
    assert to_policy(again.settings, cluster_id="x") == to_policy(loaded.settings, cluster_id="x")
    assert "a-secret" not in shown
