"""What is read from Verda: the catalogue, the inventory, disks and scripts, each as a whole or not at all.

Quirks dealt with here: there are two availability lists, and without `is_spot` only one is answered; a
list that is shorter than its own X-Total-Count, or holds what cannot be read, proves nothing; scripts come in pages whose size is the
server's to cap, with a count that may be one of all, whatever name was asked for; disks in the trash are a
list of their own and count against the quota for four days; an instance that is not known is a 404 or a
400 "Invalid instance id", depending on the API's age.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

from controller.cloud.protocol import CloudError
from controller.cloud.verda import parsing
from controller.cloud.verda.answers import Call, classify
from controller.cloud.verda.calls import Calls
from controller.cloud.verda.offers import offers
from controller.cloud.verda.wire import Answer, exact_json, plain_id
from controller.domain.cloudthings import (
    Catalogue,
    Instance,
    InstanceType,
    Inventory,
    Script,
    Volume,
    Volumes,
)
from controller.domain.outcome import Refused
from controller.domain.reason import Reason

T = TypeVar("T")
Parse = Callable[[Mapping[str, Any]], T]
log = logging.getLogger(__name__)

SCRIPT_PAGE = 100  # the most that the API gives at once
MOST_SCRIPT_PAGES = 1010  # 10 000 scripts is the hard limit of a project, and a page may be capped at 10


class Reads:
    def __init__(
        self,
        calls: Calls,
        *,
        clock: Callable[[], float],
        types_ttl: float,
        locations_ttl: float,
        currency: str,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._currency = currency
        self._types: _Kept[tuple[InstanceType, ...]] = _Kept(self._read_types, types_ttl, clock)
        self._locations: _Kept[tuple[str, ...]] = _Kept(self._read_locations, locations_ttl, clock)

    async def catalogue(self) -> Catalogue:
        at = self._clock()
        types, places, on_demand, spot = await asyncio.gather(
            self._types.get(), self._locations.get(), self._read_stock("false"), self._read_stock("true")
        )
        return Catalogue(at=at, offers=offers(types, places, on_demand, spot), currency=self._currency)

    async def _read_types(self) -> tuple[InstanceType, ...]:
        path = "/instance-types"
        answer = await self._calls.read(path, params={"currency": self._currency})
        told = {(currency or self._currency).lower() for currency in _currencies(answer.text)}
        if told - {self._currency}:
            # Limits are amounts of the wanted currency; prices of another are no smaller trouble than none.
            raise _unusable(path, f"prices are in {', '.join(sorted(told))}, asked for were {self._currency}")
        return _rows(answer, parsing.instance_type, path, _parsed_of_catalogue)[0]

    async def _read_locations(self) -> tuple[str, ...]:
        path = "/locations"
        return _rows(await self._calls.read(path), parsing.location, path, _parsed_of_catalogue)[0]

    async def _read_stock(self, is_spot: str) -> dict[str, frozenset[str]]:
        path = "/instance-availability"
        answer = await self._calls.read(path, params={"is_spot": is_spot})
        return dict(_rows(answer, parsing.availability, path, _parsed_of_catalogue)[0])

    async def inventory(self) -> Inventory:
        path = "/instances"
        at = self._clock()  # before the call: what is listed is at least as new
        answer = await self._calls.read(path)
        found, broken = _rows(answer, parsing.instance, path)
        complete = not broken and not _is_cut(answer, len(found))
        if not complete:
            log.warning("%s: the list is not complete, so nothing is concluded from what it lacks", path)
        return Inventory(at=at, instances=found, complete=complete, account=answer.account)

    async def instance(self, instance_id: str) -> Instance | None:
        path = "/instances/{id}"
        answer = await self._calls.read(path, path_params={"id": instance_id})
        if answer.status >= 400:
            outcome = classify(answer.status, answer.text, Call.DELETE)
            if isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE:
                return None  # what a delete would call gone
        row = _value(answer, path)
        try:
            found = parsing.instance(row if isinstance(row, dict) else {})
        except parsing.Unreadable as problem:
            raise _unusable(path, str(problem)) from None
        if found.id != plain_id(instance_id):
            raise _unusable(path, f"asked for {instance_id}, and another machine was answered")
        return found

    async def volumes(self) -> Volumes:
        (kept, account), (trash, other) = await asyncio.gather(
            self._every_volume("/volumes", _kept), self._every_volume("/volumes/trash", _trashed)
        )
        if account != other:
            raise _unusable("/volumes/trash", "the credentials changed on the way")
        found = {volume.id: volume for volume in (*kept, *trash)}
        listed = tuple(volume for volume in found.values() if volume.status != _PURGED)
        return Volumes(listed=listed, account=account)

    async def _every_volume(self, path: str, parse: Parse[Volume]) -> tuple[tuple[Volume, ...], str]:
        answer = await self._calls.read(path)
        found, broken = _rows(answer, parse, path)
        if broken or _is_cut(answer, len(found)):
            raise _unusable(path, _UNREADABLE if broken else _SHORT)
        return found, answer.account

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        """With a prefix, a list that is shorter than its count may be all there is."""
        found: dict[str, Script] = {}
        listed = 0
        for page in range(1, MOST_SCRIPT_PAGES):
            params = {"page": str(page), "pageSize": str(SCRIPT_PAGE)} | ({"name": prefix} if prefix else {})
            answer = await self._calls.read("/scripts", params=params)
            some, broken = _rows(answer, parsing.script, "/scripts")
            new = {script.id: script for script in some if script.id not in found}
            found.update(new)
            if broken and not prefix:
                raise _unusable("/scripts", _UNREADABLE)
            listed += len(some) + broken
            cut = _is_cut(answer, listed)
            if not new and cut and not prefix:
                raise _unusable("/scripts", _SHORT)
            if not new or (_total(answer) is not None and not cut):
                break
        return tuple(script for script in found.values() if script.name.startswith(prefix))


_SHORT = "the list is shorter than its own count"
_UNREADABLE = "some of it cannot be read, and might be what is looked for"
_PURGED = "purged"  # a word of ours: gone for good, costs nothing


def _kept(row: Mapping[str, Any]) -> Volume:
    return _trashed(row) if row.get("is_permanently_deleted") is True else parsing.volume(row)


def _trashed(row: Mapping[str, Any]) -> Volume:
    status = _PURGED if row.get("is_permanently_deleted") is True else "deleted"
    return parsing.volume({**row, "status": status})


def _parse(text: str, parse: Parse[T], path: str) -> tuple[tuple[T, ...], int]:
    try:
        value = exact_json(text)
    except ValueError:
        raise _unusable(path, "the answer is no JSON") from None
    return parsing.rows(value, parse, path)


# Most answers are what they were the last time. What is sold is asked for more seldom than what is there.
_parsed = lru_cache(maxsize=8)(_parse)
_parsed_of_catalogue = lru_cache(maxsize=4)(_parse)


def _rows(
    answer: Answer, parse: Parse[T], path: str, parsed: Callable[..., Any] = _parsed
) -> tuple[tuple[T, ...], int]:
    if answer.status >= 300:
        raise _unusable(path, f"answered {answer.status}")
    try:
        found: tuple[tuple[T, ...], int] = parsed(answer.text, parse, path)
    except parsing.Unreadable as problem:
        raise _unusable(path, str(problem)) from None
    return found


@lru_cache(maxsize=1)
def _currencies(text: str) -> frozenset[str]:
    try:
        value = exact_json(text)
    except ValueError:
        return frozenset()
    rows = value if isinstance(value, list) else ()
    return frozenset(str(row.get("currency") or "") for row in rows if isinstance(row, dict))


def _value(answer: Answer, path: str) -> Any:
    if answer.status >= 300:
        raise _unusable(path, f"answered {answer.status}")
    try:
        return answer.json()
    except ValueError:
        raise _unusable(path, "the answer is no JSON") from None


def _unusable(path: str, problem: str) -> CloudError:
    return CloudError(Reason.UNAVAILABLE, f"GET {path}: {problem}; if it stays so, check VERDA_BASE_URL")


def _total(answer: Answer) -> int | None:
    text = answer.header("X-Total-Count").strip()
    return (
        int(text[:18]) if text.isascii() and text.isdigit() else None
    )  # a longer one is above all that comes


def _is_cut(answer: Answer, listed: int) -> bool:
    total = _total(answer)
    return total is not None and total > listed


class _Kept(Generic[T]):
    """A value that is read again when it is older than its time; many askers share one reading."""

    def __init__(self, read: Callable[[], Awaitable[T]], ttl: float, clock: Callable[[], float]) -> None:
        self._read = read
        self._ttl = ttl
        self._clock = clock
        self._held: tuple[float, T] | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> T:
        async with self._lock:
            now = self._clock()
            if self._held is None or not 0 <= now - self._held[0] < self._ttl:
                self._held = (now, await self._read())
            return self._held[1]
