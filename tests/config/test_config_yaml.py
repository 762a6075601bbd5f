"""Files as people write them: where things stand, what YAML makes of them, what is no YAML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.app.reload import mark
from controller.config.credentials import LiveCredentials
from controller.config.errors import ConfigError
from controller.config.load import load
from controller.config.settings import Verda
from controller.config.yamltext import parse_yaml


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null\n", "{}\n"])
def test_an_empty_file_sets_nothing(text: str) -> None:
    loaded = load("config.yaml", {}, text=text, service_account="/nonexistent")
    assert loaded.settings.pools == ()
    assert loaded.warnings == []
    assert loaded.origins == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits:\n\tgpus: 1\n", "config.yaml:2: expected valid YAML: tabs cannot indent, use spaces"),
        (
            "limits: {}\n---\nlimits: {}\n",
            "config.yaml:2: expected one YAML document, and not a second one after ---",
        ),
        ("- a\n", "config.yaml:1: expected a map of settings, such as `pools:` on a line of its own"),
        ("a\n", "config.yaml:1: expected a map of settings, such as `pools:` on a line of its own"),
        (
            "limits: {}\n\nlimits: {}\n",
            "config.yaml:3: limits: expected every key once; it is on line 1 already",
        ),
        (
            "limits:\n  gpus: 1\n  gpus: 2\n",
            "config.yaml:3: limits.gpus: expected every key once; it is on line 2 already",
        ),
        (
            "limits: {gpus: 1\n",
            "config.yaml:2: expected valid YAML: expected ',' or '}', but got '<stream end>'",
        ),
        ("limits: !!python/object:os.system {}\n", None),
        ("limits: &a {gpus: *a}\n", None),
        ("limits: \x07\n", "config.yaml:1: expected text without control characters"),
        ("? [a]\n: b\n", "config.yaml:1: expected a text as key"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, message: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        load("config.yaml", {}, text=text, service_account="/nonexistent")
    if message is None:
        assert str(caught.value).startswith("config.yaml:1: expected ")
    elif "stream end" in message:
        assert str(caught.value).startswith("config.yaml:2: expected valid YAML: ")
    else:
        assert str(caught.value) == message


def test_an_alias_cannot_grow_without_bound() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for n in range(1, 9):
        text += f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n"
    with pytest.raises(ConfigError, match="repeats too much"):
        parse_yaml(text, "config.yaml")


def test_aliases_and_merged_keys_keep_the_place_of_what_they_repeat() -> None:
    text = """\
pools:
  - &base
    name: a
    gpu_models: [X]
    max: -1
  - <<: *base
    name: b
join: {mine: {startup_script_id: s}}
"""
    with pytest.raises(ConfigError) as caught:
        load("config.yaml", {}, text=text, service_account="/nonexistent")
    assert str(caught.value).splitlines() == [
        "config.yaml:5: pools[0].max = -1: expected a whole number, 0 or more",
        "config.yaml:5: pools[1].max = -1: expected a whole number, 0 or more",
    ]


def test_keys_are_text_whatever_yaml_makes_of_them() -> None:
    data, places, _ = parse_yaml("on: 1\n2: {no: off}\n2026-01-01: 2026-01-02\nx: 1_000\n", "f")
    assert data == {"on": 1, "2": {"no": False}, "2026-01-01": "2026-01-02", "x": "1_000"}
    assert places.of(("2", "no")) == "f:2"
    assert places.raw[("2", "no")] == "off"


def test_a_key_with_nothing_after_it_is_not_set() -> None:
    text = "limits:\n  gpus:\n  machines: 3\nscale_down:\n"
    settings = load("config.yaml", {}, text=text, service_account="/nonexistent").settings
    assert (settings.limits.gpus, settings.limits.machines) == (None, 3)
    with pytest.raises(ConfigError, match=r"config\.yaml:1: colour: expected one of the known keys"):
        load("config.yaml", {}, text="colour:\n", service_account="/nonexistent")


def test_a_file_is_read_by_its_name_and_reported_by_it(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_bytes(b"\xef\xbb\xbflimits: {gpus: x}\n")
    with pytest.raises(ConfigError) as caught:
        load(str(file), {}, service_account="/nonexistent")
    assert str(caught.value) == f"{file}:1: limits.gpus = x: expected a whole number, 0 or more"
    file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="expected text in UTF-8"):
        load(str(file), {}, service_account="/nonexistent")
    with pytest.raises(ConfigError, match="expected a file that can be read"):
        load(str(tmp_path / "none.yaml"), {}, service_account="/nonexistent")


def test_a_file_without_end_is_refused_by_its_size_and_a_pipe_is_read_once() -> None:
    with pytest.raises(ConfigError, match=r"^/dev/zero: expected settings of a sensible size$"):
        load("/dev/zero", {}, service_account="/nonexistent")
    reader, writer = os.pipe()
    try:
        os.write(writer, b"limits: {gpus: 3}\n")
        os.close(writer)
        name = f"/dev/fd/{reader}"
        loaded = load(name, {}, service_account="/nonexistent")
        assert loaded.settings.limits.gpus == 3
        # Opening it once more would wait for ever; credentials may come in the same way.
        assert mark(loaded.draft.files) == mark([name])
        verda = Verda(client_id="me", client_secret="secret")
        assert LiveCredentials(verda, {"client_secret": name}).current()[:2] == ("me", "secret")
    finally:
        os.close(reader)
