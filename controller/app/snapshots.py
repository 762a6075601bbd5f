"""Snapshots as files: `{now, settings, pods, nodes, daemonsets, …}` with Kubernetes objects as Kubernetes JSON.

What is written reads back to exactly the same picture, so a saved snapshot is a bug report; what people
write by hand may leave out everything that has a sensible default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import msgspec

from controller.cluster import encode
from controller.cluster.decode import Decoder
from controller.config.load import load_dict, show
from controller.config.policy import to_policy
from controller.config.settings import Settings
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Refusal, Snapshot
from controller.domain.quantity import scheduler_units, to_kubernetes
from controller.planning.choice import ANY_IMAGE
from controller.planning.scale_down import parse_time

T = TypeVar("T")

KEYS = frozenset(
    {
        "now", "settings", "pods", "nodes", "daemonsets", "jobs", "poddisruptionbudgets", "machines", "offers",
        "refusals", "observed", "launches", "spent_this_month",
    }
)  # fmt: skip


class SnapshotError(ValueError):
    """The file is no snapshot; the message names the key, the value and what was expected."""


def to_json(snapshot: Snapshot, settings: Settings) -> dict[str, Any]:
    shown = show(settings) | {"cluster_id": snapshot.policy.cluster_id}
    shown["verda"] = {
        k: v for k, v in shown.get("verda", {}).items() if k not in ("client_id", "client_secret")
    }
    return {
        "now": datetime.fromtimestamp(snapshot.now, UTC).isoformat(),
        "settings": shown,
        "pods": [encode.pod(pod) for pod in snapshot.pods],
        "nodes": [encode.node(node) for node in snapshot.nodes],
        "daemonsets": [encode.daemon_set(daemon) for daemon in snapshot.daemonsets],
        "jobs": [encode.job(job) for job in snapshot.jobs],
        "poddisruptionbudgets": [encode.budget(budget) for budget in snapshot.budgets],
        "machines": [msgspec.to_builtins(machine) for machine in snapshot.machines],
        "offers": [_offer_json(offer) for offer in snapshot.offers],
        "refusals": [msgspec.to_builtins(refusal) for refusal in snapshot.refusals],
        "observed": {
            kind: {name: to_kubernetes(name, units) for name, units in figures.items()}
            for kind, figures in snapshot.observed.items()
        },
        "launches": list(snapshot.launches),
        "spent_this_month": str(snapshot.spent_this_month),
    }


def from_json(data: Any) -> tuple[Snapshot, Settings]:
    if not isinstance(data, dict):
        raise SnapshotError(f"a snapshot is a JSON object, this is {type(data).__name__}")
    unknown = sorted(set(data) - KEYS)
    if unknown:
        raise SnapshotError(f"{unknown[0]}: unknown key; expected one of {', '.join(sorted(KEYS))}")
    settings = load_dict(data.get("settings") or {}).settings
    policy = to_policy(settings, cluster_id="snapshot")
    try:
        spent = Decimal(str(data.get("spent_this_month", 0)))
    except InvalidOperation as error:
        raise SnapshotError(
            f"spent_this_month: {data['spent_this_month']!r}; expected an amount of money"
        ) from error
    decoder = Decoder()
    return Snapshot(
        now=_now(data.get("now")),
        policy=policy,
        pods=_sorted(
            _each(data, "pods", _named(decoder.pod)), lambda pod: (pod.namespace, pod.name, pod.uid)
        ),
        nodes=_sorted(_each(data, "nodes", _named(decoder.node)), lambda node: node.name),
        daemonsets=_sorted(_each(data, "daemonsets", _named(decoder.daemon_set)), lambda daemon: daemon.key),
        jobs=_sorted(_each(data, "jobs", _named(decoder.job)), lambda job: job.uid),
        budgets=_sorted(
            _each(data, "poddisruptionbudgets", _named(decoder.budget)),
            lambda budget: (budget.namespace, budget.name),
        ),
        machines=_sorted(_each(data, "machines", _machine), lambda machine: machine.name),
        offers=tuple(_each(data, "offers", _offer)),
        refusals=tuple(_each(data, "refusals", lambda row: msgspec.convert(row, Refusal, strict=False))),
        observed={
            kind: {name: scheduler_units(name, amount) for name, amount in figures.items()}
            for kind, figures in (data.get("observed") or {}).items()
        },
        launches=tuple(float(at) for at in data.get("launches") or ()),
        spent_this_month=spent,
    ), settings


def read(path: str) -> tuple[Snapshot, Settings]:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file, parse_float=Decimal)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(f"{path}: is no JSON: {error}") from error
    try:
        return from_json(data)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def write(path: str, snapshot: Snapshot, settings: Settings) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(to_json(snapshot, settings), file, indent=1, default=_plain)
        file.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no place in a snapshot")


def _now(value: Any) -> float:
    if value is None:
        raise SnapshotError("now: missing; expected a time such as 2026-11-18T10:00:00Z")
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    moment = parse_time(str(value))
    if moment is None:
        raise SnapshotError(
            f"now: {value!r}; expected a time such as 2026-11-18T10:00:00Z, or seconds since 1970"
        )
    return moment


def _each(data: Mapping[str, Any], key: str, convert: Callable[[Any], T]) -> list[T]:
    rows = data.get(key)
    if rows is None:
        return []
    if isinstance(rows, dict) and isinstance(rows.get("items"), list):
        rows = rows["items"]  # as `kubectl get -o json` prints it
    if not isinstance(rows, list):
        raise SnapshotError(f"{key}: {type(rows).__name__}; expected a list")
    found = []
    for index, row in enumerate(rows):
        try:
            found.append(convert(row))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{key}[{index}]: {error}") from error
    return found


def _named(decode: Callable[[Any], T]) -> Callable[[Any], T]:
    """What a person may leave out: the namespace, and a UID that nobody else has."""

    def convert(row: Any) -> T:
        if (
            not isinstance(row, dict)
            or not isinstance(row.get("metadata"), dict)
            or not row["metadata"].get("name")
        ):
            raise SnapshotError("metadata.name: missing; expected a Kubernetes object")
        meta = {"namespace": "default", **row["metadata"]}
        meta.setdefault("uid", f"{meta['namespace']}/{meta['name']}")
        return decode(_floats({**row, "metadata": meta}))

    return convert


def _floats(value: Any) -> Any:
    """Numbers of a file are read exactly, as Decimal; Kubernetes objects hold plain ones."""
    if isinstance(value, dict):
        return {key: _floats(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_floats(part) for part in value]
    return float(value) if isinstance(value, Decimal) else value


def _sorted(rows: Sequence[T], key: Callable[[T], Any]) -> tuple[T, ...]:
    return tuple(sorted(rows, key=key))


def _offer_json(offer: Offer) -> dict[str, Any]:
    kind = offer.type
    return {
        "instance_type": kind.name,
        "model": kind.model,
        "gpus": kind.gpus,
        "vcpus": kind.vcpus,
        "memory_gb": kind.memory_gib,
        "gpu_memory_gb": kind.gpu_memory_gib,
        "price_per_hour": offer.price,
        "location": offer.location,
        "market": offer.market,
        "available": offer.available,
        "images": list(kind.images),
        "arch": kind.arch,
    }


_OFFER_KEYS = frozenset(
    {
        "instance_type", "model", "gpus", "vcpus", "memory_gb", "gpu_memory_gb", "price_per_hour", "location",
        "market", "available", "images", "arch", "currency",
    }
)  # fmt: skip


def _offer(row: Mapping[str, Any]) -> Offer:
    unknown = sorted(set(row) - _OFFER_KEYS)
    if unknown:
        raise SnapshotError(f"{unknown[0]}: unknown key; expected {', '.join(sorted(_OFFER_KEYS))}")
    for key in ("instance_type", "gpus", "price_per_hour", "location"):
        if key not in row:
            raise SnapshotError(f"{key}: missing")
    market = str(row.get("market", "on-demand"))
    if market not in ("spot", "on-demand"):
        raise SnapshotError(f"market: {market!r}; expected spot or on-demand")
    try:
        price = Decimal(str(row["price_per_hour"]))
    except InvalidOperation as error:
        raise SnapshotError(
            f"price_per_hour: {row['price_per_hour']!r}; expected an amount of money"
        ) from error
    gpus = int(row["gpus"])
    kind = InstanceType(
        name=str(row["instance_type"]),
        model=str(row.get("model", "")),
        gpus=gpus,
        vcpus=int(row.get("vcpus", 0)),
        memory_gib=int(row.get("memory_gb", 0)),
        gpu_memory_gib=int(row.get("gpu_memory_gb", 0)),
        price=price,
        spot_price=price,
        images=tuple(row.get("images", (ANY_IMAGE,))),
        arch=str(row.get("arch", "amd64")),
    )
    return Offer(
        type=kind, location=str(row["location"]), market=market, available=bool(row.get("available", True))
    )


def _machine(row: Mapping[str, Any]) -> Machine:
    """A record of the ledger; by hand a name, a type and a phase are enough."""
    made = dict(row)
    made.setdefault("intent", str(made.get("name", "")).rpartition("-")[2])
    made.setdefault("phase", Phase.READY.value)
    made.setdefault("location", "")
    made.setdefault("market", "on-demand")
    if "price_per_hour" in made:
        made["price"] = made.pop("price_per_hour")
    for key, value in made.items():
        if key.endswith("_at") and isinstance(value, str):
            made[key] = _now(value)
        elif isinstance(value, Decimal) and key != "price":
            made[key] = float(value)
    if "price" in made:
        made["price"] = str(made["price"])
    unknown = sorted(set(made) - set(Machine.__struct_fields__))
    if unknown:
        raise SnapshotError(f"{unknown[0]}: unknown key; expected {', '.join(Machine.__struct_fields__)}")
    return msgspec.convert(made, Machine, strict=False)
