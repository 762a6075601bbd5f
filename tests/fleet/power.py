"""A room of machines that are switched, in memory and under a virtual clock, with endpoints that fail on request.

A machine boots some time after it was switched on, its Node becomes Ready and then shows its GPUs; some time after
it was switched off its Node ceases to be Ready. The room writes down every wish that reached it and every law that
was broken: power taken from a GPU in use or from one that a pod gets while the machine goes down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from controller.cloud.protocol import Send
from controller.domain.kube import Node, Taint
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.listener import Listener, Several
from controller.fleet.removal import HARD, SOFT, Removal
from controller.fleet.switching.board import Switchboard
from controller.fleet.switching.means import Means
from controller.fleet.switching.turning import Turning
from tests.fleet.clockwork import Time
from tests.fleet.fakes import Account, Hands, Town, make_node
from tests.fleet.scene import DEADLINES, Controller, World

# What a call meets. The last two have their effect although nobody hears of it.
FAULTS = ("ok", "refused", "away", "busy", "nothing", "unheard", "lost", "late")
# The controller's end, before or after the effect; and an effect that comes later, with or without an answer.
ENDS = ("dies", "dies_after", "delayed", "queued")


@dataclass
class Box:
    """One machine."""

    name: str
    gpus: int
    power: str = "off"  # off | booting | on | stopping
    since: float = 0.0
    boots: bool = True
    stops: bool = True
    gpus_come: bool = True
    boot: float = 60.0
    show: float = 20.0
    stop: float = 20.0
    ours: bool = False  # it was the controller that switched it on last
    doomed: bool = False  # it was the controller that switched it off last
    due: float = 0.0  # when a delayed call switches it
    due_on: bool = False
    provider_id: str | None = None  # of its Node; None: as ours
    labels: dict[str, str] = field(default_factory=dict)  # that its kubelet sets
    tells: bool = True  # its kubelet tells one boot from another

    @property
    def boot_id(self) -> str:
        return f"{self.name}-{self.since:.0f}" if self.tells else ""


@dataclass
class Call:
    at: float
    name: str
    on: bool
    key: str
    met: str


@dataclass
class Room:
    time: Time
    town: Town
    boxes: dict[str, Box] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=dict)  # by machine, or "*"
    broken: list[str] = field(default_factory=list)  # laws
    answers: bool = True  # the status endpoint does
    usually: str = "ok"  # what calls meet that meet no fault
    reading: float = 0.0  # seconds until credentials are read
    delay: float = 15.0  # until a delayed call has its effect
    heard: set[str] = field(default_factory=set)  # keys that had an effect
    before: Callable[[Call], None] = lambda _call: None

    def add(self, name: str, gpus: int = 1, *, node: bool = True, **more: Any) -> Box:
        box = self.boxes[name] = Box(name, gpus, **more)
        if node:
            known = make_node(name, self.time.now - 10_000, gpus=gpus if box.power == "on" else 0)
            self.town.nodes[name] = replace(
                known, provider_id=f"k3s://{name}", ready=box.power == "on", boot=box.boot_id
            )
        return box

    @staticmethod
    def _registered(box: Box, now: float) -> Node:
        node = make_node(box.name, now, gpus=0)
        given = node.provider_id if box.provider_id is None else box.provider_id
        return replace(node, provider_id=given, labels={**node.labels, **box.labels})

    def press(self, name: str, on: bool, *, hand: bool = True) -> None:
        """Power, by whoever presses the button; the laws hold for us alone."""
        box, now = self.boxes[name], self.time.now
        if on and box.power in ("off", "stopping"):
            box.power, box.since, box.ours, box.doomed = "booting", now, not hand, False
        elif not on and box.power in ("on", "booting"):
            if not box.stops:
                return
            box.power, box.since, box.doomed = "stopping", now, not hand
            if not hand and (used := self.users(name)):
                self.broken.append(f"{name} is switched off while {used} use its GPUs")

    def users(self, name: str) -> list[str]:
        return [pod.key for pod in self.town.pods.values() if pod.node == name and _uses(pod)]

    def call(self, name: str, on: bool, key: str) -> str:
        for who in (name, "*"):
            if self.faults.get(who):
                met = self.faults[who].pop(0)
                break
        else:
            met = self.usually
        call = Call(self.time.now, name, on, key, met)
        self.before(call)
        self.calls.append(call)
        if met in ("ok", "lost", "late", "dies_after"):
            self.heard.add(key)
            self.press(name, on, hand=False)
        if met in ("delayed", "queued"):
            self.heard.add(key)
            self.boxes[name].due, self.boxes[name].due_on = self.time.now + self.delay, on
        return met

    def wishes(self, on: bool, name: str = "") -> list[str]:
        """Distinct keys, in the order of their first call."""
        return list(dict.fromkeys(c.key for c in self.calls if c.on is on and name in ("", c.name)))

    def step(self) -> None:
        now = self.time.now
        for box in self.boxes.values():
            if box.due and now >= box.due:
                box.due = 0.0
                self.press(box.name, box.due_on, hand=False)
            node = self.town.nodes.get(box.name)
            if box.power == "stopping" and box.doomed and (used := self.users(box.name)):
                self.broken.append(f"{used} got GPUs of {box.name} while it goes down")
            if box.power == "booting" and box.boots and now >= box.since + box.boot:
                box.power = "on"
                known = node or self._registered(box, now)
                self.town.nodes[box.name] = replace(
                    known,
                    ready=True,
                    allocatable={**known.allocatable, "nvidia.com/gpu": 0},
                    boot=box.boot_id,
                )
            elif box.power == "on" and node is not None:
                come = box.gpus_come and now >= box.since + box.boot + box.show
                if come and node.allocatable.get("nvidia.com/gpu", 0) != box.gpus:
                    offered = {**node.allocatable, "nvidia.com/gpu": box.gpus}
                    self.town.nodes[box.name] = replace(node, allocatable=offered, capacity=offered)
            elif box.power == "stopping" and now >= box.since + box.stop:
                box.power, box.since = "off", now
                if node is not None:
                    self.town.nodes[box.name] = replace(node, ready=False)


def _uses(pod: Any) -> bool:
    return bool(pod.shape.requests.get("nvidia.com/gpu")) and not pod.finished


class Wires:
    """One controller's way to the endpoints; they die with its hands."""

    def __init__(self, room: Room, hands: Hands) -> None:
        self._room, self._hands = room, hands

    async def prepare(self, machine: str, on: bool) -> Send:
        self._hands._live()
        await asyncio.sleep(0)
        if self._room.reading:
            await self._room.time.sleep(self._room.reading)
        self._hands._live()
        return lambda key: self._send(machine, on, key)

    async def _send(self, machine: str, on: bool, key: str) -> Outcome:
        self._hands._live()
        met = self._room.call(machine, on, key)
        if met in ("dies", "dies_after"):
            self._hands._die()
        if met in ("lost", "unheard", "delayed"):
            await self._room.time.sleep(10.0)
            return Unknown("no answer within 10 s")
        if met == "late":
            await self._room.time.sleep(8.0)
        self._hands._live()
        return {
            "refused": Refused(Reason.BAD_REQUEST, "power:80 answered 404"),
            "away": Refused(Reason.UNAVAILABLE, "power:80 cannot be reached"),
            "busy": Unknown("power:80 answered 500", answered=True),
        }.get(met, Happened())

    async def ask(self, machine: str) -> str:
        if not self._room.answers:
            return ""
        return "off" if self._room.boxes[machine].power == "off" else "on"


