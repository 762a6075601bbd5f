"""One process of the controller: the real program, its own clocks, and the ways in which a process can end.

Its tasks are told apart by a context variable, and each of their steps passes here. So it can die at its
n-th await, or stand still (SIGSTOP, a paused VM) while the world goes on. What is dead sends nothing any
more: its tasks are cancelled, and whatever they would still like to do ends at a cut connection.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any

from controller.app.exits import Ends
from controller.app.parts import Now
from controller.app.program import Program
from controller.app.start import prepare
from controller.cloud.verda.provider import VerdaCloud
from controller.cloud.verda.wire import Login
from controller.config.load import Loaded
from controller.sandbox.simulator.clock import nap
from controller.sandbox.simulator.ground import Ground, GroundConnection
from controller.sandbox.simulator.remembered import Remembered
from controller.sandbox.simulator.sky import Air, Session, Sky

_HERE: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
LATENCY = (0.002, 0.02)  # seconds, one way
_LEAST, _MORE = LATENCY[0], LATENCY[1] - LATENCY[0]
RESTARTS_AFTER = 5.0
CRASHED = "crashed:"


class _Steps(Coroutine[Any, Any, Any]):
    """A task's coroutine, with its process between any two steps."""

    __slots__ = ("_coro", "_held", "_process")

    def __init__(self, coro: Coroutine[Any, Any, Any], process: Process) -> None:
        self._coro = coro
        self._process = process
        self._held: BaseException | None = None

    def send(self, value: Any) -> Any:
        process = self._process
        if process.frozen is not None:
            return process.hold()
        process.awaits += 1
        if process.awaits == process.dies_at or (process.dies is not None and process.dies_here()):
            process.die()
        if self._held is not None:
            error, self._held = self._held, None
            return self._coro.throw(error)
        return self._coro.send(value)

    def throw(self, *error: Any) -> Any:
        if self._process.frozen is not None:
            self._held = error[0] if isinstance(error[0], BaseException) else error[0]()
            return self._process.hold()
        return self._coro.throw(*error)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise TypeError("a task's own coroutine is not awaited")


class _Task(asyncio.Task[Any]):
    """Its place in a set is that of its birth, not of its address: sets of tasks (a group's, those of a wait, those of
    a process) are gone through in the same order every time."""

    def __init__(self, coro: Any, *, number: int, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        self._number = number
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number


def tasks_of_processes() -> Callable[..., asyncio.Task[Any]]:
    """A task factory. The context is not given by `create_task`: the current one is copied."""
    born = itertools.count(1)

    def made(
        loop: asyncio.AbstractEventLoop, coro: Any, *, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        process = _HERE.get()
        if process is None:
            return _Task(coro, number=next(born), loop=loop, context=context)
        task = _Task(_Steps(coro, process), number=next(born), loop=loop, context=context)
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
        return task

    return made


def whose(told: Mapping[str, Any]) -> Process | None:
    """Of what a loop tells about a task or a callback that fell: the process it belonged to."""
    task, handle = told.get("task") or told.get("future"), told.get("handle")
    if isinstance(task, asyncio.Task):
        steps = task.get_coro()
        return steps._process if isinstance(steps, _Steps) else None
    return handle._context.get(_HERE) if handle is not None else None


def has_a_home(told: Mapping[str, Any]) -> bool:
    """Whether it can be said whose it was: a bare future, as a call of a dead process leaves it, is anybody's."""
    return told.get("handle") is not None or isinstance(told.get("task") or told.get("future"), asyncio.Task)


class _Naps(Now, frozen=True):
    async def sleep(self, seconds: float) -> None:
        await (nap(seconds) if seconds > 0 else asyncio.sleep(0))


class Process:
    def __init__(
        self,
        name: str,
        loaded: Loaded,
        *,
        loop: asyncio.AbstractEventLoop,
        sky: Sky,
        ground: Ground,
        wall: Callable[[], float],
        rng: random.Random,
        ended: Callable[[Process, str], None],
    ) -> None:
        self.name = name
        self.program: Program | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.awaits = 0
        self.dies_at = 0
        self.dies: Callable[[int], bool] | None = None  # asked at each await whether it dies there
        self.dead = False
        self.frozen: asyncio.Future[None] | None = None
        self.stood_still_at = -1e9  # when it went on after it had stood still
        self.skew = 0.0  # of its wall clock
        self._loaded = loaded
        self._loop = loop
        self._ended = ended
        self._rng = rng
        verda = loaded.settings.verda
        self.air = Air(loop, sky, latency=self._latency, read_timeout=verda.read_timeout.total_seconds())
        self.connection = GroundConnection(ground, latency=self._latency)
        self.now = _Naps(wall=lambda: wall() + self.skew, monotonic=loop.time, rng=rng)
        # The same for all: other credentials would be another account, whose answers are doubted.
        login = Login(client_id="simulated", client_secret=name, base_url="memory://cloud/v1")
        self.cloud = VerdaCloud(
            login=lambda: login,
            clock=self.now.wall,
            monotonic=self.now.monotonic,
            sleep=self.now.sleep,
            rng=rng,
            connect_timeout=verda.connect_timeout.total_seconds(),
            read_timeout=verda.read_timeout.total_seconds(),
            types_ttl=loaded.settings.timing.catalogue.total_seconds() / 2,
            currency=verda.currency,
            connect=lambda known: Session(self.air, known, loop.time),
            workers=lambda most, what: self.air,
        )

    def _latency(self) -> float:
        return _LEAST + _MORE * self._rng.random()

    # -- life

    def start(self) -> None:
        self.in_its_name(lambda: self._loop.create_task(self._run()))

    def in_its_name(self, work: Callable[[], object]) -> None:
        """What begins in it belongs to this process."""
        context = contextvars.copy_context()
        context.run(_HERE.set, self)
        context.run(work)

    async def _run(self) -> None:
        why = "ended by itself"
        try:
            self.program = await prepare(
                self._loaded, self.connection, self.cloud, self.now, identity=self.name
            )
            self.program.loop.make_plan = Remembered()
            await self.program.run(None)
        except Ends as end:
            why = "; ".join(end.lines)
        except Exception as error:  # noqa: BLE001 - a process ends by it, and so it is told
            why = f"{CRASHED} {error!r} {error.__cause__ or ''}"
        except asyncio.CancelledError:
            why = "was stopped"
            raise
        finally:
            if not self.dead:
                self._cut()
                self._ended(self, why)

    def die(self) -> None:
        """As by SIGKILL: from now on nothing of it reaches anybody."""
        if self.dead:
            return
        self._cut()
        for task in list(self.tasks):
            task.cancel()
        self._ended(self, "killed")

    def dies_here(self) -> bool:
        """Nobody dies twice: its tasks make steps of their own while they are cancelled."""
        return self.dies is not None and not self.dead and self.dies(self.awaits)

    def _cut(self) -> None:
        self.dead = self.air.dead = self.connection.dead = True

    def stand_still(self, seconds: float) -> None:
        if self.frozen is not None or self.dead:
            return
        self.frozen = self._loop.create_future()
        self.air.frozen_until = self._loop.time() + seconds
        self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        frozen, self.frozen = self.frozen, None
        self.stood_still_at = self._loop.time()
        if frozen is not None and not frozen.done():
            frozen.set_result(None)

    def hold(self) -> asyncio.Future[None]:
        """What a step that may not be made waits for; a task knows it by this mark, as `await` sets it."""
        future: asyncio.Future[None] = self._loop.create_future()

        def go_on(_: object) -> None:
            if not future.done():
                future.set_result(None)

        if self.frozen is not None:
            self.frozen.add_done_callback(go_on)
        future._asyncio_future_blocking = True
        return future

    # -- questions

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"process": self.name, "awaits": self.awaits, "dead": self.dead}
