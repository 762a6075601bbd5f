"""Odd but possible values in predecessors' configurations: each means what it says, or is told, and nothing is lost."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from controller.config.dialects.convert import as_yaml
from controller.config.dialects.dotenv import parse_dotenv
from controller.config.dialects.flags import parse_flags
from controller.config.errors import Problem
from controller.config.load import load
from tests.config.foreign import HELM, MACHINES, in_base64, problems, read
from tests.config.test_config_dialects import ONE_NODE, ONE_VM, ca_verda, datacrunch, verdacloud
from tests.loop.predecessors import CA_VERDA, VERDACLOUD, VERDACLOUD_JOIN


def groups(**prices: Any) -> str:
    made = {
        name: json.loads(ca_verda(hourly_price=price))["node_groups"]["gpu"] for name, price in prices.items()
    }
    return json.dumps({"node_groups": made})


@pytest.mark.parametrize(
    ("first", "second", "paid", "told"),
    [
        (0.6, "0.90", "0.90", True),
        ("0.90", 0.6, "0.90", True),
        (0.6, 0.9, "0.9", True),
        (0.6, "0.60", "0.60", False),
    ],
)
def test_of_two_prices_for_a_type_the_higher_one_counts_also_in_quotes(
    first: Any, second: Any, paid: str, told: bool
) -> None:
    found = read(groups(a=first, b=second))
    assert found.settings.prices["1V100.6V"].price_per_hour == Decimal(paid)
    assert any("higher price" in line for line in found.warnings) == told


@pytest.mark.parametrize("price", [0, "0", "0.00", 0.0])
def test_no_price_in_any_form_leaves_the_list_price(price: Any) -> None:
    assert read(groups(a=price)).settings.prices == {}


@pytest.mark.parametrize(("first", "second"), [("cheap", 0.6), (0.6, "cheap")])
def test_a_price_that_is_none_is_told_once_beside_another(first: Any, second: Any) -> None:
    (line,) = problems(groups(a=first, b=second))
    assert "hourly_price = cheap" in line


@pytest.mark.parametrize("group", ["グループ", "", "--"])
def test_a_group_that_gives_no_name_is_told_once(group: str) -> None:
    (line,) = problems(json.dumps({"node_groups": {group: json.loads(ca_verda())["node_groups"]["gpu"]}}))
    assert "a name with letters or digits" in line


def test_what_the_section_kubernetes_lacks_is_told_in_its_own_words() -> None:
    found = problems("kubernetes: {}\nnode_groups: {gpu: {instance_type: a, image: b, max_size: 1}}")
    assert sorted(line.partition(": expected")[0] for line in found) == [
        "config.yaml:1: kubernetes.endpoint",
        "config.yaml:1: kubernetes.token",
    ]


def test_an_override_of_no_gpus_overrides_nothing() -> None:
    found = read(None, datacrunch(override_num_gpus=0), ONE_NODE)
    assert found.settings.pools[0].resources == {}
    assert [line for line in found.warnings if "override_num_gpus" in line]


def test_an_empty_text_is_what_a_missing_key_is_to_the_go_provider() -> None:
    config = datacrunch(instance_option="", pricing_option="", startup_script_base64="")
    found = read(None, config | {"DATACRUNCH_STARTUP_SCRIPT": "#!/bin/sh\ntrue\n"}, ONE_NODE)
    assert (found.settings.pools[0].market, found.settings.pools[0].join) == (
        "on_demand_only",
        "startup-script",
    )
    assert found.warnings == []


def test_a_group_with_a_script_of_its_own_never_gives_it_to_the_others() -> None:
    config = json.loads(datacrunch()["DATACRUNCH_CLUSTER_CONFIG_JSON"])["node_configs"]["gpu-nodes"]
    other = {key: value for key, value in config.items() if key != "startup_script_base64"}
    environ = {
        "DATACRUNCH_CLUSTER_CONFIG_JSON": json.dumps(
            {"node_configs": {"startup-script": config, "other": other}}
        ),
        "DATACRUNCH_STARTUP_SCRIPT": "#!/bin/sh\necho shared\n",
    }
    flags = tuple(f"--nodes=0:1:1A100.22V:FIN-01:{name}" for name in ("startup-script", "other"))
    settings = read(None, environ, flags).settings
    scripts = {}
    for pool in settings.pools:
        script = settings.join[pool.join or ""].script
        scripts[pool.name] = script.get_secret_value() if script is not None else ""
    assert scripts == {"startup-script": "#!/bin/bash\ntrue\n", "other": "#!/bin/sh\necho shared\n"}


@pytest.mark.parametrize("given", ["#!/bin/sh\necho secret\n", in_base64("#!/bin/sh\necho secret\n")])
def test_the_script_of_all_groups_may_be_in_base64(given: str) -> None:
    environ = datacrunch(startup_script_base64=None) | {"DATACRUNCH_STARTUP_SCRIPT": given}
    script = read(None, environ, ONE_NODE).settings.join["startup-script"].script
    assert script is not None
    assert script.get_secret_value() == "#!/bin/sh\necho secret\n"


def test_of_several_scripts_for_all_groups_those_without_effect_are_told() -> None:
    environ = datacrunch(startup_script_base64=None) | {
        "DATACRUNCH_STARTUP_SCRIPT": "#!/bin/sh\ntrue\n",
        "DATACRUNCH_STARTUP_SCRIPT_FETCH_URL": "http://scripts:8080/script",
    }
    assert read(None, environ, ONE_NODE).warnings == [
        "DATACRUNCH_STARTUP_SCRIPT_FETCH_URL: has no effect beside DATACRUNCH_STARTUP_SCRIPT"
    ]


@pytest.mark.parametrize(
    ("flag", "group", "location"),
    [
        ("gpu-1:rack", "gpu-1", "FIN-01"),
        ("gpu-01:rack", "gpu-01", "FIN-01"),
        ("GPU-01:rack", "GPU-01", "FIN-01"),  # because it is a group of the configuration
        ("ICE-01:gpu-workers", "gpu-workers", "ICE-01"),
    ],
)
def test_a_group_with_a_hostname_prefix_is_not_taken_for_a_region(
    flag: str, group: str, location: str
) -> None:
    environ = verdacloud(availableLocations=["FIN-01"], groups={"GPU-01": {}})
    found = read(None, environ, ("--cloud-provider=verdacloud", f"--nodes=0:5:1A6000.10V:{flag}"))
    (pool,) = found.settings.pools
    assert (pool.name, pool.locations) == (group.lower(), (location,))
    assert pool.labels["verda.com/node-group"] == group


def test_two_groups_with_one_hostname_prefix_are_both_remembered_and_told() -> None:
    flags = [f"--nodes=0:5:1A6000.10V:{group}:rack" for group in ("one", "two")]
    found = read(None, verdacloud(availableLocations=["FIN-01"]), ("--cloud-provider=verdacloud", *flags))
    assert found.draft.prefixes == {"rack": ("one", "two")}
    (line,) = [line for line in found.warnings if "hostname prefix" in line]
    assert "group one has the same hostname prefix" in line
    assert flags[1] in line


def test_a_number_for_the_startup_script_is_written_into_it() -> None:
    inline = {"MASTER_IP": "10.0.0.1", "MASTER_PORT": 6443, "JOIN_TOKEN": "t", "JOIN_HASH_FULL": "h"}
    environ = verdacloud(
        startupScript=in_base64("#!/bin/sh\njoin {{.MasterIP}}:{{.MasterPort}}\n"), startupScriptEnv=inline
    )
    script = read(None, {name: environ[name] for name in environ if name not in VERDACLOUD_JOIN}, ONE_VM)
    (entry,) = script.settings.join.values()
    assert entry.script is not None
    assert entry.script.get_secret_value().endswith("join 10.0.0.1:6443\n")
    assert "export MASTER_PORT=6443\n" in entry.script.get_secret_value()


@pytest.mark.parametrize("inline", [{"A_B": ["x"]}, {"A_B": True}, {"a-b": "x"}, {"A B": "x"}])
def test_what_cannot_be_written_into_a_startup_script_is_told(inline: dict[str, Any]) -> None:
    (line,) = problems(None, verdacloud(startupScriptEnv=inline), ONE_VM)
    assert "startupScriptEnv" in line
    assert "***" in line


def test_a_key_that_every_group_overrides_is_not_called_unknown() -> None:
    own = {"billingConfig": {"contract": "SPOT"}, "availableLocations": ["FIN-01"], "osVolumeSize": 80}
    found = read(None, verdacloud(groups={"gpu-workers": own}), ONE_VM)
    assert not [line for line in found.warnings if "not known" in line]


def test_two_taints_with_one_key_and_two_effects_both_stay() -> None:
    taints = [{"key": "x", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]
    (pool,) = read(None, verdacloud(taints=taints, groups={}), ONE_VM).settings.pools
    assert [(taint.key, taint.effect) for taint in pool.taints] == [("x", "NoSchedule"), ("x", "NoExecute")]
    own = {"gpu-workers": {"taints": [{"key": "x", "value": "own", "effect": "NoSchedule"}]}}
    (pool,) = read(None, verdacloud(taints=taints, groups=own), ONE_VM).settings.pools
    assert [(taint.key, taint.value) for taint in pool.taints] == [("x", "own")]


def lines(**changes: Any) -> dict[str, str]:
    """With a line for every value, as in a file."""
    config = {key: value for key, value in (VERDACLOUD | changes).items() if value is not None}
    return {"VERDA_CLUSTER_CONFIG": in_base64(json.dumps(config, indent=1))} | VERDACLOUD_JOIN


@pytest.mark.parametrize(
    ("key", "all_have", "own", "blamed"),
    [
        ("taints", {"key": "a b", "effect": "NoSchedule"}, {"key": "x", "effect": "NoSchedule"}, "{}[0].key = a b"),
        ("taints", {"key": "x", "effect": "NoSchedule"}, {"key": "a b", "effect": "NoSchedule"}, "groups.gpu-workers.{}[0].key"),
        ("labels", "a b=c", "x=y", "{}[0] (a b) = c"),
        ("labels", "x=y", "a b=c", "groups.gpu-workers.{}[0] (a b) = c"),
    ],
)  # fmt: skip
def test_of_merged_labels_and_taints_the_one_that_is_wrong_is_blamed(
    key: str, all_have: Any, own: Any, blamed: str
) -> None:
    environ = lines(**{key: [all_have], "groups": {"gpu-workers": {key: [own]}, "other": {}}})
    other = "--nodes=0:1:1A6000.10V:other"
    (line,) = problems(None, environ, ONE_VM if "groups" in blamed else (*ONE_VM, other))
    place, _, said = line.partition(": ")
    assert said.startswith(blamed.format(key))
    text = base64.b64decode(environ["VERDA_CLUSTER_CONFIG"]).decode().splitlines()
    number = int(place.rpartition(":")[2])
    assert "a b" in text[number if key == "taints" else number - 1]  # a taint begins with its bracket


def test_a_label_that_is_none_is_told_with_its_place() -> None:
    found = read(None, lines(labels=["a=b", "gpu"]), ONE_VM).warnings
    assert [line for line in found if "labels[1]: is not key=value and is left out" in line]


def test_labels_of_the_forerunner_are_taken_by_the_kind_of_the_machine() -> None:
    labels = {"gpu": {"node-type": "gpu", "workload": "ml"}, "cpu": {"node-type": "cpu"}}
    flags = (
        "--cloud-provider=datacrunch",
        "--nodes=0:5:1A6000.10V:FIN-01:a",
        "--nodes=1:2:CPU.4V.16G:FIN-01:b",
    )
    pools = read(None, lines(labels=labels, availableLocations=None, groups=None), flags).settings.pools
    assert [pool.labels for pool in pools] == [
        {"verda.com/node-group": "a", "node-type": "gpu", "workload": "ml"},
        {"verda.com/node-group": "b", "node-type": "cpu"},
    ]
    (line,) = problems(None, lines(labels=labels | {"gpu": {"a b": "c"}}, groups=None), ONE_VM)
    assert 'labels.gpu["a b"] = c' in line


def test_a_name_of_a_file_that_is_none_is_told_beside_another(tmp_path: Path) -> None:
    """As one that came out of a broken variable."""
    file = tmp_path / "config.json"
    file.write_text("{}")
    environ = {"VERDA_CLUSTER_CONFIG_FILE": str(file)}
    assert problems(None, environ, (*ONE_VM, "--cloud-config=/a\0b")) == [
        "--cloud-config: expected the name of a file"
    ]


def test_a_converted_configuration_names_what_stays_on_the_command_line() -> None:
    flags = (*ONE_NODE, "--address=:8085", "--kubeconfig=/etc/my config", "--v=5")
    text = as_yaml(read(None, datacrunch(), flags), parse_flags(flags))
    (line,) = [line for line in text.splitlines() if "command line of run" in line]
    assert line.endswith(": --listen=:8085 --kubeconfig='/etc/my config' --log-level=debug")
    assert "command line of run" not in as_yaml(read(None, datacrunch(), ONE_NODE), parse_flags(ONE_NODE))


def test_a_disk_of_nothing_is_what_a_missing_key_is_to_the_go_provider() -> None:
    none, zero = (read(None, datacrunch(disk_size_gb=size), ONE_NODE).settings.pools for size in (None, 0))
    assert none == zero
    assert problems(None, datacrunch(disk_size_gb=False), ONE_NODE)


@pytest.mark.parametrize("time", [None, "2026-01-01T00:00:00Z"])
@pytest.mark.parametrize("flags", [ONE_NODE, ONE_VM])
def test_taints_may_be_written_as_kubernetes_shows_them(flags: tuple[str, ...], time: str | None) -> None:
    taints = [{"key": "a", "effect": "NoSchedule", "timeAdded": time}]
    environ = datacrunch(taints=taints) if flags is ONE_NODE else verdacloud(taints=taints, groups={})
    (pool,) = read(None, environ, flags).settings.pools
    assert [(taint.key, taint.effect) for taint in pool.taints] == [("a", "NoSchedule")]


def test_a_name_with_an_odd_line_break_in_it_is_converted_as_a_key() -> None:
    entry = {"webhooks": {"\u2028x": {"method": "PUT"}, "a\u2029b": {}}}
    text = as_yaml(read(ca_verda(), {"GPU_AUTOSCALER_WEBHOOKS": json.dumps(entry["webhooks"])}))
    assert set(load("converted.yaml", {}, text=text, service_account="/nowhere").settings.webhooks) == set(
        entry["webhooks"]
    )


def test_choices_are_listed_without_the_empty_one() -> None:
    (line,) = problems(None, verdacloud(billingConfig={"contract": "spot"}, groups={}), ONE_VM)
    assert line.endswith("one of PAY_AS_YOU_GO, SPOT, LONG_TERM")


def test_all_that_is_wrong_with_a_group_of_variables_is_told_at_once() -> None:
    environ = {
        "A_NAME": "a", "A_INSTANCE_TYPES": "1V100.6V", "A_MAX": "many", "A_LABELS": "x", "A_MARKET": "Spot",
        "A_JOIN": "own",
    }  # fmt: skip
    found = problems("join: {own: {startup_script_id: s}}", environ)
    assert sorted(line.partition(":")[0] for line in found) == ["A_LABELS", "A_MARKET", "A_MAX"]


def test_words_of_a_status_that_yaml_takes_for_booleans_are_believed() -> None:
    text = "webhooks: {p: {status: {means_on: [on, up], means_off: [off, 0]}}}"
    status = load("config.yaml", {}, text=text).settings.webhooks["p"].status
    assert {"on", "true", "up"} <= set(status.means_on)
    assert {"off", "false", "0"} <= set(status.means_off)
    assert not set(status.means_on) & set(status.means_off)


@pytest.mark.parametrize("text", [ca_verda(), "join: {own: {startup_script_id: s}}\n", HELM])
@pytest.mark.parametrize("flags", [("--nodes=0:9:1A100.22V:FIN-01:gpu",), ONE_NODE])
def test_groups_of_a_command_line_are_never_left_out_unnoticed(text: str, flags: tuple[str, ...]) -> None:
    (line,) = problems(text, {}, flags)
    assert "--nodes" in line or "node_configs" in line or "a configuration of datacrunch" in line


def test_a_variable_of_the_other_kind_of_group_is_told() -> None:
    found = read(None, MACHINES | {"GPU_NODE_1_MAX": "3", "GPU_NODE_1_IMAGE": "x", "GPU_NODE_1_OTHER": "x"})
    assert found.warnings == [
        f"GPU_NODE_1_{name}: has no effect beside GPU_NODE_1_GPU_COUNT: it is a variable of pools at the cloud only"
        for name in ("IMAGE", "MAX")
    ]


@pytest.mark.parametrize("prices", [(0.5, 0.9), (0.9, 0.5)])
def test_of_two_prices_the_higher_one_counts_also_where_the_type_is_spelt_otherwise(
    prices: tuple[float, float],
) -> None:
    spelt = zip(("1V100.6V", "1v100.6v"), prices, strict=True)
    made = {
        kind: json.loads(ca_verda(instance_type=kind, hourly_price=price))["node_groups"]["gpu"]
        for kind, price in spelt
    }
    named = {f"g{n}": group for n, group in enumerate(made.values())}
    settings = read(json.dumps({"node_groups": named})).settings
    assert [price.price_per_hour for price in settings.prices.values()] == [Decimal("0.9")]


def test_a_converted_configuration_says_that_credentials_of_a_dotenv_are_read_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("VERDA_CLIENT_ID=id\nVERDA_CLIENT_SECRET=hidden\n")
    text = as_yaml(read(ca_verda()))
    assert "no .env is read: set VERDA_CLIENT_ID and VERDA_CLIENT_SECRET" in text
    assert "hidden" not in text


def test_what_the_cloud_does_not_know_in_a_flag_is_told_without_an_index() -> None:
    loaded = read(None, datacrunch(), ONE_NODE)
    for key, word in (("instance_types[0]", "instance type"), ("locations[0]", "region")):
        problem = loaded.draft.theirs(Problem(f"pools[0].{key}", "x", "another", "command line"))
        assert problem.key == f"{ONE_NODE[1]}: {word}"


def test_a_script_in_a_file_is_looked_through_and_missed_as_one_in_a_variable_is(tmp_path: Path) -> None:
    file = tmp_path / "script.sh"
    environ = datacrunch(startup_script_base64=None) | {"DATACRUNCH_STARTUP_SCRIPT_FILE": str(file)}
    assert [line for line in read(None, environ, ONE_NODE).warnings if "no machine can join" in line]
    file.write_text("#!/bin/sh\ncurl -d client_secret=hidden\n")
    (line,) = read(None, environ, ONE_NODE).warnings
    assert "uses the account's credentials" in line
    assert "hidden" not in line


def test_a_line_of_a_dotenv_that_says_nothing_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(
        "VERDA_CLIENT_ID=id\nhunter2 is no pair\nVERDA_CLIENT_SECRET=hidden\nPATHS.extra-dirs=/x\n= what\n"
    )
    found = read(CA_VERDA)
    assert found.settings.verda.client_id == "id"
    assert [line for line in found.warnings if ".env" in line] == [
        ".env:2: expected KEY=value; the line is left out",
        ".env:5: expected KEY=value; the line is left out",
    ]


@pytest.mark.parametrize("given", [(), ("VERDA_CLIENT_ID",), ("VERDA_CLIENT_ID", "VERDA_CLIENT_SECRET")])
def test_a_line_of_a_dotenv_that_may_be_the_credential_that_is_missing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("VERDA_CLIENT_ID=id\nVERDA_CLIENT_SECRET: hidden\n")
    environ = dict.fromkeys(given, "mine")
    if len(given) == 2:
        assert [line for line in read(CA_VERDA, environ).warnings if ".env:2" in line]
    else:
        assert problems(CA_VERDA, environ) == [".env:2: expected KEY=value"]


@pytest.mark.parametrize(
    ("text", "found", "wrong"),
    [
        ("A=1\nB=2", {"A": "1", "B": "2"}, []),
        ("  export A = 1 # x\n", {"A": "1"}, []),
        ("a.b-c=1\n", {"a.b-c": "1"}, []),
        ("'A'=1\n", {"A": "1"}, []),
        ('A="x\ny" # z\nB=2\n', {"A": "x\ny", "B": "2"}, []),
        ('A="x\nB="y"\nC=3\n', {"C": "3"}, [1]),
        ('A="x\nB=2\n', {"B": "2"}, [1]),
        ('A="x"y\nB=2\n', {"B": "2"}, [1]),
        ('A="x\\ty"\n', {"A": "x\ty"}, []),
        ("A='x\\ty'\n", {"A": "x\\ty"}, []),
        ("A=\nB=2\n", {"A": "", "B": "2"}, []),
        ("A=${HOME}-${B:-b}-${C}\n", {"A": "/root-b-"}, []),
        ("HOME=/x\nD=1\nA=${HOME}${D}\n", {"HOME": "/x", "D": "1", "A": "/root1"}, []),
        ("x\n\n#y\nz\n", {}, [1, 4]),
        ('A="x\ny"\nz\n', {"A": "x\ny"}, [3]),
    ],
)
def test_a_dotenv_means_what_it_meant_to_the_provider(
    text: str, found: dict[str, str], wrong: list[int]
) -> None:
    told = parse_dotenv(text, ".env", {"HOME": "/root"})
    assert (told[0], [problem.where for problem in told[1]]) == (found, [f".env:{n}" for n in wrong])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a\\"b" # c', 'a"b'),
        ("'a\\'b'", "a'b"),
        ('"a\\\\"', "a\\"),
        ('"a #b"', "a #b"),
        ("a'b'", "a'b'"),
        ('""', ""),
    ],
)
def test_a_credential_in_quotes_is_read_to_the_end(text: str, value: str) -> None:
    assert parse_dotenv(f"VERDA_CLIENT_SECRET={text}\n", ".env") == ({"VERDA_CLIENT_SECRET": value}, [])
