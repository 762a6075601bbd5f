"""The thin HTTP shell around a world's core: aiohttp carries requests, answers, streams and faults.

The core stays free of sockets. What is dealt with here: clients that go away in the middle of a watch
(aiohttp tells only by cancelling the handler), connections cut on purpose (only an aborted transport
looks like that to a client), timers of a core, and a prompt end with streams still open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl as tls_module
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from controller.sandbox.faults import Faults, Rule
from controller.sandbox.wire import Request, Response, Stream

LARGEST_BODY = 16 * 1024 * 1024
DRIPS = 200  # pieces of an answer that drips, at most
SHORTEST_TICK = 0.001  # a core whose timer is due must not starve the server
log = logging.getLogger(__name__)


class Core(Protocol):
    """A world: it may also have `tick() -> float | None`, which fires the timers that are due and
    tells the real seconds until the next one, None when there is none; and `faults`, the rules that it
    sets itself, at times of its own."""

    def handle(self, request: Request) -> Response: ...


@dataclass
class Running:
    url: str
    _runner: web.AppRunner
    _tasks: set[asyncio.Task[object]] = field(default_factory=set)

    async def stop(self) -> None:
        for site in list(self._runner.sites):
            await site.stop()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._runner.cleanup()


async def serve(
    core: Core,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    faults: Faults | None = None,
    tls: tls_module.SSLContext | None = None,
) -> Running:
    """Serve a core until `stop`; port 0 takes a free one, which the url names."""
    carrier = _Carrier(core, faults or getattr(core, "faults", None) or Faults())
    if hasattr(core, "faults"):
        core.faults = carrier.faults
    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_route("*", "/{path:.*}", carrier.carry)
    # Cancelling the handler is how aiohttp tells that the client has left.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls, backlog=512).start()
    bound = runner.addresses[0][1]
    running = Running(f"{'https' if tls else 'http'}://{host}:{bound}", runner, carrier.tasks)
    tick: Callable[[], float | None] | None = getattr(core, "tick", None)
    if tick is not None:
        ticker = asyncio.create_task(_keep_time(tick, carrier.touched))
        carrier.tasks.add(ticker)
        ticker.add_done_callback(carrier.tasks.discard)
    return running


async def _keep_time(tick: Callable[[], float | None], touched: asyncio.Event) -> None:
    """Fire the core's timers; any request may have set a sooner one."""
    while True:
        touched.clear()
        try:
            pause = tick()
        except Exception:
            log.exception("a timer of the sandbox failed")
            pause = 1.0
        with contextlib.suppress(TimeoutError):
            # Not wait_for: on Python 3.11 it may swallow a cancellation that arrives together with the event.
            async with asyncio.timeout(None if pause is None else max(pause, SHORTEST_TICK)):
                await touched.wait()


class _Carrier:
    def __init__(self, core: Core, faults: Faults) -> None:
        self.core = core
        self.faults = faults
        self.tasks: set[asyncio.Task[object]] = set()
        self.touched = asyncio.Event()

    async def carry(self, raw: web.Request) -> web.StreamResponse:
        async with self._tracked():
            request = await _read(raw)
            control = self.faults.handle(request)
            if control is not None:
                return await _send(raw, control)
            rule = self.faults.choose(request)
            if rule is None:
                return await _send(raw, self._handle(request))
            return await self._carry_with(rule, raw, request)

    @contextlib.asynccontextmanager
    async def _tracked(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is handled outside of a task")
        self.tasks.add(task)
        try:
            yield
        finally:
            self.tasks.discard(task)

    def _handle(self, request: Request) -> Response:
        try:
            return self.core.handle(request)
        finally:
            self.touched.set()

    async def _carry_with(self, rule: Rule, raw: web.Request, request: Request) -> web.StreamResponse:
        response = self._handle(request) if rule.commits else None
        if response is not None and rule.fault == "twice":
            if response.stream is not None:
                response.stream.abandon()
            response = self._handle(request)
        if (
            response is not None
            and response.stream is not None
            and (rule.cuts or rule.fault == "answer_after")
        ):
            response.stream.abandon()
        if rule.fault in ("hang", "hang_after"):
            await (asyncio.Event().wait() if rule.seconds is None else asyncio.sleep(rule.seconds))
        elif rule.seconds and rule.fault != "drip":
            await asyncio.sleep(rule.seconds)
        if rule.cuts:
            return _cut(raw)
        answer = rule.answer(response)
        if answer.stream is None and rule.fault in ("drip", "cut_answer"):
            return await _send_badly(raw, answer, rule)
        return await _send(raw, answer)


def _cut(raw: web.Request) -> web.StreamResponse:
    if raw.transport is not None:
        raw.transport.abort()
    return web.Response()  # aiohttp wants one; it cannot be sent any more


async def _send_badly(raw: web.Request, response: Response, rule: Rule) -> web.StreamResponse:
    """Bit by bit, or only the first half of what the length promises."""
    answer = web.StreamResponse(status=response.status, headers=dict(response.headers))
    answer.content_length = len(response.body)
    try:
        await answer.prepare(raw)
        if rule.fault == "cut_answer":
            await answer.write(response.body[: len(response.body) // 2])
            await asyncio.sleep(0.01)  # so that the half leaves before the end of the connection
            return _cut(raw)
        size = max(1, -(-len(response.body) // DRIPS))
        pieces = [response.body[at : at + size] for at in range(0, len(response.body), size)]
        for piece in pieces:
            await answer.write(piece)
            await asyncio.sleep((rule.seconds or 0.0) / len(pieces))
        await answer.write_eof()
    except ConnectionError:
        pass  # the client left while we were writing
    return answer


async def _read(raw: web.Request) -> Request:
    query = {key: raw.query.getall(key) for key in raw.query}
    headers = {key.lower(): value for key, value in raw.headers.items()}
    return Request(raw.method, raw.path, query, headers, await raw.read())


async def _send(raw: web.Request, response: Response) -> web.StreamResponse:
    if response.stream is not None:
        return await _send_stream(raw, response, response.stream)
    return web.Response(status=response.status, body=response.body, headers=dict(response.headers))


async def _send_stream(raw: web.Request, response: Response, stream: Stream) -> web.StreamResponse:
    woken = asyncio.Event()
    stream.wake = woken.set
    answer = web.StreamResponse(status=response.status, headers=dict(response.headers))
    if raw.version >= (1, 1):
        answer.enable_chunked_encoding()
    finished = False
    try:
        await answer.prepare(raw)
        while True:
            woken.clear()
            closed = stream.closed  # read first: what was put before the end is still drained
            for chunk in stream.drain():
                await answer.write(chunk)
            if closed:
                break
            await woken.wait()
        await answer.write_eof()
        finished = True
    except ConnectionError:
        return answer  # the client left while we were writing
    finally:
        stream.wake = None
        if not finished:
            stream.abandon()
    return answer