class Operator(Controller):
    """A controller that also switches."""

    def __init__(
        self,
        world: Cabinet,
        policy: Policy,
        hands: Hands | None = None,
        *,
        listeners: Sequence[Listener] = (),
        taints: tuple[Taint, ...] = (SOFT, HARD),
        driven: bool = False,
    ) -> None:
        super().__init__(world, policy, hands, listeners=listeners, taints=taints, driven=driven)
        hands, time = self.hands, world.time
        told = Several((self.heard, *listeners))
        self.means = Means(
            ledger=self.ledger,
            endpoints=Wires(world.room, hands),
            removal=Removal(
                view=hands, writer=hands, cloud=hands, clock=time.clock, sleep=time.sleep, taints=taints,
                identify=lambda _machine, node: node,
            ),
            writer=hands,
            listener=told,
            clock=time.clock,
            sleep=time.sleep,
            may_act=lambda: self.leads,
            may_spend=lambda: self.leads,
            rng=world.rng,
            limits=policy.deadlines,
            node=hands.node,
            waiting=hands.waiting_pods,
            restored=self.flights.idle_marks.cleared,
            closing=taints[-1],
        )  # fmt: skip
        self.board = Switchboard(
            policy=policy, ledger=self.ledger, turning=Turning(self.means, self._wake), view=hands, listener=told,
            clock=time.clock, driven=driven,
        )  # fmt: skip
        self.fleet.switchboard = self.board

    async def _look(self, decide: bool) -> None:
        if any(switch.asked for switch in self.board.switches):
            await self.board.ask()
        await super()._look(decide)

    async def die(self) -> None:
        await super().die()
        await self.board.turning.stop(0)

    def power(self, name: str) -> Power:
        return self.ledger.switched[name].power

    def record(self, name: str) -> Switched:
        return self.ledger.switched[name]


class Cabinet(World):
    """A cluster whose GPUs are all in one's own room."""

    def __init__(self, *switches: Switch, **of_policy: Any) -> None:
        values: dict[str, Any] = {"pools": (), "cooldown": 60.0, "deadlines": DEADLINES, "switches": switches}
        super().__init__(**(values | of_policy))
        self.account = Account(self.time)
        self.town = Town(self.time, self.account)
        self.room = Room(self.time, self.town)

    def begin(self) -> Operator:
        return Operator(self, self.policy)

    def happen(self) -> None:
        self.room.step()
        super().happen()

    async def wait_for(
        self, operator: Operator, name: str, power: Power, within: float = 3000, step: float = 5.0
    ) -> None:
        end = self.time.now + within
        while self.time.now < end:
            self.happen()
            await operator.look()
            if name in operator.ledger.switched and operator.power(name) is power:
                return
            await self.time.advance(step)
        raise AssertionError(f"{name} did not become {power.value}: {operator.ledger.switched.get(name)}")


def switch(name: str = "w1", gpus: int = 1, **more: Any) -> Switch:
    values: dict[str, Any] = {"min_on": 0.0, "min_off": 0.0}
    return Switch(name=name, gpus=gpus, **(values | more))


__all__ = ["ENDS", "FAULTS", "Box", "Cabinet", "Operator", "Power", "Room", "switch"]
