"""The watched world, in memory: what every decision is made on, without asking anybody.

Finished pods are left out by the API server itself (a pod that finishes then looks deleted); they are
dropped here as well, for servers that ignore the selector. While a kind is listed again its old picture
stays; what the new list did not show is removed at its end. Kinds of add-ons and of newer servers are
watched where there are any; where they may not be read, that is told once and nothing else waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from controller.cluster import kinds
from controller.cluster.decode import Decoder
from controller.cluster.discovery import served
from controller.cluster.index import Matter, PodIndex
from controller.cluster.kinds import Kind
from controller.cluster.memory import settle, trim
from controller.cluster.protocol import ClusterError, Transport
from controller.cluster.rarer import Objects, Rarer, name_of
from controller.cluster.watching import (
    SILENCE,
    Began,
    Completed,
    Context,
    Gone,
    Progress,
    Refused,
    Resumed,
    Seen,
    Source,
    followed,
)
from controller.domain.kube import DaemonSet, DisruptionBudget, Job, Node, Pod

log = logging.getLogger(__name__)
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
SERVED_AGAIN = 600.0  # seconds between two looks at what the API server has
DISCOVERY = "discovery"
DECISIVE = ("nodes", "pods")  # without which nothing can be decided
PATIENCE = 60.0  # seconds of nothing but errors, after which somebody should know


class KindState(msgspec.Struct, frozen=True):
    """How the watch of one kind fares, for the status."""

    kind: str
    synced: bool
    count: int
    last_event: float | None  # wall time
    error: str  # in one line; empty when all is well


class WatchedView(Rarer):
    """Implements `protocol.View`. `on_change` is called with "demand", "capacity" or "other".

    It is called for changes that matter only, and once for everything when the last first list is complete:
    whoever looked before that saw nothing, and must not be left waiting. It must not wait itself. `declared` are the
    resources that count like GPUs.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        on_change: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
        clock: Callable[[], float],
        wall: Callable[[], float],
        decoder: Decoder | None = None,
        declared: Iterable[str] = (),
    ) -> None:
        self.decoder = decoder or Decoder()
        self._on_change = on_change
        self._context = Context(transport, sleep, rng, clock, wall)
        self._pods = PodIndex(declared, wall, clock)
        self._nodes: Objects[Node] = Objects(Matter.CAPACITY)
        self._named: tuple[Node, ...] = ()  # what `_by_name` was made of
        self._by_name: dict[str, Node] = {}
        self._daemon_sets: Objects[DaemonSet] = Objects(Matter.OTHER)
        self._jobs: Objects[Job] = Objects(Matter.OTHER)
        self._budgets: Objects[DisruptionBudget] = Objects(Matter.OTHER)
        decode = self.decoder
        self._watched: dict[str, tuple[Source[Any], Any, Matter]] = {
            "pods": (
                Source("pods", "/api/v1/pods", decode.versioned_pod, UNFINISHED),
                self._pods,
                Matter.DEMAND,
            ),
            "nodes": (Source("nodes", "/api/v1/nodes", decode.versioned_node), self._nodes, Matter.CAPACITY),
            "daemonsets": (
                Source("daemonsets", "/apis/apps/v1/daemonsets", decode.versioned_daemon_set),
                self._daemon_sets,
                Matter.OTHER,
            ),
            "poddisruptionbudgets": (
                Source(
                    "poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets", decode.versioned_budget
                ),
                self._budgets,
                Matter.OTHER,
            ),
            "jobs": (Source("jobs", "/apis/batch/v1/jobs", decode.versioned_job), self._jobs, Matter.OTHER),
        }
        super().__init__()
        for each in kinds.ALWAYS:
            self._add(each)
        self._unreadable: set[str] = set()
        self._progress = {kind: Progress() for kind in self._watched}
        for kind in DECISIVE:
            self._progress[kind].hears = self._heard
        self._was_old = False
        self._unsynced = {*self._watched, DISCOVERY}
        self._whole = asyncio.Event()

    @property
    def synced(self) -> bool:
        return not self._unsynced

    async def wait_synced(self) -> None:
        await self._whole.wait()

    def state(self) -> tuple[KindState, ...]:
        return tuple(
            KindState(kind, kind not in self._unsynced, len(kept), progress.last_event, progress.error)
            for (kind, (_, kept, _)), progress in zip(
                self._watched.items(), self._progress.values(), strict=True
            )
        )

    def blind(self) -> dict[str, str]:
        """Kinds of which nothing was heard but errors for a minute, with the last one; refused ones at once."""
        now = self._context.wall()
        return {
            kind: progress.error
            for kind, progress in self._progress.items()
            if progress.failing is not None
            and kind not in self._unreadable
            and (progress.refused or now - progress.failing > PATIENCE)
        }

    def old(self) -> str:
        """Why the picture of pods or nodes is too old to decide anything on, or "": no watch that lives is silent for so
        long. After an outage its first word is waited for, which may be a bookmark a minute or two later, and that it
        came is told: that a watch was opened again is not enough, since what it has to tell is still to come."""
        now = self._context.clock()
        for kind in DECISIVE:
            heard = self._progress[kind].heard
            if heard is not None and now - heard > SILENCE:
                self._was_old = True
                return f"nothing was heard of {kind} for {SILENCE:g} s, so nothing is decided"
        self._was_old = False
        return ""

    def _heard(self) -> None:
        """Whoever was told that the picture is old has decided nothing, and a bookmark by itself wakes nobody."""
        if self._was_old and not self.old():
            self._on_change("capacity")

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes.every()

    def node(self, name: str) -> Node | None:
        now = self._nodes.every()
        if now is not self._named:
            self._named = now
            self._by_name = {node.name: node for node in now}
        return self._by_name.get(name)

    def pods(self) -> tuple[Pod, ...]:
        """All unfinished pods, for snapshots."""
        return self._pods.every()

    def declare(self, declared: Iterable[str]) -> None:
        """Other resources count like GPUs from now on."""
        self._pods.declare(declared)

    def waiting_pods(self) -> tuple[Pod, ...]:
        return self._pods.waiting()

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return self._pods.on(node)

    def used_until(self, node: str) -> float:
        return self._pods.used_until(node)

    def guarded_pods(self) -> tuple[Pod, ...]:
        return self._pods.guarded()

    def daemonsets(self) -> tuple[DaemonSet, ...]:
        return self._daemon_sets.every()

    def jobs(self) -> tuple[Job, ...]:
        return self._jobs.every()

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return self._budgets.every()

    def unreadable(self) -> tuple[str, ...]:
        """Optional kinds that the API server has and that may not be read, such as `podgroups.scheduling.run.ai`."""
        return tuple(sorted(self._unreadable))

    def _add(self, kind: Kind[Any]) -> None:
        kept = self.keep(kind)
        source: Source[Any] = Source(name_of(kind), kind.path, self.decoder.versioned(kind))
        self._watched[name_of(kind)] = (source, kept, Matter.OTHER)

    async def run(self) -> None:
        """Follow every kind until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._watched:
                group.create_task(self._keep(kind), name=f"watch {kind}")
            group.create_task(self._discover(group), name=DISCOVERY)

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        """Begin to watch optional kinds as soon as the API server has them."""
        wait = 1.0
        while True:
            try:
                found = await served(self._context.transport, kinds.OPTIONAL)
            except ClusterError as error:
                log.warning("what the API server has cannot be read: %s", error.message)
                await self._context.sleep(wait)
                wait = min(30.0, 2 * wait)
                continue
            wait = 1.0
            for kind in found:
                if kind.resource in self._watched:
                    continue
                self._add(kind)
                self._progress[kind.resource] = Progress()
                if DISCOVERY in self._unsynced:  # later ones are no reason to stop deciding
                    self._unsynced.add(kind.resource)
                group.create_task(self._keep(kind.resource), name=f"watch {kind.resource}")
            self._ready(DISCOVERY)
            await self._context.sleep(SERVED_AGAIN)

    def _unread(self, kind: str) -> None:
        """It is told once, and what depends on the kind is not planned."""
        if kind not in self._unreadable:
            self._unreadable.add(kind)
            log.warning(
                "%s cannot be read, so no machine is bought for pods that need it: %s",
                kind,
                self._progress[kind].error,
            )

    def _refused(self, kind: str) -> None:
        """An optional kind that is gone or may not be read holds nobody up; what was known of it is not believed."""
        self._unread(kind)
        kept = self._watched[kind][1]
        for uid in kept.uids():
            kept.drop(uid)
        self._ready(kind)

    async def _keep(self, kind: str) -> None:
        """One kind's watch. A fault of our own costs a new list, never the others' watches."""
        while True:
            try:
                await self._follow(kind)
            except Exception as error:
                log.exception("the watch of %s failed and is begun anew", kind)
                self._progress[kind].error = f"internal: {type(error).__name__}: {error}"
            await self._context.sleep(5.0)

    async def _follow(self, kind: str) -> None:
        source, kept, whole = self._watched[kind]
        unseen: set[str] = set()
        async with contextlib.aclosing(followed(source, self._context, self._progress[kind])) as changes:
            async for change in changes:
                matter = Matter.NOBODY
                match change:
                    case Seen(found):
                        unseen.discard(found.uid)
                        matter = kept.put(found)
                    case Gone(found):
                        matter = kept.drop(found.uid)
                    case Began():
                        if self.is_optional(kind) and self._progress[kind].refused:
                            self._refused(kind)
                        unseen = kept.uids()
                    case Refused() if self.is_optional(kind) and kind not in self._unreadable:
                        self._unread(kind)
                        matter = whole
                    case Resumed() if kind in self._unreadable:
                        self._unreadable.discard(kind)
                        matter = whole
                    case Completed():
                        self._unreadable.discard(kind)
                        for uid in unseen:
                            matter |= kept.drop(uid)
                        unseen = set()
                        self._completed(kind)
                if matter and kind not in self._unsynced:
                    for name in matter.kinds:
                        self._on_change(name)

    def _completed(self, kind: str) -> None:
        if kind not in self._unsynced:
            trim()
        self._ready(kind)

    def _ready(self, kind: str) -> None:
        """The first lists are one change, however many kinds and objects they had: before all of them nothing is decided."""
        if kind not in self._unsynced:
            return
        self._unsynced.discard(kind)
        if not self._unsynced:
            settle()
            self._whole.set()
            for name in (Matter.DEMAND | Matter.CAPACITY).kinds:
                self._on_change(name)
