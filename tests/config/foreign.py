"""Predecessors' configurations as their documentation has them, for the tests of settings."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from controller.config.dialects.flags import parse_flags
from controller.config.errors import ConfigError
from controller.config.load import Loaded, load
from tests.loop.predecessors import (
    CA_VERDA,
    DATACRUNCH,
    DATACRUNCH_FLAGS,
    VERDACLOUD,
    VERDACLOUD_FLAGS,
    VERDACLOUD_JOIN,
)

HELM = """\
nodeGroups:
  - name: gpu-worker-1
    gpuCount: 4
    scaleUpEndpoint: http://power-api/gpu-worker-1/start
    scaleDownEndpoint: http://power-api/gpu-worker-1/stop
  - name: gpu-worker-2
    gpuCount: 8
    scaleUpEndpoint: http://power-api/gpu-worker-2/start
    scaleDownEndpoint: http://power-api/gpu-worker-2/stop
"""
MACHINES = {
    f"GPU_NODE_{n}_{key}": value
    for n, gpus in ((1, 4), (2, 8))
    for key, value in {
        "NAME": f"gpu-worker-{n}",
        "GPU_COUNT": str(gpus),
        "SCALE_UP_ENDPOINT": f"http://power-api/gpu-worker-{n}/start",
        "SCALE_DOWN_ENDPOINT": f"http://power-api/gpu-worker-{n}/stop",
    }.items()
}
FLAGS = {"datacrunch": DATACRUNCH_FLAGS, "verdacloud": VERDACLOUD_FLAGS}


def in_base64(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


DOCUMENTED: dict[str, tuple[str | None, dict[str, str], Sequence[str]]] = {
    "ca-verda": (CA_VERDA, {}, ()),
    "datacrunch": (None, {"DATACRUNCH_CLUSTER_CONFIG_JSON": DATACRUNCH}, DATACRUNCH_FLAGS),
    "verdacloud": (None, {"VERDA_CLUSTER_CONFIG": in_base64(VERDACLOUD)} | VERDACLOUD_JOIN, VERDACLOUD_FLAGS),
    "webhook": (HELM, {}, ()),
}


def read(
    text: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    *,
    dialect: str = "auto",
) -> Loaded:
    file = "config.yaml" if text is not None else None
    return load(
        file, environ or {}, text=text, flags=parse_flags(flags), dialect=dialect, service_account="/nowhere"
    )


def documented(name: str, **more: Any) -> Loaded:
    text, environ, flags = DOCUMENTED[name]
    return read(text, environ, flags, **more)


def problems(
    text: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    *,
    dialect: str = "auto",
) -> list[str]:
    try:
        read(text, environ, flags, dialect=dialect)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []
