"""One thing that is wrong gives one line, whatever else refers to it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.config.foreign import HELM, in_base64, problems
from tests.loop.predecessors import (
    CA_VERDA,
    DATACRUNCH,
    DATACRUNCH_FLAGS,
    VERDACLOUD,
    VERDACLOUD_FLAGS,
    VERDACLOUD_JOIN,
)

NATIVE = """\
pools:
  - {name: a100, instance_types: [1A100.22V], max: 2, join: k3s, taints: [{key: a, effect: NoSchedule}]}
machines:
  - {name: w1, gpu_count: 4, scale_up_endpoint: "http://power/on", scale_down_endpoint: "http://power/off", webhook: ipmi}
webhooks: {ipmi: {body: "${action}", auth: {hmac: {key: {file: /etc/key}}}}}
headroom: [{pool: a100, gpus: 1}]
join:
  k3s: {template: k3s, server: "https://10.0.0.1:6443", token_from: {secret: {name: join, key: token}}}
"""
GO = json.loads(DATACRUNCH.replace('10gb",}', '10gb"}'))
Asked = tuple[str | None, dict[str, str], tuple[str, ...]]
FORMS: dict[str, tuple[Any, Callable[[Any], Asked]]] = {
    "native": (yaml.safe_load(NATIVE), lambda tree: (yaml.safe_dump(tree), {}, ())),
    "ca-verda": (yaml.safe_load(CA_VERDA), lambda tree: (yaml.safe_dump(tree), {}, ())),
    "webhook": (yaml.safe_load(HELM), lambda tree: (yaml.safe_dump(tree), {}, ())),
    "datacrunch": (GO, lambda tree: (None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": json.dumps(tree)}, DATACRUNCH_FLAGS)),
    "verdacloud": (
        VERDACLOUD,
        lambda tree: (
            None, {"VERDA_CLUSTER_CONFIG": in_base64(tree)} | VERDACLOUD_JOIN, tuple(VERDACLOUD_FLAGS)
        ),
    ),
}  # fmt: skip


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from _paths(value, (*path, key))


@pytest.mark.parametrize("name", FORMS)
def test_any_one_wrong_value_gives_one_line_at_most(name: str) -> None:
    tree, asked = FORMS[name]
    told = 0
    for path in _paths(tree):
        for value in ("bad value!", True, "", [["x"]]):
            made = deepcopy(tree)
            spot = made
            for part in path[:-1]:
                spot = spot[part]
            spot[path[-1]] = value
            found = problems(*asked(made))
            told += len(found)
            assert len(found) <= 1, (path, value, found)
    assert told > 20


@pytest.mark.parametrize(
    ("key", "typo"),
    [
        ("name: a100", "nam: a100"), ("max: 2", "maxx: 2"), ("gpu_count", "gpu_cuont"), ("template: k3s", "template: k3s, servr: x"),
        ("server:", "srver:"), ("scale_up_endpoint", "scale_up_endpont"), ("join: k3s,", "jion: k3s,"),
    ],
)  # fmt: skip
def test_a_required_key_that_is_misspelt_gives_one_line(key: str, typo: str) -> None:
    text = NATIVE.replace("headroom: [{pool: a100, gpus: 1}]\n", "").replace(key, typo, 1)
    (line,) = problems(text)
    said = re.findall(r"\w+(?=:)", typo)[-1] if ":" in typo else typo
    assert f".{said}: expected one of the known keys; did you mean" in line


def test_what_refers_to_something_that_is_wrong_is_not_told_and_what_is_wrong_itself_is() -> None:
    found = problems(NATIVE.replace("name: a100", "name: A100").replace("webhook: ipmi", "webhook: other"))
    assert [line.partition(" = ")[0] for line in found] == [
        "config.yaml:2: pools[0].name", "config.yaml:4: machines[0].webhook"
    ]  # fmt: skip
    typo = problems(NATIVE.replace("pool: a100", "pool: a10"))
    assert typo == ["config.yaml:6: headroom[0].pool = a10: expected the name of a pool; did you mean a100?"]
