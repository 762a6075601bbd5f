"""What a machine joins with, and what its kubelet refuses.

A script that ends in a join carries a line `# gpuas-join {…}`; machines without one may get defaults by
their hostname's beginning. A kubelet checks `--node-labels` itself and exits on a forbidden key: such a
machine never joins, and only its log tells why.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from controller.domain.node_labels import kubelet_may_set
from controller.sandbox.cluster.resources import Obj

_LINE = re.compile(r"^# gpuas-join (\{.*\})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Join:
    node: str
    provider_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Obj] = field(default_factory=list)


@dataclass(frozen=True)
class Machine:
    """A machine of the cloud, as far as its kubelet cares."""

    id: str
    hostname: str
    gpus: int = 0
    memory_gib: float = 0.0
    cpus: int = 0
    disk_gib: float = 100.0
    instance_type: str = ""
    location: str = ""
    ip: str = ""
    join: Join | None = None


def from_script(script: str | None, hostname: str, machine_id: str = "") -> Join | None:
    """The join line of a script; None where there is none or it cannot be read."""
    found = _LINE.search(script or "")
    if found is None:
        return None
    try:
        return _join(json.loads(found[1]), hostname, machine_id)
    except (ValueError, TypeError, AttributeError):
        return None


def _join(raw: Any, hostname: str, machine_id: str = "") -> Join:
    labels = {str(key): str(value) for key, value in (raw.get("labels") or {}).items()}
    taints = [_taint(each) for each in raw.get("taints") or ()]
    provider_id = (
        str(raw.get("provider_id") or "").replace("{hostname}", hostname).replace("{id}", machine_id)
    )
    return Join(str(raw.get("node") or hostname), provider_id, labels, taints)


def _taint(raw: Any) -> Obj:
    """A taint as an object, or as the kubelet's flag writes it: `key=value:Effect`."""
    if isinstance(raw, str):
        head, _, effect = raw.rpartition(":")
        key, _, value = head.partition("=")
        raw = {"key": key, "value": value, "effect": effect}
    return {name: str(raw[name]) for name in ("key", "value", "effect") if raw.get(name)}


def read_yaml(path: str, what: str) -> Any:
    """The content of a YAML or JSON file, [] where it is empty; ValueError says in one line what is wrong."""
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file) or []
    except OSError as problem:
        raise ValueError(f"{what} in {path}: cannot be read: {problem.strerror}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as problem:
        told = " ".join(str(problem).split())
        raise ValueError(f"{what} in {path}: expected YAML or JSON ({told})") from None


class Defaults:
    """Join parameters for machines whose script tells none, by the hostname's beginning."""

    def __init__(self, rows: list[Obj]) -> None:
        for each in rows:
            if not isinstance(each, dict) or not isinstance(each.get("hostname_prefix"), str):
                raise ValueError(f"join defaults: got {each!r}, expected an object with hostname_prefix")
        self.rows = rows

    @classmethod
    def read(cls, path: str) -> Defaults:
        """A list of objects with `hostname_prefix`, or the same as `{prefix: object}`."""
        rows = read_yaml(path, "join defaults")
        if isinstance(rows, dict):
            rows = [_named(prefix, each) for prefix, each in rows.items()]
        if not isinstance(rows, list):
            raise ValueError(f"join defaults in {path}: expected a list, or {{hostname prefix: object}}")
        found = cls(rows)
        for each in rows:
            try:
                _join(each, "host")
            except (TypeError, AttributeError, KeyError):
                raise ValueError(
                    f"join defaults in {path}: got {each!r}, expected labels as an object and taints as a list"
                ) from None
        return found

    def of(self, hostname: str, machine_id: str = "") -> Join | None:
        for each in self.rows:
            if hostname.startswith(each["hostname_prefix"]):
                return _join({**each, "node": each.get("node") or hostname}, hostname, machine_id)
        return None


def _named(prefix: Any, each: Any) -> Any:
    return {**each, "hostname_prefix": str(prefix)} if isinstance(each, dict) else each


def refused_labels(labels: dict[str, str]) -> list[str]:
    """The keys that make a kubelet exit."""
    return sorted(key for key in labels if not kubelet_may_set(key))
