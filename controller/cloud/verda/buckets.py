"""One window of the API's limits, as tokens that come back, and the spreading of reads within it. Pure.

The API may count in fixed windows that begin whenever it likes, or in sliding ones; which is not said. A
token comes back one whole window after its call was *answered*, and was counted before that: so no window
of that length ever sees more calls than the limit, however it lies. What others use up in the same project
is only known from the headers; within a window it never becomes less, so an older answer that arrives
late hides nothing.
"""

from __future__ import annotations

from collections import deque

from controller.cloud.verda.limits import Standing
from controller.cloud.verda.waits import LONGEST_WAIT_S

WINDOW_S = 60.0


class Bucket:
    def __init__(self, most: int, span: float = WINDOW_S) -> None:
        self.most = most
        self.span = span
        self.shut_until = 0.0  # a 429 said so
        self._held = 0  # calls under way
        self._back: deque[float] = deque()  # when the tokens of answered calls come back
        self._others = 0
        self._others_until = 0.0
        self._even = 0.0  # when the next read would be due if all were sent evenly

    def free(self, now: float) -> int:
        """Tokens that are there; below zero when others use more than their part."""
        while self._back and self._back[0] <= now:
            self._back.popleft()
        return self.most - self._held - len(self._back) - self._of_others(now)

    def _of_others(self, now: float) -> int:
        return self._others if now < self._others_until else 0

    def unused(self, now: float) -> bool:
        """Nothing is lost by forgetting it."""
        return self.free(now) == self.most and self.shut_until <= now and self._even <= now

    @property
    def for_reads(self) -> int:
        """Reads in a window: half of the limit, so that there is always room for what costs or saves money."""
        return max(1, self.most // 2)

    def wait(self, now: float, place: int) -> float:
        """Seconds until the call at this place of the line (from 1) may be sent, as far as can be told now."""
        return max(self.shut_until - now, self._until_free(now, place), 0.0)

    def wait_for_read(self, now: float, place: int, place_among_reads: int) -> float:
        """The same for a read. It leaves a quarter alone also when it is others who use up the limit."""
        burst, every = self._rhythm()
        evenly = max(self._even, now) + (place_among_reads - burst) * every - now
        return max(self.wait(now, place + self.most // 4), evenly)

    def _rhythm(self) -> tuple[int, float]:
        """How many reads may go at once, and the seconds between the others."""
        burst = max(1, self.for_reads // 5)
        return burst, self.span / max(1, self.for_reads - burst)

    def _until_free(self, now: float, place: int) -> float:
        lacking = place - self.free(now)
        if lacking <= 0:
            return 0.0
        of_others = [self._others_until] * self._of_others(now)
        back = [*sorted([*self._back, *of_others]), *[now + self.span] * self._held]
        if not back:
            return lacking * self.span
        rounds, which = divmod(lacking - 1, len(back))
        return back[which] - now + rounds * self.span

    def take(self, now: float, *, reads: bool) -> None:
        self._held += 1
        if reads:
            self._even = max(self._even, now) + self._rhythm()[1]

    def give_back(self, now: float) -> None:
        self._held -= 1
        self._back.append(now + self.span)

    def correct(self, standing: Standing, now: float) -> None:
        """Take over what the API says of this window."""
        if standing.most is not None:
            self.most, self.span = standing.most, min(LONGEST_WAIT_S, standing.span or self.span)
        if standing.left is None:
            return
        known = self._of_others(now)
        ours = self.most - self.free(now) - known
        others = self.most - standing.left - ours
        if others > known:
            # A window ends within its own length, whatever the header says of it.
            self._others, self._others_until = others, now + min(self.span, standing.resets or self.span)
