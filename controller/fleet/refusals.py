"""Failure memory: an offer that was refused is left alone, three minutes doubling to thirty.

Some refusals speak of one offer, others of a type everywhere (quota, image) or of the whole account
(funds, credentials, rate): they keep away from as much as they speak of, so there is no tight loop.
Kept in memory only; losing it costs one retry.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.cloudthings import Offer
from controller.domain.plan import Refusal
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason

_ACCOUNT = frozenset(
    {Reason.NO_FUNDS, Reason.UNAUTHORISED, Reason.RATE_LIMITED, Reason.UNAVAILABLE, Reason.BAD_REQUEST}
)
_TYPE = frozenset({Reason.QUOTA, Reason.IMAGE_NOT_SUPPORTED})


class Refusals:
    def __init__(self, deadlines: Deadlines) -> None:
        self._first = deadlines.backoff_first
        self._most = deadlines.backoff_most
        self._times: dict[str, int] = {}
        self._known: dict[str, Refusal] = {}  # by scope

    def add(
        self, offer: str, reason: Reason, message: str, now: float, retry_after: float | None = None
    ) -> Refusal:
        scope = self._scope(offer, reason)
        known = self._known.get(scope)
        if known is not None and known.until > now and reason is known.reason:
            return known  # a burst of refusals is one refusal
        times = self._times.get(scope, 0)
        self._times[scope] = times + 1
        delay = min(self._most, self._first * 2**times)
        if reason is Reason.RATE_LIMITED:
            delay = max(retry_after or 0.0, 5.0)
        elif retry_after is not None:
            delay = max(delay, retry_after)
        refusal = Refusal(offer=scope, reason=reason, until=now + delay, message=message)
        self._known[scope] = refusal
        return refusal

    def succeeded(self, offer: str) -> None:
        """A machine of this offer was ordered: the next refusal starts from the first delay again."""
        for scope in (offer, offer.split("/")[0] + "/*/*", "*"):
            self._times.pop(scope, None)
            self._known.pop(scope, None)

    def active(self, offers: Iterable[Offer], now: float) -> tuple[Refusal, ...]:
        """One refusal for each offer that is to be left alone."""
        self._known = {scope: r for scope, r in self._known.items() if r.until > now}
        found = []
        for offer in offers:
            for scope in ("*", f"{offer.type.name}/*/*", offer.key):
                refusal = self._known.get(scope)
                if refusal is not None:
                    found.append(
                        Refusal(
                            offer=offer.key,
                            reason=refusal.reason,
                            until=refusal.until,
                            message=refusal.message,
                        )
                    )
                    break
        return tuple(found)

    @staticmethod
    def _scope(offer: str, reason: Reason) -> str:
        if reason in _ACCOUNT:
            return "*"
        return f"{offer.split('/')[0]}/*/*" if reason in _TYPE else offer
