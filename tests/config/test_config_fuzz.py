"""No parser of settings ends in anything but settings or a clear problem, whatever it is given."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller.app.exits import Ends
from controller.app.snapshot_rows import SnapshotError
from controller.app.snapshots import read as read_snapshot
from controller.cli.verbs import app
from controller.cloud.webhook.calls import Way, outcome_of, power_of, seconds
from controller.config.dialects.dotenv import parse_dotenv
from controller.config.dialects.flags import parse_flags
from controller.config.dialects.jsontext import parse_json
from controller.config.dialects.scripts import decoded
from controller.config.errors import ConfigError
from controller.config.load import load, load_dict
from controller.config.paths import PREFIX, fields, variable, variables
from controller.config.settings import Settings
from controller.config.sources import read_credential
from controller.config.yamltext import parse_yaml
from tests.config.foreign import HELM, MACHINES, in_base64, read
from tests.loop.predecessors import (
    CA_VERDA,
    DATACRUNCH,
    DATACRUNCH_FLAGS,
    VERDACLOUD,
    VERDACLOUD_FLAGS,
    VERDACLOUD_JOIN,
)

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(-1e9, 1e9, width=32),
    st.text(max_size=8),
    st.just("FIN-01"),
    st.just("1"),
)
trees = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
TEXTS = {
    "ca-verda": CA_VERDA,
    "datacrunch": DATACRUNCH,
    "verdacloud": json.dumps(VERDACLOUD, indent=1),
    "webhook": HELM,
}


def ends_well(text: str | None, environ: dict[str, str], flags: tuple[str, ...] = (), **more: Any) -> None:
    """Settings, or problems that each say where and what was expected."""
    try:
        read(text, environ, flags, **more)
    except ConfigError as error:
        found = [str(problem) for problem in error.problems]
    else:
        found = ["expected"]
    assert found
    for line in found:
        assert "expected" in line
        assert line.isprintable()


@given(text=st.text(max_size=200))
@QUICK
def test_any_text_is_json_or_a_problem_with_its_line(text: str) -> None:
    try:
        found, _, _, _ = parse_json(text, "x.json")
    except ConfigError as error:
        places = [problem.where for problem in error.problems]
    else:
        places = ["x.json"] if isinstance(found, dict) else []
    assert places
    assert all(place.startswith("x.json") for place in places)


@given(value=st.dictionaries(st.text(max_size=8), trees, max_size=4))
@QUICK
def test_all_json_is_read_as_pythons_own_parser_reads_it(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    found, _, problems, warnings = parse_json(text, "x.json")
    assert found == json.loads(text)
    assert (problems, warnings) == ([], [])


@pytest.mark.parametrize("name", TEXTS)
@given(data=st.data())
@QUICK
def test_a_documented_text_with_a_piece_changed_ends_well(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    piece = data.draw(
        st.one_of(
            st.text(max_size=6),
            st.sampled_from([",", "}", "]", ":", "null", "[]", "{}", "\t", "&a", "*a", "!!x"]),
        )
    )
    mutated = text[:start] + piece + text[end:]
    if name in ("datacrunch", "verdacloud"):
        flags = DATACRUNCH_FLAGS if name == "datacrunch" else VERDACLOUD_FLAGS
        variable = "DATACRUNCH_CLUSTER_CONFIG_JSON" if name == "datacrunch" else "VERDA_CLUSTER_CONFIG"
        value = mutated if name == "datacrunch" else in_base64(mutated.encode("utf-8", "replace").decode())
        ends_well(None, {variable: value} | VERDACLOUD_JOIN, flags)
    ends_well(mutated, {})


@pytest.mark.parametrize(
    ("key", "dialect"),
    [
        ("node_groups", "ca-verda"),
        ("node_configs", "datacrunch"),
        ("groups", "verdacloud"),
        ("nodeGroups", "webhook"),
    ],
)
@given(value=trees)
@QUICK
def test_any_tree_under_a_predecessors_key_ends_well(key: str, dialect: str, value: Any) -> None:
    whole = json.dumps({key: value} if dialect != "verdacloud" else VERDACLOUD | {key: value})
    ends_well(whole, VERDACLOUD_JOIN, ("--nodes=0:1:a:FIN-01:b",) if dialect == "datacrunch" else ("--nodes=0:1:a:b",)
              if dialect == "verdacloud" else (), dialect=dialect)  # fmt: skip


@given(value=trees, key=st.sampled_from([
    "instance_type", "image", "min_size", "max_size", "location", "ssh_key_ids", "startup_script_id", "contract", "pricing",
    "hourly_price", "labels", "taints", "resources", "os_volume_gb",
]))  # fmt: skip
@QUICK
def test_any_value_of_any_key_of_a_group_ends_well(value: Any, key: str) -> None:
    group = {"instance_type": "a", "image": "b", "max_size": 1, "startup_script_id": "s", key: value}
    ends_well(json.dumps({"node_groups": {"g": group}}), {})


@given(value=trees, key=st.sampled_from([
    "image_type", "ssh_key_ids", "instance_option", "disk_size_gb", "override_num_gpus", "pricing_option",
    "startup_script_base64", "taints", "labels",
]))  # fmt: skip
@QUICK
def test_any_value_of_any_key_of_a_node_configuration_ends_well(value: Any, key: str) -> None:
    config = {"image_type": "a", "startup_script_base64": in_base64("true"), key: value}
    environ = {"DATACRUNCH_CLUSTER_CONFIG_JSON": json.dumps({"node_configs": {"gpu-nodes": config}})}
    ends_well(None, environ, DATACRUNCH_FLAGS)


@given(
    value=trees,
    key=st.sampled_from([*VERDACLOUD, "additionalVolumes", "startupScriptEnv"]),
    inner=st.booleans(),
)
@QUICK
def test_any_value_of_any_key_of_verdas_own_configuration_ends_well(
    value: Any, key: str, inner: bool
) -> None:
    config = VERDACLOUD | ({"groups": {"gpu-workers": {key: value}}} if inner else {key: value})
    ends_well(None, {"VERDA_CLUSTER_CONFIG": in_base64(config)} | VERDACLOUD_JOIN, VERDACLOUD_FLAGS)


@given(words=st.lists(st.one_of(st.text(max_size=12), st.sampled_from([
    "--nodes", "--nodes=0:1:a:FIN-01:b", "-nodes=::::", "--v", "4", "--expander", "--expander=", "--cloud-provider=datacrunch",
    "--cores-total=1", "--scale-down-enabled", "--", "-", "--=x", "--max-nodes-total=-1", "--scan-interval=1h", "--leader-elect",
])), max_size=6))  # fmt: skip
@QUICK
def test_any_command_line_ends_well(words: list[str]) -> None:
    parse_flags(words)
    ends_well(None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": DATACRUNCH}, tuple(words))


names = st.sampled_from(
    [
        *MACHINES,
        "A_INSTANCE_TYPES",
        "A_NAME",
        "A_MAX",
        "A_LABELS",
        "A_TAINTS",
        "A_MIN",
        "_GPU_COUNT",
        "GPU_COUNT",
        "A__B_GPU_COUNT",
    ]
)
no_nul = st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=12)


@given(
    environ=st.dictionaries(st.one_of(names, no_nul.filter(lambda text: "=" not in text)), no_nul, max_size=8)
)
@QUICK
def test_any_environment_ends_well(environ: dict[str, str]) -> None:
    ends_well(None, environ)


@given(text=st.text(max_size=100))
@QUICK
def test_any_dotenv_is_read_or_a_problem_with_its_line(text: str) -> None:
    _, problems = parse_dotenv(text, ".env")
    assert all(problem.where.startswith(".env:") and problem.value is None for problem in problems)


# -- our own forms -------------------------------------------------------------------------------------------

NATIVE = """\
pools:
  - name: a100
    instance_types: [1A100.22V]
    max: 4
    join: k3s
    taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
