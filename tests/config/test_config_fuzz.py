"""No parser of settings ends in anything but settings or a clear problem, whatever it is given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.config.dialects.dotenv import parse_dotenv
from controller.config.dialects.flags import parse_flags
from controller.config.dialects.jsontext import parse_json
from controller.config.errors import ConfigError
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
