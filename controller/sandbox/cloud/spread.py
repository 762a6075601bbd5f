"""How long something takes: not one number but a distribution, drawn anew for each machine and disk.

Written as one number (always that long), `[shortest, longest]` (anything between, equally likely) or
`{p50: …, p99: …}` (log-normal: most take about the median, one in a hundred longer than `p99`), the
last with `low` and `high` as bounds if wanted. Boots of real clouds have such a tail.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

Z99 = 2.3263478740408408  # how many deviations above the median the 99th percentile of a normal lies
FORMS = "one number, [shortest, longest] or {p50, p99}, with low and high if wanted, in machine seconds"


@dataclass(frozen=True, slots=True)
class Uniform:
    low: float
    high: float

    def draw(self, rng: random.Random) -> float:
        return self.low if self.low == self.high else rng.uniform(self.low, self.high)

    def shown(self) -> Any:
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class LogNormal:
    p50: float
    p99: float
    low: float = 0.0
    high: float = math.inf

    def draw(self, rng: random.Random) -> float:
        drawn = rng.lognormvariate(math.log(self.p50), math.log(self.p99 / self.p50) / Z99)
        return min(max(drawn, self.low), self.high)

    def shown(self) -> Any:
        bounds = {"low": self.low} if self.low else {}
        return {"p50": self.p50, "p99": self.p99} | bounds | ({"high": self.high} if self.ends else {})

    @property
    def ends(self) -> bool:
        return math.isfinite(self.high)


Spread = Uniform | LogNormal


def read_spread(value: Any) -> Spread | None:
    """The distribution that a value means; None when it means none."""
    if _is_duration(value):
        return Uniform(float(value), float(value))
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_duration, value)):
        return Uniform(float(value[0]), float(value[1])) if value[0] <= value[1] else None
    if not isinstance(value, dict) or not {"p50", "p99"} <= set(value) <= {"p50", "p99", "low", "high"}:
        return None
    if not all(map(_is_duration, value.values())) or not 0 < value["p50"] <= value["p99"]:
        return None
    low, high = float(value.get("low", 0.0)), float(value.get("high", math.inf))
    return LogNormal(float(value["p50"]), float(value["p99"]), low, high) if low <= high else None


def _is_duration(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0
