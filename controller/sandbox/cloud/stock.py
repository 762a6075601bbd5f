"""What is free to be bought: a number or plenty, per type, location and market.

Spot and on-demand are two inventories that know nothing of each other; outside only "there is some"
is shown, and it is no reservation.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cloud.catalogue import MARKETS, Catalogue
from controller.sandbox.cloud.knobs import BadSetting

Place = tuple[str, str, str]  # type, location, market


class Stock:
    def __init__(self, catalogue: Catalogue) -> None:
        self._free: dict[Place, int | None] = {
            (kind.instance_type, code, market): None if code in kind.locations else 0
            for kind in catalogue.types.values()
            for code in catalogue.codes
            for market in MARKETS
        }

    def has(self, place: Place) -> bool:
        return self._free.get(place, 0) != 0

    def take(self, place: Place) -> bool:
        """Take one; true when it was counted and has to be given back."""
        free = self._free.get(place, 0)
        if not free:
            return False
        self._free[place] = free - 1
        return True

    def give_back(self, place: Place) -> None:
        free = self._free.get(place)
        if free is not None:
            self._free[place] = free + 1

    def replace(self, rows: Any) -> int:
        """Set the free counts row by row, later rows over earlier ones; `*` means all."""
        free = dict(self._free)
        changed = 0
        for count, places in self.read(rows):
            free.update(dict.fromkeys(places, count))
            changed += len(places)
        self._free = free
        return changed

    def read(self, rows: Any, at: str = "stock") -> list[tuple[int | None, list[Place]]]:
        """What rows mean; raises `BadSetting`."""
        if not isinstance(rows, list):
            raise BadSetting(at, rows, "a list of {instance_type, location, market, count}")
        return [self._row(f"{at}[{index}]", row) for index, row in enumerate(rows)]

    def _row(self, at: str, row: Any) -> tuple[int | None, list[Place]]:
        keys = {"instance_type", "location", "market", "count"}
        if not isinstance(row, dict) or not set(row) <= keys or "count" not in row:
            raise BadSetting(at, row, "an object with instance_type, location, market and count")
        count = row["count"]
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            raise BadSetting(f"{at}.count", count, "a whole number, or null for plenty")
        kind, code, market = (row.get(key) or "*" for key in ("instance_type", "location", "market"))
        places = [
            place
            for place in self._free
            if kind in ("*", place[0]) and code in ("*", place[1]) and market in ("*", place[2])
        ]
        if not places:
            raise BadSetting(at, row, "a type, location and market (spot or on-demand) that exist, or *")
        return count, places

    def shown(self) -> list[dict[str, Any]]:
        return [
            {"instance_type": kind, "location": location, "market": market, "count": count}
            for (kind, location, market), count in self._free.items()
            if count is not None
        ]
