"""What was worked out for a value that never changes, kept for as long as the same object comes again.

Catalogues and settings are the same objects for minutes, and a plan is made every few seconds. Arguments are told
apart by identity, and are held, so that no other object can take the place of one that is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remembered(work: Callable[[K], V], most: int = 4) -> Callable[[K], V]:
    """`work`, which must be pure and whose answer nobody changes; the `most` latest arguments are held."""
    known: dict[int, tuple[K, V]] = {}

    def ask(of: K) -> V:
        found = known.get(id(of))
        if found is not None:
            return found[1]
        if len(known) >= most:
            known.pop(next(iter(known)))
        answer = work(of)
        known[id(of)] = (of, answer)
        return answer

    return ask
