"""Snapshots as files: `{now, settings, pods, nodes, daemonsets, …}` with Kubernetes objects as Kubernetes JSON.

What is written reads back to exactly the same picture, so a saved snapshot is a bug report; what people
write by hand may leave out everything that has a sensible default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from controller.app.kind_rows import kind_rows, order
from controller.app.snapshot_rows import (
    SnapshotError,
    Strict,
    amounts,
    count,
    filled_in,
    in_vain,
    joined,
    located,
    machine,
    mapping,
    moment,
    money,
    named,
    offer,
    own,
    reason,
    refusal,
    shown,
    time_of_picture,
    tried,
    words,
)
from controller.cluster import encode, kinds
from controller.cluster.kinds import Kind
from controller.config.load import load_dict, show
from controller.config.policy import to_policy
from controller.config.settings import Settings
from controller.domain.cloudthings import Offer
from controller.domain.plan import Snapshot
from controller.domain.policy import RETIRE
from controller.domain.quantity import to_kubernetes

__all__ = ["KEYS", "SnapshotError", "from_json", "read", "to_json", "write"]

T = TypeVar("T")
K = TypeVar("K", bound=msgspec.Struct)

# Kubernetes objects that are not looked at; a snapshot that carries them is no mistake.
NOT_LOOKED_AT = frozenset({"currency", "priorityclasses", "runtimeclasses", "resourceslices"})

KEYS = frozenset(
    {
        "now", "settings", "pods", "nodes", "daemonsets", "jobs", "poddisruptionbudgets", "namespaces",
        "persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes", "limitranges", "podgroups",
        "resourceclaims", "resourceclaimtemplates", "deviceclasses", "machines", "offers", "refusals", "observed", "launches",
        "scripts_free", "spent_this_month", "unreadable", "pause", "retire", "disappointed", "given_up", "tried", "in_vain",
        "own", "surplus",
    }
)  # fmt: skip


def to_json(snapshot: Snapshot, settings: Settings) -> dict[str, Any]:
    written = show(settings) | {"cluster_id": snapshot.policy.cluster_id}
    written["verda"] = {
        k: v for k, v in written.get("verda", {}).items() if k not in ("client_id", "client_secret")
    }
    written["machines"] = [_without_addresses(machine) for machine in written.get("machines", [])]
    written["webhooks"] = {}
    return {
        "now": datetime.fromtimestamp(snapshot.now, UTC).isoformat(),
        "settings": written,
        "pods": [encode.pod(pod) for pod in snapshot.pods],
        "nodes": [encode.node(node) for node in snapshot.nodes],
        "daemonsets": [encode.daemon_set(daemon) for daemon in snapshot.daemonsets],
        "jobs": [encode.job(job) for job in snapshot.jobs],
        "poddisruptionbudgets": [encode.budget(budget) for budget in snapshot.budgets],
        **kind_rows(snapshot),
        "unreadable": list(snapshot.unreadable),
        "machines": [msgspec.to_builtins(machine) for machine in snapshot.machines],
        "surplus": [msgspec.to_builtins(machine) for machine in snapshot.surplus],
        "offers": [_offer_json(offer) for offer in snapshot.offers],
        "refusals": [msgspec.to_builtins(refusal) for refusal in snapshot.refusals],
        "observed": {
            kind: {name: to_kubernetes(name, units) for name, units in figures.items()}
            for kind, figures in snapshot.observed.items()
        },
        "launches": list(snapshot.launches),
        "scripts_free": snapshot.scripts_free,
        "spent_this_month": str(snapshot.spent_this_month),
        "pause": snapshot.policy.pause,
        "retire": snapshot.policy.retire,
        "disappointed": {pod: list(found) for pod, found in snapshot.disappointed.items()},
        "given_up": {pod: dict(found) for pod, found in snapshot.given_up.items()},
        "tried": {sort: msgspec.to_builtins(found) for sort, found in snapshot.tried.items()},
        "in_vain": {pool: msgspec.to_builtins(found) for pool, found in snapshot.in_vain.items()},
        "own": {name: msgspec.to_builtins(found) for name, found in snapshot.own.items()},
    }


def _without_addresses(machine: Mapping[str, Any]) -> dict[str, Any]:
    """How a machine is called has no part in planning, and an address may be a secret of its own."""
    hidden = {"scale_up_endpoint": "http://hidden/on", "scale_down_endpoint": "http://hidden/off"}
    return {**machine, **hidden, "status_endpoint": None, "webhook": None}


def from_json(data: Any) -> tuple[Snapshot, Settings]:
    """The picture in a file. Whatever is wrong with it is one line: key, value, what was expected."""
    if not isinstance(data, dict):
        raise SnapshotError(f"a snapshot is a JSON object, this is {shown(data)}")
    unknown = sorted(set(data) - KEYS - NOT_LOOKED_AT)
    if unknown:
        raise SnapshotError(f"{unknown[0]}: unknown key; expected one of {', '.join(sorted(KEYS))}")
    settings = load_dict(mapping("settings", data.get("settings"))).settings
    pause, spent = data.get("pause"), data.get("spent_this_month")
    if pause not in (None, "", "scale-up", "scale-down", "all"):
        raise SnapshotError(f"pause: {shown(pause)}; expected scale-up, scale-down or all")
    retire = data.get("retire")
    if retire not in (None, "", *RETIRE):
        raise SnapshotError(f"retire: {shown(retire)}; expected {', '.join(RETIRE)}")
    policy = to_policy(settings, cluster_id="snapshot")
    decoder = Strict()
    pods = _unique(data, "pods", named(decoder.pod), lambda pod: (pod.namespace, pod.name))
    offers = tuple(
        sorted(_each(data, "offers", offer), key=lambda o: (o.type.name, o.location, o.market, o.price))
    )
    machines = _unique(data, "machines", machine, lambda machine: (machine.name,))
    return Snapshot(
        now=time_of_picture(data.get("now")),
        policy=msgspec.structs.replace(policy, pause=pause or "", retire=retire or ""),
        pods=pods,
        nodes=_unique(data, "nodes", named(decoder.node), lambda node: (node.name,)),
        daemonsets=_unique(data, "daemonsets", named(decoder.daemon_set), lambda d: (d.namespace, d.name)),
        jobs=_unique(data, "jobs", named(decoder.job), lambda job: (job.namespace, job.name)),
        budgets=_unique(data, "poddisruptionbudgets", named(decoder.budget), lambda b: (b.namespace, b.name)),
        namespaces=_kind(data, kinds.NAMESPACES, decoder),
        volume_claims=_kind(data, kinds.VOLUME_CLAIMS, decoder),
        volumes=_kind(data, kinds.VOLUMES, decoder),
        storage_classes=_kind(data, kinds.STORAGE_CLASSES, decoder),
        csi_nodes=_kind(data, kinds.CSI_NODES, decoder),
        limit_ranges=_kind(data, kinds.LIMIT_RANGES, decoder),
        pod_groups=_kind(data, kinds.ANY_POD_GROUP, decoder),
        device_claims=_kind(data, kinds.DEVICE_CLAIMS, decoder)
        + _kind(data, kinds.DEVICE_CLAIM_TEMPLATES, decoder),
        device_classes=_kind(data, kinds.DEVICE_CLASSES, decoder),
        unreadable=tuple(sorted(_each(data, "unreadable", lambda name: words("", name)))),
        machines=tuple(filled_in(found, offers) for found in machines),
        surplus=tuple(
            filled_in(found, offers) for found in _unique(data, "surplus", machine, lambda m: (m.name,))
        ),
        offers=offers,
        refusals=tuple(sorted(_each(data, "refusals", refusal), key=lambda r: (r.offer, r.until))),
        observed={
            kind: amounts(f"observed.{kind}", figures)
            for kind, figures in sorted(mapping("observed", data.get("observed")).items())
        },
        launches=tuple(sorted(_each(data, "launches", lambda at: moment("", at)))),
        disappointed={
            pod: tuple(_each(found, pod, lambda name: words("", name)))
            for found in [mapping("disappointed", data.get("disappointed"))]
            for pod in sorted(found)
        },
        given_up={
            pod: {name: reason(f"given_up.{pod}.{name}", code) for name, code in sorted(found.items())}
            for pod, rows in sorted(mapping("given_up", data.get("given_up")).items())
            for found in [mapping(f"given_up.{pod}", rows)]
        },
        tried={
            sort: tried(f"tried.{sort}", row)
            for sort, row in sorted(mapping("tried", data.get("tried")).items())
        },
        in_vain={
            pool: in_vain(f"in_vain.{pool}", row)
            for pool, row in sorted(mapping("in_vain", data.get("in_vain")).items())
        },
        own={name: own(f"own.{name}", row) for name, row in sorted(mapping("own", data.get("own")).items())},
        scripts_free=None
        if data.get("scripts_free") is None
        else count("scripts_free", data["scripts_free"]),
        spent_this_month=money("spent_this_month", 0 if spent is None else spent),
    ), settings


def read(path: str) -> tuple[Snapshot, Settings]:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file, parse_float=Decimal)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise SnapshotError(f"{path}: is no snapshot: it is nested too deeply") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
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


def _each(data: Mapping[str, Any], key: str, convert: Callable[[Any], T]) -> list[T]:
    rows = data.get(key)
    if rows is None:
        return []
    if isinstance(rows, dict) and isinstance(rows.get("items"), list):
        rows = rows["items"]  # as `kubectl get -o json` prints it
    if not isinstance(rows, list):
        raise SnapshotError(f"{key}: {shown(rows)}; expected a list")
    found = []
    for index, row in enumerate(rows):
        try:
            found.append(convert(row))
        except msgspec.ValidationError as error:
            raise SnapshotError(f"{key}[{index}]: {located(str(error), row)}") from error
        except ValueError as error:
            raise SnapshotError(f"{key}[{index}]{joined(error, row)}") from error
    return found


def _unique(
    data: Mapping[str, Any], key: str, convert: Callable[[Any], T], name: Callable[[T], tuple[str, ...]]
) -> tuple[T, ...]:
    """In the order of their names; two of the same name are a mistake of the file."""
    rows = sorted(_each(data, key, convert), key=name)
    for one, other in pairwise(rows):
        if name(one) == name(other):
            raise SnapshotError(
                f"{key}: {'/'.join(filter(None, name(one)))} is there twice; expected each name once"
            )
    return tuple(rows)


def _kind(data: Mapping[str, Any], kind: Kind[K], decoder: Strict) -> tuple[K, ...]:
    """The objects of one of the rarer kinds."""
    decode = decoder.versioned(kind)
    return _unique(data, kind.plural, named(lambda row: decode(row)[0], spaced=kind.spaced), order)


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
