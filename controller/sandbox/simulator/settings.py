"""The settings of a simulation: the user's own file, or one pool of everything, everywhere, on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controller.config.joining import JoinEntry
from controller.config.load import Loaded, load, show
from controller.sandbox.simulator.workload import STANDARD_MACHINES

NAMESPACE = "gpu-autoscaler"
JOIN = {
    "k3s": {
        "template": "k3s",
        "server": "https://10.0.0.1:6443",
        "token_from": {"secret": {"name": "join", "key": "token"}},
        "version": "v1.36.3+k3s1",
    }
}
ENVIRON = {
    "VERDA_CLIENT_ID": "simulated-client",
    "VERDA_CLIENT_SECRET": "simulated-client-key",
    "VERDA_BASE_URL": "http://127.0.0.1:9/v1",
}
# What is done again and again is done more seldom than by default, so that a day takes seconds. What the life of
# a machine waits for (deadlines, cooldown, proofs) is as it is; a user's own settings are taken as they are. A look for no
# other reason than that the last one is long ago should find nothing: what happens, and what is due, wakes the loop.
CALM: dict[str, Any] = {
    "timing": {"tick": "5m", "poll_cloud": "120s", "poll_cloud_busy": "30s", "catalogue": "15m"},
    "lease": {"duration": "90s", "renew": "30s", "spend_within": "70s"},
}


def default_settings(machines: int) -> dict[str, Any]:
    """Everything that is not arm64."""
    return {
        "cluster_id": "simulated",
        "namespace": NAMESPACE,
        "pools": [{"name": "all", "min_gpu_memory_gb": 1, "market": "on_demand_only", "max": machines}],
        "join": JOIN,
        **CALM,
    }


def loaded_from(settings: Mapping[str, Any]) -> Loaded:
    return load("simulated.yaml", ENVIRON, text=json.dumps(settings))


def loaded_of(config: str) -> Loaded:
    """A user's own file. Credentials, addresses and ways to join are the simulation's; nothing of the real ones is read
    or called."""
    loaded = load(config, {**ENVIRON, "GPU_AUTOSCALER_NAMESPACE": NAMESPACE})
    join = dict.fromkeys(loaded.settings.join, JoinEntry.model_validate(JOIN["k3s"]))
    return replace(loaded, settings=loaded.settings.model_copy(update={"machines": (), "join": join}))


def left_out(config: str) -> list[str]:
    """Machines of the file that are switched: their endpoints are real, and no sandbox stands for them."""
    loaded = load(config, {**ENVIRON, "GPU_AUTOSCALER_NAMESPACE": NAMESPACE})
    return [machine.name for machine in loaded.settings.machines]


def apart_from_standard(loaded: Loaded) -> dict[str, Any]:
    """By key, what differs from the settings of a standard day; without secrets, which no simulation needs."""
    standard = show(loaded_from(default_settings(STANDARD_MACHINES)).settings)
    return {key: value for key, value in show(loaded.settings).items() if value != standard[key]}
