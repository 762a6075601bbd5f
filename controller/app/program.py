"""The controller as one object: everything wired together, started, and ended in order.

On SIGTERM: orders on the wire end and are recorded, what is being removed is left to the next start
(the ledger says where to go on), and the lease is given back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping

from msgspec.structs import replace

from controller.app.driver import Driver, Seat
from controller.app.exits import CONFIGURATION, UNREACHABLE, Ends
from controller.app.leading import lead
from controller.app.listener import Reporter
from controller.app.loop import Loop, Timing
from controller.app.parts import Now, secrets_of
from controller.app.server import Health, Server
from controller.app.sweeping import Sweeping
from controller.app.window import Window
from controller.cloud.protocol import Cloud, Endpoints
from controller.cluster.connection import Connection
from controller.cluster.lease import Lease
from controller.cluster.protocol import Subject, Transport
from controller.cluster.view import WatchedView
from controller.cluster.writer import ClusterWriter
from controller.config.load import Loaded
from controller.config.starting import starting_digest
from controller.domain import names
from controller.domain.policy import Policy
from controller.fleet.account import Account
from controller.fleet.engine import Fleet
from controller.fleet.flights import Flights
from controller.fleet.launch import Launcher
from controller.fleet.ledger import Ledger
from controller.fleet.listener import Several
from controller.fleet.refusals import Refusals
from controller.fleet.removal import HARD, SOFT, UNSEEN, Removal
from controller.fleet.switching.board import Switchboard
from controller.fleet.switching.means import Means
from controller.fleet.switching.turning import Turning
from controller.fleet.wheel import Wheel
from controller.join.joiner import Entry, ScriptJoiner
from controller.planning.planner import plan as make_plan
from controller.report.events import Events
from controller.report.metrics import Metrics

log = logging.getLogger("gpu_autoscaler")

STOP_PATIENCE = 10.0
STALLED_AFTER = 60.0
ONCE_PATIENCE = 120.0


class Program:
    """Built by `start.prepare`; then `run` until cancelled."""

    def __init__(
        self,
        loaded: Loaded,
        policy: Policy,
        connection: Connection,
        cloud: Cloud,
        joiner: ScriptJoiner,
        now: Now,
        *,
        identity: str,
        endpoints: Endpoints | None = None,
        deployment: str = "",
        dry_run: bool = False,
        line: Transport | None = None,
        driver: Driver | None = None,
    ) -> None:
        """`line` is the lease's own way to the API server; without one it shares `connection`. `driver` decides on
        sizes instead of the planner."""
        self.driver = driver
        policy = driver.shaped(policy) if driver is not None else policy
        self._taints = (SOFT, HARD) if driver is None else (UNSEEN,)  # of machines that are drained
        self.loaded = loaded
        self.policy = policy
        self.connection = connection
        self.now = now
        self.cloud = cloud
        self._joiner = joiner
        self._dry_run = dry_run
        timing = _timing(loaded)
        self.window = Window(timing.quiet, timing.longest, now.monotonic)
        self.metrics = Metrics()
        self.metrics.follow_cloud(cloud.health)
        self.health = Health(now.monotonic, max(STALLED_AFTER, 3 * timing.tick))
        self.view = WatchedView(
            connection,
            on_change=self._changed,
            sleep=now.sleep,
            rng=now.rng,
            clock=now.monotonic,
            wall=now.wall,
            declared=policy.gpu_resources,
        )
        self.writer = ClusterWriter(
            connection,
            namespace=policy.namespace,
            wall=now.wall,
            sleep=now.sleep,
            rng=now.rng,
            decoder=self.view.decoder,
        )
        self.lease = Lease(
            line or connection,
            namespace=policy.namespace,
            identity=identity,
            clock=now.monotonic,
            wall=now.wall,
            sleep=now.sleep,
            rng=now.rng,
            on_change=self._lease_changed,
            duration=loaded.settings.lease.duration.total_seconds(),
            renew=loaded.settings.lease.renew.total_seconds(),
            spend_within=loaded.settings.lease.spend_within.total_seconds(),
        )
        self.ledger = Ledger(
            self.writer, policy.cluster_id, starting_digest(loaded.settings), secrets_of(loaded.settings)
        )
        refusals = self._refusals = Refusals(policy.deadlines)
        account = Account(self.ledger, cloud.trust)
        self.reporter = Reporter(metrics=self.metrics, events=Events(), view=self.view, writer=self.writer)
        self._listener = Several((self.reporter, *(driver.listeners if driver else ())))
        self.flights = Flights(
            ledger=self.ledger,
            launcher=Launcher(cloud, joiner, self._may_spend, account),
            removal=Removal(
                view=self.view,
                writer=self.writer,
                cloud=cloud,
                clock=now.wall,
                sleep=now.sleep,
                taints=self._taints,
            ),
            refusals=refusals,
            cloud=cloud,
            writer=self.writer,
            listener=self._listener,
            clock=now.wall,
            sleep=now.sleep,
            wake=self.window.hurry,
            may_act=lambda: self.lease.held and not dry_run,
            account=account,
            driven=driver is not None,
        )
        self.switchboard = self._switchboard(endpoints) if endpoints is not None else None
        self.fleet = Fleet(
            policy=policy,
            ledger=self.ledger,
            flights=self.flights,
            refusals=refusals,
            account=account,
            cloud=cloud,
            view=self.view,
            clock=now.wall,
            rng=now.rng,
            switchboard=self.switchboard,
        )
        self.loop = Loop(
            policy=policy,
            timing=timing,
            fleet=self.fleet,
            view=self.view,
            writer=self.writer,
            reporter=self.reporter,
            metrics=self.metrics,
            health=self.health,
            window=self.window,
            leads=lambda: self.lease.held,
            clock=now.wall,
            monotonic=now.monotonic,
            sleep=now.sleep,
            sweep=lambda: self.sweeping.sweep(),
            deployment_notes=(lambda: self.writer.deployment_annotations(deployment)) if deployment else None,
            cloud_health=cloud.health,
            decide=make_plan if driver is None else driver.decide,
            dry_run=dry_run,
            retires=driver is None,
        )
        self.server = Server(
            metrics=self.metrics, health=self.health, ready=self._not_ready, status=self.loop.status
        )
        if driver is not None:
            self._hand_over(driver)
        self._grounded: asyncio.Task[None] | None = None
        self.sweeping = Sweeping(
            cloud=cloud,
            ledger=self.ledger,
            fleet=self.fleet,
            flights=self.flights,
            cluster_id=lambda: self.policy.cluster_id,
            problem=self.loop.problem,
        )

    def _hand_over(self, driver: Driver) -> None:
        now = self.now
        driver.take(
            Seat(
                fleet=self.fleet,
                wheel=Wheel(self.fleet, view=self.view, clock=now.wall, sleep=now.sleep),
                leads=lambda: self.lease.held,
                snapshot=self.loop.snapshot,
                registry=self.metrics.registry,
                warn=self._warn,
                wake=self.window.hurry,
            )
        )

    async def _warn(self, reason: str, message: str) -> None:
        """An event on the status, where people look for what the controller says of itself."""
        subject = Subject(kind="ConfigMap", name=names.STATUS_CONFIGMAP, namespace=self.policy.namespace)
        await self.writer.event(subject, type="Warning", reason=reason, message=message)

    def _not_ready(self) -> str:
        return self.loop.not_ready() or (self.driver.not_ready() if self.driver is not None else "")

    def _switchboard(self, endpoints: Endpoints) -> Switchboard:
        now = self.now
        means = Means(
            ledger=self.ledger,
            endpoints=endpoints,
            removal=Removal(
                view=self.view,
                writer=self.writer,
                cloud=self.cloud,
                clock=now.wall,
                sleep=now.sleep,
                taints=self._taints,
                identify=lambda _machine, node: node,  # by its name alone, which the settings tell
            ),
            writer=self.writer,
            listener=self._listener,
            clock=now.wall,
            sleep=now.sleep,
            may_act=lambda: self.lease.held and not self._dry_run,
            may_spend=self._may_spend,
            rng=now.rng,
            limits=self.policy.deadlines,
            node=self.view.node,
            waiting=self.view.waiting_pods,
            restored=self.flights.idle_marks.cleared,
            closing=self._taints[-1],
        )
        return Switchboard(
            policy=self.policy,
            ledger=self.ledger,
            turning=Turning(means, self.window.hurry),
            view=self.view,
            listener=self._listener,
            clock=now.wall,
            driven=self.driver is not None,
        )

    def change(
        self,
        loaded: Loaded,
        policy: Policy,
        entries: Mapping[str, Entry],
        endpoints: Endpoints | None,
    ) -> None:
        """Other settings are in force from now on; what is under way ends as it was begun."""
        policy = self.driver.shaped(policy) if self.driver is not None else policy
        policy = replace(policy, pause=self.loop.policy.pause, retire=self.loop.policy.retire)
        timing = _timing(loaded)
        self.loaded, self.policy = loaded, policy
        self._joiner.change(entries)
        self.ledger.starts_with(starting_digest(loaded.settings), secrets_of(loaded.settings))
        self._refusals.change(policy.deadlines)
        self.view.declare(policy.gpu_resources)
        self.lease.change(
            duration=loaded.settings.lease.duration.total_seconds(),
            renew=loaded.settings.lease.renew.total_seconds(),
            spend_within=loaded.settings.lease.spend_within.total_seconds(),
        )
        self.window.change(timing.quiet, timing.longest)
        self.health.change(max(STALLED_AFTER, 3 * timing.tick))
        if endpoints is not None and self.switchboard is None:
            self.switchboard = self._switchboard(endpoints)
            self.fleet.switchboard = self.switchboard
        elif self.switchboard is not None:
            self.switchboard.turning.change(endpoints, policy.deadlines)
        if self.switchboard is not None:
            self.switchboard.policy = policy
        self.fleet.policy = policy
        self.loop.change(policy, timing)
        self.window.hurry()

    def _changed(self, kind: str) -> None:
        if kind in ("demand", "capacity"):
            self.window.note()

    def _may_spend(self) -> bool:
        return not self._dry_run and self.lease.may_spend()

    def _lease_changed(self, held: bool) -> None:
        log.info("lease", extra={"held": held})
        if not held:
            # Whoever leads now continues from the ledger; what is under way here must not go on.
            self.fleet.forget()
            self._grounded = asyncio.get_running_loop().create_task(self._ground())
        self.window.hurry()

    async def _ground(self) -> None:
        if self.switchboard is not None:
            await self.switchboard.turning.stop(0)
        await self.flights.stop(0)

    async def _lead(self) -> None:
        await lead(self.lease, lambda: self.loaded.settings.lease.renew.total_seconds(), self.now.sleep)

    # -- life -----------------------------------------------------------------------------------

    async def run(
        self, listen: str | None, beside: Callable[[], Coroutine[None, None, None]] | None = None
    ) -> None:
        """Run until cancelled; always ends in order. `beside` runs as long: it reads changed settings."""
        if listen is not None:
            try:
                await self.server.start(listen)
            except ValueError as error:
                raise Ends(CONFIGURATION, str(error)) from error
            except OSError as error:
                raise Ends(CONFIGURATION, f"--listen {listen}: {error.strerror}") from error
            log.info("listening", extra={"address": self.server.address})
        if self.driver is not None:
            try:
                await self.driver.start()
            except (ValueError, OSError) as error:
                await self.server.stop()
                raise Ends(CONFIGURATION, f"externalgrpc: {error}") from error
        watching = asyncio.create_task(self.view.run(), name="watches")
        leading = asyncio.create_task(self._lead(), name="lease") if not self._dry_run else None
        deciding = asyncio.create_task(self.loop.run(), name="loop")
        reading = asyncio.create_task(beside(), name="settings") if beside is not None else None
        parts = [task for task in (watching, leading, deciding) if task is not None]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for task in parts:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise RuntimeError(f"{task.get_name()} ended") from task.exception()
        finally:
            await _over(reading)
            await self._end(watching, leading, deciding)

    async def _end(
        self,
        watching: asyncio.Task[None],
        leading: asyncio.Task[None] | None,
        deciding: asyncio.Task[None] | None = None,
    ) -> None:
        """Nothing is decided any more, then orders on the wire end, then the lease is given back."""
        if self.driver is not None:
            await self.driver.stop()
        await _over(deciding)
        if leading is not None and self.fleet.rebuilt:  # else the ledger may be somebody else's by now
            await self.fleet.stop(STOP_PATIENCE)
        await _over(leading)
        await _over(watching)
        await self.server.stop()

    async def once(self) -> None:
        """One decision, carried out until every order has its answer; for `run --once`."""
        watching = asyncio.create_task(self.view.run(), name="watches")
        leading = asyncio.create_task(self._lead(), name="lease") if not self._dry_run else None
        try:
            async with asyncio.timeout(ONCE_PATIENCE):
                while not await self.loop.look():
                    await self.now.sleep(0.2)
                    for task in (watching, leading):
                        if task is not None and task.done():
                            raise Ends(UNREACHABLE, "the cluster cannot be watched")
        except TimeoutError as error:
            why = self.loop.problems() or [f"no decision within {ONCE_PATIENCE:g} s"]
            if not (self._dry_run or self.lease.held) and self.lease.holder:
                why.append(f"nothing was decided: {self.lease.holder} holds the lease")
            raise Ends(UNREACHABLE, *why) from error
        finally:
            await self._end(watching, leading)


async def _over(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _timing(loaded: Loaded) -> Timing:
    given = loaded.settings.timing
    return Timing(
        quiet=given.quiet.total_seconds(),
        longest=given.longest.total_seconds(),
        tick=given.tick.total_seconds(),
        poll_cloud=given.poll_cloud.total_seconds(),
        poll_cloud_busy=given.poll_cloud_busy.total_seconds(),
        catalogue=given.catalogue.total_seconds(),
        status=max(Timing().status, given.tick.total_seconds() / 2),  # nothing new is decided more often
    )
