"""The commands that predecessors' manifests start, and what the command line makes of their configurations."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cli.foreign import _autoscaler, provider
from controller.cli.main import app, outcome
from controller.cluster.rights import RIGHTS
from controller.cluster.roles import objects
from controller.config.dialects.flags import parse_flags
from controller.config.load import load
from controller.sandbox.demo.stage import NAMESPACE, Stage
from tests.cli.commands import SECRET, cli
from tests.config.foreign import DOCUMENTED, MACHINES
from tests.loop.predecessors import CA_VERDA, DATACRUNCH, DATACRUNCH_FLAGS, VERDACLOUD_FLAGS, verdacloud

life = pytest.mark.life


def environ(stage: Stage, **more: str) -> dict[str, str]:
    return {
        "VERDA_CLIENT_ID": "client", "VERDA_CLIENT_SECRET": SECRET, "VERDA_BASE_URL": f"{stage.cloud_url}/v1",
        "KUBECONFIG": stage.kubeconfig, "POD_NAMESPACE": NAMESPACE,
        "GPU_AUTOSCALER_VERDA__CONNECT_TIMEOUT": "20s", "GPU_AUTOSCALER_VERDA__READ_TIMEOUT": "20s",
    } | more  # fmt: skip


async def command(function: str, *words: str, env: Mapping[str, str], cwd: Path) -> tuple[int, str]:
    """One of the console scripts, as its wrapper starts it."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("VERDA_", "DATACRUNCH_", "GPU_AUTOSCALER_", "KUBE"))
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"from controller.cli.foreign import {function} as main; main()", *words,
        env=kept | dict(env), cwd=cwd, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    told = out.decode()
    assert SECRET not in told
    assert "Traceback" not in told, told
    assert process.returncode is not None
    return process.returncode, told


STARTS: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "the Python provider's command": (
        "verda_cloud_provider", ("--config", "config.yaml", "--port", "8086", "--log-level", "INFO"), {},
    ),
    "the Go provider's command": (
        "cluster_autoscaler", DATACRUNCH_FLAGS, {"DATACRUNCH_CLUSTER_CONFIG_JSON": DATACRUNCH},
    ),
    "the command of Verda's own provider": ("cluster_autoscaler", VERDACLOUD_FLAGS, verdacloud()),
}  # fmt: skip


@life
@pytest.mark.parametrize("what", STARTS)
async def test_each_predecessors_command_line_starts_as_documented(what: str, tmp_path: Path) -> None:
    function, words, more = STARTS[what]
    (tmp_path / "config.yaml").write_text(CA_VERDA)
    async with Stage(boots=False) as stage:
        code, told = await command(
            function, *words, "--dry-run", "--once", env=environ(stage, **more), cwd=tmp_path
        )
        assert code == 0, told
        assert "nothing to do" in told
        assert (await stage.bill())["creates"] == 0