machines:
  - {name: w, gpu_count: 4, webhook: power, scale_up_endpoint: "http://power/on", scale_down_endpoint: "http://power/off"}
webhooks:
  power: {auth: {bearer: {secret: {name: s, key: k}}}, headers: {X-A: "1"}, success: [200-299]}
join: {k3s: {template: k3s, server: "https://10.0.0.1:6443", token_from: {value: not-a-real-token}}}
scale_down: {cooldown: 10m}
limits: {price_per_hour: 2.5}
"""
KEYS = sorted({".".join(map(str, path)) for path, _ in fields(Settings)})


@given(text=st.text(max_size=200))
@QUICK
def test_any_text_is_yaml_or_a_problem_with_the_files_name(text: str) -> None:
    try:
        found, _, problems = parse_yaml(text, "x.yaml")
    except ConfigError as error:
        found, problems = {}, list(error.problems)
        assert problems
    assert isinstance(found, dict)
    assert all(problem.where.startswith("x.yaml") and str(problem).isprintable() for problem in problems)


@given(data=st.data())
@settings(QUICK, max_examples=120)
def test_our_own_file_with_a_piece_changed_ends_well(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(NATIVE)))
    end = data.draw(st.integers(start, min(len(NATIVE), start + 30)))
    pieces = [
        "\t",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "\r\n",
        "\ufeff",
        ".nan",
        "-.inf",
        "1e400",
        "0x10",
        "~",
        "- ",
        "? ",
        "|",
        "''",
    ]
    piece = data.draw(st.one_of(st.text(max_size=6), st.sampled_from(pieces)))
    ends_well(NATIVE[:start] + piece + NATIVE[end:], {})


def everywhere(tree: Any) -> Iterator[tuple[str | int, ...]]:
    """Each place in a tree, the leaves and what stands above them."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *below) for below in everywhere(tree[key]))


def changed(tree: Any, path: tuple[str | int, ...], value: Any) -> Any:
    copy = deepcopy(tree)
    above = copy
    for key in path[:-1]:
        above = above[key]
    above[path[-1]] = value
    return copy


