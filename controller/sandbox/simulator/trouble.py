"""Trouble carried out: each entry of a schedule at its time, undone when its time is over, and all at the end."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from controller.domain.reason import Reason
from controller.sandbox.cloud import lifecycle
from controller.sandbox.cloud.settings import STAGES, Settings
from controller.sandbox.faults import Faults, parse_rule
from controller.sandbox.simulator.schedule import Entry
from controller.sandbox.simulator.trouble_of_nodes import to_a_node
from controller.sandbox.simulator.worlds import CLOUD, CLUSTER, Worlds
from controller.sandbox.wire import Request

if TYPE_CHECKING:
    from controller.sandbox.simulator.simulation import Simulation


LOOKED_AFTER = 4 * 3600.0  # seconds between two looks of a person at the status
# In any other a machine is stuck, and not off: it may work, for all that anybody can know.
CLEAR = (*STAGES, "running", "offline", "deleting", "discontinued")
# What the status says of a machine that is kept by its pods only: it fell silent, or failed in whichever way was seen.
HELPLESS = tuple(
    reason.value
    for reason in (
        Reason.SILENT,
        Reason.LAUNCH_FAILED,
        Reason.NO_CAPACITY,
        Reason.LAUNCH_DEADLINE,
        Reason.JOIN_DEADLINE,
        Reason.READY_DEADLINE,
        Reason.GPU_DEADLINE,
        Reason.GPU_LOST,
    )
)


class Knobs:
    """Settings of a world that are others for a while; of those that overlap the later one holds, as long as it lasts."""

    def __init__(self, tell: Callable[[dict[str, Any]], object]) -> None:
        self._tell = tell
        self._usual: dict[str, Any] = {}
        self._turned: list[dict[str, Any]] = []

    def turn(self, values: dict[str, Any], shown: Mapping[str, Any]) -> Callable[[], None]:
        """`shown`: as they are, for those that nothing has turned yet. Returns what turns them back."""
        self._tell(dict(values))
        return self.turned(values, shown)

    def turned(self, values: Mapping[str, Any], shown: Mapping[str, Any]) -> Callable[[], None]:
        """The same, where they were turned in another way; `shown`: as they were."""
        self._usual = {key: shown[key] for key in values} | self._usual
        ours = dict(values)
        self._turned.append(ours)

        def back() -> None:
            self._turned = [one for one in self._turned if one is not ours]
            left = self._usual | {key: value for one in self._turned for key, value in one.items()}
            self._tell({key: left[key] for key in ours})
            held = {key for one in self._turned for key in one}
            self._usual = {key: value for key, value in self._usual.items() if key in held}

        return back


class Trouble:
    def __init__(self, simulation: Simulation, entries: Iterable[Entry]) -> None:
        self._sim = simulation
        self._worlds: Worlds = simulation.worlds
        self._loop = simulation.loop
        self._rng = random.Random(f"{simulation.seed}-trouble-done")
        self._over = False
        self._late: list[dict[str, Any]] = []
        self.arrives = 0.0  # when the last call that is late arrives
        self._undo: list[Callable[[], None]] = []
        self._cloud_knobs_held = Knobs(partial(simulation.worlds.tell_cloud, "PUT", "settings"))
        self._cluster_knobs_held = Knobs(partial(simulation.worlds.tell_cluster, "PUT", "settings"))
        self._plenty = [dict(row) for row in simulation.worlds.cloud.state.stock.shown()]
        simulation.worlds.sky.late = self._lateness
        self._loop.call_later(LOOKED_AFTER, self._look_after)
        for entry in entries:
            self._loop.call_at(float(entry.get("at_s", 0.0)), self._happen, entry)

    def end(self) -> None:
        """From now on everything works."""
        self._over = True
        for undo in list(reversed(self._undo)):
            undo()
        self._undo, self._late = [], []
        worlds = self._worlds
        worlds.cloud_faults.rules, worlds.cluster_faults.rules = [], []
        worlds.tell_cloud("PUT", "settings", {k: v for k, v in CLOUD.items() if k != "balance"})
        self._pay_in()
        # What is stuck may be deleted now: somebody at the cloud has looked after it.
        worlds.tell_cloud("PUT", "settings", {"undeletable_statuses": []})
        worlds.tell_cloud("PUT", "outcomes", [])
        worlds.tell_cloud("PUT", "stock", [{"instance_type": "*", "count": None}])
        if self._plenty:
            worlds.tell_cloud("PUT", "stock", self._plenty)
        for process in self._sim.processes.values():
            process.skew = 0.0
        self._sim.stop("b")

    def _happen(self, entry: Entry) -> None:
        if self._over:
            return
        self._sim.note("trouble " + json.dumps(entry))
        lasts = float(entry.get("for_s", 0.0))
        for kind in ("cloud_fault", "cluster_fault"):
            if kind in entry:
                faults = self._worlds.cloud_faults if kind == "cloud_fault" else self._worlds.cluster_faults
                self._arm(faults, entry[kind], lasts)
        if "cloud_event" in entry:
            self._event(entry["cloud_event"], lasts)
        if "cloud_knobs" in entry:
            self._knobs(entry["cloud_knobs"], lasts)
        if "cluster_knobs" in entry:
            self._cluster_knobs(entry["cluster_knobs"], lasts)
        if "late" in entry:
            self._late.append(dict(entry["late"]))
        if "cluster" in entry:
            self._cluster(str(entry["cluster"]), float(entry.get("seconds", 60.0)))
        if "controller" in entry:
            self._controller(entry, lasts)

    def _for(self, seconds: float, undo: Callable[[], None]) -> None:
        """Undo it after so long, or at the end."""

        def once() -> None:
            if once in self._undo:
                self._undo.remove(once)
                undo()

        self._undo.append(once)
        if seconds > 0:
            self._loop.call_later(seconds, once)

    # -- the cloud

    def _arm(self, faults: Faults, raw: Any, lasts: float) -> None:
        rule = parse_rule("fault", raw)
        if any("*" in row for row in rule.rows):
            rule.rows = self._one_of_ours(rule.rows)
            if not rule.rows:  # that would mean all
                self._sim.note("nothing happens: there is no machine to leave out")
                return
        faults.rules = [r for r in faults.rules if not r.times or r.fired < r.times] + [rule]

        def disarm() -> None:
            faults.rules = [one for one in faults.rules if one is not rule]

        if lasts > 0:
            self._for(lasts, disarm)

    def _one_of_ours(self, rows: list[str]) -> list[str]:
        """A pattern of hostnames stands for one of the controller's machines, as it does in an event."""
        ours = sorted({key for row in rows if "*" in row for key in self._sim.judge.holdings.like(row)})
        return [row for row in rows if "*" not in row] + ([self._rng.choice(ours)] if ours else [])

    def _event(self, event: dict[str, Any], lasts: float) -> None:
        if "hostname" in event:  # one of the controller's: strangers are left alone by everybody
            ours = self._sim.judge.holdings.like(str(event["hostname"]))
            if not ours:
                return
            rest = {key: value for key, value in event.items() if key not in ("hostname", "count", "share")}
            event = {**rest, "id": self._rng.choice(ours)}
        settings = self._worlds.cloud.state.settings
        try:
            done = self._worlds.tell_cloud("POST", "events", event)
        except ValueError as problem:
            self._sim.note(f"nothing happens: {problem}")
            return
        if event.get("event") == "shut_down" and lasts:
            for one in (done or {}).get("ids", ()):
                self._loop.call_later(lasts, self._start, one)
        if event.get("event") == "stock":
            self._for(1800, self._restock)
        if event.get("event") == "balance":
            self._for(lasts or 1800, self._pay_in)
        if event.get("event") == "outcomes":
            self._for(3600, lambda: self._worlds.tell_cloud("PUT", "outcomes", []))
        self._knobs_were(settings, lasts)

    def _knobs_were(self, settings: Settings, lasts: float) -> None:
        """What an event has turned is as it was after so long, or at the end."""
        before, after = settings.shown(), self._worlds.cloud.state.settings.shown()
        changed = {key: value for key, value in after.items() if value != before[key]}
        if changed:
            self._for(lasts, self._cloud_knobs_held.turned(changed, before))

    def _start(self, key: str) -> None:
        one = self._worlds.cloud.state.instances.get(key)
        if one is not None and one.status == "offline":
            lifecycle.start(self._worlds.cloud.state, one)
            self._worlds.turn_cloud()

    def _look_after(self) -> None:
        """A person reads the status now and then, and deletes in the console what nobody else can know to be dead."""
        told = self._sim.judge.books.told()
        for one in list(self._worlds.cloud.state.instances.values()):
            if one.status in CLEAR or told.get(one.hostname) not in HELPLESS:
                continue
            if self._sim.judge.books.gpu_pods_on(one.hostname):  # all others are the controller's business
                self._sim.note(f"somebody deletes {one.hostname}, which is {one.status}")
                self._worlds.tell_cloud("POST", "events", {"event": "delete", "id": one.id, "disks": "keep"})
        self._loop.call_later(LOOKED_AFTER, self._look_after)

    def _restock(self) -> None:
        self._worlds.tell_cloud("PUT", "stock", [{"instance_type": "*", "count": None}, *self._plenty])

    def _pay_in(self) -> None:
        """As much money as there was in the beginning."""
        self._worlds.tell_cloud("POST", "events", {"event": "balance", "amount": CLOUD["balance"]})

    def _knobs(self, values: dict[str, Any], lasts: float) -> None:
        back = self._cloud_knobs_held.turn(values, self._worlds.cloud.state.settings.shown())
        self._for(lasts or 600, back)

    def _lateness(self, request: Request) -> float:
        for rule in self._late:
            if rule.get("method", "*") in ("*", request.method) and request.path.endswith(
                rule.get("path", "")
            ):
                rule["times"] = int(rule.get("times", 1)) - 1
                if rule["times"] <= 0:
                    self._late.remove(rule)
                seconds = float(rule.get("seconds", 60.0))
                self.arrives = max(self.arrives, self._loop.time() + seconds)
                return seconds
        return 0.0

    # -- the cluster

    def _cluster_knobs(self, values: dict[str, Any], lasts: float) -> None:
        back = self._cluster_knobs_held.turn(values, self._worlds.cluster.settings.shown() | CLUSTER)
        self._for(lasts or 300, back)

    def _cluster(self, deed: str, seconds: float) -> None:
        worlds = self._worlds
        if deed in ("disconnect", "compact"):
            worlds.tell_cluster("POST", deed)
        elif deed == "lag":
            worlds.lag_until = self._loop.time() + min(seconds, 120.0)
            self._for(0, self._no_lag)
        else:
            to_a_node(worlds, self._rng, deed, seconds, self._for)

    def _no_lag(self) -> None:
        self._worlds.lag_until = 0.0
        self._worlds.turn_cluster()

    # -- the controller

    def _controller(self, entry: Entry, lasts: float) -> None:
        deed, seconds = str(entry["controller"]), float(entry.get("seconds", 30.0))
        if deed == "second":
            if "b" not in self._sim.processes:
                self._sim.start("b")
                self._for(lasts or 600, lambda: self._sim.stop("b"))
            return
        processes = [self._sim.processes[place] for place in sorted(self._sim.processes)]
        if not processes:
            return
        process = self._rng.choice(processes)
        if deed == "die":
            process.dies_at = process.awaits + int(entry.get("awaits", 1))
        elif deed == "stand_still":
            process.stand_still(seconds)
        elif deed == "clock":
            process.skew += seconds

            def back() -> None:
                process.skew -= seconds

            self._for(lasts or 300, back)
