"""Whatever is wrong outside: one clear line that says what to do, a documented exit code, nothing bought."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.demo.stage import NAMESPACE, QUICK, Stage, merged
from tests.cli.commands import SECRET, cli

POOL = {"name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "max": 2}


def written(folder: Path, settings: dict[str, Any]) -> str:
    path = folder / "config.yaml"
    path.write_text(json.dumps(merged(QUICK, {"cluster_id": "home"} | settings), indent=1))
    return str(path)


def credentials(stage: Stage, **more: str) -> dict[str, str]:
    return {
        "VERDA_CLIENT_ID": "client",
        "VERDA_CLIENT_SECRET": SECRET,
        "VERDA_BASE_URL": f"{stage.cloud_url}/v1",
    } | more


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"pools": [POOL | {"min": 5}]}, ["pools[0].min", "5", "max", "config.yaml:"]),
        ({"pools": []}, ["pools", "none is configured"]),
        ({"pools": [POOL | {"colour": "red"}]}, ["pools[0].colour", "config.yaml:"]),
        ({"pools": [POOL | {"market": "cheap"}]}, ["pools[0].market", "cheap", "prefer_spot"]),
        ({"pools": [{"name": "a100", "max": 1}]}, ["pools[0]", "instance_types"]),
        ({"pools": [POOL], "scale_down": {"cooldown": "soon"}}, ["scale_down.cooldown", "soon"]),
    ],
)
async def test_bad_settings_name_the_key_the_value_and_the_place(
    tmp_path: Path, settings: dict[str, Any], wanted: list[str]
) -> None:
    code, _, told = await cli("run", "--config", written(tmp_path, settings), env={
        "VERDA_CLIENT_ID": "client", "VERDA_CLIENT_SECRET": SECRET, "KUBECONFIG": str(tmp_path / "none"),
    })  # fmt: skip
    if settings["pools"]:
        assert code == 2
        assert all(word in told for word in wanted), told
    code, _, told = await cli("config", "check", "--config", written(tmp_path, settings))
    assert code == 2
    assert all(word in told for word in wanted), told


async def test_missing_credentials_name_the_variables(tmp_path: Path) -> None:
    code, _, told = await cli("run", "--config", written(tmp_path, {"pools": [POOL]}))
    assert code == 2
    assert "VERDA_CLIENT_ID and VERDA_CLIENT_SECRET: not set" in told


async def test_wrong_credentials_say_which_variables_to_look_at(tmp_path: Path) -> None:
    async with Stage(cloud={"credentials": "other:one"}, boots=False) as stage:
        config = written(tmp_path, {"pools": [POOL]})
        code, _, told = await cli(
            "run", "--config", config, "--kubeconfig", stage.kubeconfig, env=credentials(stage)
        )
        assert code == 3
        assert "VERDA_CLIENT_ID" in told
        assert "VERDA_CLIENT_SECRET" in told


async def test_no_pools_are_told_by_run(tmp_path: Path) -> None:
    async with Stage(boots=False) as stage:
        config = written(tmp_path, {"pools": []})
        code, _, told = await cli(
            "run", "--config", config, "--kubeconfig", stage.kubeconfig, env=credentials(stage)
        )
        assert code == 2
        assert "pools: none is configured" in told


async def test_an_unreachable_cloud_is_named(tmp_path: Path) -> None:
    async with Stage(boots=False) as stage:
        config = written(tmp_path, {"pools": [POOL], "verda": {"connect_timeout": "1s"}})
        env = credentials(stage, VERDA_BASE_URL="http://127.0.0.1:9/v1")
        code, _, told = await cli("run", "--config", config, "--kubeconfig", stage.kubeconfig, env=env)
        assert code == 3
        assert "http://127.0.0.1:9" in told


async def test_a_hanging_cloud_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async with Stage(boots=False) as stage:
        stage.cloud_faults.replace(
            [{"method": "GET", "path": "*", "fault": "hang", "seconds": 90, "times": 0}]
        )
        config = written(
            tmp_path, {"pools": [POOL], "verda": {"connect_timeout": "1s", "read_timeout": "1s"}}
        )
        code, _, told = await cli(
            "run", "--config", config, "--kubeconfig", stage.kubeconfig, env=credentials(stage)
        )
        assert code == 3
        assert f"asking the cloud  url={stage.cloud_url}" in told
        assert stage.cloud_url in told.splitlines()[-1]


async def test_the_end_does_not_wait_for_threads_in_a_time_out(tmp_path: Path) -> None:
    async with Stage(boots=False) as stage:
        stage.cloud_faults.replace([{"path": "*", "fault": "hang", "seconds": 90, "times": 0}])
        config = written(tmp_path, {"pools": [POOL]})
        words = ("run", "--config", config, "--kubeconfig", stage.kubeconfig)
        code, _, told = await cli(*words, env=credentials(stage), within=25)
        assert code == 3
        assert told.splitlines()[-1] == f"{stage.cloud_url}/v1 does not answer within 15 s"


async def test_an_unreachable_cluster_is_named(tmp_path: Path) -> None:
    async with Stage(boots=False) as stage:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            Path(stage.kubeconfig).read_text().replace(stage.cluster_url, "http://127.0.0.1:9")
        )
        config = written(tmp_path, {"pools": [POOL]})
        code, _, told = await cli(
            "run", "--config", config, "--kubeconfig", str(kubeconfig), env=credentials(stage)
        )
        assert code == 3
        assert "http://127.0.0.1:9" in told


async def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with Stage(boots=False) as stage:
        config = written(tmp_path, {"pools": [POOL]})
        code, _, told = await cli(
            "run", "--config", config, "--kubeconfig", "/nowhere/kubeconfig", env=credentials(stage)
        )
        assert (code, len(told.splitlines())) == (2, 1), told
        assert "no kubeconfig at /nowhere/kubeconfig" in told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty"),
        ("a: [", "is not YAML"),
        ("just words", "is not a kubeconfig"),
        ("kind: Config", "current-context"),
        ("current-context: x\ncontexts: 3", "contexts"),
        ("{current-context: x, contexts: [], clusters: []}", "name x"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: []}", "name c"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
            " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}],"
            " users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere/x}}}]}",
            "/nowhere/x",
        ),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_line_with_its_name(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    config = written(tmp_path, {"pools": [POOL]})
    env = {"VERDA_CLIENT_ID": "client", "VERDA_CLIENT_SECRET": SECRET, "KUBECONFIG": str(file)}
    for words in (("run",), ("plan",), ("config", "check", "--cluster")):
        code, _, told = await cli(*words, "--config", config, env=env)
        assert (code, len(told.splitlines())) == (2, 1), told
        assert str(file) in told
        assert said in told


async def test_a_directory_as_kubeconfig_is_told(tmp_path: Path) -> None:
    config = written(tmp_path, {"pools": [POOL]})
    env = {"VERDA_CLIENT_ID": "client", "VERDA_CLIENT_SECRET": SECRET}
    code, _, told = await cli("run", "--config", config, "--kubeconfig", str(tmp_path), env=env)
    assert (code, len(told.splitlines())) == (2, 1), told
    assert f"{tmp_path} cannot be read: Is a directory" in told


async def test_a_kubeconfig_without_rights_lists_what_is_missing_and_buys_nothing(tmp_path: Path) -> None:
    reader = {
        "user": "reader",
        "rules": [{"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }
    async with Stage(cluster={"tokens": {"sandbox": reader}}, boots=False) as stage:
        config = written(tmp_path, {"pools": [POOL]})
        code, _, told = await cli(
            "run", "--config", config, "--kubeconfig", stage.kubeconfig, env=credentials(stage)
        )
        assert code == 3
        assert "patch nodes" in told
        assert f"update configmaps in namespace {NAMESPACE}" in told
        assert (await stage.bill())["creates"] == 0
        code, _, told = await cli(
            "config",
            "check",
            "--cluster",
            "--config",
            config,
            "--kubeconfig",
            stage.kubeconfig,
            env=credentials(stage),
        )
        assert code == 3
        assert "missing right: patch nodes" in told


async def test_whoever_may_only_read_may_plan(tmp_path: Path) -> None:
    verbs = ["get", "list", "watch"]
    reader = {"user": "reader", "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]}
    async with Stage(cluster={"tokens": {"sandbox": reader}}, boots=False) as stage:
        given = ["--config", written(tmp_path, {"pools": [POOL]}), "--kubeconfig", stage.kubeconfig]
        for words in (("plan",), ("run", "--dry-run", "--once")):
            code, shown, told = await cli(*words, *given, env=credentials(stage))
            assert (code, shown.strip()) == (0, "nothing to do"), told
        code, _, told = await cli("run", "--once", *given, env=credentials(stage))
        assert (code, "patch nodes" in told, "get nodes" in told) == (3, True, False)


@pytest.mark.parametrize(
    ("pool", "wanted"),
    [
        (POOL | {"instance_types": ["1A100.23V"]}, ["pools[0].instance_types", "1A100.23V", "1A100.22V"]),
        (POOL | {"image": "ubuntu-18.04"}, ["pools[0].image", "ubuntu-18.04", "1A100.22V"]),
        (POOL | {"locations": ["FIN-09"]}, ["pools[0].locations", "FIN-09"]),
        (POOL | {"max_price_per_hour": 0.1}, ["pools[0].max_price_per_hour", "0.1"]),
    ],
)
async def test_what_the_cloud_does_not_sell_is_told_and_does_not_stop_the_controller(
    tmp_path: Path, pool: dict[str, Any], wanted: list[str]
) -> None:
    async with Stage(boots=False) as stage:
        config = written(tmp_path, {"pools": [pool]})
        code, _, told = await cli("config", "check", "--cloud", "--config", config, env=credentials(stage))
        assert code == 2
        assert all(word in told for word in wanted), told
        code, _, told = await cli(
            "run", "--once", "--config", config, "--kubeconfig", stage.kubeconfig, env=credentials(stage)
        )
        assert code == 0, told
        assert all(word in told for word in wanted), told
        assert (await stage.bill())["creates"] == 0


async def test_unknown_options_and_values_are_refused() -> None:
    code, _, told = await cli("run", "--log-level", "loud")
    assert (code, "--log-level 'loud'" in told) == (2, True)
    code, _, told = await cli("run", "--driver", "magic")
    assert (code, "planner" in told) == (2, True)


@pytest.mark.parametrize("world", ["cloud", "cluster"])
async def test_a_sandbox_that_cannot_start_says_why_in_one_line(tmp_path: Path, world: str) -> None:
    junk = tmp_path / "junk.yaml"
    options = ["--settings"] if world == "cloud" else ["--settings", "--join-defaults"]
    for option in options:
        for content in (
            "a: [",
            "just words",
            "boot: 2020-99-99",
            "speed: .inf",
            "speed: 1" + 400 * "0",
            "- 1",
        ):
            junk.write_text(content)
            if option == "--join-defaults" and "speed" in content:
                continue
            code, _, told = await cli("sandbox", world, option, str(junk), within=20)
            assert (code, len(told.splitlines())) == (2, 1), (content, told)
        for missing in (tmp_path / "none", tmp_path):
            code, _, told = await cli("sandbox", world, option, str(missing), within=20)
            assert (code, len(told.splitlines()), str(missing) in told) == (2, 1, True), told
    code, _, told = await cli("sandbox", world, "--port", "99999")
    assert (code, "65535" in told) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, told = await cli("sandbox", world, "--port", str(taken.getsockname()[1]), within=20)
        assert (code, len(told.splitlines())) == (1, 1), told


async def test_the_version_is_told() -> None:
    code, shown, _ = await cli("--version")
    assert (code, shown.startswith("verda-gpu-autoscaler ")) == (0, True)
    code, shown, _ = await cli("version", "--json")
    assert code == 0
    assert json.loads(shown)["version"]


async def test_secrets_are_masked_in_the_shown_settings(tmp_path: Path) -> None:
    config = written(tmp_path, {"pools": [POOL]})
    code, shown, _ = await cli(
        "config",
        "show",
        "--json",
        "--config",
        config,
        env={"VERDA_CLIENT_ID": "me", "VERDA_CLIENT_SECRET": SECRET},
    )
    assert code == 0
    assert json.loads(shown)["verda"]["client_secret"] == "***"
