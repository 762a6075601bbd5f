"""`config convert`: what is written gives the same settings, and says what changed its meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config.dialects.convert import as_yaml, is_the_same
from controller.config.errors import ConfigError
from controller.config.load import Loaded, load
from tests.config.foreign import DOCUMENTED, MACHINES, documented, in_base64, read

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


scripts = st.text(min_size=1, max_size=60).filter(lambda text: text.strip() and "\x00" not in text)
words = st.text(st.characters(codec="ascii", exclude_characters="\x00"), min_size=1, max_size=12)


@given(script=scripts, group=words, label=words)
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
