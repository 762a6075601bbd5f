"""The knobs of the sandbox cluster, changeable while it runs.

Durations are seconds of machine time, which passes `speed` times as fast as the clock. Patterns are
shell patterns for hostnames (`*-a100-*`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeVar

Range = tuple[float, float]
_V = TypeVar("_V")


@dataclass
class Settings:
    speed: float = 40.0
    boot: Range = (60.0, 120.0)  # machine running -> Node registered
    ready: Range = (5.0, 15.0)  # registered -> Ready
    gpu: Range = (15.0, 45.0)  # Ready -> GPUs in capacity and allocatable
    pod_start: Range = (1.0, 2.0)  # bound -> Running
    node_grace: float = 50.0  # no heartbeat -> Ready=Unknown
    pod_gc: float = 60.0  # Node gone -> its pods are removed
    heartbeat: float = 10.0  # seconds of the clock between Lease renewals; 0 = none
    memory_reserved_mib: int = 100  # capacity minus allocatable; k3s and RKE2 reserve none
    adopt_nodes: bool = True  # pods also run on Nodes that were created by hand
    never_join: list[str] = field(default_factory=list)
    never_ready: list[str] = field(default_factory=list)
    gpus_never: list[str] = field(default_factory=list)
    gpus_fewer: dict[str, int] = field(default_factory=dict)  # pattern -> GPUs that are found at all
    gpus_sliced: dict[str, int] = field(
        default_factory=dict
    )  # pattern -> devices that its GPUs are cut into (MIG)
    gpus_lost: dict[str, int] = field(default_factory=dict)  # pattern -> GPUs that turn unhealthy
    gpus_lost_after: float = 0.0  # once they had appeared
    job_batch: int = 500  # pods that a Job's controller creates at once
    job_batch_delay: float = 0.0  # seconds of the clock between such batches
    bookmarks: float = 30.0  # seconds of the clock between bookmarks of a watch; 0 = none
    history: int = 4000  # changes kept per resource; an older resourceVersion is 410 Gone
    gone_as_http: bool = False  # a watch from too old a version fails with HTTP 410, not with an event
    require_token: bool = False
    tokens: dict[str, Any] = field(default_factory=dict)  # token -> {user, rules}
    kubelet_version: str = "v1.36.3"

    def scaled(self, seconds: float) -> float:
        return seconds / self.speed

    def change(self, values: Any) -> None:
        """Take new values as a whole; ValueError names what cannot be taken, and then nothing changes."""
        if not isinstance(values, dict):
            raise ValueError(f"settings: got {values!r}, expected an object")
        known = {each.name: each for each in dataclasses.fields(self)}
        taken: dict[str, Any] = {}
        for key, value in values.items():
            if key not in known:
                raise ValueError(f"{key}: no such setting; known are {', '.join(known)}")
            taken[key] = _taken(key, value, getattr(self, key))
        for key, value in taken.items():
            setattr(self, key, value)

    def shown(self) -> dict[str, Any]:
        shown = dataclasses.asdict(self)
        shown["tokens"] = sorted(str(held.get("user", "")) for held in self.tokens.values())
        return shown


def _taken(key: str, value: Any, old: Any) -> Any:
    if isinstance(old, tuple):
        pair = value if isinstance(value, (list, tuple)) else [value, value]
        if len(pair) != 2 or not all(_is_number(each) and each >= 0 for each in pair) or pair[0] > pair[1]:
            raise ValueError(f"{key}: got {value!r}, expected a number of seconds or [least, most]")
        return (float(pair[0]), float(pair[1]))
    if isinstance(old, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{key}: got {value!r}, expected true or false")
        return value
    if isinstance(old, (int, float)):
        if not _is_number(value) or value < 0 or (key in ("speed", "job_batch") and value <= 0):
            raise ValueError(f"{key}: got {value!r}, expected a number above zero")
        return type(old)(value)
    if isinstance(old, list):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{key}: got {value!r}, expected a list of patterns")
        return list(value)
    if not isinstance(value, type(old)):
        raise ValueError(f"{key}: got {value!r}, expected {type(old).__name__}")
    if key.startswith("gpus_"):
        return _gpus_by_pattern(key, value)
    return value


def _gpus_by_pattern(key: str, value: dict[Any, Any]) -> dict[str, int]:
    for pattern, gpus in value.items():
        if not isinstance(pattern, str):
            raise ValueError(f"{key}: got {pattern!r}, expected a pattern")
        if isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0:
            raise ValueError(f"{key}.{pattern}: got {gpus!r}, expected a whole number of 0 or more")
    return dict(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def matching(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def first_matching(name: str, patterns: Mapping[str, _V]) -> _V | None:
    return next((value for pattern, value in patterns.items() if fnmatchcase(name, pattern)), None)
