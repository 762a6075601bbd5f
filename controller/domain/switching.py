"""Machines that are switched on and off instead of bought: what is set about one, and what is known of it.

The record lives in the ledger. A call's id is written there before the call is made and is the same in each
repetition, so that a crash between the two never makes a second wish out of one. Times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum

import msgspec

from controller.domain.cloudthings import SWITCHED, InstanceType, Offer
from controller.domain.kube import Taint
from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from controller.domain.resources import Resources

DAY = 86400.0


class Power(StrEnum):
    OFF = "off"
    RISING = "switching_on"  # until its Node is Ready with its GPUs
    ON = "on"
    DRAINING = "draining"
    FALLING = "switching_off"  # until its Node is not Ready any more


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """What is set about one machine."""

    name: str
    gpus: int
    model: str = ""
    location: str = ""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: Resources = {}  # what its Node offers beside or instead of `gpus`
    price: Decimal = Decimal(0)
    keep_on: bool = False
    delete_node: bool = False
    min_on: float = 600
    min_off: float = 60
    per_day: int = 24
    on_within: float = 900
    off_within: float = 600
    left_alone: float = 1800
    pause: str = ""  # scale-up | scale-down | all
    asked: bool = False  # it has a status endpoint
    tries: int = 5
    retry_first: float = 2
    retry_most: float = 30

    @property
    def offer(self) -> Offer:
        kind = InstanceType(
            name=self.name,
            model=self.model,
            gpus=self.gpus,
            vcpus=0,
            memory_gib=0,
            price=self.price,
            spot_price=self.price,
        )
        return Offer(type=kind, location=self.location, market=SWITCHED)


class Face(msgspec.Struct, frozen=True, kw_only=True):
    """What its Node looked like when it was usable last."""

    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = {}
    promised: Resources = {}  # the accelerators that the settings told then; {}: nobody remembers
    provider_id: str = ""


class Stay(msgspec.Struct, frozen=True):
    """Why an idle machine is not switched off before this moment."""

    until: float
    reason: Reason
    message: str


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """What planning sees of a switched machine beside its offer and its Node."""

    power: str
    face: Face | None = None
    stays: tuple[Stay, ...] = ()
    message: str = ""  # about one that is off


class Fall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls to switch it off that may have their effect yet."""

    since: float  # the last of them
    until: float  # by then all of them have had it, or never will
    lit: bool = False  # its Node was Ready when the first was made
    lost: bool = False  # one of them was not answered
    boot: str = ""  # of its Node when the only one was made; "": no reboot says that it has had its effect


class Switched(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one machine."""

    name: str
    power: Power = Power.OFF
    call: str = ""  # names the wish under way; "": nobody here asked for it
    again: int = 0  # rounds of a wish that was acknowledged and showed no effect
    pods: tuple[str, ...] = ()  # switched on for these, as namespace/name
    pods_at: float = 0.0  # when these took the place of others that it was wished for
    wanted_at: float = 0.0
    called_at: float = 0.0  # when a call of this wish may have reached the endpoint last
    acked_at: float = 0.0
    unsure: bool = False  # a call of this wish may have had an effect
    tries: int = 0
    rose_at: float = 0.0  # when an endpoint may have been told last to switch it on
    on_since: float = 0.0
    off_since: float = 0.0
    node_ready_at: float = 0.0
    gpus_seen_at: float = 0.0
    gpus_lost_at: float = 0.0
    down_at: float = 0.0  # since when its Node is not Ready
    drain_at: float = 0.0
    hand_until: float = 0.0  # somebody else switched it: left as it is until then
    refused_at: float = 0.0  # when all calls to end a failed one were refused last
    refused_until: float = 0.0  # not tried again before
    failures: int = 0
    told_on: bool = False  # since it was called on, its status endpoint has said so
    told_off_at: float = 0.0  # and since when it says off again
    doubted: bool = False  # its status endpoint goes on saying that it is on
    node_goes: bool = False  # it is off, and its Node object is to be deleted
    fall: Fall | None = None
    reason: Reason | None = None
    note: str = ""
    ons: tuple[float, ...] = ()  # when it was switched on within the last day
    face: Face | None = None

    @property
    def call_id(self) -> str:
        return f"{self.call}-{self.again}" if self.again else self.call

    @property
    def opens_at(self) -> float:
        """When no call of ours can end it any more."""
        return self.fall.until if self.fall is not None else 0.0

    @property
    def unheard(self) -> bool:
        """It is to be switched on, and certainly no call has had an effect so far.

        Such a wish binds nobody: the machine is as good as off, and every plan decides about it anew.
        """
        heard = self.called_at or self.unsure or self.acked_at or self.node_ready_at
        return self.power is Power.RISING and bool(self.call) and not heard

    @property
    def changing(self) -> bool:
        return self.power in (Power.RISING, Power.DRAINING, Power.FALLING)


_PHASES = {
    Power.RISING: Phase.BOOTING,
    Power.ON: Phase.READY,
    Power.DRAINING: Phase.DRAINING,
    Power.FALLING: Phase.DELETING,
}


def as_machine(record: Switched, switch: Switch) -> Machine | None:
    """The record in the words that planning, reports and removals use for all machines; None while it is off."""
    phase = _PHASES.get(record.power)
    if phase is None:
        return None
    if phase is Phase.BOOTING and record.node_ready_at:
        phase = Phase.STARTED
    return Machine(
        intent=record.call or record.name,
        name=record.name,
        pool=record.name,
        instance_type=record.name,
        location=switch.location,
        market=SWITCHED,
        phase=phase,
        price=switch.price,
        gpus=switch.gpus,
        model=switch.model,
        pods=record.pods,
        reason=record.reason,
        note=record.note,
        intended_at=record.on_since
        if record.power is Power.ON and not record.wanted_at
        else record.wanted_at,
        ordered_at=record.acked_at,
        node_ready_at=record.node_ready_at,
        ready_at=record.on_since,
        gpus_lost_at=record.gpus_lost_at,
        node_missing_at=record.down_at,
        drain_at=record.drain_at,
        delete_at=record.called_at if record.power is Power.FALLING else 0.0,
    )
