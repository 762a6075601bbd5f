"""The rows of a snapshot file, checked: every complaint names the key, the value and what was expected.

People write these files by hand, so everything with a sensible default may be left out, and nothing is
skipped in silence: what the watch of a live cluster passes over with a warning is an error here.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import msgspec

from controller.cluster.decode import Decoder, Unreadable
from controller.domain.cloudthings import ON_DEMAND, SPOT, SWITCHED, InstanceType, Offer
from controller.domain.images import ANY_IMAGE
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Failing, InVain, Refusal, Tried
from controller.domain.quantity import QuantityError, negative, scheduler_units
from controller.domain.reason import Reason
from controller.domain.switching import Own, Power
from controller.planning.scale_down import LATEST, parse_time

T = TypeVar("T")

_MACHINE_TIMES = frozenset(
    name for name in Machine.__struct_fields__ if name.endswith("_at") or name == "absent_since"
)
_MACHINE_COUNTS = frozenset({"gpus", "vcpus", "memory_gib", "absent_lists"})
MOST = 10**9
MOST_MONEY = Decimal(10) ** 12


class SnapshotError(ValueError):
    """The file is no snapshot; the message names the key, the value and what was expected."""


class Strict(Decoder):
    """For files that people write: what the watch skips with a warning is an error here."""

    def _complain(self, what: str, field: str, text: str) -> None:
        if field:  # else the whole object is unreadable, and the reader says so itself
            raise SnapshotError(f"{field}: {text}")


def shown(value: Any) -> str:
    text = json.dumps(value, default=str) if not isinstance(value, Decimal) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def time_of_picture(value: Any) -> float:
    if value is None:
        raise SnapshotError("now: missing; expected a time such as 2026-11-18T10:00:00Z")
    return moment("now", value)


def moment(key: str, value: Any) -> float:
    seconds: float | None = None
    if isinstance(value, str):
        seconds = parse_time(value)
    elif isinstance(value, int | float | Decimal) and not isinstance(value, bool) and 0 <= value <= LATEST:
        seconds = float(value)
    if seconds is None:
        at = f"{key}: " if key else ""
        raise SnapshotError(
            f"{at}{shown(value)}; expected a time such as 2026-11-18T10:00:00Z, or seconds since 1970"
        )
    return seconds


def money(key: str, value: Any) -> Decimal:
    amount: Decimal | None = None
    if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
        with contextlib.suppress(InvalidOperation):
            amount = Decimal(str(value))
    if amount is None or not amount.is_finite() or not 0 <= amount < MOST_MONEY:
        raise SnapshotError(f"{key}: {shown(value)}; expected an amount of money, 0 or more")
    return amount


def count(key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MOST:
        raise SnapshotError(f"{key}: {shown(value)}; expected a whole number, 0 or more")
    return value


def words(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise SnapshotError(f"{key}: {shown(value)}; expected text")
    return value


def _one_of(key: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise SnapshotError(f"{key}: {shown(value)}; expected one of {', '.join(allowed)}")


def mapping(key: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SnapshotError(f"{key}: {shown(value)}; expected a mapping")
    return value


def amounts(key: str, value: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, amount in mapping(key, value).items():
        try:
            found[name] = scheduler_units(name, str(amount))
            if found[name] < 0:
                raise QuantityError(negative(amount))
        except QuantityError as error:
            raise SnapshotError(f"{key}.{name}: {error}") from error
    return found


def joined(error: ValueError, row: Any) -> str:
    """`.key: …` for what names a key of the row, `: …` for the rest."""
    text = str(error)
    if isinstance(error, Unreadable):
        return f": {located(text, row)}"
    head = text.partition(":")[0]
    return f".{text}" if head and " " not in head and head[0].isalpha() else f": {text}"


def located(text: str, row: Any) -> str:
    """The decoder names the place (`$.spec.nodeName`) and what it expected; the value stands there."""
    _, found, place = text.partition(" - at `$")
    value = row
    for part in re.findall(r"[^.\[\]`]+", place) if found else ():
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return text
    return f"{text}: {shown(value)}" if value is not row else text


def named(decode: Callable[[Any], T], spaced: bool = True) -> Callable[[Any], T]:
    """What a person may leave out: the namespace, and a UID that nobody else has."""

    def convert(row: Any) -> T:
        if not isinstance(row, dict):
            raise SnapshotError(f"{shown(row)}; expected a Kubernetes object")
        meta = {"namespace": "default", **mapping("metadata", row.get("metadata"))}
        if not meta.get("name"):
            raise SnapshotError("metadata.name: missing; expected a Kubernetes object with a name")
        words("metadata.name", meta["name"])
        if not spaced:
            meta.pop("namespace")
        meta.setdefault("uid", f"{meta.get('namespace', '')}/{meta['name']}".lstrip("/"))
        return decode(_floats({**row, "metadata": meta}))

    return convert


def _floats(value: Any) -> Any:
    """Numbers of a file are read exactly, as Decimal; Kubernetes objects hold plain ones."""
    if isinstance(value, dict):
        return {key: _floats(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_floats(part) for part in value]
    return float(value) if isinstance(value, Decimal) else value


_OFFER_KEYS = frozenset(
    {
        "instance_type", "model", "gpus", "vcpus", "memory_gb", "gpu_memory_gb", "price_per_hour", "location",
        "market", "available", "images", "arch", "currency",
    }
)  # fmt: skip


def offer(row: Any) -> Offer:
    if isinstance(row, dict) and "price" in row and "price_per_hour" not in row:
        row = {("price_per_hour" if key == "price" else key): value for key, value in row.items()}
    row = _known(row, _OFFER_KEYS, "instance_type", "gpus", "price_per_hour", "location")
    market = row.get("market", ON_DEMAND)
    if market not in (SPOT, ON_DEMAND, SWITCHED):
        raise SnapshotError(f"market: {shown(market)}; expected spot or on-demand (or switched)")
    available, images = row.get("available", True), row.get("images", [ANY_IMAGE])
    if not isinstance(available, bool):
        raise SnapshotError(f"available: {shown(available)}; expected true or false")
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        raise SnapshotError(f"images: {shown(images)}; expected a list of image names")
    price = money("price_per_hour", row["price_per_hour"])
    model = row.get("model", "")
    kind = InstanceType(
        name=words("instance_type", row["instance_type"]),
        model=words("model", model) if model != "" else "",
        gpus=count("gpus", row["gpus"]),
        vcpus=count("vcpus", row.get("vcpus", 0)),
        memory_gib=count("memory_gb", row.get("memory_gb", 0)),
        gpu_memory_gib=count("gpu_memory_gb", row.get("gpu_memory_gb", 0)),
        price=price,
        spot_price=price,
        images=tuple(images),
        arch=words("arch", row.get("arch", "amd64")),
    )
    nowhere = market == SWITCHED and row["location"] == ""  # where an own machine stands need not be told
    location = "" if nowhere else words("location", row["location"])
    return Offer(type=kind, location=location, market=market, available=available)


def _known(row: Any, keys: Iterable[str], *needed: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise SnapshotError(f"{shown(row)}; expected a mapping")
    unknown = sorted(set(row) - set(keys))
    if unknown:
        raise SnapshotError(f"{unknown[0]}: unknown key; expected one of {', '.join(sorted(keys))}")
    for key in needed:
        if key not in row:
            raise SnapshotError(f"{key}: missing")
    return row


def reason(key: str, value: Any) -> Reason:
    _one_of(key, value, [known.value for known in Reason])
    return Reason(value)


def refusal(row: Any) -> Refusal:
    row = _known(row, Refusal.__struct_fields__, "offer", "reason", "until")
    reason("reason", row["reason"])
    return msgspec.convert({**row, "until": moment("until", row["until"])}, Refusal)


def _only(key: str, row: Any, fields: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = mapping(key, row)
    if unknown := sorted(set(found) - set(fields)):
        raise SnapshotError(f"{key}.{unknown[0]}: unknown key; expected one of {', '.join(sorted(fields))}")
    return found


def _texts(key: str, row: Any) -> tuple[str, ...]:
    row = row or []
    if not isinstance(row, list):
        raise SnapshotError(f"{key}: {shown(row)}; expected a list")
    return tuple(words(f"{key}[{n}]", text) for n, text in enumerate(row))


def _counts(key: str, row: Any) -> tuple[int, ...]:
    row = row or []
    if not isinstance(row, list):
        raise SnapshotError(f"{key}: {shown(row)}; expected a list")
    return tuple(count(f"{key}[{n}]", one) for n, one in enumerate(row))


def tried(key: str, row: Any) -> Tried:
    row = _only(key, row, Tried.__struct_fields__)
    return Tried(
        tries=count(f"{key}.tries", row.get("tries")),
        last=moment(f"{key}.last", row.get("last")),
        machines=_texts(f"{key}.machines", row.get("machines")),
        counted=moment(f"{key}.counted", row.get("counted", 0)),
        dates={
            name: moment(f"{key}.dates.{name}", at)
            for name, at in sorted(mapping(f"{key}.dates", row.get("dates")).items())
        },
    )


def in_vain(key: str, row: Any) -> InVain:
    row = _only(key, row, InVain.__struct_fields__)
    return InVain(
        tries=count(f"{key}.tries", row.get("tries")),
        last=moment(f"{key}.last", row.get("last")),
        reason=reason(f"{key}.reason", row.get("reason")),
        counted=moment(f"{key}.counted", row.get("counted", 0)),
        firsts=_counts(f"{key}.firsts", row.get("firsts")),
        sorts={
            kind: _failing(f"{key}.sorts.{kind}", found)
            for kind, found in sorted(mapping(f"{key}.sorts", row.get("sorts")).items())
        },
        fine={
            kind: moment(f"{key}.fine.{kind}", at)
            for kind, at in sorted(mapping(f"{key}.fine", row.get("fine")).items())
        },
    )


def _failing(key: str, row: Any) -> Failing:
    row = _only(key, row, Failing.__struct_fields__)
    return Failing(
        since=moment(f"{key}.since", row.get("since")),
        last=moment(f"{key}.last", row.get("last")),
        tries=_counts(f"{key}.tries", row.get("tries")),
    )


def own(key: str, row: Any) -> Own:
    """What planning sees of a switched machine."""
    row = _only(key, row, Own.__struct_fields__)
    _one_of(f"{key}.power", row.get("power"), [power.value for power in Power])
    try:
        return msgspec.convert(_floats(row), Own)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"{key}: {error}") from error


def machine(row: Any) -> Machine:
    """A record of the ledger; by hand a name, a pool, a type and a phase are enough.

    What it has is then taken from an offer of its type (`filled_in`).
    """
    if isinstance(row, dict) and "memory_gb" in row:
        row = {("memory_gib" if key == "memory_gb" else key): value for key, value in row.items()}
    made = dict(_known(row, (*Machine.__struct_fields__, "price_per_hour"), "name", "pool", "instance_type"))
    if made.get("phase") == "idle":
        made["phase"] = Phase.READY.value  # whether it is idle is told by its Node
    words("name", made["name"])
    made.setdefault("intent", made["name"].rpartition("-")[2])
    made.setdefault("phase", Phase.READY.value)
    made.setdefault("location", "")
    made.setdefault("market", ON_DEMAND)
    if "price_per_hour" in made:
        made["price"] = made.pop("price_per_hour")
    if "price" in made:
        made["price"] = str(money("price", made["price"]))
    _one_of("phase", made["phase"], [phase.value for phase in Phase])
    if made.get("reason") is not None:
        _one_of("reason", made["reason"], [reason.value for reason in Reason])
    for key in sorted(_MACHINE_TIMES & made.keys()):
        made[key] = moment(key, made[key])
    for key in sorted(_MACHINE_COUNTS & made.keys()):
        count(key, made[key])
    return msgspec.convert(_floats(made), Machine)


def filled_in(found: Machine, offers: Iterable[Offer]) -> Machine:
    """A machine of which only the type is told has what an offer of that type has."""
    if found.gpus or found.vcpus or found.memory_gib:
        return found
    kind = next((o.type for o in offers if o.type.name.upper() == found.instance_type.upper()), None)
    if kind is None:
        raise SnapshotError(
            f"machines: {found.name} is a {found.instance_type}, which no offer describes; expected gpus, vcpus and "
            "memory_gb, or an offer of that type"
        )
    return msgspec.structs.replace(
        found,
        gpus=kind.gpus,
        vcpus=kind.vcpus,
        memory_gib=kind.memory_gib,
        model=found.model or kind.model,
        price=found.price or kind.price_in(found.market),
    )
