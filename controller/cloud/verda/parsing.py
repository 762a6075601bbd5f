"""Rows of the API as nouns of the domain. Pure, but for warnings.

The API evolves in place: fields appear, enums grow, types come and go, and the spec's own examples
contradict the catalogue. So unknown fields and statuses are accepted, a missing field that we can live
without gets its empty value, and only a row without what identifies or prices it is unreadable: it is
skipped and named, and whoever needs the whole list is told that it is short.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from controller.cloud.verda.wire import plain_id
from controller.domain.cloudthings import (
    ON_DEMAND,
    SPOT,
    Instance,
    InstanceType,
    Script,
    Volume,
    arch_of,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

_LARGEST_PRICE = Decimal(1_000_000)
_EARLIEST, _LATEST = 946_684_800, 32_503_680_000  # the years 2000 and 3000


class Unreadable(ValueError):
    """A row that lacks what it cannot do without."""


def rows(value: Any, parse: Callable[[Mapping[str, Any]], T], what: str) -> tuple[tuple[T, ...], int]:
    """Everything that can be read, and how many rows cannot. `Unreadable` if it is no list at all."""
    if not isinstance(value, list):
        raise Unreadable(f"{what}: the answer is no list")
    found: list[T] = []
    broken = 0
    for number, row in enumerate(value):
        try:
            if not isinstance(row, dict):
                raise Unreadable("not an object")
            found.append(parse(row))
        except Unreadable as problem:
            broken += 1
            log.warning("%s: row %s skipped: %s", what, _name_of(row) or f"number {number}", problem)
    return tuple(found), broken


def _name_of(row: Any) -> str:
    if not isinstance(row, dict):
        return ""
    found = row.get("id") or row.get("instance_type") or row.get("code") or row.get("location_code")
    return found[:64] if isinstance(found, str) else ""


def instance(row: Mapping[str, Any]) -> Instance:
    spot = row.get("is_spot")
    return Instance(
        id=plain_id(_needed_text(row, "id")),
        hostname=_text(row, "hostname"),
        description=_text(row, "description"),
        status=_text(row, "status") or "unknown",
        instance_type=_text(row, "instance_type"),
        location=_text(row, "location") or _text(row, "location_code"),
        market=SPOT if spot is True or str(spot).lower() == "true" else ON_DEMAND,
        price=_price(row.get("price_per_hour")) or Decimal(0),
        created_at=_epoch(row.get("created_at")),
        contract=_text(row, "contract").strip().upper(),
        currency=_text(row, "currency").strip().lower(),
        tags=_tags(row.get("tags")),
        ip=_text(row, "ip"),
        volume_ids=_ids(row.get("volume_ids")),
        os_volume_id=plain_id(_text(row, "os_volume_id")),
        script_id=plain_id(_text(row, "startup_script_id")),
        gpus=_told(row, "gpu", "number_of_gpus"),
        vcpus=_told(row, "cpu", "number_of_cores"),
        memory_gib=_told(row, "memory", "size_in_gigabytes"),
    )


def instance_type(row: Mapping[str, Any]) -> InstanceType:
    name = _needed_text(row, "instance_type")
    model = _text(row, "model")
    price = _price(row.get("price_per_hour"))
    if price is None:
        raise Unreadable("price_per_hour is no price")
    gpu = row.get("gpu")
    return InstanceType(
        name=name,
        model=model,
        gpus=_count(row, "gpu", "number_of_gpus") if gpu is not None else 0,
        vcpus=_count(row, "cpu", "number_of_cores"),
        memory_gib=_count(row, "memory", "size_in_gigabytes"),
        gpu_memory_gib=_count(row, "gpu_memory", "size_in_gigabytes") if row.get("gpu_memory") else 0,
        price=price,
        spot_price=_price(row.get("spot_price")) or Decimal(0),
        images=_texts(row.get("supported_os")),
        arch=arch_of(model),
    )


def volume(row: Mapping[str, Any]) -> Volume:
    return Volume(
        id=plain_id(_needed_text(row, "id")),
        name=_text(row, "name"),
        status=_text(row, "status") or "unknown",
        size_gb=_whole(row.get("size")) or 0,
        location=_text(row, "location"),
        instance_id=_holder(row),
        is_os=row.get("is_os_volume") is True,
        tags=_tags(row.get("tags")),
        price_per_hour=_price(row.get("base_hourly_cost")) or Decimal(0),
        currency=_text(row, "currency").strip().lower(),
        created_at=_epoch(row.get("created_at")),
        deleted_at=_epoch(row.get("deleted_at")),
    )


def script(row: Mapping[str, Any]) -> Script:
    return Script(
        id=plain_id(_needed_text(row, "id")),
        name=_text(row, "name"),
        text=_text(row, "script"),
        created_at=_epoch(row.get("created_at")),
    )


def location(row: Mapping[str, Any]) -> str:
    return _needed_text(row, "code")


def availability(row: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """A location and the types that it has now. An empty location may be left out or have no list."""
    listed = row.get("availabilities")
    if listed is not None and not isinstance(listed, list):
        raise Unreadable("availabilities is no list")
    return _needed_text(row, "location_code"), frozenset(str(name).upper() for name in listed or ())


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _needed_text(row: Mapping[str, Any], key: str) -> str:
    value = _text(row, key)
    if not value:
        raise Unreadable(f"{key} is missing")
    return value


def _price(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    try:
        price = Decimal(value)
    except InvalidOperation:
        return None
    return price if price.is_finite() and 0 <= price < _LARGEST_PRICE else None


def _whole(value: Any) -> int | None:
    price = _price(value)
    return None if price is None else int(price)


def _count(row: Mapping[str, Any], key: str, inner: str) -> int:
    holder = row.get(key)
    number = _whole(holder.get(inner)) if isinstance(holder, dict) else None
    if number is None:
        raise Unreadable(f"{key}.{inner} is no number")
    return number


def _told(row: Mapping[str, Any], key: str, inner: str) -> int:
    """The same where it may be missing."""
    holder = row.get(key)
    return (_whole(holder.get(inner)) if isinstance(holder, dict) else None) or 0


def _epoch(value: Any) -> float:
    """Seconds since 1970 of an ISO time such as 2023-07-15T14:10:26.654Z; 0 if it cannot be read, or is none.

    What was never set is the year 1 in some languages: nothing costs money since then.
    """
    if not isinstance(value, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return 0.0
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return since if _EARLIEST <= since < _LATEST else 0.0


def _tags(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        return ()
    named = (row for row in value if isinstance(row, dict) and isinstance(row.get("key"), str))
    return tuple((row["key"], str(row.get("value") or "")) for row in named)


def _holder(row: Mapping[str, Any]) -> str:
    """Where a disk is attached. Its `instance_id` may be stale, while its `instances` are those of now."""
    told, now = plain_id(_text(row, "instance_id")), _ids(row.get("instances"))
    return told if told in now or not now else now[0]


def _ids(value: Any) -> tuple[str, ...]:
    return tuple(plain_id(item) for item in _texts(value))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    flat = (item.get("id") if isinstance(item, dict) else item for item in value)
    return tuple(item for item in flat if isinstance(item, str) and item)
