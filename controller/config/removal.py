"""When machines go, in which order, how many at once, and whether work is moved for it."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from controller.config.section import Section, lasting
from controller.config.values import Duration, Money, Share, parse_windows


def _hours(value: Any) -> tuple[str, ...]:
    return () if value in ([], ()) else parse_windows(value)


Hours = Annotated[tuple[str, ...], PlainValidator(_hours), PlainSerializer(list, when_used="json")]


def _unquoted_off(value: Any) -> Any:
    """YAML reads a plain `off` as false; nothing else can be meant here."""
    return "off" if value is False else value


class ScaleDown(Section):
    cooldown: Duration = lasting(
        600,
        "Idle time before removal, counted from the end of the last use, however short that was; 10 min, because the next pod often comes soon and would wait for a boot.",
    )
    order: Literal["largest", "dearest"] = Field(
        "largest",
        description="Which of the idle machines whose cooldown is over goes first: largest (GPUs, then price) or dearest (price, then GPUs), then the one that is idle longest. The largest, because its GPUs are the scarcest and mostly cost the most. A machine whose cooldown still runs is not waited for, however large.",
    )
    min_age: Duration = lasting(
        0,
        "No machine is removed before it is that old, counted from its order, whatever the reason; 0, because the cooldown protects what was just used already. A surplus machine is not kept by it.",
    )
    removed_pools: Literal["drain", "keep"] = Field(
        "drain",
        description="What becomes of machines whose pool is no longer in the settings: drain takes no new pods and goes as soon as its work has ended; keep leaves them as they are until the pool is back. Drain, because who takes a pool out wants to pay for it no more.",
    )
    consolidate: Annotated[Literal["off", "cheaper"], BeforeValidator(_unquoted_off)] = Field(
        "off",
        description="`cheaper` moves the GPU pods of a machine that is at most half used, where each provably fits another Ready node that is in use or not ours, through the eviction API; one machine at a time. Off, because an hour of lost work costs more than the hour of a half-empty machine. Never moved: Jobs, pods without a controller, with a resource claim or with do-not-disrupt, and what a disruption budget holds.",
    )
    consolidate_saving: Money = Field(
        Decimal(1),
        description="A machine that costs less an hour is not emptied; 1, because to start work again costs GPU time too.",
    )


class Budgets(Section):
    """Machines removed at once for one reason, beside the budget for all."""

    idle: Share | None = Field(
        None, description="Idle ones; none unless given, because the budget for all bounds them."
    )
    expired: Share | None = Field(None, description="Idle ones that are past expire_after; as above.")
    drifted: Share | None = Field(
        None, description="Idle ones made with other settings of their pool; as above."
    )
    consolidation: Share | None = Field(
        None, description="Half-empty ones; as above, and never more than one at a time."
    )


class Disruption(Section):
    budget: Share = Field(
        "20%",
        description="Machines removed at once, a share (rounded up) or a count; a fifth, so that a mistake stays small. Machines whose Node is not Ready count as if they were being removed. One whose delete the cloud accepted ten minutes ago or more counts no longer.",
    )
    budgets: Budgets = Field(
        default_factory=Budgets,
        description="The same for one reason, beside the budget for all; none unless given, because one number is enough for most.",
    )
    windows: Hours = Field(
        (),
        description='When machines may be removed, such as "daily 20:00-06:00 Europe/Helsinki"; always unless given, because only idle ones are. What is under way when a window ends is finished, and a machine that failed goes at any time.',
    )
    not_during: Hours = Field(
        (),
        description='When none is removed, such as "Mon-Fri 08:00-18:00 Europe/Helsinki", even inside of a window above; never unless given, because an idle machine costs money at any hour.',
    )
