"""A bounded memory of what was decoded."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """A bounded memory in two generations: what is used stays, what is not is forgotten in time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[Hashable, T] = {}
        self._old: dict[Hashable, T] = {}

    def get(self, key: Hashable) -> T | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, value: T) -> T:
        if len(self._young) >= self._limit:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
