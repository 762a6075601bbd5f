"""The main loop: wait for a quiet moment, follow the machines, plan, tell, act.

Nothing is decided before the watched world is in step, the lease is held, and ledger and inventory
were read. Every trouble of the outside is one line, told when it begins and when it ends; the loop
goes on and recovers by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from controller.app import picture
from controller.app.listener import Reporter
from controller.app.notice import Notice
from controller.app.server import Health
from controller.app.window import Window
from controller.cloud.protocol import CloudError
from controller.cluster.protocol import ClusterError, View, Writer
from controller.domain import names
from controller.domain.cloudhealth import CloudHealth
from controller.domain.plan import Plan, Snapshot
from controller.domain.policy import RETIRE, Policy
from controller.fleet.engine import Fleet
from controller.fleet.ledger import LedgerError
from controller.planning.planner import plan as make_plan
from controller.report.metrics import Metrics
from controller.report.status import as_text, status_json

log = logging.getLogger("gpu_autoscaler")

_SWEEP_PAUSE = 1.0
_PAUSES = frozenset({"", "scale-up", "scale-down", "all"})


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; the defaults and their reasons are in the settings."""

    quiet: float = 0.1
    longest: float = 1.0
    tick: float = 10.0
    poll_cloud: float = 30.0
    poll_cloud_busy: float = 5.0
    catalogue: float = 60.0
    status: float = 5.0
    sweep: float = 600.0


