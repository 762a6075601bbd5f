"""cluster-autoscaler as the driver: the planner rests, and the fleet goes on with everything else.

It follows machines from the order to the join, deletes what failed or vanished with its Node, keeps ledger,
limits and disks in order. Nothing is ever launched here but by an increase that somebody asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence

from prometheus_client import CollectorRegistry, Gauge

from compat_grpc.calls import Figures
from compat_grpc.desk import Desk
from compat_grpc.failures import Failures
from compat_grpc.groups import objections
from compat_grpc.servicer import Servicer
from compat_grpc.serving import GrpcServer
from compat_grpc.shortfalls import Shortfalls
from compat_grpc.slices import shaped
from compat_grpc.transport import Files, TlsError
from controller.app.driver import Seat
from controller.config.externalgrpc import ExternalGrpc
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Plan, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import SENTENCES, Reason
from controller.fleet.listener import Listener
from controller.planning.own import told_of_off

log = logging.getLogger("gpu_autoscaler.grpc")

_HEALTH = 1.0  # seconds, between two looks


class ExternalDriver:
    def __init__(self, settings: ExternalGrpc, files: Files | None, *, clock: Callable[[], float]) -> None:
        """`files`: None serves without TLS."""
        self._settings = settings
        self._files = files
        self._clock = clock
        self._failures = Failures(clock, settings.failed_for.total_seconds())
        self.desk: Desk | None = None
        self.server: GrpcServer | None = None
        self._seat: Seat | None = None
        self._warned: set[str] = set()
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def listeners(self) -> Sequence[Listener]:
        return (self._failures,)

    def objections(self, policy: Policy) -> list[str]:
        return objections(policy)

    def shaped(self, policy: Policy) -> Policy:
        return shaped(policy)

    def take(self, seat: Seat) -> None:
        self._seat = seat
        self._seen: tuple[object, ...] = ()
        self.desk = Desk(
            seat.fleet,
            seat.wheel,
            self._failures,
            leads=seat.leads,
            clock=self._clock,
            cluster_id=seat.fleet.policy.cluster_id,
            shortfalls=Shortfalls(seat.registry),
            snapshot=seat.snapshot,
        )
        self._show(seat.registry)

    def _show(self, registry: CollectorRegistry) -> None:
        self._figures = Figures(registry)
        open_port = Gauge(
            "gpu_autoscaler_grpc_insecure",
            "1 while whoever reaches the port of cluster-autoscaler may call, without proof of who that is.",
            registry=registry,
        )
        open_port.set(1 if self._is_open else 0)

    @property
    def _is_open(self) -> bool:
        return self._files is None or not self._files.client_ca

    # -- the main loop --------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Plan:
        """Nothing is decided here; every machine is explained."""
        self._failures.look(snapshot.machines)
        for reason, words in self._warnings(snapshot.policy):
            if words not in self._warned:
                self._warned.add(words)
                self._tell(reason, words)
        self._compare(snapshot)
        known = {machine.name: _why(machine) for machine in snapshot.machines}
        return Plan(machines=told_of_off(snapshot) | known)

    def _warnings(self, policy: Policy) -> list[tuple[str, str]]:
        """What people are to know from the start, or once the settings are such."""
        found = []
        if self._is_open:
            words = "cluster-autoscaler is served without client certificates: whoever reaches the port can buy machines"
            found.append(("InsecureExternalGrpc", words))
        unserved = [switch.name for switch in policy.switches if not switch.delete_node]
        if unserved:
            words = (
                f"machines {', '.join(unserved)} are not served to cluster-autoscaler without delete_node_when_off: true, "
                "because a Node that stays while its machine is off counts against the health of the whole cluster; no "
                "pod switches one on, and none goes off for being idle"
            )
            found.append(("SwitchedMachinesNotServed", words))
        if resting := _resting(policy):
            words = (
                f"{', '.join(resting)}: without effect while cluster-autoscaler decides, which knows nothing of it; `limits`, "
                "each pool's `max` and pauses hold"
            )
            found.append(("SettingsOfThePlannerRest", words))
        claimed = [pool.name for pool in policy.pools if pool.resource_claims == "always"]
        if claimed:
            words = (
                f"pools {', '.join(claimed)}: their Nodes offer no whole GPUs (nvidia.com/gpu), and cluster-autoscaler never "
                "counts a Node that carries the GPU label as ready without them; where more than three are not ready, and 45 % "
                "of all, it scales nothing any more"
            )
            found.append(("NodesWithoutWholeGpus", words))
        return found

    def _compare(self, snapshot: Snapshot) -> None:
        """Only where machines or nodes are other ones than at the last look."""
        seen = (snapshot.machines, snapshot.nodes, snapshot.policy.pools)
        if self.desk is None or seen == self._seen:
            return
        self._seen = seen
        for words in self.desk.shortfalls():
            self._tell("TemplatePromisedTooMuch", words)

    def _tell(self, reason: str, words: str) -> None:
        log.warning(words)
        if self._seat is not None:
            self._in_background(self._seat.warn(reason, words))

    def _in_background(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def not_ready(self) -> str:
        if self.desk is None or self.server is None or not self.server.port:
            return "cluster-autoscaler is not served yet"
        return self.desk.not_serving()

    # -- serving --------------------------------------------------------------------------------

    async def start(self) -> None:
        if self.desk is None:
            raise ValueError("nothing to drive")
        settings = self._settings
        try:
            self.server = GrpcServer(
                Servicer(
                    self.desk,
                    gives_options=settings.options,
                    remembers=settings.refuse_after_restart,
                ),
                self._figures,
                files=self._files,
                allowed=settings.allowed_names,
                with_health=settings.health,
                with_reflection=settings.reflection,
            )
        except TlsError as error:
            raise ValueError(str(error)) from error
        address = settings.listen if not settings.listen.startswith(":") else f"[::]{settings.listen}"
        await self.server.start(address)
        if settings.health:
            self._in_background(self._tell_health())
        log.info(
            "serving cluster-autoscaler",
            extra={"port": self.server.port, "tls": "none" if self._files is None else "on"},
        )

    async def _tell_health(self) -> None:
        """Also while no pass of the main loop is made, because somebody else leads."""
        while self.server is not None and self.desk is not None:
            await self.server.tell(not self.desk.not_serving())
            await asyncio.sleep(_HEALTH)

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self.server is not None:
            await self.server.stop()


def _resting(policy: Policy) -> list[str]:
    """Settings that somebody relies on, and that only the planner keeps: whose money it is, and when nothing is removed."""
    kept = {
        "namespaces": policy.namespaces,
        "headroom": policy.headroom,
        "disruption.windows": policy.windows,
        "disruption.not_during": policy.not_during,
        "planning.ignore_namespaces": policy.ignore_namespaces,
        "planning.min_pod_age": policy.min_pod_age,
        "billing.on_exhausted": policy.billing.drain_idle,
        "pools[*].expire_after": any(pool.expire_after for pool in policy.pools),
    }
    return [key for key, value in kept.items() if value]


def _why(machine: Machine) -> Explanation:
    reason = machine.reason
    if machine.phase is Phase.TOMBSTONE:
        reason = Reason.UNKNOWN_OUTCOME
    elif reason is None and machine.phase.leaving:
        reason = Reason.DRAINING if machine.phase is Phase.DRAINING else Reason.DELETING
    elif reason is None and machine.phase.on_the_way:
        reason = Reason.STARTING
    elif reason is None:
        return Explanation(Reason.PROMISED, "cluster-autoscaler decides how long it stays")
    return Explanation(reason, machine.note or SENTENCES[reason])
