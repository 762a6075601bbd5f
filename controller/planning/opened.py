"""The shop as it was opened last: offers, prices and predicted machines change far more rarely than pods do.

Sorting the offers and predicting what each would be as a Node is most of a quiet plan's work. It depends on a
few parts of the picture only; while these are equal, what was made of them serves again. Nothing that plans
ever changes a shop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from controller.domain.cloudthings import Offer
from controller.domain.plan import Refusal, Snapshot
from controller.planning.choice import Candidate, candidates
from controller.planning.predict import labels_shown
from controller.planning.shop import Shop


class _Seen(NamedTuple):
    """All that a shop is made of."""

    policy: Any
    offers: tuple[Offer, ...]
    refusals: tuple[Refusal, ...]
    daemonsets: Any
    observed: Mapping[str, Mapping[str, int]]
    shown: Mapping[tuple[str, str], Mapping[str, str]]


class _Opened(NamedTuple):
    seen: _Seen
    options: list[Candidate]
    shop: Shop


_last: list[_Opened] = []


def opened(snapshot: Snapshot) -> tuple[list[Candidate], Shop]:
    seen = _Seen(
        snapshot.policy,
        snapshot.offers,
        tuple(refusal for refusal in snapshot.refusals if refusal.until > snapshot.now),
        snapshot.daemonsets,
        {kind: dict(figures) for kind, figures in snapshot.observed.items()},
        labels_shown(snapshot),
    )
    if _last and _last[0].seen == seen:
        return list(_last[0].options), _last[0].shop
    options = candidates(snapshot)
    made = _Opened(seen, options, Shop(snapshot, options))
    _last[:] = [made]
    return list(options), made.shop
