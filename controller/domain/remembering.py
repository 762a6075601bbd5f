"""What was worked out for a value that never changes, kept for as long as the same object comes again.

Catalogues and settings are the same objects for minutes, and a plan is made every few seconds. Arguments are told
apart by identity, and are held, so that no other object can take the place of one that is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class remembered(Generic[K, V]):
    """`work`, which must be pure and whose answer nobody changes; the `most` latest arguments are held."""

    def __init__(self, work: Callable[[K], V], most: int = 4) -> None:
        self._work = work
        self._most = most
        self._known: dict[int, tuple[K, V]] = {}

    def __call__(self, of: K) -> V:
        found = self._known.get(id(of))
        if found is not None:
            return found[1]
        if len(self._known) >= self._most:
            self._known.pop(next(iter(self._known)))
        answer = self._work(of)
        self._known[id(of)] = (of, answer)
        return answer

    def cache_clear(self) -> None:
        self._known.clear()
