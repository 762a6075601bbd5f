"""Failure memory: an offer that was refused is left alone, three minutes doubling to thirty.

Some refusals speak of one offer, others of a type everywhere (quota, image) or of the whole account
(funds, credentials, rate): they keep away from as much as they speak of, so there is no tight loop.
An order that is accepted proves less than it seems, because capacity may be refused minutes later; so
only a machine that became ready ends what is held against its offer. Kept in memory only; losing it
costs one retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.domain.cloudthings import Offer
from controller.domain.plan import Refusal
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason

_ACCOUNT = frozenset(
    {
        Reason.NO_FUNDS,
        Reason.UNAUTHORISED,
        Reason.RATE_LIMITED,
        Reason.UNAVAILABLE,
        Reason.JOIN_UNPREPARED,
        Reason.UNKNOWN_OUTCOME,
    }
)
# A request that is refused as invalid may be about a type that has just left the catalogue; when a second
# type is refused in the same way it is about the request itself.
_TYPE = frozenset({Reason.QUOTA, Reason.IMAGE_NOT_SUPPORTED, Reason.BAD_REQUEST})
_RATE_PAUSE = 5.0
_MOST_DOUBLINGS = 16

# A cloud that is away says nothing about its stock, so it is tried again soon after it may be back.
_AWAY_FIRST, _AWAY_MOST = 5.0, 60.0
Key = tuple[str, Reason]  # a scope, and what was said of it


class Refusals:
    def __init__(self, deadlines: Deadlines) -> None:
        self.change(deadlines)
        self._times: dict[Key, int] = {}
        self._known: dict[Key, Refusal] = {}
        # The last answer, with the offers and the refusals that it was made of.
        self._told: tuple[object, dict[str, Refusal], tuple[Refusal, ...]] = (None, {}, ())
        self._heard_at = 0.0  # the latest moment that the clock showed

    def change(self, deadlines: Deadlines) -> None:
        """Of refusals from now on."""
        self._first = deadlines.backoff_first
        self._most = deadlines.backoff_most

    def add(
        self, offer: str, reason: Reason, message: str, now: float, retry_after: float | None = None
    ) -> Refusal:
        self._heed(now)
        key = (self._scope(offer, reason, now), reason)
        known = self._known.get(key)
        if known is not None and known.until > now:
            return known  # a burst of refusals is one refusal
        if known is not None and now > known.until + self._most:
            self._times.pop(key, None)  # long ago
        times = self._times.get(key, 0)
        self._times[key] = min(times + 1, _MOST_DOUBLINGS)
        delay = min(self._most, self._first * 2**times)
        if reason in (Reason.UNAVAILABLE, Reason.JOIN_UNPREPARED):
            delay = min(delay, _AWAY_MOST, _AWAY_FIRST * 2**times)
        if reason is Reason.UNKNOWN_OUTCOME:  # the answer was lost, and the order never carried out
            delay = min(self._most, _AWAY_FIRST * 2**times)
        if reason is Reason.RATE_LIMITED:
            delay = max(retry_after or 0.0, _RATE_PAUSE)
        elif retry_after is not None:
            delay = max(delay, retry_after)
        refusal = Refusal(offer=key[0], reason=reason, until=now + delay, message=message)
        self._known[key] = refusal
        return refusal

    def accepted(self, offer: str) -> None:
        """An order went through: what was said of the account and the type is over."""
        self._forget("*", _type_of(offer))

    def succeeded(self, offer: str) -> None:
        """A machine of this offer is ready: the next refusal starts from the first delay again.

        That machines are taken away once they are ready is no less true for it.
        """
        self._forget(offer, "*", _type_of(offer), but=Reason.VANISHED)

    def logged_in_anew(self) -> None:
        """The credentials are others: what the last ones were refused for is over."""
        for key in [key for key in self._times if key[1] is Reason.UNAUTHORISED]:
            self._times.pop(key, None)
            self._known.pop(key, None)

    def _heed(self, now: float) -> None:
        """A clock that was set back must not make a pause longer."""
        back, self._heard_at = self._heard_at - now, now
        if back > 0:
            for key, refusal in self._known.items():
                self._known[key] = msgspec.structs.replace(refusal, until=refusal.until - back)

    def _scope(self, offer: str, reason: Reason, now: float) -> str:
        if reason in _ACCOUNT:
            return "*"
        if reason not in _TYPE:
            return offer
        scope = _type_of(offer)
        others = (
            r for (of, why), r in self._known.items() if why is reason and of != scope and r.until > now
        )
        return "*" if reason is Reason.BAD_REQUEST and any(others) else scope

    def _forget(self, *scopes: str, but: Reason | None = None) -> None:
        for key in [key for key in self._times if key[0] in scopes and key[1] is not but]:
            self._times.pop(key, None)
            self._known.pop(key, None)

    def active(self, offers: Iterable[Offer], now: float) -> tuple[Refusal, ...]:
        """One refusal for each offer that is to be left alone: of several the one that lasts longest."""
        self._heed(now)
        scopes: dict[str, Refusal] = {}
        for key, refusal in list(self._known.items()):
            if refusal.until + 2 * self._most < now:
                del self._known[key]
                self._times.pop(key, None)
            elif refusal.until > now and refusal.until > _until(scopes.get(refusal.offer)):
                scopes[refusal.offer] = refusal
        if not scopes:
            return ()
        if self._told[0] is not offers or self._told[1] != scopes:
            self._told = (offers, scopes, _each(offers, scopes))
        return self._told[2]


def _each(offers: Iterable[Offer], scopes: Mapping[str, Refusal]) -> tuple[Refusal, ...]:
    found = []
    for offer in offers:
        key = offer.key
        here = [scopes[scope] for scope in ("*", f"{offer.type.name}/*/*", key) if scope in scopes]
        if here:
            last = max(here, key=_until)
            found.append(Refusal(offer=key, reason=last.reason, until=last.until, message=last.message))
    return tuple(found)


def _until(refusal: Refusal | None) -> float:
    return refusal.until if refusal is not None else 0.0


def _type_of(offer: str) -> str:
    return f"{offer.split('/')[0]}/*/*"
