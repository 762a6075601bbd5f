"""Random lives of a room of switched machines: faults, crashes, leaders, hands and pods in any order, and two laws.

Power is never taken from a GPU in use, nor from one that a pod gets while the machine goes down; and one demand never
switches two machines on: a further machine is asked for only while more pods wait than machines may be coming up for
them. Controllers end at any call, at the endpoints as well, and leaders lose the lease with calls under way, which
have their effect under the next one. Machines leave the settings and come back. When the faults end, all work gets done
and every machine is off.
"""

from __future__ import annotations

import contextlib
import os
import random
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.switching import Power
from controller.fleet.ledger import LedgerError
from tests.fleet.power import ENDS, FAULTS, Cabinet, Call, Operator, switch

ON_WITHIN = 240.0
# A call acts by LATEST, or up to a step of 20 s later; its machine is down 20 s after that, which is seen a step later.
LATEST = 110.0
OFF_WITHIN = LATEST + 60.0


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        asked = self.rng.random() < 0.3
        names = [f"w{n}" for n in range(self.rng.randint(1, 4))]
        more: dict[str, Any] = {
            "on_within": ON_WITHIN,
            "off_within": OFF_WITHIN,
            "left_alone": 200.0,
            "asked": asked,
            "delete_node": self.rng.random() < 0.3,
            "min_on": self.rng.choice([0.0, 60.0]),
            "min_off": self.rng.choice([0.0, 60.0]),
            "per_day": 200,
            "retry_first": self.rng.choice([2.0, 10.0]),
        }
        self.world = Cabinet(*(switch(name, 1, **more) for name in names))
        self.world.rng.seed(seed)
        self.room, self.town, self.time = self.world.room, self.world.town, self.world.time
        self.town.work = 90.0
        for name in names:
            self.room.add(
                name, 1, power=self.rng.choice(["off", "off", "on"]), node=self.rng.random() < 0.8,
                tells=self.rng.random() < 0.8,
            )  # fmt: skip
        self.room.before = self._judge
        self.room.usually = self.rng.choice(["ok", "ok", "queued"])
        self.room.delay = LATEST
        self.operator: Operator = self.world.begin()
        self.former: list[Operator] = []  # who led before, with what they had under way
        self.pods = 0
        self.left: dict[str, float] = {}  # when a machine left the settings
        self.silent: dict[str, float] = {}  # machines whose network is away, and until when

    def _judge(self, call: Call) -> None:
        room = self.room
        if not call.on or any(other.key == call.key for other in room.calls):
            return
        known = {one.name for one in self.operator.fleet.policy.switches}  # nobody waits for the others
        coming = [
            box.name
            for box in room.boxes.values()
            if box.name != call.name
            and box.name in known
            and box.power == "booting"
            and self.time.now - self._asked(box.name) < ON_WITHIN
            and box.ours
            and min(box.since, self._asked(box.name)) > self.left.get(box.name, 0.0)
        ]
        waiting = sum(1 for pod in self.town.pods.values() if not pod.node)
        if len(coming) + 1 > waiting:
            room.broken.append(f"{call.name} is switched on for {waiting} pods while {coming} come")

    def _asked(self, name: str) -> float:
        """When it was called on first with the key that was used last; the effect may come later."""
        keys = [call.key for call in self.room.calls if call.name == name and call.on]
        return next((call.at for call in self.room.calls if keys and call.key == keys[-1]), 0.0)

    def _blink(self) -> None:
        """A Node is silent for a while, though its machine runs; most often while a call waits to act."""
        for name, box in self.room.boxes.items():
            node, waits = self.town.nodes.get(name), box.due and not box.due_on
            if node is None:
                self.silent.pop(name, None)
            elif name not in self.silent and node.ready and self.rng.random() < (0.2 if waits else 0.002):
                self.town.lose(name)
                self.silent[name] = self.time.now + self.rng.choice([20.0, 40.0, 60.0])
            elif self.time.now >= self.silent.get(name, float("inf")):
                del self.silent[name]
                self.town.nodes[name] = replace(node, ready=box.power == "on")

    async def happen(self) -> None:
        self._blink()
        rng, room, town = self.rng, self.room, self.town
        chance = rng.random()
        name = rng.choice(list(room.boxes))
        if chance >= 0.94:
            await self._disturb(chance)
        elif chance < 0.10 and self.pods < 40:
            for _ in range(rng.choice([1, 1, 2, 3])):
                self.pods += 1
                town.add_pod(f"p{self.pods}")
        elif chance < 0.22:
            room.faults.setdefault(name, []).append(rng.choice((*FAULTS, *ENDS)))
            room.delay = rng.choice([15.0, 15.0, 60.0, LATEST])
        elif chance < 0.26:
            await self.restart()
        elif chance < 0.29:
            room.press(name, rng.random() < 0.5)
        elif chance < 0.31:
            room.boxes[name].boots = rng.random() < 0.6
        elif chance < 0.33:
            room.boxes[name].stops = rng.random() < 0.6
        elif chance < 0.35 and name in town.nodes:
            self.town.lose(name)  # for a moment
        elif chance < 0.38 and name in town.nodes and room.boxes[name].power == "on":
            town.nodes[name] = replace(town.nodes[name], ready=True)
        elif chance < 0.40:
            self.operator.hands.faults.setdefault("write_config_map", []).append("lost")
        elif chance < 0.42:
            room.answers = not room.answers
        elif chance < 0.46 and name in town.nodes and self._free(name):
            self.pods += 1  # bound, and the watch has not brought it yet
            pod = town.add_pod(f"p{self.pods}", node=name)
            town.bound_at[pod.key] = self.time.now
            self.operator.hands.not_shown_yet.add(pod.key)
        elif chance < 0.50:
            self.operator.hands.not_shown_yet.clear()
        elif chance < 0.58:
            self._edit()

    def _edit(self) -> None:
        """Somebody takes machines out of the settings of who leads, or puts all of them back."""
        before, every = self.operator.fleet.policy, self.world.policy.switches
        fewer = tuple(one for one in every if self.rng.random() < 0.7)
        if len(before.switches) == len(every):
            self.left |= {one.name: self.time.now for one in every if one not in fewer}
        self.operator.fleet.policy = replace(
            before, switches=fewer if len(before.switches) == len(every) else every
        )

    def _free(self, name: str) -> bool:
        node = self.town.nodes[name]
        there = [pod for pod in self.town.pods.values() if pod.node == name]
        tainted = any(taint.effect == "NoSchedule" for taint in node.taints)
        return node.ready and not tainted and not there and node.allocatable.get("nvidia.com/gpu", 0) > 0

    async def _disturb(self, chance: float) -> None:
        """Whoever leads ends at one of its next calls, or another one leads."""
        if chance < 0.97:
            hands = self.operator.hands
            hands.kill = (hands.count + self.rng.randint(1, 12), self.rng.choice(["before", "after"]))
            return
        self.operator.leads = False
        self.former.append(self.operator)
        back = self.rng.random() < 0.5 and len(self.former) > 1
        self.operator = self.former.pop(0) if back else self.world.begin()
        self.operator.leads = True

    async def restart(self) -> None:
        await self.operator.die()
        self.operator = self.world.begin()

    async def look(self) -> None:
        for each in [one for one in self.former if one.hands.dead]:
            self.former.remove(each)
        for each in (*self.former, self.operator):
            with contextlib.suppress(LedgerError):
                await each.look()
        if self.operator.hands.dead:
            self.operator = self.world.begin()

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await self.happen()
            self.world.happen()
            await self.look()
            await self.time.advance(self.rng.choice([1.0, 5.0, 20.0]))
            assert self.room.broken == []

    async def calm(self) -> None:
        self.room.faults.clear()
        self.room.usually = "ok"
        self.room.answers = True
        self.operator.hands.not_shown_yet.clear()
        self.operator.hands.kill = None
        self.operator.fleet.policy = self.world.policy
        for each in self.former:
            await each.die()
        self.former.clear()
        for box in self.room.boxes.values():
            box.boots = box.stops = True
            if box.power == "on" and (known := self.town.nodes.get(box.name)) is not None:
                self.town.nodes[box.name] = replace(known, ready=True)
            elif box.power == "on":  # its Node was deleted, and registers when its kubelet starts again
                box.power = "booting"
            if box.power == "booting":
                box.since = self.time.now
        for _ in range(900):
            self.world.happen()
            await self.look()
            await self.time.advance(20.0)
            known = self.operator.ledger.switched
            everyone = known.keys() >= self.room.boxes.keys()  # also those that were put back just now
            if everyone and not self.town.pods and all(one.power is Power.OFF for one in known.values()):
                break
        assert self.room.broken == []
        assert not self.town.pods, self.operator.plan.pods
        assert {name: box.power for name, box in self.room.boxes.items()} == dict.fromkeys(
            self.room.boxes, "off"
        )


@pytest.mark.parametrize("seed", range(int(os.environ.get("LIVES", "10"))))
async def test_a_random_life_breaks_no_law_and_ends_in_rest(seed: int) -> None:
    life = Life(seed)
    await life.run(160)
    await life.calm()
