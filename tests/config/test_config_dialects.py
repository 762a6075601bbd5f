"""Predecessors' configurations become settings: what each of their keys means here, and what is said about it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from controller.config.catalogue_check import check_against
from controller.config.dialects import choosing
from controller.config.dialects.draft import pool_name
from controller.config.load import load, show
from controller.config.policy import to_policy
from controller.domain.cloudthings import Catalogue, InstanceType, Offer
from tests.config.foreign import DOCUMENTED, documented, in_base64, problems, read
from tests.loop.predecessors import CA_VERDA, DATACRUNCH, DATACRUNCH_FLAGS, VERDACLOUD, VERDACLOUD_JOIN

SECRET = "a-secret-that-must-not-show"


def ca_verda(**changes: Any) -> str:
    """The documented group with other keys; None takes one out."""
    group: dict[str, Any] = {
        "instance_type": "1V100.6V", "image": "ubuntu-24.04-cuda-12.6-docker", "max_size": 2, "location": "FIN-03",
        "startup_script_id": "s-1", "hourly_price": 0.6,
    }  # fmt: skip
    group = {key: value for key, value in (group | changes).items() if value is not None}
    return json.dumps({"node_groups": {"gpu": group}}, indent=1)


def datacrunch(**changes: Any) -> dict[str, str]:
    config: dict[str, Any] = {
        "image_type": "ubuntu-24.04",
        "startup_script_base64": in_base64("#!/bin/bash\ntrue\n"),
    }
    config = {key: value for key, value in (config | changes).items() if value is not None}
    return {"DATACRUNCH_CLUSTER_CONFIG_JSON": json.dumps({"node_configs": {"gpu-nodes": config}}, indent=1)}


def verdacloud(**changes: Any) -> dict[str, str]:
    config = {key: value for key, value in (VERDACLOUD | changes).items() if value is not None}
    return {"VERDA_CLUSTER_CONFIG": in_base64(config)} | VERDACLOUD_JOIN


ONE_NODE = ("--cloud-provider=datacrunch", "--nodes=0:3:1A100.22V:FIN-01:gpu-nodes")
ONE_VM = ("--cloud-provider=verdacloud", "--nodes=0:5:1A6000.10V:gpu-workers")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documented_configuration_is_recognised_by_itself_and_by_its_name(name: str) -> None:
    assert documented(name).dialect == name
    assert documented(name, dialect=name).settings == documented(name).settings


def test_a_group_of_the_python_provider_becomes_a_pool_with_an_agreed_price() -> None:
    settings = documented("ca-verda").settings
    (pool,) = settings.pools
    assert (pool.name, pool.instance_types, pool.locations, pool.market, pool.min, pool.max) == (
        "gpu-workers", ("1V100.6V",), ("FIN-03",), "on_demand_only", 0, 10,
    )  # fmt: skip
    assert pool.labels == {"verda.com/gpu": "v100", "node-role.kubernetes.io/gpu": "true"}
    assert settings.prices["1V100.6V"].price_per_hour == Decimal("0.6")
    assert settings.join[pool.join or ""].startup_script_id == "your-startup-script-id"


def test_a_group_of_the_go_provider_becomes_a_pool_with_its_flag_and_script() -> None:
    settings = documented("datacrunch").settings
    (pool,) = settings.pools
    assert (pool.name, pool.instance_types, pool.locations, pool.market, pool.min, pool.max) == (
        "gpu-nodes", ("1A100.22V",), ("FIN-01",), "prefer_spot", 0, 3,
    )  # fmt: skip
    assert pool.resources == {"nvidia.com/gpu": "7"}
    assert [taint.model_dump() for taint in pool.taints] == [
        {"key": "gpu-node", "value": "", "effect": "NoSchedule"}
    ]
    script = settings.join[pool.join or ""].script
    assert script is not None
    assert script.get_secret_value() == "#!/bin/bash\ntrue\n"


def test_a_group_of_verdas_own_provider_overrides_what_is_for_all() -> None:
    settings = documented("verdacloud").settings
    (pool,) = settings.pools
    assert (pool.name, pool.locations, pool.market, pool.disk_gb) == (
        "gpu-workers",
        ("FIN-02",),
        "spot_only",
        200,
    )
    assert pool.labels == {
        "verda.com/node-group": "gpu-workers", "env": "production", "hardware": "gpu", "team": "ai",
    }  # fmt: skip
    assert settings.join["startup-script"].variables == (
        "MASTER_IP",
        "MASTER_PORT",
        "JOIN_TOKEN",
        "JOIN_HASH_FULL",
    )


def test_helm_values_of_the_webhook_controller_become_machines() -> None:
    machines = documented("webhook").settings.machines
    assert [(m.name, m.gpu_count) for m in machines] == [("gpu-worker-1", 4), ("gpu-worker-2", 8)]


WARNED: list[tuple[str, str | None, dict[str, str], tuple[str, ...], list[str]]] = [
    ("dynamic pricing", ca_verda(pricing="DYNAMIC_PRICE"), {}, (), ["node_groups.gpu.pricing", "dynamic pricing"]),
    ("dynamic pricing", None, datacrunch(pricing_option="dynamic"), ONE_NODE, ["pricing_option", "dynamic pricing"]),
    ("trailing comma", None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": DATACRUNCH}, ONE_NODE, ["commas", "line 12"]),
    (
        "a GPU label on a CPU group",
        ca_verda(instance_type="CPU.4V.16G", labels={"verda.com/gpu": "true"}), {}, (),
        ["node_groups.gpu.labels: verda.com/gpu", "GPU label"],
    ),
    ("a CPU group", ca_verda(instance_type="CPU.4V.16G"), {}, (), ["CPU.4V.16G has no GPUs"]),
    (
        "credentials in a script",
        None, datacrunch(startup_script_base64=in_base64('#!/bin/bash\ncurl -d "{{ .DATACRUNCH_CLIENT_SECRET }}"\n')),
        ONE_NODE, ["startup_script_base64", "credentials"],
    ),
    ("a token in the file", "kubernetes: {endpoint: 'x.example:6443', token: abcdef.0123456789abcdef, ca_hash: '"
     + "0" * 64 + "'}\n" + "node_groups: {gpu: {instance_type: a, image: b, max_size: 1}}", {}, (),
     ["kubernetes.token", "name a Secret"]),
    ("a group without a flag", None, datacrunch(), ("--nodes=0:1:1A100.22V:FIN-01:gpu-nodes",), []),
    ("a misspelt key", ca_verda(locaton="x"), {}, (), ["node_groups.gpu.locaton", "did you mean location"]),
    ("a zero price", ca_verda(hourly_price=0), {}, (), ["hourly_price", "list price"]),
    ("orphan reaping", None, verdacloud(), ONE_VM, ["reapOrphanNodesAfterCycles", "always deleted"]),
    ("a small disk", None, verdacloud(osVolumeSize=20, groups={}), ONE_VM, ["osVolumeSize", "50 GB"]),
    ("extra volumes", None, verdacloud(additionalVolumes=[{"name": "a"}]), ONE_VM, ["additionalVolumes", "no counterpart"]),
    ("wireguard", "wireguard: {}\n" + CA_VERDA, {}, (), ["wireguard", "no counterpart"]),
    ("a script server", None, datacrunch(startup_script_base64=None)
     | {"DATACRUNCH_STARTUP_SCRIPT_FETCH_URL": "http://startup-script-server:8080/script"}, ONE_NODE,
     ["FETCH_URL", "credentials"]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "text", "environ", "flags", "words"), WARNED)
def test_what_is_deprecated_or_dangerous_is_said_once_with_what_to_do(
    what: str, text: str | None, environ: dict[str, str], flags: tuple[str, ...], words: list[str]
) -> None:
    warnings = read(text, environ, flags).warnings
    assert len(warnings) == len(set(warnings))
    if words:
        assert sum(all(word in line for word in words) for line in warnings) == 1, warnings


WRONG: list[tuple[str | None, dict[str, str], tuple[str, ...], list[str]]] = [
    (ca_verda(max_size="many"), {}, (), ["config.yaml:6", "node_groups.gpu.max_size = many", "whole number"]),
    (ca_verda(min_size=5), {}, (), ["config.yaml:", "node_groups.gpu.min_size = 5", "at most max (2)"]),
    (ca_verda(max_size=None), {}, (), ["node_groups.gpu.max_size", "required"]),
    (ca_verda(instance_type=None), {}, (), ["node_groups.gpu.instance_type", "required"]),
    (ca_verda(contract="LONG_TERM"), {}, (), ["config.yaml:", "contract = LONG_TERM", "refused"]),
    (ca_verda(contract="HOURLY"), {}, (), ["contract = HOURLY", "PAY_AS_YOU_GO, SPOT"]),
    (ca_verda(startup_script_id=None), {}, (), ["startup_script_id", "could not join"]),
    (ca_verda(hourly_price="cheap"), {}, (), ["node_groups.gpu.hourly_price = cheap", "amount of money"]),
    (ca_verda(labels={"a b": "c"}), {}, (), ['node_groups.gpu.labels["a b"]', "a key of"]),
    (ca_verda(taints={"a": "b:Sometimes"}), {}, (), ["node_groups.gpu.taints[0].effect", "NoSchedule"]),
    ("node_groups: 5", {}, (), ["config.yaml:1", "node_groups = 5", "a map"]),
    ("node_groups: {gpu: 5}", {}, (), ["config.yaml:1", "node_groups.gpu = 5", "a map"]),
    ("node_groups: {gpu: }", {}, (), ["config.yaml:1", "node_groups.gpu = null", "a map"]),
    (f"{CA_VERDA}  cpu:\n", {}, (), ["config.yaml:16", "node_groups.cpu = null", "a map"]),
    ("node_groups: {}\npools: []", {}, (), ["config.yaml", "one dialect"]),
    (None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": '{"node_configs": {'}, ONE_NODE, ["CONFIG_JSON:1", "a key in double quotes"]),
    (None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": '{"a": 1 "b": 2}'}, ONE_NODE, ["CONFIG_JSON:1", '","']),
    (None, {"DATACRUNCH_CLUSTER_CONFIG": "%%%"}, ONE_NODE, ["DATACRUNCH_CLUSTER_CONFIG", "base64"]),
    (None, {"DATACRUNCH_CLUSTER_CONFIG_FILE": "/nowhere/x.json"}, ONE_NODE, ["CONFIG_FILE", "/nowhere/x.json", "can be read"]),
    (None, datacrunch(instance_option="cheap"), ONE_NODE, ["CONFIG_JSON:", "instance_option = cheap", "prefer_spot"]),
    (None, datacrunch(disk_size_gb=20), ONE_NODE, ["CONFIG_JSON:", "disk_size_gb = 20", "from 50"]),
    (None, datacrunch(override_num_gpus="x"), ONE_NODE, ["CONFIG_JSON:", "override_num_gpus = x", "a quantity"]),
    (None, datacrunch(startup_script_base64="%"), ONE_NODE, ["CONFIG_JSON:", "startup_script_base64 = ***", "base64"]),
    (None, datacrunch(startup_script_base64=None), ONE_NODE, ["startup_script_base64", "could not join"]),
    (None, datacrunch(image_type=None), ONE_NODE, ["node_configs.gpu-nodes.image_type", "required"]),
    (None, datacrunch(), ("--cloud-provider=datacrunch",), ["--nodes", "at least one"]),
    (None, datacrunch(), ("--nodes=0:3:1A100.22V:gpu-nodes",), ["--nodes", "<region>"]),
    (None, datacrunch(), ("--nodes=x:3:1A100.22V:FIN-01:gpu-nodes",), ["--nodes", "whole numbers"]),
    (None, datacrunch(), ("--nodes=5:3:1A100.22V:FIN-01:gpu-nodes",), ["command line", "min = 5", "at most max (3)"]),
    (None, datacrunch(), ("--nodes=0:3:1A100.22V:FIN-01:other",), ["--nodes", "a group that node_configs has"]),
    (None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": '{"node_configs": {"gpu-nodes": null}}'}, ONE_NODE, ["node_configs.gpu-nodes = null", "a map of keys"]),
    (None, datacrunch(), (*ONE_NODE, ONE_NODE[1]), ["--nodes", "given twice"]),
    (None, datacrunch(), (*ONE_NODE, "--scale-down-unneeded-time=soon"), ["--scale-down-unneeded-time = soon", "duration"]),
    (None, datacrunch(), (*ONE_NODE, "--expander=best"), ["--expander", "least-waste"]),
    (None, datacrunch(), (*ONE_NODE, "--cores-total=many"), ["--cores-total", "<min>:<max>"]),
    (None, datacrunch(), (*ONE_NODE, "--leader-elect=maybe"), ["--leader-elect", "true or false"]),
    (None, datacrunch(), (*ONE_NODE, "stray"), ["stray", "no argument"]),
    (None, {}, ("--cloud-provider=aws",), ["--cloud-provider", "aws", "datacrunch"]),
    (None, verdacloud(startupScript=None), ONE_VM, ["startupScript", "required"]),
    (None, verdacloud(startupScript="%"), ONE_VM, ["startupScript = ***", "base64"]),
    (None, verdacloud(availableLocations=None, groups={}), ONE_VM, ["availableLocations", "required"]),
    (None, verdacloud(availableLocations=[], groups={}), ONE_VM, ["VERDA_CLUSTER_CONFIG:", "availableLocations = []", "at least one"]),
    (None, verdacloud(availableLocations=[], groups={"gpu-workers": {"availableLocations": []}}), ONE_VM, ["availableLocations = []"]),
    (None, verdacloud(sshKeyIDs=[]), ONE_VM, ["VERDA_CLUSTER_CONFIG:", "sshKeyIDs = []", "at least one"]),
    (None, verdacloud(sshKeyIDs=None), ONE_VM, ["sshKeyIDs", "required"]),
    (None, verdacloud() | {"JOIN_TOKEN": ""}, ONE_VM, ["JOIN_TOKEN", "startup script asks for it"]),
    (None, verdacloud(labels="x"), ONE_VM, ["labels = x", "a list"]),
    (f"pools: []\njoin: {{a: {{script: [{SECRET}]}}}}", {}, (), ["join.a.script = […]", "text of a script"]),
    (f"pools: []\njoin: {{a: {{script: \"{SECRET}\\0\"}}}}", {}, (), ["join.a.script = ***", "NUL"]),
    (f"pools: []\njoin: {{a: {{template: k3s, server: 'https://a', token_from: {{value: \"{SECRET}\\n\"}}}}}}", {}, (),
     ["join.a.token_from.value = ***", "one line"]),
    ("nodeGroups: 5", {}, (), ["config.yaml:1", "nodeGroups = 5", "a list"]),
    ("nodeGroups: [{name: a, gpuCount: x, scaleUpEndpoint: 'http://a', scaleDownEndpoint: 'http://b'}]", {}, (),
     ["config.yaml:1", "nodeGroups[0].gpuCount = x", "whole number"]),
    ("nodeGroups: [{name: a, gpuCount: 1, scaleUpEndpoint: 'http://a'}]", {}, (), ["nodeGroups[0].scaleDownEndpoint", "required"]),
    (CA_VERDA, {"DATACRUNCH_CLUSTER_CONFIG_JSON": DATACRUNCH}, (), ["config.yaml and DATACRUNCH_CLUSTER_CONFIG_JSON", "one configuration"]),
    ("pools: []", verdacloud(), (), ["config.yaml and VERDA_CLUSTER_CONFIG", "one configuration"]),
    (CA_VERDA + CA_VERDA.partition("\n")[2].replace("gpu-workers", "GPU_Workers"), {}, (),
     ["config.yaml:16: node_groups.GPU_Workers", "a name of its own; node_groups.gpu-workers (config.yaml:2)"]),
    ('node_groups:\n  gpu:\n    instance_type: a\n    image: b\n    max_size:\n    startup_script_id: s\n', {}, (),
     ["config.yaml:2: node_groups.gpu.max_size", "required"]),
    (f"node_groups: {{gpu: '{SECRET}' x}}", {}, (), ["config.yaml:1", "expected ',' or '}', but got '<scalar>'"]),
    ("nodeGroups:\n- {name: a, gpuCount: 1, scaleUpEndpoint: 'http://a'}\n", {}, (),
     ["config.yaml:2: nodeGroups[0].scaleDownEndpoint", "required"]),
    (None, verdacloud(image=5), ONE_VM, ["VERDA_CLUSTER_CONFIG:", "image = 5"]),
    (None, datacrunch(), ("--cloud-provider=datacrunch", "--nodes"), ["--nodes = \"\"", "<region>"]),
    (None, datacrunch() | verdacloud(), (), ["DATACRUNCH_CLUSTER_CONFIG_JSON and VERDA_CLUSTER_CONFIG", "one configuration"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "environ", "flags", "words"), WRONG)
def test_bad_input_names_the_place_the_predecessors_key_the_value_and_what_was_expected(
    text: str | None, environ: dict[str, str], flags: tuple[str, ...], words: list[str]
) -> None:
    found = problems(text, environ | {"VERDA_CLIENT_SECRET": SECRET}, flags)
    assert len(found) == 1, found  # one mistake is one line, and nothing that follows from it
    assert all(word in found[0] for word in words), found
    assert SECRET not in found[0]


def test_a_dialect_that_does_not_fit_is_told() -> None:
    assert "those of ca-verda" in problems(CA_VERDA, dialect="datacrunch")[0]
    assert "those of native" in problems("pools: []", dialect="ca-verda")[0]
    assert problems(None, dialect="ca-verda") == [
        "command line and environment: expected --config FILE with node_groups, because that is how ca-verda is configured"
    ]
    assert "VERDA_CLUSTER_CONFIG_FILE" in problems(None, {}, ONE_VM)[0]
    assert "one of auto, native" in problems(CA_VERDA, dialect="klingon")[0]
    assert "--cloud-provider" in problems(None, datacrunch(), ONE_NODE, dialect="ca-verda")[0]


@pytest.mark.parametrize(
    ("group", "pool"),
    [
        ("gpu-workers", "gpu-workers"),
        ("1V100.6V-FIN-03", "1v100-6v-fin-03"),
        ("GPU_Workers", "gpu-workers"),
        ("a-very-long-name-of-a-group", pool_name("a-very-long-name-of-a-group")),
    ],
)
def test_a_pool_is_named_after_its_group_as_hostnames_allow(group: str, pool: str) -> None:
    loaded = read(json.dumps({"node_groups": {group: json.loads(ca_verda())["node_groups"]["gpu"]}}))
    assert loaded.settings.pools[0].name == pool
    assert len(pool) <= 20
    assert loaded.draft.groups == {group: pool}


FLAGS = [
    ("--scale-down-unneeded-time=7m", "scale_down.cooldown", "7m"),
    ("--scale-down-delay-after-add=8m", "scale_down.min_age", "8m"),
    ("--max-node-provision-time=9m", "deadlines.join", "9m"),
    ("--max-nodes-total=12", "limits.machines", 12),
    ("--cores-total=0:320", "limits.cores", 320),
    ("--memory-total=0:6400", "limits.memory_gb", 6400),
    ("--expander=price", "scale_up.strategy", "cheapest"),
    ("--expander=random,least-waste", "scale_up.strategy", "smallest"),
    ("--expander=priority", "scale_up.strategy", "priority"),
    ("--scan-interval=20s", "timing.tick", "20s"),
    ("--namespace=kube-system", "namespace", "kube-system"),
    ("--expendable-pods-priority-cutoff=-5", "planning.priority_cutoff", -5),
    ("--scale-down-enabled=false", "pools.0.pause", "scale-down"),
    ("--leader-elect-lease-duration=30s", "lease.duration", "30s"),
]


@pytest.mark.parametrize(("flag", "key", "value"), FLAGS)
@pytest.mark.parametrize("form", ["one", "two", "dash"])
def test_flags_with_a_counterpart_set_it(flag: str, key: str, value: Any, form: str) -> None:
    # A flag that may stand alone, or whose value begins with a dash, needs its sign.
    apart = [flag] if flag.startswith(("--scale-down-enabled", "--expendable")) else flag.split("=")
    words = {"one": [flag], "two": apart, "dash": [flag[1:]]}[form]
    found: Any = show(read(None, datacrunch(), (*ONE_NODE, *words)).settings)
    for part in key.split("."):
        found = found[int(part)] if part.isdigit() else found[part]
    assert found == value


def test_flags_without_a_counterpart_are_told_and_those_of_the_log_are_not() -> None:
    flags = ("--v=4", "--skip-nodes-with-local-storage=false", "--some-new-flag", "--stderrthreshold=info")
    warnings = read(None, datacrunch(), (*ONE_NODE, *flags)).warnings
    assert [line.split(":")[1].strip() for line in warnings] == [
        "--skip-nodes-with-local-storage",
        "--some-new-flag",
    ]


def test_a_dotenv_beside_the_file_gives_credentials_and_gives_way_to_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(
        f"# credentials\nexport VERDA_CLIENT_ID='from-file'\nVERDA_CLIENT_SECRET={SECRET} # x\n"
    )
    verda = read(CA_VERDA).settings.verda
    assert (verda.client_id, verda.client_secret and verda.client_secret.get_secret_value()) == (
        "from-file",
        SECRET,
    )
    assert read(CA_VERDA, {"VERDA_CLIENT_ID": "mine"}).settings.verda.client_id == "mine"
    assert read(CA_VERDA, {"VERDA_CLIENT_ID": " "}).settings.verda.client_id == "from-file"
    (tmp_path / "id").write_text("mounted\n")
    assert (
        read(CA_VERDA, {"VERDA_CLIENT_ID_FILE": str(tmp_path / "id")}).settings.verda.client_id == "mounted"
    )
    (tmp_path / ".env").write_text(f"{SECRET}\n")
    assert problems(CA_VERDA) == [".env:1: expected KEY=value"]


def test_settings_variables_and_groups_combine_with_a_foreign_file() -> None:
    environ = {
        "GPU_AUTOSCALER_LIMITS__MACHINES": "3", "H100_NAME": "h100", "H100_INSTANCE_TYPES": "1H100.80S.30V", "H100_MAX": "1",
        "H100_JOIN": "gpu-workers",
    }  # fmt: skip
    settings = read(CA_VERDA, environ).settings
    assert settings.limits.machines == 3
    assert [pool.name for pool in settings.pools] == ["gpu-workers", "h100"]


def test_the_file_of_both_variable_and_cloud_config_is_one_configuration(tmp_path: Path) -> None:
    file = tmp_path / "cluster-config.json"
    file.write_text(json.dumps(VERDACLOUD))
    environ = {"VERDA_CLUSTER_CONFIG_FILE": str(file)} | VERDACLOUD_JOIN
    loaded = read(None, environ, (*ONE_VM, f"--cloud-config={file}"))
    assert loaded.draft.files == [str(file)]
    assert [pool.name for pool in loaded.settings.pools] == ["gpu-workers"]


def test_every_documented_flag_line_of_the_go_provider_is_read() -> None:
    assert read(None, datacrunch(), DATACRUNCH_FLAGS).settings.pools[0].max == 3


@pytest.mark.parametrize(
    "label", ["node-role.kubernetes.io/gpu", "foo.k8s.io/gpu", "node-restriction.kubernetes.io/a"]
)
def test_labels_that_a_kubelet_may_not_set_on_itself_are_taken_and_set_by_the_controller(label: str) -> None:
    assert read(ca_verda(labels={label: "x"})).settings.pools[0].labels == {label: "x"}


def test_an_image_that_the_type_does_not_boot_is_told_with_the_nearest_that_it_does() -> None:
    loaded = read(CA_VERDA)
    kind = InstanceType(
        name="1V100.6V", model="Tesla V100 16GB", gpus=1, vcpus=6, memory_gib=23, price=Decimal("0.14"), spot_price=Decimal("0.05"),
        images=("ubuntu-24.04-cuda-12.8-docker", "ubuntu-22.04", "ubuntu-24.04-cuda-12.6"),
    )  # fmt: skip
    catalogue = Catalogue(at=1.0, offers=(Offer(type=kind, location="FIN-03", market="on-demand"),))
    (problem,) = check_against(to_policy(loaded.settings, cluster_id="c"), catalogue, loaded.origins)
    assert str(loaded.draft.theirs(problem)) == (
        "config.yaml:4: node_groups.gpu-workers.image = ubuntu-24.04-cuda-12.8-open-docker: expected an image that "
        "1V100.6V supports, such as ubuntu-24.04-cuda-12.8-docker, ubuntu-24.04-cuda-12.6, ubuntu-22.04"
    )


def test_a_settings_file_that_goes_right_after_it_was_read_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever replaces it takes the old one away first; of a running program no later change would be seen."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "machines: [{name: w, gpu_count: 1, scale_up_endpoint: 'http://p/1', scale_down_endpoint: 'http://p/2'}]"
    )

    def read(name: str, *_: str) -> str:
        text = Path(name).read_text()
        Path(name).unlink()
        return text

    monkeypatch.setattr(choosing, "read_text", read)
    assert load(str(file), {}).draft.files == [str(file)]


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--max-node-total=3", "--max-nodes-total"),
        ("--maxNodesTotal=3", "--max-nodes-total"),
        ("--scale-down-enable=false", "--scale-down-enabled"),
        ("--scaledown-enabled=false", "--scale-down-enabled"),
        ("--core-total=0:16", "--cores-total"),
        ("--scale-down-uneeded-time=1h", "--scale-down-unneeded-time"),
        ("--kube-config=/etc/other", "--kubeconfig"),
    ],
)
def test_a_flag_whose_name_is_nearly_that_of_one_with_an_effect_is_an_error(flag: str, meant: str) -> None:
    """cluster-autoscaler ends there too; in a warning a limit, a pause or the cluster that is meant would be lost."""
    text, environ, flags = DOCUMENTED["datacrunch"]
    (told,) = problems(text, environ, (*flags, flag))
    assert flag.partition("=")[0] in told
    assert f"expected {meant}, if that is meant" in told


REAL = (
    "--scale-down-unready-enabled=true", "--max-node-startup-time=15m", "--max-nodes-per-scaleup=10", "--startup-taint=a",
    "--node-group-backoff-reset-timeout=3h", "--initial-node-group-backoff-duration=5m", "--max-total-unready-percentage=45",
    "--scale-down-candidates-pool-ratio=0.1", "--kube-client-qps=5", "--kube-api-content-type=x", "--grpc-expander-url=x",
    "--scale-down-simulation-timeout=30s", "--cluster-snapshot-parallelism=16", "--max-drain-parallelism=1", "--user-agent=x",
    "--leader-elect-resource-lock=leases", "--max-bulk-soft-taint-time=3s", "--max-nodegroup-binpacking-duration=10s",
    "--node-deletion-delay-timeout=2m", "--node-delete-delay-after-taint=5s", "--scale-down-delay-type-local=true",
    "--max-allocatable-difference-ratio=0.05", "--new-pod-scale-up-delay=0s", "--status-config-map-name=x", "--regional=true",
    "--max-autoprovisioned-node-group-count=15", "--enforce-node-group-min-size=true", "--kubernetes=", "--estimator=binpacking",
)  # fmt: skip


@pytest.mark.parametrize("flag", REAL)
def test_no_real_flag_of_cluster_autoscaler_is_taken_for_a_misspelt_one(flag: str) -> None:
    text, environ, flags = DOCUMENTED["datacrunch"]
    loaded = read(text, environ, (*flags, flag))
    assert [line for line in loaded.warnings if flag.partition("=")[0] + ": has no effect here" in line]


@pytest.mark.parametrize("flag", ["--kubeconfig", "--cloud-config", "--address"])
def test_a_flag_that_lost_its_value_is_an_error(flag: str) -> None:
    """Another cluster than the one that is meant would be taken; with `=` an empty value says so."""
    text, environ, flags = DOCUMENTED["datacrunch"]
    assert problems(text, environ, (*flags, flag, "--v=4")) == [f"command line: {flag}: expected a value"]
    assert problems(text, environ, (*flags, f"{flag}=")) == []


@pytest.mark.parametrize("name", ["ca-verda", "datacrunch", "verdacloud"])
def test_a_minimum_that_is_bought_from_now_on_is_told(name: str) -> None:
    """cluster-autoscaler fills no minimum unless it is told to, and so nobody has paid for it."""
    text, environ, flags = DOCUMENTED[name]
    words = "machines are kept from the start on, also without pods"
    assert not any(words in line for line in read(text, environ, flags).warnings)
    text = text.replace("min_size: 0", "min_size: 1") if text is not None else None
    flags = tuple(flag.replace("--nodes=0:", "--nodes=1:") for flag in flags)
    loaded = read(text, environ, flags)
    assert loaded.settings.pools[0].min == 1
    assert len([line for line in loaded.warnings if words in line]) == sum(
        p.min for p in loaded.settings.pools
    )
    # Only this project's command may go on serving cluster-autoscaler, which then fills what it filled before.
    assert any("driver externalgrpc" in line for line in loaded.warnings) is (name == "ca-verda")


@pytest.mark.parametrize("flag", ["--enforce-node-group-min-size", "--enforce-node-group-min-size=true"])
def test_a_minimum_that_was_bought_before_is_not_told(flag: str) -> None:
    flags = ("--cloud-provider=datacrunch", "--nodes=1:3:1A100.22V:FIN-01:gpu-nodes")
    words = "machines are kept from the start on"
    assert any(words in line for line in read(None, datacrunch(), flags).warnings)
    assert any(
        words in line
        for line in read(None, datacrunch(), (*flags, f"{flag.partition('=')[0]}=false")).warnings
    )
    assert not any(words in line for line in read(None, datacrunch(), (*flags, flag)).warnings)


def test_without_scale_down_machines_of_groups_that_are_gone_stay_as_well() -> None:
    """Their pools cannot say so any more."""
    text, environ, flags = DOCUMENTED["datacrunch"]
    off = (*flags, "--scale-down-enabled=false")
    assert read(text, environ, flags).settings.scale_down.removed_pools == "drain"
    assert read(text, environ, off).settings.scale_down.removed_pools == "keep"
    told = {"GPU_AUTOSCALER_SCALE_DOWN__REMOVED_POOLS": "drain"}
    assert read(text, {**environ, **told}, off).settings.scale_down.removed_pools == "drain"
