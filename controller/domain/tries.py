"""How machines that came to nothing are counted. Pure.

Each of several machines is replaced when it fails, and another fails before the new one can: those ordered before a try
began to fail are of that try. Were only the last failure remembered, no order would ever be later than that.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.machine import Machine
from controller.domain.plan import Failing, InVain, Tried
from controller.domain.reason import Reason

_NUMBERS = 16  # tries that are remembered of a sort: a pause has its full length long before


def counted(known: InVain | Tried | None, machine: Machine, at: float) -> tuple[int, float]:
    """How many tries with this one, and when the present one began to fail."""
    if known is None:
        return 1, at
    began = min(known.counted or known.last, at)  # a clock may have been set back
    return (known.tries + 1, at) if machine.intended_at > began else (known.tries, began)


def with_failure(
    known: InVain | None,
    machine: Machine,
    reason: Reason,
    at: float,
    *,
    first: bool = False,
    now: float | None = None,
) -> InVain:
    """`first`: some pod that it was bought for had none in vain before. `now`: it is dated back, and one that failed later
    may be known already; what is known of a moment to come is of a clock that was set back."""
    number, began = counted(known, machine, at)
    firsts = known.firsts if known is not None else ()
    if first and (known is None or number > known.tries):
        firsts = (*firsts, number)[-_NUMBERS:]
    sorts = dict(known.sorts) if known is not None else {}
    if known is None or sorts:  # else nobody knows which they were: that stays so
        alike = sorts.get(machine.kind)
        numbers = tuple(dict.fromkeys((*(alike.tries if alike is not None else ()), number)))
        sorts[machine.kind] = Failing(
            since=alike.since if alike is not None else at,
            last=later(alike.last, at, now) if alike is not None else at,
            tries=numbers[-_NUMBERS:],
        )
    return InVain(
        tries=number,
        counted=began,
        last=later(known.last, at, now) if known is not None else at,
        reason=reason,
        firsts=firsts,
        sorts=dict(sorted(sorts.items())),
        fine=known.fine if known is not None else {},
    )


def ended_by_later(known: InVain, kind: str) -> float:
    """What is held against this kind ends with a machine of it that came up after this moment, and held."""
    alike = known.sorts.get(kind)
    if alike is not None:
        return alike.last
    return known.fine.get(kind, 0.0) if known.sorts else known.last


def refuted(known: InVain | None, kind: str, at: float) -> bool:
    """A machine of this kind came up after this moment, and held."""
    return known is not None and known.fine.get(kind, 0.0) > at


def with_use(known: InVain, kind: str, at: float) -> InVain | None:
    """A machine of this kind was of use, which says less of others. None: nothing is held against any more."""
    sorts = {other: found for other, found in known.sorts.items() if other != kind}
    if not sorts:
        return None
    return replace(known, sorts=sorts, fine=dict(sorted({**known.fine, kind: at}.items())))


def later(known: float, at: float, now: float | None) -> float:
    """Of two failures; `now`: the one at hand is dated back."""
    return max(known, at) if now is not None and known <= now else at
