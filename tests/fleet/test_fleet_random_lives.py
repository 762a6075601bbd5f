"""Random sequences of calls, faults and restarts: afterwards inventory = ledger, and nothing removed costs anything.

The real fleet engine, planner and adapter against the sandbox cloud, in memory on a virtual clock. A seed
is a bug report: it is printed with what happened, and `FLEET_SEED=17` runs that one alone.
`FLEET_LIVES=500` runs more of them than `make test` does. In half of them the credentials become those of
another project, or the address a wrong one, and what they were before, at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from controller.cloud.protocol import CloudError
from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.machine import Phase
from controller.domain.policy import Deadlines, Limits, Pool
from controller.fleet.book import LedgerError
from controller.sandbox.cloud import disks, instances, lifecycle
from controller.sandbox.cloud.model import Instance
from controller.sandbox.cloud.order import read_order
from controller.sandbox.cloud.texts import Script
from tests.fleet.fakes import Town
from tests.fleet.scene import Controller, World
from tests.fleet.skies import CloudHands, Mirror, Skies, Sky

LIVES = int(os.environ.get("FLEET_LIVES", "6"))
SEEDS = [int(os.environ["FLEET_SEED"])] if "FLEET_SEED" in os.environ else range(LIVES)
STEPS = 45
TYPES = ("1A100.22V", "1H100.80S.30V", "1L40S.20V")
POOL = Pool(
    name="a100", instance_types=TYPES, locations=("FIN-01", "FIN-03"), market="prefer_spot", max=5, join="k3s",
    own_script=True,
)  # fmt: skip
HASTY = Deadlines(
    launch=200, join=120, ready=60, gpu=60, gpu_settle=5, gpu_lost=60, backoff_first=20, backoff_most=80,
    eviction_grace=30, unknown_over=60, backoff_unusable=450,
)  # fmt: skip
INTENT, CLUSTER = "aaaaaaaaaa", "home"

# (method, path, fault, …): what may happen to the next such call.
FAULTS: list[dict[str, Any]] = [
    *({"method": "POST", "path": "/instances", "fault": fault} for fault in ("lose_before", "lose_after", "hang", "quoted", "newline")),
    *({"method": "POST", "path": "/instances", "fault": "answer_after", "status": status, "body": "<html>"} for status in (500, 502, 504)),
    {"method": "POST", "path": "/instances", "fault": "answer_after", "status": 202, "body": ""},
    {"method": "POST", "path": "/instances", "fault": "answer", "status": 503, "body": "<html>"},
    {"method": "POST", "path": "/instances", "fault": "answer", "status": 402, "body": {"code": "insufficient_funds", "message": "Insufficient funds"}},
    {"method": "POST", "path": "/instances", "fault": "answer", "status": 400, "body": {"code": "invalid_request", "message": ["Storage limit exceeded"]}},
    {"method": "*", "path": "*", "fault": "answer", "status": 429, "body": "Rate limits", "headers": {"Retry-After": "7"}, "times": 3},
    {"method": "PUT", "path": "/instances", "fault": "lose_before"},
    {"method": "PUT", "path": "/instances", "fault": "lose_after"},
    {"method": "PUT", "path": "/instances", "fault": "answer", "status": 204, "body": ""},  # a success that is none
    {"method": "PUT", "path": "/instances", "fault": "answer", "status": 403, "body": {"code": "forbidden_action", "message": "Can't discontinue a provisioning instance"}},
    {"method": "POST", "path": "/scripts", "fault": "lose_after"},
    {"method": "POST", "path": "/scripts", "fault": "answer", "status": 400, "body": {"code": "invalid_request", "message": "Startup script limit exceeded"}},
    {"method": "DELETE", "path": "/scripts/*", "fault": "lose_before", "times": 2},
    {"method": "DELETE", "path": "/scripts/*", "fault": "lose_after"},
    {"method": "DELETE", "path": "/volumes/*", "fault": "lose_after"},
    {"method": "DELETE", "path": "/volumes/*", "fault": "answer", "status": 500, "body": "", "times": 3},
    {"method": "GET", "path": "/instances", "fault": "answer", "status": 200, "body": []},  # empty, once
    {"method": "GET", "path": "/instances", "fault": "answer", "status": 200, "body": [], "headers": {"X-Total-Count": "9"}, "times": 2},
    {"method": "GET", "path": "/instances/*", "fault": "answer", "status": 500, "body": "", "times": 6},
    {"method": "GET", "path": "/volumes", "fault": "answer", "status": 200, "body": []},
    *({"method": "GET", "path": "/instances/*", "fault": "answer", "status": 404, "body": body, "times": times} for body in ("404 page not found", {"code": "not_found", "message": "Instance not found"}) for times in (1, 4)),  # and it is there
    *({"method": method, "path": path, "fault": "answer", "status": 404, "body": {"code": "not_found", "message": "Cannot " + method + " " + path}, "times": 5} for method, path in (("GET", "/instances/*"), ("PUT", "/instances"), ("DELETE", "/volumes/*"), ("DELETE", "/scripts/*"), ("GET", "*"))),
    *({"method": "DELETE", "path": path, "fault": "answer", "status": 400, "body": {"code": "invalid_request", "message": "no"}, "times": 3} for path in ("/volumes/*", "/scripts/*")),
    {"method": "PUT", "path": "/instances", "fault": "answer", "status": 202, "body": {"code": "forbidden_action", "message": "no"}},
    {"method": "PUT", "path": "/instances", "fault": "answer", "status": 200, "body": "<html>", "times": 2},
    {"method": "PUT", "path": "/instances", "fault": "answer", "status": 404, "body": "404 page not found", "times": 2},
    {"method": "DELETE", "path": "/volumes/*", "fault": "answer", "status": 404, "body": "404 page not found", "times": 2},
    {"method": "DELETE", "path": "/scripts/*", "fault": "answer", "status": 404, "body": "404 page not found"},
    {"method": "GET", "path": "/volumes/trash", "fault": "answer", "status": 200, "body": [], "times": 2},
    {"method": "GET", "path": "/scripts", "fault": "answer", "status": 200, "body": [], "times": 2},
    {"method": "GET", "path": "/instance-availability", "fault": "answer", "status": 200, "body": [], "times": 2},
    {"method": "POST", "path": "/instances", "fault": "cut_answer"},
    {"method": "POST", "path": "/instances", "fault": "answer_after", "status": 202, "body": {"code": "server_error", "message": "x"}},
    {"method": "GET", "path": "*", "fault": "lose_after", "times": 4},
    {"method": "GET", "path": "/instance-types", "fault": "answer", "status": 200, "body": []},
]  # fmt: skip
KNOBS: list[dict[str, Any]] = [
    {"list_lag_s": 8}, {"list_lag_s": 0}, {"discontinued_listed_s": 60}, {"discontinued_readable_s": 5},
    {"unknown_id_status": 400}, {"delete_discontinued_status": 403}, {"action_refused_status": 400},
    {"status_alias": {"provisioning": "dreaming"}}, {"status_alias": {}}, {"id_body": "quoted"},
    {"undeletable_statuses": ["provisioning", "ordered"]}, {"error_message_as_list": True}, {"public_ip": False},
    {"removed_types": ["1A100.22V"]}, {"removed_types": []}, {"stock_taken": "provisioning"},
    {"prices": {"1A100.22V": {"price_per_hour": "9", "spot_price": "9"}}}, {"stale_volume_instance_id": True},
    {"extra_fields": {"colour": "green"}}, {"by_id_as_array": False}, {"delete_s": 90}, {"script_quota": 6},
]  # fmt: skip


class Life(World):
    """One seed: a world, its controllers one after the other, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.moves = 25 if seed % 2 else 0
        super().__init__(pools=(POOL,), deadlines=HASTY, cooldown=20.0, limits=Limits(launches_per_minute=20))
        self.rng = random.Random(seed)
        self.sky = Sky(self.time, random.Random(seed + 1))
        self.skies = Skies(self.sky)
        self.home = self.skies.login
        self.abroad = self._elsewhere(seed)
        self.away_since = 0.0
        mirror = Mirror(self.time)
        mirror.sky = self.sky
        self.account = mirror
        self.town = Town(self.time, mirror)
        self.town.work = 120.0
        self.story: list[str] = []
        self.pods = 0
        self._read_at = self._swept_at = self.time.now
        self._plant(self.sky)
        self.foreign, self.foreign_abroad = self.strangers(), self.seen_abroad()
        self.town.cut_off = set(self.foreign["instances"])  # they are no nodes of this cluster
        self.controller = self.born()

    def note(self, words: str) -> None:
        self.story.append(f"{self.time.now - 1_800_000_000:7.1f} {words}")

    def born(self) -> Controller:
        hands = CloudHands(self.skies, self.account, self.town, self.time, self.rng)
        self.note("a controller starts")
        return Controller(self, self.policy, hands=hands)

    # -- other accounts

    def _elsewhere(self, seed: int) -> dict[str, Sky]:
        """Another project, with look-alikes of its own, and two addresses at which there is no such API."""
        found = {"another project": Sky(self.time, random.Random(seed + 2))}
        for words in ("Cannot GET /v2/instances", "Resource not found"):
            found[words] = Sky(self.time, random.Random(seed + 3))
            body = {"code": "not_found", "message": words}
            rule = {"method": "*", "path": "*", "fault": "answer", "status": 404, "body": body, "times": 0}
            found[words].faults.replace([rule])
        self.logins = {
            words: self.skies.add(sky, client="you") if "project" in words
            else self.skies.add(sky, client="me", base_url=f"https://api.verda.com/{len(words)}")
            for words, sky in found.items()
        }  # fmt: skip
        self._plant(found["another project"])
        return found

    def seen_abroad(self) -> list[Any]:
        state = self.abroad["another project"].state
        return [
            sorted((one.id, one.status) for one in state.instances.values()),
            sorted((one.id, one.status, one.live) for one in state.volumes.values()),
            sorted(state.scripts),
        ]

    def move(self) -> None:
        """Away from where our machines are; never for half an hour, and only while there is one to miss.

        An intent whose order has not gone out is none: it is certain then that nothing was bought, so the first machine
        of all may be bought with the other credentials.
        """
        at_stake = any(
            m.phase is not Phase.TOMBSTONE and not (m.gone_at or m.delete_at) and m.name in self.sky.ordered
            for m in self.controller.ledger.machines.values()
        )
        if not at_stake or not self.controller.ledger.account:
            return
        words = self.rng.choice(sorted(self.logins))
        self.skies.login = self.logins[words]
        self.away_since = self.away_since or self.time.now
        self.note(f"the credentials are those of {words}")

    def back(self) -> None:
        self.skies.login = self.home
        self.away_since = 0.0
        self.note("the credentials are ours again")

    # -- strangers

    def _plant(self, sky: Sky) -> None:
        state, tags = sky.state, {names.TAG_CLUSTER: CLUSTER, names.TAG_INTENT: INTENT}
        other = {names.TAG_CLUSTER: f"{CLUSTER}-two", names.TAG_INTENT: INTENT}
        for hostname, description, marks in (
            ("web-1", "", {}),
            (f"{CLUSTER}-a100-{INTENT}", "", {}),
            ("web-2", f"gpuas {CLUSTER} {INTENT}", {}),
            ("web-3", "", tags),
            (f"{CLUSTER}-two-a100-{INTENT}", f"gpuas {CLUSTER}-two {INTENT}", other),
        ):
            pairs = [{"key": key, "value": value} for key, value in marks.items()]
            body = {
                "instance_type": "1L40S.20V", "image": "ubuntu-24.04", "hostname": hostname, "location_code": "FIN-01",
                "description": description, "tags": pairs,
            }  # fmt: skip
            lifecycle.begin_running(state, instances.place(state, read_order(state, body)))
        for name, marks in (("data", {}), (f"{CLUSTER}-a100-{INTENT}", {}), ("backup", tags)):
            linked = [state.tag(key, value) for key, value in marks.items()]
            disks.make(state, name=name, size=50, kind="NVMe", location="FIN-01", tags=linked)
        for name, text in (
            ("theirs", "#!/bin/bash\n"),
            (f"gpuas-{CLUSTER}-{INTENT}", "#!/bin/bash\necho mine\n"),
            (f"gpuas-{CLUSTER}-two-{INTENT}", f"#!/bin/bash\n# gpuas {CLUSTER}-two {INTENT}\n"),
        ):
            script = Script(state.new_id(), name, text, state.now)
            state.scripts[script.id] = script

    def strangers(self) -> dict[str, Any]:
        """Everything that is not ours, as it is now."""
        state = self.sky.state
        mine = {one.id for one in self.ours()}
        return {
            "instances": {
                one.id: (one.hostname, one.description, one.status, tuple(one.volume_ids))
                for one in state.instances.values()
                if one.id not in mine
            },
            "volumes": {
                one.id: (one.name, one.status, one.live, one.instance_id)
                for one in state.volumes.values()
                if one.id not in self.our_volumes()
            },
            "scripts": {one.id: one for one in state.scripts.values() if one.id not in self.our_scripts()},
        }

    # -- what is ours, by the cloud's own books

    def ours(self) -> list[Instance]:
        return [one for one in self.sky.state.instances.values() if self._intent(one)]

    @staticmethod
    def _intent(one: Instance) -> str:
        tags = [(tag.key, tag.value) for tag in one.tags]
        return names.owned_intent(CLUSTER, one.hostname, one.description, tags)

    def our_volumes(self) -> set[str]:
        hosts = {one.hostname for one in self.ours()}
        tagged = {tag.value for one in self.ours() for tag in one.tags if tag.key == names.TAG_INTENT}
        return {
            one.id
            for one in self.sky.state.volumes.values()
            if one.name in hosts and {tag.value for tag in one.tags} & tagged
        }

    def our_scripts(self) -> set[str]:
        return {
            s.id for s in self.sky.state.scripts.values() if names.owned_script(CLUSTER, s.name, s.script)
        }

    # -- time

    async def pass_time(self, seconds: float, step: float = 5.0) -> None:
        end = self.time.now + seconds
        while self.time.now < end:
            if self.away_since and self.time.now - self.away_since > 1200:
                self.back()
            self.happen()
            looking = asyncio.ensure_future(self._look())
            await self.time.settle()
            await self.time.advance(step)
            while not looking.done():  # a slow look: nothing is decided before it ends
                self.happen()
                await self.time.advance(1.0)
            looking.result()

    async def _look(self) -> None:
        controller = self.controller
        if controller.hands.dead:
            return
        try:
            await controller.look()
            if self.time.now - self._read_at > 60 and controller.fleet.rebuilt:
                self._read_at = self.time.now
                await controller.fleet.refresh_catalogue()
            if self.time.now - self._swept_at > 45 and controller.fleet.rebuilt and controller.leads:
                self._swept_at = self.time.now
                await controller.sweep()
        except (CloudError, ClusterError, LedgerError) as error:
            self.note(f"look: {error}")
        except asyncio.CancelledError:
            if not controller.hands.dead:
                raise

    # -- what may happen

    async def step(self) -> None:
        happening: Callable[[], Any] = self.rng.choices(
            (self.add, self.take, self.break_, self.turn, self.befall, self.disturb, self.kill, self.succeed, self.upset, self.change_account),
            weights=(24, 6, 26, 14, 10, 6, 8, 4, 8, self.moves),
        )[0]  # fmt: skip
        told = happening()
        if asyncio.iscoroutine(told):
            await told
        await self.pass_time(self.rng.choice((1, 5, 10, 25, 60)))

    def change_account(self) -> None:
        self.back() if self.away_since else self.move()

    def add(self) -> None:
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self.pods += 1
            self.town.add_pod(f"p{self.pods}")
        self.note("pods come")

    def take(self) -> None:
        if self.town.pods:
            self.note(f"pod {self.town.pods.pop(self.rng.choice(sorted(self.town.pods))).name} goes")

    def break_(self) -> None:
        rule = {"nth": self.rng.choice((1, 1, 2, 3)), **self.rng.choice(FAULTS)}
        known = [each.shown() for each in self.sky.faults.rules if each.times and each.fired < each.times]
        self.sky.faults.replace([*known, rule])
        self.note(
            f"fault {rule['method']} {rule['path']} {rule['fault']} {rule.get('status', '')} from {rule['nth']}"
        )

    def turn(self) -> None:
        knob = self.rng.choice(KNOBS)
        self.sky.set(**knob)
        self.note(f"knob {knob}")

    def befall(self) -> None:
        """Something happens to a machine of ours, or will happen to the next one."""
        alive = [one for one in self.ours() if one.live]
        choice = self.rng.randrange(5)
        if choice == 0 and (spot := [one for one in alive if one.spot and one.status == "running"]):
            lifecycle.evict(self.sky.state, spot[0], journal=False)
            self.note(f"{spot[0].hostname} is evicted")
        elif choice == 1 and (up := [one for one in alive if one.status == "running"]):
            lifecycle.delete(self.sky.state, up[0], {})
            self.note(f"{up[0].hostname} is deleted by hand, its disk kept")
        elif choice == 2 and alive:
            self.sky.set(hide_from_list=[self.rng.choice(alive).id])
            self.note("a machine is missing in the lists")
        elif choice == 3:
            self.sky.set(hide_from_list=[])
        else:
            kind = self.rng.choice(("no_capacity", "installation_failed", "error", "stuck"))
            after = self.rng.choice((None, 5, 30, 150))
            self.sky.world.handle(_control("PUT", "outcomes", [{"outcome": kind, "after_s": after}]))
            self.note(f"the next machine: {kind} after {after}")

    def disturb(self) -> None:
        """Stock, tokens, a joining that fails."""
        choice = self.rng.randrange(4)
        if choice == 0:
            self.sky.world.tokens.revoke_all()
        elif choice == 1:
            row = {"instance_type": self.rng.choice(TYPES), "market": self.rng.choice(("spot", "on-demand"))}
            self.sky.state.stock.replace([{**row, "count": self.rng.choice((0, 1, None))}])
        elif choice == 2:
            self.town.joins = not self.town.joins
        else:
            self.town.gpus = not self.town.gpus
        self.note(f"disturbance {choice}")

    async def kill(self) -> None:
        """SIGKILL, now or at one of the next calls; the next controller starts when this one is dead."""
        if self.rng.random() < 0.7:
            hands = self.controller.hands
            hands.kill = (hands.count + self.rng.randint(1, 15), self.rng.choice(("before", "after")))
            self.note(f"killed {hands.kill[1]} call {hands.kill[0]}")
            await self.pass_time(self.rng.choice((5, 20, 60)))
        await self.controller.die()
        self.controller = self.born()

    async def succeed(self) -> None:
        """The lease goes to another replica, and later controllers know nothing of the first."""
        await self.controller.lose_lease()
        self.controller.hands.dead = True
        self.controller = self.born()
        self.note("the lease was lost to it")

    def upset(self) -> None:
        """The cluster's own API answers badly."""
        verb, fault = self.rng.choice(
            (
                ("write_config_map", ClusterError("unreachable", "no route")),
                ("write_config_map", "lost"),
                ("read_config_map", ClusterError("unreachable", "no route")),
                ("taint", ClusterError("conflict", "modified")),
                ("list_pods_on", ClusterError("unreachable", "no route")),
                ("delete_node", ClusterError("unreachable", "no route")),
            )
        )
        self.controller.hands.faults.setdefault(verb, []).append(fault)
        self.note(f"cluster fault at {verb}")

    # -- the end

    async def calm(self) -> None:
        self.back()
        self.sky.calm()
        self.sky.set(undeletable_statuses=[])  # what was stuck for ever lets go
        self.town.joins = self.town.gpus = True
        if self.controller.hands.dead:
            self.controller = self.born()
        self.controller.hands.faults.clear()
        self.controller.hands.kill = None
        self.note("calm")

    async def until(self, what: Callable[[], bool], within: float, step: float = 10.0) -> bool:  # type: ignore[override]
        end = self.time.now + within
        while not what():
            if self.time.now > end:
                return False
            await self.pass_time(step, step)
        return True

    def bought_twice(self) -> list[str]:
        """Pods for which two machines are on their way that could both still serve them."""
        taken = {pod.node for pod in self.town.pods.values()}  # a promise ends when others took its place
        machines = self.controller.ledger.machines.values()
        coming = [m for m in machines if m.phase.on_the_way and not m.failed and m.name not in taken]
        times = Counter(pod for machine in coming for pod in machine.pods)
        return [pod for pod, count in times.items() if count > 1]

    def everybody_is_served(self) -> bool:
        return all(pod.node for pod in self.town.pods.values())

    def ledger_is_inventory(self) -> bool:
        """Every machine of ours that lives has exactly one record that knows it, and the other way round."""
        there = {(self._intent(one), one.id) for one in self.ours() if one.live}
        known = {
            (machine.intent, machine.instance_id)
            for machine in self.controller.ledger.machines.values()
            if machine.phase is not Phase.TOMBSTONE
        }
        return there == known

    def nothing_is_left(self) -> bool:
        state = self.sky.state
        return (
            not any(one.live for one in self.ours())
            and all(state.volumes[one].destroyed for one in self.our_volumes())
            and not self.our_scripts()
            and all(m.phase is Phase.TOMBSTONE for m in self.controller.ledger.machines.values())
        )

    def account_of_it(self) -> str:
        state = self.sky.state
        lines = [f"  {one.hostname} {one.id[:8]} {one.status}" for one in self.ours() if one.live]
        lines += [
            f"  disk {one} {state.volumes[one].status}"
            for one in self.our_volumes()
            if not state.volumes[one].destroyed
        ]
        lines += [f"  script {state.scripts[one].name}" for one in self.our_scripts()]
        lines += [
            f"  record {m.name} {m.phase.value} {m.instance_id[:8]} {m.note}"
            for m in self.controller.ledger.machines.values()
        ]
        return "\n".join([*self.story, "is there:", *lines])


