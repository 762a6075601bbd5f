"""How long nothing is concluded from what is not seen, after the cluster could not be looked at.

Who was as blind as we were, a kubelet say, is given time to be heard again: as long as that was, at most a limit.
"""

from __future__ import annotations


class Blindness:
    def __init__(self) -> None:
        self._since = 0.0  # since when nothing is to be seen
        self._until = 0.0  # how long what that may have hidden is waited for

    def lasts(self, old: bool, most: float, now: float) -> bool:
        """`old`: what is seen now is."""
        self._since = (self._since or now) if old else 0.0
        if old:
            self._until = max(self._until, now + min(most, max(0.0, now - self._since)))
        self._until = min(self._until, now + most)  # a clock may be set back
        return old or now <= self._until