@life
async def test_the_images_own_command_takes_the_python_providers_arguments_without_a_verb(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.yaml").write_text(CA_VERDA)
    async with Stage(boots=False) as stage:
        code, shown, told = await cli(
            f"--config={tmp_path}/config.yaml", "--port=8086", "--log-level=INFO", "--dry-run", "--once",
            env=environ(stage), within=120,
        )  # fmt: skip
        assert code == 0, told
        assert "nothing to do" in shown


@life
async def test_the_webhook_controllers_variables_start_a_dry_run_without_any_cloud_account() -> None:
    async with Stage(boots=False) as stage:
        env = {"KUBECONFIG": stage.kubeconfig, "POD_NAMESPACE": NAMESPACE} | MACHINES
        code, shown, told = await cli("run", "--dry-run", "--once", env=env, within=120)
        assert code == 0, told
        assert "nothing to do" in shown


@life
async def test_a_manifest_that_needs_another_provider_is_told_what_this_image_is(tmp_path: Path) -> None:
    code, told = await command("cluster_autoscaler", "--v=4", env={}, cwd=tmp_path)
    assert code == 2
    assert "verda-gpu-autoscaler" in told
    code, told = await command("verda_cloud_provider", "--log-level", "LOUD", env={}, cwd=tmp_path)
    assert code == 2
    code, told = await command("verda_cloud_provider", "--driver", "externalgrpc2", env={}, cwd=tmp_path)
    assert code == 2


@life
async def test_a_misspelt_option_is_not_taken_for_a_flag_of_cluster_autoscaler(tmp_path: Path) -> None:
    code, _, told = await cli("run", "--confg", "x.yaml", env={})
    assert code == 2
    assert "--confg: no such option" in told


@life
async def test_config_check_prints_the_rights_that_are_needed_for_the_predecessors_account(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.yaml").write_text(CA_VERDA)
    code, shown, _ = await cli("config", "check", "--config", str(tmp_path / "config.yaml"), "--rights")
    assert code == 0
    printed = list(yaml.safe_load_all(shown))
    assert [each["kind"] for each in printed] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    assert printed[1]["subjects"][0]["name"] == "verda-cloud-provider"
    code, shown, _ = await cli("config", "check", env=MACHINES)
    assert code == 0
    assert shown.startswith("ok\n# The rights")
    assert list(yaml.safe_load_all(shown.partition("\n")[2]))[1]["subjects"][0]["name"] == "gpu-node-manager"
    code, shown, _ = await cli("config", "check", "--json", env=MACHINES)
    assert json.loads(shown)["rights"][0]["kind"] == "ClusterRole"


@life
@pytest.mark.parametrize("name", DOCUMENTED)
async def test_config_convert_prints_settings_that_are_read(name: str, tmp_path: Path) -> None:
    text, env, flags = DOCUMENTED[name]
    words = ["--from", name, *flags]
    if text is not None:
        (tmp_path / "theirs.yaml").write_text(text)
        words += ["--config", str(tmp_path / "theirs.yaml")]
    code, shown, told = await cli("config", "convert", *words, env=env)
    assert code == 0, told
    assert load("converted.yaml", {}, text=shown).dialect == "native"


def test_the_printed_rights_are_those_of_the_table_and_no_more() -> None:
    printed = objects("a", "ns", "account", ["join"])
    granted: set[tuple[str, str, str, bool]] = set()
    for each in printed:
        for rule in each.get("rules", ()):
            own = each["kind"] == "Role"
            granted |= {
                (f"{resource.partition('/')[0]}.{group}".rstrip(".") + (f"/{resource.partition('/')[2]}" if "/" in resource else ""),
                 verb, name, own)
                for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
                for name in rule.get("resourceNames", [""])
            }  # fmt: skip
    wanted: set[Any] = {
        (right.resource, right.verb, right.name or ("join" if right.only_for else ""), right.own_namespace)
        for right in RIGHTS
    }
    assert granted == wanted


@pytest.mark.parametrize(
    "word", ["-dry-run", "--dry_run", "--dryrun", "--dry-run=true", "-once", "--once=true"]
)
@pytest.mark.parametrize("entry", ["run", "cluster-autoscaler"])
def test_a_dry_run_that_is_spelt_otherwise_is_not_taken_for_a_flag_without_effect(
    entry: str, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was named in a warning, and machines were bought."""
    words = [*DATACRUNCH_FLAGS, word]
    for name, value in {"DATACRUNCH_CLUSTER_CONFIG_JSON": DATACRUNCH, "KUBECONFIG": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["cluster-autoscaler", *words])
    assert outcome(_autoscaler if entry != "run" else lambda: app(["run", *words])) == 2
    told = capsys.readouterr().err
    assert "written so and without a value" in told or "does not take a value" in told


@pytest.mark.parametrize(
    "word",
    [
        "--dry-runs",
        "--dry-rum",
        "--dy-run",
        "--dry-rnu",
        "--dry-un=true",
        "--onces",
        "--dry",
        "--dry-run-only",
        "--once-only",
    ],
)
def test_a_misspelt_dry_run_is_not_taken_for_a_flag_without_effect(word: str) -> None:
    """Nor is what is nearly its name, as with flags of cluster-autoscaler: machines would be bought all the same."""
    (told,) = parse_flags((*DATACRUNCH_FLAGS, word)).problems
    assert told.expected in ("--dry-run, if that is meant", "--once, if that is meant")


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (("--scale_down_unneeded_time=5m",), ("scale_down", "cooldown"), "5m"),
        (("--expendable-pods-priority-cutoff", "-10"), ("planning", "priority_cutoff"), "-10"),
    ],
)
def test_flags_are_read_as_cluster_autoscaler_reads_them(
    words: tuple[str, ...], path: tuple[str, ...], value: str
) -> None:
    flags = parse_flags(("--cloud_provider=datacrunch", *words))
    assert (flags.provider, flags.warnings, flags.problems) == ("datacrunch", [], [])
    assert [(at, to) for at, to, _, _ in flags.settings] == [(path, value)]


def test_the_go_providers_command_tells_what_it_is_and_which_flags_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cluster-autoscaler", "--help"])
    assert outcome(_autoscaler) == 0
    shown = capsys.readouterr().out
    assert "--cloud-provider=datacrunch --nodes=<min>:<max>:<instance type>:<region>:<group>" in shown
    assert all(
        flag in shown
        for flag in ("--max-nodes-total", "--expander", "--dry-run", "verda-gpu-autoscaler --help")
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["config", "check", "--config", ""], 'command line: --config = "": expected the name of a file'),
        (["config", "convert", "--from", "x"], "command line: --from = x: expected one of auto, native,"),
        (["run", "--wat"], "--wat: no such option;"),
    ],
)
def test_wrong_words_are_one_line_with_the_options_name(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(lambda: app(words)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(told)


def test_a_sweep_needs_none_of_the_flags_that_the_predecessors_variables_ask_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the predecessor's pod its variables are set, and nobody repeats --nodes to look for leftovers."""
    monkeypatch.setenv("DATACRUNCH_CLUSTER_CONFIG_JSON", DATACRUNCH)
    for name in (
        "VERDA_CLIENT_ID",
        "VERDA_CLIENT_SECRET",
        "DATACRUNCH_CLIENT_ID",
        "DATACRUNCH_CLIENT_SECRET",
    ):
        monkeypatch.delenv(name, raising=False)
    assert outcome(lambda: app(["sweep"])) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("VERDA_CLIENT_ID and VERDA_CLIENT_SECRET: not set")


def test_the_python_providers_command_takes_no_other_file_where_the_name_of_its_own_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--config "$FILE"` without such a variable is no wish for whatever lies here."""
    (tmp_path / "config.yaml").write_text(CA_VERDA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["verda-cloud-provider", "--config", "", "--driver", "planner"])
    assert outcome(provider()) == 2
    assert 'command line: --config = "": expected the name of a file' in capsys.readouterr().err


def test_an_address_that_is_none_is_told_with_the_flag_that_gave_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cluster-autoscaler", *DATACRUNCH_FLAGS, "--address=bad"])
    assert outcome(_autoscaler) == 2
    assert "--address 'bad': expected ADDRESS:PORT or :PORT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("run", ["--once", "--listen", "--dry-run"]),
        ("verda-cloud-provider", ["--driver", "planner", "--listen", "--dry-run"]),
    ],
)
def test_a_dry_run_is_not_swallowed_as_an_address_that_nobody_needs(
    entry: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing listens there, so nobody would notice; and machines would be bought."""
    (tmp_path / "config.yaml").write_text(CA_VERDA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    words = ["--config", "config.yaml", *words]
    monkeypatch.setattr(sys, "argv", [entry, *words])
    assert outcome(provider() if entry != "run" else lambda: app(["run", *words])) == 2
    assert "--listen '--dry-run': expected ADDRESS:PORT or :PORT" in capsys.readouterr().err
