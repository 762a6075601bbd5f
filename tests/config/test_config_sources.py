"""Variables in all their forms, who wins, and where credentials and the namespace come from."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from controller.config.errors import ConfigError
from controller.config.load import Loaded, load

FILE = """\
limits: {gpus: 4, machines: 2}
pools:
  - {name: a, gpu_models: [X], max: 1, labels: {team: ml, tier: two}}
join: {mine: {startup_script_id: s}}
planning: {ignore_namespaces: [one, two]}
"""


def loaded(environ: dict[str, str], overrides: dict[str, Any] | None = None, text: str = FILE) -> Loaded:
    return load("config.yaml", environ, overrides, text, service_account="/nonexistent")


def refusal(environ: dict[str, str], overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(environ, overrides)
    return str(caught.value)


def test_the_command_line_beats_the_environment_beats_the_file_beats_the_default() -> None:
    environ = {"GPU_AUTOSCALER_LIMITS__GPUS": "8", "GPU_AUTOSCALER_LIMITS__PRICE_PER_HOUR": "2.50"}
    found = loaded(environ, {"limits.price_per_hour": 3})
    limits = found.settings.limits
    assert (limits.launches_per_minute, limits.machines, limits.gpus) == (30, 2, 8)
    assert limits.price_per_hour == Decimal(3)
    assert found.origins["limits.machines"] == "config.yaml:1"
    assert found.origins["limits.gpus"] == "GPU_AUTOSCALER_LIMITS__GPUS"
    assert found.origins["limits.price_per_hour"] == "command line"
    assert "limits.launches_per_minute" not in found.origins


@pytest.mark.parametrize(
    ("name", "text", "path", "value"),
    [
        ("PLANNING__IGNORE_NAMESPACES", "a, b", "planning.ignore_namespaces", ["a", "b"]),
        ("PLANNING__IGNORE_NAMESPACES", '["a"]', "planning.ignore_namespaces", ["a"]),
        ("PLANNING__IGNORE_NAMESPACES", "[]", "planning.ignore_namespaces", []),
        ("PLANNING__IGNORE_NAMESPACES", "", "planning.ignore_namespaces", ["one", "two"]),
        ("SCALE_DOWN__COOLDOWN", "1h30m", "scale_down.cooldown", "1h30m"),
        ("SCALE_DOWN__COOLDOWN", "90", "scale_down.cooldown", "1m30s"),
        ("DEADLINES", '{"backoff": {"first": "1m"}}', "deadlines.backoff.first", "1m"),
        ("DEADLINES__BACKOFF__FIRST", "2m", "deadlines.backoff.first", "2m"),
        ("JOIN__MINE", '{"startup_script_id": "t"}', "join.mine.startup_script_id", "t"),
        ("POOLS__0__LABELS", "team=ops,zone=", "pools.0.labels", {"team": "ops", "tier": "two", "zone": ""}),
        ("POOLS__0__LABELS", '{"team": "ops"}', "pools.0.labels.team", "ops"),
        ("POOLS__0__IMAGE", "auto", "pools.0.image", "auto"),
        ("POOLS__0__IMAGE", "one,two", "pools.0.image", ["one", "two"]),
        ("POOLS__0__ARM64", "true", "pools.0.arm64", True),
        (
            "POOLS__0__TAINTS",
            "a=b:NoSchedule,c.d/e:NoExecute",
            "pools.0.taints",
            [
                {"key": "a", "value": "b", "effect": "NoSchedule"},
                {"key": "c.d/e", "value": "", "effect": "NoExecute"},
            ],
        ),
        ("POOLS", '[{"name": "z", "gpu_models": ["X"], "max": 2}]', "pools.0.name", "z"),
        ("DISRUPTION__BUDGET", "2", "disruption.budget", "2"),
    ],
)
def test_a_variable_may_be_written_like_this(name: str, text: str, path: str, value: object) -> None:
    found: Any = loaded({f"GPU_AUTOSCALER_{name}": text}).settings.model_dump(mode="json")
    for part in path.split("."):
        found = found[int(part)] if part.isdigit() else found[part]
    assert found == value


def test_a_whole_list_comes_before_its_parts() -> None:
    environ = {
        "GPU_AUTOSCALER_POOLS__1__MAX": "7",
        "GPU_AUTOSCALER_POOLS": '[{"name":"x","gpu_models":["X"],"max":1},{"name":"y","gpu_models":["X"],"max":1}]',
        "GPU_AUTOSCALER_POOLS__2": '{"name":"z","gpu_models":["X"],"max":9}',
    }
    assert [(pool.name, pool.max) for pool in loaded(environ).settings.pools] == [
        ("x", 1),
        ("y", 7),
        ("z", 9),
    ]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"GPU_AUTOSCALER_LIMIT__GPUS": "1"},
            "GPU_AUTOSCALER_LIMIT__GPUS: expected the name of a setting; did you mean GPU_AUTOSCALER_LIMITS__GPUS?",
        ),
        (
            {"GPU_AUTOSCALER_VERDA_CLIENT_SECRET": "x"},
            "GPU_AUTOSCALER_VERDA_CLIENT_SECRET: expected the name of a setting; "
            "did you mean GPU_AUTOSCALER_VERDA__CLIENT_SECRET?",
        ),
        ({"GPU_AUTOSCALER_QQQQQQ": "1"}, "GPU_AUTOSCALER_QQQQQQ: expected the name of a setting"),
        (
            {"GPU_AUTOSCALER_LIMITS__GPUS__X": "1"},
            "GPU_AUTOSCALER_LIMITS__GPUS__X: expected the name of a setting",
        ),
        (
            {"GPU_AUTOSCALER_LIMITS": "8"},
            "GPU_AUTOSCALER_LIMITS: limits: expected JSON, because this is a map",
        ),
        (
            {"GPU_AUTOSCALER_POOLS": "a100"},
            "GPU_AUTOSCALER_POOLS: pools: expected JSON, because this is a list",
        ),
        (
            {"GPU_AUTOSCALER_LIMITS": '{"gpus": 1, "gpus": 2}'},
            "GPU_AUTOSCALER_LIMITS: limits: expected every key once, and gpus is there twice",
        ),
        (
            {"GPU_AUTOSCALER_LIMITS": '{"gpus": NaN}'},
            "GPU_AUTOSCALER_LIMITS: limits: expected numbers, and NaN is none",
        ),
        (
            {"GPU_AUTOSCALER_POOLS__0__LABELS": "team"},
            "GPU_AUTOSCALER_POOLS__0__LABELS: pools[0].labels: expected pairs k=v with commas between them, or JSON",
        ),
        (
            {"GPU_AUTOSCALER_POOLS__5__MAX": "1"},
            "GPU_AUTOSCALER_POOLS__5__MAX: pools[5].max: expected an index of at most 1, because the list has 1 entries",
        ),
        (
            {"GPU_AUTOSCALER_POOLS__0__TAINTS": "a"},
            "GPU_AUTOSCALER_POOLS__0__TAINTS: pools[0].taints[0] = a: "
            "expected a taint such as nvidia.com/gpu=present:NoSchedule",
        ),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(environ: dict[str, str], message: str) -> None:
    found = refusal(environ)
    assert found.startswith(message)
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "text", "lacks"),
    [
        ("GPU_AUTOSCALER_POOLS__0__MAX", "4", "pools[0].name"),
        ("GPU_AUTOSCALER_MACHINES__0__MIN_ON", "5m", "machines[0].gpu_count"),
        ("GPU_AUTOSCALER_JOIN__K3S__SERVER", "https://10.0.0.1:6443", "join.k3s"),
        ("GPU_AUTOSCALER_WEBHOOKS__A__AUTH__HMAC__HEADER", "X-Mark", "webhooks.a.auth.hmac.key"),
    ],
)
def test_what_a_variable_of_a_part_leaves_out_is_told_with_its_name(name: str, text: str, lacks: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {name: text}, service_account="/nowhere")
    assert f"{name}: {lacks}: expected" in str(caught.value)
    assert all(problem.where == name for problem in caught.value.problems)


def test_what_kubernetes_adds_for_a_service_is_no_setting_and_no_error() -> None:
    links = {
        "GPU_AUTOSCALER_SERVICE_HOST": "10.0.0.1",
        "GPU_AUTOSCALER_SERVICE_PORT": "8080",
        "GPU_AUTOSCALER_SERVICE_PORT_HTTP": "8080",
        "GPU_AUTOSCALER_PORT": "tcp://10.0.0.1:8080",
        "GPU_AUTOSCALER_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "GPU_AUTOSCALER_PORT_8080_TCP_ADDR": "10.0.0.1",
        "GPU_AUTOSCALER_METRICS_SERVICE_HOST": "10.0.0.1",
        "GPU_AUTOSCALER_METRICS_PORT_8080_TCP_PROTO": "tcp",
    }
    assert loaded(links) == loaded({})


@pytest.mark.parametrize("key", ["scale_up.strategie", "pools[0].maxx", "", "a b"])
def test_a_key_on_the_command_line_that_nobody_knows_is_an_error(key: str) -> None:
    assert refusal({}, {key: "x"}).startswith("command line: ")


def test_the_command_line_takes_text_maps_and_nothing() -> None:
    overrides = {
        "scale_up": {"strategy": "cheapest"},
        "pools[0].max": "3",
        "planning.ignore_namespaces": "x,y",
        "limits.gpus": None,
    }
    settings = loaded({}, overrides).settings
    assert settings.scale_up.strategy == "cheapest"
    assert settings.pools[0].max == 3
    assert settings.planning.ignore_namespaces == ("x", "y")
    assert settings.limits.gpus == 4


def test_what_is_given_to_load_is_never_changed() -> None:
    overrides: dict[str, Any] = {"limits": {"gpus": 1}, "planning.ignore_namespaces": ["x"]}
    loaded({"GPU_AUTOSCALER_PLANNING__IGNORE_NAMESPACES__1": "y"}, overrides)
    assert overrides == {"limits": {"gpus": 1}, "planning.ignore_namespaces": ["x"]}


def secret_of(found: Loaded) -> str | None:
    secret = found.settings.verda.client_secret
    return secret.get_secret_value() if secret else None


def test_credentials_come_from_either_name_and_verda_wins_with_a_warning() -> None:
    old = {"DATACRUNCH_CLIENT_ID": "old", "DATACRUNCH_CLIENT_SECRET": "s-old"}
    new = {"VERDA_CLIENT_ID": "new", "VERDA_CLIENT_SECRET": "s-new"}
    assert (loaded(old).settings.verda.client_id, secret_of(loaded(old)), loaded(old).warnings) == (
        "old",
        "s-old",
        [],
    )
    both = loaded(old | new)
    assert (both.settings.verda.client_id, secret_of(both)) == ("new", "s-new")
    assert both.warnings == [
        "DATACRUNCH_CLIENT_ID: differs from VERDA_CLIENT_ID, which wins",
        "DATACRUNCH_CLIENT_SECRET: differs from VERDA_CLIENT_SECRET, which wins",
    ]
    assert loaded({**new, "DATACRUNCH_CLIENT_ID": "new"}).warnings == []
    most = loaded({**new, "GPU_AUTOSCALER_VERDA__CLIENT_ID": "own"})
    assert most.settings.verda.client_id == "own"
    assert most.warnings == ["VERDA_CLIENT_ID: differs from GPU_AUTOSCALER_VERDA__CLIENT_ID, which wins"]


def test_a_secret_may_be_in_a_file_and_its_newline_is_not_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s-file\r\n")
    found = loaded({"VERDA_CLIENT_ID": "a", "VERDA_CLIENT_SECRET_FILE": str(file)})
    assert secret_of(found) == "s-file"
    assert found.origins["verda.client_secret"] == "VERDA_CLIENT_SECRET_FILE"
    assert "s-file" not in repr(found)
    file.write_text("\n")
    assert refusal({"VERDA_CLIENT_SECRET_FILE": str(file)}) == (
        f"VERDA_CLIENT_SECRET_FILE: verda.client_secret = {file}: expected a file with one line of text"
    )
    missing = refusal({"VERDA_CLIENT_SECRET_FILE": str(tmp_path / "none")})
    assert missing.startswith("VERDA_CLIENT_SECRET_FILE: verda.client_secret = ")
    assert "expected a file that can be read (No such file or directory)" in missing


def test_half_of_the_credentials_and_plain_http_are_warned_about() -> None:
    environ = {"VERDA_CLIENT_ID": "a", "VERDA_BASE_URL": "http://cloud.example/v1"}
    assert loaded(environ).warnings == [
        "VERDA_BASE_URL: verda.base_url = http://cloud.example/v1: http sends the credentials in clear",
        "VERDA_CLIENT_ID: verda.client_id is set, verda.client_secret is not",
    ]
    assert loaded({"VERDA_BASE_URL": "http://127.0.0.1:80/v1"}).warnings == []


def test_the_namespace_is_the_setting_or_the_pods_or_the_service_accounts_or_ours(tmp_path: Path) -> None:
    account = tmp_path / "namespace"
    account.write_text("from-account\n")

    def namespace(environ: dict[str, str], text: str = "", file: Path = account) -> str:
        return load(None, environ, text=text, service_account=str(file)).settings.namespace

    assert namespace({"POD_NAMESPACE": "from-pod"}, "namespace: from-file") == "from-file"
    assert namespace({"POD_NAMESPACE": "from-pod", "GPU_AUTOSCALER_NAMESPACE": "from-env"}) == "from-env"
    assert namespace({"POD_NAMESPACE": "from-pod"}) == "from-pod"
    assert namespace({}) == "from-account"
    assert namespace({}, file=tmp_path / "none") == "gpu-autoscaler"


def test_durations_are_exact() -> None:
    settings = loaded({"GPU_AUTOSCALER_TIMING__QUIET": "0.25s"}).settings
    assert settings.timing.quiet == timedelta(milliseconds=250)