class Loop:
    def __init__(
        self,
        *,
        policy: Policy,
        timing: Timing,
        fleet: Fleet,
        view: View,
        writer: Writer,
        reporter: Reporter,
        metrics: Metrics,
        health: Health,
        window: Window,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        sweep: Callable[[], Awaitable[None]],
        deployment_notes: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
        cloud_health: Callable[[], CloudHealth] = CloudHealth,
        decide: Callable[[Snapshot], Plan] = make_plan,
        dry_run: bool = False,
        retires: bool = True,
    ) -> None:
        """`retires`: whether everything goes when people ask for it; whoever else decides would buy it again."""
        self.policy = policy
        self.fleet = fleet
        self.plan = Plan()
        self.make_plan = decide
        self.passes = 0
        self.on_plan: list[Callable[[Plan], None]] = []  # whoever wants to see every plan
        self._timing = timing
        self._view = view
        self._reporter = reporter
        self._metrics = metrics
        self._health = health
        self._window = window
        self._leads = leads
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._sweep = sweep
        self._leftovers = asyncio.Event()
        reporter.on_leftovers = self._leftovers.set
        self._notice = Notice(writer, monotonic, deployment_notes)
        self._cloud_health = cloud_health
        self._dry_run = dry_run
        self._retires = retires
        self._problems: dict[str, str] = {}
        self._rebuild_at = 0.0

    def change(self, policy: Policy, timing: Timing) -> None:
        """Other settings are in force."""
        self.policy, self._timing = policy, timing

    # -- questions ------------------------------------------------------------------------------

    def not_ready(self) -> str:
        """Why the world is not in step, or ""."""
        return "" if self._view.synced else "the watches are not in step yet"

    def problems(self) -> list[str]:
        return [self._problems[key] for key in sorted(self._problems)]

    def status(self) -> dict[str, Any]:
        return status_json(
            policy=self.policy,
            plan=self.plan,
            machines=self.fleet.everything(),
            switched=self.fleet.switchboard.records() if self.fleet.switchboard is not None else (),
            refusals=self.fleet.refusals.active(self.fleet.catalogue.offers, self._clock()),
            costs=self.fleet.ledger.costs,
            reports=self.fleet.reports,
            leader=self._leads(),
            currency=self.fleet.catalogue.currency,
            problems=self.problems(),
            cloud=self._cloud_health(),
        )

    def problem(self, key: str, text: str | None) -> None:
        """Remember a trouble, and say so once when it begins, changes or ends."""
        before = self._problems.get(key)
        if text is None:
            if self._problems.pop(key, None) is not None:
                log.info("recovered", extra={"from": before})
        elif text != before:
            self._problems[key] = text
            log.warning(text)

    # -- running --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll_inventory(), name="inventory")
            group.create_task(self._poll_catalogue(), name="catalogue")
            group.create_task(self._write_status(), name="status")
            group.create_task(self._sweep_now_and_then(), name="sweep")
            group.create_task(self._decide_for_ever(), name="decide")
            group.create_task(self._ask_switched(), name="switched")

    async def _decide_for_ever(self) -> None:
        while True:
            await self._window.wait(self._next_look())
            self._health.beat()
            try:
                await self.look()
            except (CloudError, ClusterError, LedgerError) as error:
                self.problem("loop", str(error))
                await self._sleep(1.0)
            except Exception:
                # One bug must not stop the following of machines that cost money.
                log.exception("unexpected error in the main loop")
                await self._sleep(1.0)
            else:
                self.problem("loop", None)
            self._health.beat()

    def _next_look(self) -> float:
        now, tick = self._monotonic(), self._timing.tick
        moments = (self.plan.wake_at, self.fleet.due() if self.fleet.rebuilt else None)
        waits = [max(0.01, moment - self._clock() + 0.01) for moment in moments if moment is not None]
        return now + min([tick, *waits])

    async def look(self) -> bool:
        """One pass. Returns whether a plan was made."""
        self._metrics.synced.set(1 if self._view.synced and not self._view.blind() else 0)
        self._metrics.leader.set(1 if self._leads() else 0)
        if not self._view.synced:
            return False
        if not (self._leads() or self._dry_run):
            self.fleet.forget()  # whoever leads writes the ledger; read it again when it is our turn
            return False
        if not await self._ready_to_decide():
            return False
        if not self._dry_run:
            await self.fleet.advance()
            if not self.fleet.rebuilt:
                return False  # somebody else led meanwhile
        old = self._view.old()
        self.problem("picture", old or None)
        if old:  # pods that run by now would look as if they waited
            self.plan = msgspec.structs.replace(self.plan, actions=(), wake_at=None)
            return False
        snapshot = self.snapshot()
        started = self._monotonic()
        self.plan = self.fleet.possible(self.make_plan(snapshot))
        self._metrics.plan_seconds.observe(self._monotonic() - started)
        self._metrics.show(self.plan, self.fleet.everything(), snapshot.own)
        self._tell_of_pools()
        self.passes += 1
        for hear in self.on_plan:
            hear(self.plan)
        if not self._dry_run:
            self._reporter.planned(self.plan)
            if self._leads():
                await self.fleet.apply(self.plan.actions, self.plan.awaited)
        return True

    def _tell_of_pools(self) -> None:
        """Nobody waits for a machine of a minimum: why it is not ordered is told here, or nowhere."""
        for pool in self.policy.pools:
            why = self.plan.pools.get(pool.name)
            self.problem(f"pool {pool.name}", f"{why.message} ({why.code.value})" if why else None)

    def snapshot(self) -> Snapshot:
        return picture.take(self.policy, self._view, self.fleet, self._clock())

    async def _ready_to_decide(self) -> bool:
        if self.fleet.rebuilt:
            return True
        if self._monotonic() < self._rebuild_at:
            return False
        try:
            await self.fleet.rebuild()
            self._heed_pause(await self._notice.wishes())
        except (CloudError, LedgerError, ClusterError) as error:
            self.fleet.forget()
            self._rebuild_at = self._monotonic() + min(5.0, self._timing.tick)
            self.problem("start", f"nothing is decided yet: {error}")
            return False
        if not self.fleet.rebuilt:
            return False  # somebody else led meanwhile
        self.problem("start", None)
        self._leftovers.set()
        log.info("rebuilt from ledger and inventory", extra={"machines": len(self.fleet.machines())})
        return True

    # -- polling --------------------------------------------------------------------------------

    async def _poll_inventory(self) -> None:
        """Closely while something is on its way, seldom otherwise; which it is may change at any time."""
        last = self._monotonic()
        while True:
            # Even where much is on its way, nothing is read before the closer of the two pauses is over.
            await self._sleep(self._timing.poll_cloud_busy)
            busy = self.fleet.busy or self.fleet.wants_a_list
            pause = self._timing.poll_cloud_busy if busy else self._timing.poll_cloud
            if not self.fleet.rebuilt or self._monotonic() - last < pause:
                continue
            if await self._read("inventory", self.fleet.refresh_inventory):
                self._window.hurry()  # what tells nothing new waits for the next look
            last = self._monotonic()

    async def _ask_switched(self) -> None:
        """The status endpoints of switched machines, closely while something is under way there."""
        while True:
            board = self.fleet.switchboard
            try:
                if board is not None and self.fleet.rebuilt and await board.ask():
                    self._window.note()
            except Exception:
                log.exception("unexpected error while status endpoints are asked")
            busy = board is not None and board.busy
            await self._sleep(self._timing.poll_cloud_busy if busy else self._timing.poll_cloud)

    async def _poll_catalogue(self) -> None:
        while True:
            await self._sleep(self._timing.catalogue)
            if self.fleet.rebuilt and await self._read("catalogue", self.fleet.refresh_catalogue):
                self._window.note()

    async def _read(self, what: str, refresh: Callable[[], Awaitable[bool]]) -> bool:
        """Whether it was read and tells anything new."""
        try:
            news = await refresh()
        except CloudError as error:
            self._metrics.cloud_errors.labels(error.reason.value).inc()
            self.problem(what, f"the {what} cannot be read: {error.message}")
            if error.retry_after:
                await self._sleep(min(60.0, error.retry_after))
            return False
        self.problem(what, None)
        return news

    async def _sweep_now_and_then(self) -> None:
        """Now and then, and soon after anything that may have left something behind."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.sweep):
                    await self._leftovers.wait()
            self._leftovers.clear()
            await self._sleep(_SWEEP_PAUSE)  # several things end together
            if not (self.fleet.rebuilt and self._leads()) or self._dry_run:
                continue
            try:
                await self._sweep()
            except CloudError as error:
                self.problem("sweep", f"what may be left over cannot be looked for: {error.message}")
                await self._sleep(10 * _SWEEP_PAUSE)
                self._leftovers.set()
            else:
                self.problem("sweep", None)

    # -- status ---------------------------------------------------------------------------------

    async def _write_status(self) -> None:
        while True:
            await self._sleep(self._timing.status)
            self._tell_blindness()
            if self._dry_run or not self._leads() or not self.fleet.rebuilt:
                continue
            try:
                await self.publish()
                self.problem("status", None)
            except ClusterError as error:
                self.problem("status", f"the status cannot be written: {error.message}")

    def _tell_blindness(self) -> None:
        blind = self._view.blind()
        named = ", ".join(sorted(blind))
        told = (
            f"{named} cannot be followed, what is known of them is old: {blind[min(blind)]}"
            if blind
            else None
        )
        self.problem("watches", told)

    async def publish(self) -> None:
        """Write the status if it changed, and heed the pause annotations beside it."""
        if self._notice.due:
            self._heed_pause(await self._notice.wishes())
        if not await self._notice.show(as_text(self.status())):
            self._heed_pause(await self._notice.wishes())
            await self._notice.show(as_text(self.status()))

    def _heed_pause(self, wishes: list[str]) -> None:
        """The annotation on the status ConfigMap and on our Deployment; two halves make a whole."""
        unknown = sorted({wish for wish in wishes if wish not in _PAUSES})
        told = (
            f"annotation {names.PAUSE}={unknown[0]}: expected scale-up, scale-down or all; ignored"
            if unknown
            else None
        )
        self.problem("pause", told)
        asked = {wish for wish in wishes if wish in _PAUSES and wish}
        wish = "all" if "all" in asked or len(asked) > 1 else "".join(asked)
        retire = self._heed_end()
        if (wish, retire) != (self.policy.pause, self.policy.retire):
            log.info("pause changed", extra={"pause": wish or "none", "retire": retire or "none"})
            self.policy = msgspec.structs.replace(self.policy, pause=wish, retire=retire)
            self.fleet.policy = self.policy
            self._window.note()

    def _heed_end(self) -> str:
        """The annotation on the status ConfigMap that everything is to go."""
        wish, told = self._notice.retire, None
        if wish and wish not in RETIRE:
            told = f"annotation {names.RETIRE}={wish}: expected {', '.join(RETIRE)}; ignored"
        elif wish and not self._retires:
            told = f"annotation {names.RETIRE}={wish}: ignored, because cluster-autoscaler decides on sizes"
        self.problem("retire", told)
        return wish if wish and told is None else ""
