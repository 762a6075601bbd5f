"""One seed from its beginning to its end: worlds, pods, the controller, trouble, and what came of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from controller.cluster import memory
from controller.config.load import Loaded
from controller.planning.pauses import LONGEST_PAUSE
from controller.sandbox.simulator.bound import lower_bound
from controller.sandbox.simulator.cheaper import best_of
from controller.sandbox.simulator.clock import VirtualLoop
from controller.sandbox.simulator.complaints import Complaints
from controller.sandbox.simulator.doors import GroundDoor, SkyDoor
from controller.sandbox.simulator.founding import founded
from controller.sandbox.simulator.judge import MOST_VIOLATIONS, Judge
from controller.sandbox.simulator.owner import Owner
from controller.sandbox.simulator.process import (
    CRASHED,
    RESTARTS_AFTER,
    Process,
    has_a_home,
    tasks_of_processes,
    whose,
)
from controller.sandbox.simulator.residents import Residents
from controller.sandbox.simulator.result import Result, Waits
from controller.sandbox.simulator.schedule import Entry
from controller.sandbox.simulator.slices import pools_cut
from controller.sandbox.simulator.trouble import Trouble
from controller.sandbox.simulator.workload import Work
from controller.sandbox.simulator.worlds import Worlds

AFTERWARDS = 36 * 3600.0  # until everything has run and is gone, at most
STUCK = 6 * 3600.0  # nothing has happened for so long, and no deadline lasts longer: nothing will
QUIET = 1800.0  # the same, where by the settings nothing can
TIDY = 1800.0
KEPT = 4 * 3600.0  # what has ended
COLLECTED = 12 * 3600.0  # what holds only itself, as each controller that has died
_LOG = logging.getLogger("gpu_autoscaler")
Tell = Callable[[float, str], None]


class Simulation:
    def __init__(
        self,
        *,
        seed: int,
        hours: float,
        works: Sequence[Work],
        loaded: Loaded,
        trouble: Sequence[Entry] = (),
        tell: Tell | None = None,
        look: Callable[[Simulation], None] | None = None,
        look_every: float = 60.0,
        dies: Callable[[int], bool] | None = None,
        stop_early: bool = False,
        residents: bool = False,
    ) -> None:
        """`dies`: asked at each await of the first controller, counted from 1, whether it is killed there.

        `stop_early`: at the first violation. `residents`: pods without GPUs live there, too.
        """
        self.seed = seed
        self.hours = hours
        self.loaded = loaded
        self.loop = VirtualLoop()
        self.loop.set_task_factory(tasks_of_processes())
        self.worlds = Worlds(self.loop, seed)
        self.processes: dict[str, Process] = {}  # by place
        self._tell = tell
        self._look = look
        self._look_every = look_every
        self._born = 0
        self._dies = dies
        self._stop_early = stop_early
        self.awaits = 0  # of all controllers that have ended
        self._stopping: set[str] = set()
        self.cluster_id = cluster_id = founded(self.worlds, loaded)
        self.owner = Owner(self.worlds, works, self.note)
        self.residents = Residents(self.worlds, works, seed) if residents else None
        self.judge = Judge(self.worlds, self.owner, loaded, cluster_id, self.note)
        self.worlds.hear.append(self.judge.look)
        cut_into = pools_cut(self.judge.policy, cluster_id)
        self.worlds.tell_cluster("PUT", "settings", {"gpus_sliced": cut_into})
        self.trouble = Trouble(self, trouble)
        self._entries = trouble
        self._bound = Decimal(0)

    def note(self, words: str) -> None:
        if self._tell is not None:
            self._tell(self.loop.time(), words)

    # -- controllers

    def start(self, place: str) -> None:
        self._stopping.discard(place)
        if place in self.processes:
            return
        self._born += 1
        name = f"{place}-{self._born}"
        sky, ground = SkyDoor(self.worlds, self.judge), GroundDoor(self.worlds, self.judge)
        process = Process(
            name, self.loaded, loop=self.loop, sky=sky, ground=ground, wall=self.worlds.wall,
            rng=random.Random(f"{self.seed}-{name}"), ended=self._ended,
        )  # fmt: skip
        sky.process = ground.process = process
        process.dies = self._dies if self._born == 1 else None
        self.processes[place] = process
        self.note(f"controller {name} starts")
        process.start()

    def stop(self, place: str) -> None:
        """For good: it is not started again."""
        self._stopping.add(place)
        if place in self.processes:
            self.processes[place].die()

    def _ended(self, process: Process, why: str) -> None:
        place = process.name.rpartition("-")[0]
        self.awaits += process.awaits
        self.note(f"controller {process.name} {why}")
        if why.startswith(CRASHED):
            self.judge.violated(f"controller {process.name} {why}")
        if self.processes.get(place) is process:
            del self.processes[place]
            if place not in self._stopping:
                self.loop.call_later(RESTARTS_AFTER, self._start_again, place)

    def _start_again(self, place: str) -> None:
        if place not in self._stopping:
            self.start(place)

    # -- the whole course

    def run(self) -> Result:
        began = time.perf_counter()
        complaints = Complaints(self.judge)
        _LOG.addHandler(complaints)
        told = logging.root.manager.disable
        logging.disable(logging.WARNING)
        frugal, memory.frugal = memory.frugal, False
        thresholds = gc.get_threshold()
        gc.set_threshold(20_000, 20, 50)
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._fallen)
        try:
            self.loop.run_until_complete(self._course())
            result = self._result()
        finally:
            _LOG.removeHandler(complaints)
            self.loop.set_exception_handler(lambda loop, told: None)
            self._clean_up()
            memory.frugal = frugal
            logging.disable(told)
            gc.set_threshold(*thresholds)
        result["wall_s"] = round(time.perf_counter() - began, 3)
        return result

    def _fallen(self, loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        """An error of a task or a callback that nobody fetches; those of a dead process are its end."""
        process, error = whose(told), told.get("exception")
        if process is not None and not process.dead:
            self.judge.violated(f"the program lost an error: {error!r}")
        elif process is None and error is not None and has_a_home(told):
            self.judge.violated(f"the simulation lost an error: {error!r}")

    def _clean_up(self) -> None:
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=60))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        self.loop.close()

    async def _course(self) -> None:
        self.loop.call_later(TIDY, self._tidy)
        self.loop.call_later(COLLECTED, self._collect)
        if self._look is not None:
            self._look_again()
        self.start("a")
        last = max((want.work.arrives for want in self.owner.wants), default=0.0)
        faults_end = max(self.hours * 3600, last + 1)
        while self.loop.time() < faults_end and not self._enough:  # noqa: ASYNC110
            await asyncio.sleep(min(60.0, faults_end - self.loop.time()))
        self.note("faults are over")
        self.trouble.end()
        end = self.loop.time() + AFTERWARDS
        # However they are lost and made again: pods that ran one after the other would be done by then.
        last_end = end + sum(want.work.lasts for want in self.owner.wants)
        still, since = self._still(), self.loop.time()
        while self.loop.time() < end and not self._over(self.loop.time() - since):
            await asyncio.sleep(15)
            if self.owner.will_end(self.loop.time()):
                end = min(last_end, self.loop.time() + AFTERWARDS)
            if self._still() != still or self.owner.will_end(self.loop.time()):
                still, since = self._still(), self.loop.time()
            elif self.loop.time() - since > self._patience():
                self.note("nothing happens any more")
                break
        self.owner.count_running()
        self._bound = lower_bound(
            self.owner.ran(),
            self.judge.policy,
            best_of(self._entries, self.worlds.cloud.state.settings, self.worlds.cluster.settings),
        )
        gc.collect()  # an error that nobody fetched is told when its task is forgotten
        for place in list(self.processes):
            self.stop(place)

    def _still(self) -> tuple[object, ...]:
        """What changes as long as anything is done that matters."""
        owner, judge = self.owner, self.judge
        phases = [(machine.name, machine.phase) for machine in judge.books.ledger().machines]
        statuses = [(one.id, one.status) for one in self.worlds.cloud.state.instances.values() if one.live]
        return (owner.left, owner.waiting, owner.running, judge.launches, statuses, phases)

    def _patience(self) -> float:
        """How long nothing may happen before nothing will any more."""
        if any(one.status == "deleting" for one in self.worlds.cloud.state.instances.values()):
            return AFTERWARDS  # the cloud is at it, however long a fault has made that
        longest = max(STUCK, *(6 * seconds for seconds in self._delays()))
        # What came to nothing often enough is tried once a day.
        return LONGEST_PAUSE + longest if self.judge.books.ledger().tried else longest

    def _delays(self) -> tuple[float, ...]:
        """Those that settings may make long, in seconds."""
        policy = self.judge.policy
        limits = policy.deadlines
        if policy.windows or policy.not_during:
            return (AFTERWARDS,)
        return (
            policy.min_age,
            policy.min_pod_age,
            policy.cooldown,
            limits.launch,
            limits.join,
            limits.gpu,
            limits.gpu_lost,
            limits.drained_by(0.0),
        )

    @property
    def _enough(self) -> bool:
        return len(self.judge.violations) >= (1 if self._stop_early else MOST_VIOLATIONS)

    def _over(self, quiet: float) -> bool:
        """`quiet`: for so long nothing has happened. Who can never run is not waited for then."""
        if self._enough:
            return True
        if self.loop.time() <= self.trouble.arrives or not self.judge.holdings.settled(AFTERWARDS):
            return False
        left = self.owner.left
        return left == 0 or (quiet >= QUIET and left == len(self.judge.hopeless()))

    def _tidy(self) -> None:
        self.worlds.forget(KEPT)
        self.owner.forget_nodes({machine.name for machine in self.judge.books.ledger().machines})
        self.loop.call_later(TIDY, self._tidy)

    def _collect(self) -> None:
        """Seldom, because that takes a tenth of a second; left to Python, it happens once in weeks of these."""
        gc.collect()
        self.loop.call_later(COLLECTED, self._collect)

    def _look_again(self) -> None:
        if self._look is not None:
            self._look(self)
            self.loop.call_later(self._look_every, self._look_again)

    def _result(self) -> Result:
        judge, wants = self.judge, self.owner.wants
        waits = Waits([w.first_began - w.work.arrives for w in wants if w.first_began >= 0])
        leaked_machines, leaked_disks = judge.at_the_end()
        return {
            "seed": self.seed,
            "pods": len(wants),
            "pods_run": sum(want.done for want in wants),
            "launches": judge.launches,
            "launches_failed": judge.holdings.launches_failed,
            "double_launches": judge.purchases.twice,
            "leaked_machines": leaked_machines,
            "leaked_disks": leaked_disks,
            "busy_evictions": judge.busy_evictions,
            "cost": round(float(judge.cost()), 4) + 0.0,  # no -0.0, of what rounding leaves of nothing
            "gpu_hours_paid": round(judge.holdings.paid_gpu_s / 3600, 4),
            "gpu_hours_used": round(self.owner.used_gpu_s / 3600, 4),
            "cost_lower_bound": round(float(self._bound), 4),
            "wait_p50_s": waits.at(0.5),
            "wait_p99_s": waits.at(0.99),
            "pods_impossible": judge.impossible,
            "kept_by_settings": judge.kept,
            "violations": judge.violations,
        }
