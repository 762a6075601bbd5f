"""Which instances something happens to: by id, by pattern, by type, place and market; all, some or a share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase

from controller.sandbox.cloud.catalogue import MARKETS
from controller.sandbox.cloud.model import Instance
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.state import State


@dataclass(frozen=True, slots=True)
class Choice:
    instance_id: str
    hostname: str  # a shell pattern
    instance_type: str
    location: str
    market: str
    status: str
    count: int | None
    share: float | None

    @classmethod
    def read(cls, fields: Fields) -> Choice:
        market = fields.text("market")
        if market not in ("", *MARKETS):
            raise fields.bad("market", "one of " + ", ".join(MARKETS))
        return cls(
            fields.text("id"),
            fields.text("hostname"),
            fields.text("instance_type"),
            fields.text("location"),
            market,
            fields.text("status"),
            fields.count("count"),
            fields.number("share", most=1.0),
        )

    def pick(self, state: State, *, spot_only: bool = False) -> list[Instance]:
        """Living ones that fit, in random order if only some of them are wanted."""
        fitting = [one for one in state.instances.values() if self._fits(one, spot_only)]
        if self.count is None and self.share is None:
            return fitting
        most = len(fitting) if self.share is None else math.ceil(len(fitting) * self.share)
        return state.rng.sample(fitting, min(most, len(fitting) if self.count is None else self.count))

    def _fits(self, one: Instance, spot_only: bool) -> bool:
        if one.status in ("deleting", "discontinued") or (spot_only and not one.spot):
            return False
        wanted = (
            (self.instance_id, one.id),
            (self.instance_type, one.type_name),
            (self.location, one.location),
            (self.market, one.market),
            (self.status, one.status),
        )
        if any(want not in ("", "*", actual) for want, actual in wanted):
            return False
        return not self.hostname or fnmatchcase(one.hostname, self.hostname)
