"""What could be bought, and which of several offers is the better one.

A candidate is a pool and an offer that the pool may buy. What keeps an offer from being bought now —
price, image, stock, an earlier refusal — is kept beside it, so that explanations can name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from controller.domain.cloudthings import SWITCHED, InstanceType, Offer
from controller.domain.images import image_for, why_none
from controller.domain.money import at_least, in_words
from controller.domain.plan import Explanation, Refusal, Snapshot
from controller.domain.policy import Policy, Pool, halts
from controller.domain.reason import SENTENCES, Reason

# Prices closer than this are equal, so that a rounding of the cloud decides nothing.
SAME_PRICE = Decimal("1.001")
_LAST_SECOND = 253402300799.0  # of the year 9999


@dataclass(frozen=True, slots=True)
class Candidate:
    pool: Pool
    pool_rank: int
    offer: Offer
    location_rank: int
    market_rank: int
    hindrance: Explanation | None = None

    @property
    def gpus(self) -> int:
        return self.offer.type.gpus

    @property
    def price(self) -> Decimal:
        return self.offer.price


def clock(moment: float) -> str:
    return datetime.fromtimestamp(min(moment, _LAST_SECOND), UTC).strftime("%H:%M:%S UTC")


_latest: tuple[Policy, tuple[Offer, ...], dict[str, Refusal], list[Candidate]] | None = None


def candidates(snapshot: Snapshot) -> list[Candidate]:
    """Every offer that some pool may buy in principle, in a fixed order, with what hinders it now.

    The same objects as before where settings, offers and refusals are the same; nobody changes the list.
    """
    global _latest
    refusals: dict[str, Refusal] = {}
    for refusal in snapshot.refusals:
        known = refusals.get(refusal.offer)
        if refusal.until > snapshot.now and (known is None or _order(refusal) > _order(known)):
            refusals[refusal.offer] = refusal
    last = _latest
    if last is not None and last[0] is snapshot.policy and last[1] is snapshot.offers and last[2] == refusals:
        return last[3]
    found = _candidates(snapshot, refusals)
    _latest = (snapshot.policy, snapshot.offers, refusals, found)
    return found


def _candidates(snapshot: Snapshot, refusals: Mapping[str, Refusal]) -> list[Candidate]:
    found: list[Candidate] = []
    first = {
        name: number - len(snapshot.policy.priorities)
        for number, name in enumerate(snapshot.policy.priorities)
    }
    for number, pool in enumerate(snapshot.policy.pools):
        rank = first.get(pool.name, number)
        markets = pool.markets()
        allows: dict[int, bool] = {}
        for offer in snapshot.offers:
            if offer.market not in markets:
                continue
            allowed = allows.get(id(offer.type))
            if allowed is None:
                allowed = allows[id(offer.type)] = allows_type(pool, offer.type)
            if not allowed:
                continue
            if pool.locations and offer.location not in pool.locations:
                continue
            location = pool.locations.index(offer.location) if pool.locations else 0
            hindrance = _hindrance(pool, offer, refusals.get(offer.key))
            if halts("scale-up", pool.pause, snapshot.policy.pause):
                hindrance = Explanation(Reason.PAUSED, f"scale-up of pool {pool.name} is paused")
            found.append(Candidate(pool, rank, offer, location, markets.index(offer.market), hindrance))
    return found


def _order(refusal: Refusal) -> tuple[float, str]:
    return (refusal.until, refusal.reason)


@lru_cache(maxsize=64)
def _folded(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.upper() for name in names)


def allows_type(pool: Pool, kind: InstanceType) -> bool:
    if pool.instance_types and kind.name.upper() not in _folded(pool.instance_types):
        return False
    if pool.gpu_models and kind.model.upper() not in _folded(pool.gpu_models):
        return False
    if pool.max_gpus and kind.gpus > pool.max_gpus:
        return False
    if pool.min_gpu_memory_gb and (
        not kind.gpus or kind.gpu_memory_gib // kind.gpus < pool.min_gpu_memory_gb
    ):
        return False
    if not pool.instance_types and not kind.gpus:
        return False
    return kind.arch == "amd64" or pool.arm64


def _hindrance(pool: Pool, offer: Offer, refusal: Refusal | None) -> Explanation | None:
    kind = offer.type
    if offer.market == SWITCHED:  # nothing is bought; why it cannot be switched on now is told as it is
        return Explanation(refusal.reason, f"{kind.name}: {refusal.message}") if refusal is not None else None
    if pool.max_price_per_hour is not None and offer.price > pool.max_price_per_hour:
        return Explanation(
            Reason.LIMIT_PRICE,
            f"{kind.name} costs {in_words(offer.price)} an hour; max_price_per_hour of pool {pool.name} is "
            f"{in_words(pool.max_price_per_hour)}: raise it to at least {at_least(offer.price)}",
        )
    if not image_for(pool.images, kind):
        return Explanation(
            Reason.IMAGE_NOT_SUPPORTED,
            f"{kind.name} {why_none(pool.images, kind)}, so pool {pool.name} does not buy it",
        )
    if not offer.available:
        return Explanation(
            Reason.NO_CAPACITY, f"{kind.name} is not available in {offer.location} ({offer.market})"
        )
    if refusal is not None:
        return Explanation(
            refusal.reason,
            # No times and no countdown: the sentence becomes an event, and must not change by itself.
            f"{kind.name} in {offer.location} ({offer.market}): {_why(refusal)}; it is tried again later",
        )
    return None


def _why(refusal: Refusal) -> str:
    """The cloud's own words, unless they speak of one moment only."""
    momentary = refusal.reason in (Reason.UNAVAILABLE, Reason.RATE_LIMITED)
    words = SENTENCES[refusal.reason] if momentary or not refusal.message else refusal.message
    return words.rstrip(".")