def _control(method: str, path: str, body: Any) -> Any:
    from controller.sandbox.wire import Request

    return Request.of(method, f"/_sandbox/{path}", body)


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_whatever_happened_inventory_is_ledger_and_what_is_removed_costs_nothing(
    seed: int,
) -> None:
    logging.getLogger("gpu_autoscaler").setLevel(logging.ERROR)
    life = Life(seed)

    def told(what: str) -> str:
        return f"FLEET_SEED={seed}: {what}\n{life.account_of_it()}"

    for _ in range(STEPS):
        await life.step()
        assert not life.bought_twice(), told(f"two machines for {life.bought_twice()}")
        assert life.seen_abroad() == life.foreign_abroad, told("something was changed in another project")
    await life.calm()
    life.add()
    assert await life.until(life.everybody_is_served, 3600), told("a pod still waits")
    assert await life.until(life.ledger_is_inventory, 1800), told("the ledger is not the inventory")
    life.town.pods.clear()
    assert await life.until(life.nothing_is_left, 3600), told("something is left")
    assert life.ledger_is_inventory(), told("the ledger is not the inventory at the end")
    assert life.ours(), told("nothing was ever bought")
    # No intent was ever carried out twice.
    times = Counter(one.hostname for one in life.ours())
    assert not [host for host, count in times.items() if count > 1], told("a second machine for one intent")
    # The meter stands still for everything that was removed.
    state = life.sky.state
    things = [*life.ours(), *(state.volumes[one] for one in life.our_volumes())]
    assert all(thing.meter.since is None for thing in things), told("a meter runs on")
    spent = [state.cost([thing]) for thing in things]
    await life.pass_time(600, 60)
    assert [state.cost([thing]) for thing in things] == spent, told("it goes on costing")
    assert life.strangers() == life.foreign, told("strangers were touched")
    await life.controller.die()
