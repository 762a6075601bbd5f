"""What is written down of a wish to switch a machine on. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.switching import DAY, Power, Switched


def wished(record: Switched, call: str, pods: tuple[str, ...], now: float) -> Switched:
    """`call` names it, in every repetition."""
    return replace(
        record,
        power=Power.RISING,
        call=call,
        again=0,
        pods=pods,
        pods_at=0.0,
        wanted_at=now,
        called_at=0.0,
        acked_at=0.0,
        unsure=False,
        tries=0,
        node_ready_at=0.0,
        gpus_seen_at=0.0,
        down_at=0.0,
        told_on=False,
        told_off_at=0.0,
        hand_until=0.0,
        node_goes=False,
        reason=None,
        note="",
        ons=(*(at for at in record.ons if at > now - DAY), now),
    )


def outdated(record: Switched, pods: tuple[str, ...]) -> bool:
    """Whether it is on its way for pods that nobody counts in any more, and would be called for these now.

    One that nobody has heard of is decided about anew in every plan.
    """
    called = record.power is Power.RISING and bool(record.call) and not (record.unheard or record.acked_at)
    return called and bool(record.pods) and not set(pods) & set(record.pods)
