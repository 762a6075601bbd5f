"""What a process must know before it asks the cloud for anything: whatever comes back must not be told."""

from __future__ import annotations

import pytest

from controller.app.parts import Now, know_tokens, make_cloud
from controller.app.surroundings import OwnSurroundings
from controller.cluster.protocol import ClusterError
from controller.config.load import load
from controller.report import logs

SETTINGS = """
pools: [{name: a100, instance_types: [1A100.22V], max: 1, join: inline}]
join:
  inline: {template: k3s, server: "https://10.0.0.1:6443", token_from: {value: the-token-in-the-settings}}
  other: {template: k3s, server: "https://10.0.0.1:6443", token_from: {secret: {name: gone, key: token}}}
  named: {template: k3s, server: "https://10.0.0.1:6443", token_from: {secret: {name: join, key: token}}}
  mine: {script: "#!/bin/bash", variables: [MY_TOKEN, REGION]}
"""
ENVIRON = {"VERDA_CLIENT_ID": "me", "VERDA_CLIENT_SECRET": "the-secret-of-the-client"}


@pytest.fixture(autouse=True)
def _nothing_is_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_secrets", set())


def test_a_token_that_stands_in_the_settings_is_known_to_whoever_asks_the_cloud() -> None:
    make_cloud(load("x.yaml", ENVIRON, text=SETTINGS).settings, Now())
    assert logs.mask("the-token-in-the-settings the-secret-of-the-client") == "*** ***"


async def test_tokens_and_variables_of_scripts_are_known_before_they_are_needed() -> None:
    async def read(name: str, key: str) -> str:
        if name == "gone":
            raise ClusterError("not_found", "no such Secret")
        logs.keep_secret("the-token-of-the-secret")
        return "the-token-of-the-secret"

    around = OwnSurroundings({"MY_TOKEN": "the-token-of-the-environment", "REGION": "somewhere"})
    await know_tokens(load("x.yaml", ENVIRON, text=SETTINGS).settings, read, around)
    told = logs.mask("the-token-of-the-secret the-token-of-the-environment somewhere")
    assert told == "*** *** somewhere"