WHOLE = parse_yaml(NATIVE, "x.yaml")[0]


@pytest.mark.parametrize("path", list(everywhere(WHOLE)), ids=lambda path: ".".join(map(str, path)))
def test_whatever_stands_anywhere_in_a_whole_file_ends_well(path: tuple[str | int, ...]) -> None:
    """What names another part is looked up there before its own form has been judged."""
    for value in (
        ["power"],
        {"power": ["x"]},
        [{}],
        [[]],
        {},
        [],
        None,
        7,
        -1,
        0.5,
        True,
        "",
        "power",
        "w",
        "a100",
    ):
        ends_well(json.dumps(changed(WHOLE, path, value)), {})


@given(key=st.sampled_from(KEYS), value=trees)
@settings(QUICK, max_examples=300)
def test_any_value_of_any_of_our_keys_ends_well(key: str, value: Any) -> None:
    """In the file, in a snapshot, and on the command line."""
    whole: Any = value
    for part in reversed(key.split(".")):
        whole = [whole] if part == "*" else {("k" if part == "<name>" else part): whole}
    ends_well(json.dumps(whole), {})
    with contextlib.suppress(ConfigError):
        load_dict(whole)
    with contextlib.suppress(ConfigError):
        load(None, {}, {key.replace("*", "0").replace("<name>", "k"): value}, service_account="/nowhere")


@given(
    name=st.one_of(
        st.sampled_from(variables(Settings)),
        st.sampled_from([variable(path).replace("*", "0").replace("<NAME>", "K") for path, _ in fields(Settings)]),
        st.text(st.characters(codec="ascii", categories=("Lu", "Nd", "Pc")), max_size=12).map(lambda rest: PREFIX + rest),
    ),
    value=st.one_of(no_nul, st.sampled_from(["{", "[", "[1", "{}", "[]", "{\"a\": NaN}", "k=v,", ",", "a=b=c:NoSchedule", "1" * 400])),
)  # fmt: skip
@settings(QUICK, max_examples=300)
def test_any_value_of_any_of_our_variables_ends_well(name: str, value: str) -> None:
    ends_well(None, {name: value})
    ends_well(NATIVE, {name: value})


@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode())))
@QUICK
def test_any_file_is_a_credential_a_snapshot_and_settings_or_a_problem(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any-file"
    file.write_bytes(content)
    value, trouble = read_credential(str(file))
    assert bool(value) != bool(trouble)
    with contextlib.suppress(SnapshotError, ConfigError):
        read_snapshot(str(file))
    with contextlib.suppress(ConfigError):
        load(str(file), {}, service_account="/nowhere")


@given(
    body=st.one_of(st.binary(max_size=60), trees.map(lambda tree: json.dumps(tree).encode())),
    field=st.text(max_size=5),
)
@QUICK
def test_any_answer_of_a_power_server_is_on_off_or_not_known(body: bytes, field: str) -> None:
    assert power_of(Way(field=field, means_on=("on",), means_off=("off",)), body) in ("on", "off", "")


@given(status=st.integers(0, 999), retry=st.text(max_size=12))
@QUICK
def test_any_status_and_any_retry_after_is_an_outcome(status: int, retry: str) -> None:
    assert (seconds(retry) or 0) >= 0
    assert outcome_of(Way(), status, "power:80", retry) is not None


@given(value=st.one_of(trees, st.text(max_size=40)))
@QUICK
def test_any_value_is_a_script_in_base64_or_none(value: Any) -> None:
    assert decoded(value) is None or isinstance(value, str)


@given(
    words=st.lists(st.one_of(st.text(max_size=8), st.sampled_from([
        "--config", "FILE", "--dialect", "auto", "native", "ca-verda", "webhook", "--from", "--json", "--rights", "--nodes=0:1:a:b:c",
        "--cloud-provider=datacrunch", "--cloud-config=FILE", "--expander", "--", "--service-account", "--service-account=\n", "--kubeconfig",
    ])), max_size=6),
    verb=st.sampled_from(["check", "convert", "show"]),
    content=st.one_of(st.sampled_from([NATIVE, *TEXTS.values()]), st.text(max_size=40)),
)  # fmt: skip
@settings(QUICK, max_examples=150)
def test_any_words_to_the_commands_about_settings_end_without_a_traceback(
    words: list[str], verb: str, content: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = Path(tmp_path_factory.getbasetemp()) / "words.yaml"
    file.write_bytes(content.encode("utf-8", "replace"))
    given = [word.replace("FILE", str(file)) for word in words]
    clean = {"VERDA_CLIENT_SECRET": "a-secret-that-must-not-show"}
    ended = CliRunner().invoke(app, ["config", verb, *given], env=clean)
    assert ended.exception is None or isinstance(ended.exception, SystemExit | Ends), ended.exception
    assert ended.exit_code in (0, 1, 2, 3) or isinstance(ended.exception, Ends)
    assert "a-secret-that-must-not-show" not in ended.output
