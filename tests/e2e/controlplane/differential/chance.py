"""Seeded chance, in the few words that the drawing of worlds needs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Chance(Random):
    def of(self, share: float) -> bool:
        return self.random() < share

    def some(self, things: Sequence[T], most: int, least: int = 1) -> list[T]:
        """A few of them, each at most once."""
        return self.sample(list(things), min(len(things), self.randint(least, most)))

    def labels(self, known: dict[str, list[str]], share: float) -> dict[str, str]:
        """Each key with this likelihood, with one of its values."""
        return {key: self.choice(values) for key, values in known.items() if self.of(share)}
