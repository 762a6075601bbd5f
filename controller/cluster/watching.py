"""One kind of object, followed for ever, in three generators of one job each.

`followed` lists again when it must and waits between attempts, `listed_then_watched` is one list and
the watches that continue it, `one_watch` is a single HTTP stream. Trouble *ends* an inner generator; what
comes next is the outer one's decision. Quirks: a `continue` token lives five minutes (410: begin again);
a version that etcd has compacted is told as HTTP 410 or as an ERROR event inside a 200; bookmarks keep a
quiet kind's version young, and their absence tells of a server that vanished without a word.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from controller.cluster import wire
from controller.cluster.answers import Status, refused
from controller.cluster.decode import Unreadable
from controller.cluster.protocol import ClusterError, Transport

T = TypeVar("T")
PAGE = 250
LIST_TIMEOUT = 60.0
WATCH_SECONDS = (300, 600)  # as long as other clients of the API server: sixteen kinds are watched
SILENCE = 150.0  # the first bookmark comes after up to two minutes, later ones every minute
LONGEST = 30.0
SLOWLY = 30.0
WATCH_CALM = 5.0  # a watch that lasted longer was no failure, even when nothing happened
LIST_CALM = 60.0
# Seconds of refusals: an API server that has just started knows nobody's rights for a moment.
NO_ACCIDENT = 10.0


class Source(msgspec.Struct, Generic[T], frozen=True):
    """What to follow: `decode` gives an object and its resourceVersion, or raises Unreadable."""

    kind: str
    path: str
    decode: Callable[[msgspec.Raw], tuple[T, str]]
    field_selector: str = ""


class Began(msgspec.Struct, frozen=True):
    """A list begins: what is known and not seen before `Completed` has vanished."""


class Completed(msgspec.Struct, frozen=True):
    """The list was complete."""


class Seen(msgspec.Struct, Generic[T], frozen=True):
    object: T


class Gone(msgspec.Struct, Generic[T], frozen=True):
    object: T  # as it was last


class Refused(msgspec.Struct, frozen=True):
    """The server will not go on telling, and has said so for a while: what is known grows old."""


class Resumed(msgspec.Struct, frozen=True):
    """After that it tells again, from where it had stopped."""


Change = Began | Completed | Seen[T] | Gone[T] | Refused | Resumed


class Progress(msgspec.Struct):
    """Where one kind stands; written by the generators, read for the status."""

    version: str = ""
    last_event: float | None = None
    heard: float | None = None  # the same, by the monotonic clock
    error: str = ""
    refused: bool = False  # 401, 403 or 404: nothing that passes by itself
    retry_after: float = 0.0
    moved: bool = False  # something arrived since the last wait
    failing: float | None = None  # wall time since when nothing but errors came
    hears: Callable[[], None] = lambda: None  # is called at each word, also at one that changes nothing

    def fail(self, error: ClusterError, now: float) -> None:
        self.error = error.message
        self.failing = now if self.failing is None else self.failing
        self.refused = error.kind in ("unauthorised", "forbidden", "not_found")
        self.retry_after = error.retry_after or 0.0

    def well(self) -> None:
        self.error, self.refused, self.retry_after, self.failing = "", False, 0.0, None

    def hear(self, now: float, moment: float) -> None:
        self.last_event, self.heard = now, moment
        self.hears()

    def arrived(self, now: float, moment: float) -> None:
        self.hear(now, moment)
        self.moved = True
        if self.error:
            self.well()


class Context(msgspec.Struct, frozen=True):
    """What the generators are given from outside."""

    transport: Transport
    sleep: Callable[[float], Awaitable[None]]
    rng: random.Random
    clock: Callable[[], float]
    wall: Callable[[], float]


class Pace:
    """The waits between attempts: the first ones short, at most 30 seconds, never in step with others."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._failures = 0
        self._refusals = 0

    async def wait(self, progress: Progress, *, well: bool) -> None:
        """Before the next attempt. `well`: the last one was worth something; one is repeated at once then."""
        if well:
            self._failures = 0
        seconds = 0.0
        if progress.error or self._failures:
            seconds = min(LONGEST, 0.1 * 2 ** min(self._failures, 16))
        if progress.refused:
            # An API server that has just started knows nobody's rights for a moment; later it is no accident.
            seconds = min(SLOWLY, 2.0 ** min(self._refusals, 16))
        self._refusals = self._refusals + 1 if progress.refused else 0
        seconds = max(seconds, min(progress.retry_after, LONGEST))
        self._failures += 1
        if seconds:
            await self._context.sleep(seconds * self._context.rng.uniform(0.8, 1.0))


async def followed(
    source: Source[T], context: Context, progress: Progress
) -> AsyncGenerator[Change[T], None]:
    """For ever: list, watch, and list again when the watch lost its place."""
    pace = Pace(context)
    while True:
        began = context.clock()
        async with contextlib.aclosing(listed_then_watched(source, context, progress)) as changes:
            async for change in changes:
                yield change
        # A server that calls every version too old would be listed without end.
        await pace.wait(progress, well=context.clock() - began > LIST_CALM)


async def listed_then_watched(
    source: Source[T], context: Context, progress: Progress
) -> AsyncGenerator[Change[T], None]:
    """One complete list and the watches that continue it. Ends when the list fails or its version is too old."""
    yield Began()
    progress.version = version = ""
    try:
        async with contextlib.aclosing(pages(source, context, progress)) as listed:
            async for version, objects in listed:  # noqa: B007  (the last page's is used)
                for found in objects:
                    yield Seen(found)
                objects.clear()
    except ClusterError as error:
        progress.fail(error, context.wall())
        return
    progress.version = version
    progress.well()
    yield Completed()
    progress.hear(context.wall(), context.clock())  # half a list is no picture of now
    pace = Pace(context)
    while progress.version:
        began, progress.moved = context.clock(), False
        async with contextlib.aclosing(one_watch(source, context, progress)) as changes:
            async for change in changes:
                yield change
        if progress.version:
            await pace.wait(progress, well=progress.moved or context.clock() - began > WATCH_CALM)


async def pages(
    source: Source[T], context: Context, progress: Progress
) -> AsyncGenerator[tuple[str, list[T]], None]:
    """A list, page by page, so that never more than one page's JSON is in memory. A 410 ends it: ClusterError."""
    token = ""
    while True:
        query = {"limit": str(PAGE)}
        if source.field_selector:
            query["fieldSelector"] = source.field_selector
        if token:
            query["continue"] = token
        page = _page(
            source, await context.transport.request("GET", source.path, query=query, timeout=LIST_TIMEOUT)
        )
        progress.last_event = context.wall()
        version, token = page.metadata.resourceVersion, page.metadata.next
        objects: list[T] = []
        for raw in page.items or ():
            with contextlib.suppress(Unreadable):  # it has been logged
                objects.append(source.decode(raw)[0])
        del page  # the items are views of the page's bytes
        yield version, objects
        if not token:
            return


async def one_watch(
    source: Source[T], context: Context, progress: Progress
) -> AsyncGenerator[Change[T], None]:
    """One HTTP stream from `progress.version`, which moves on with it and is emptied when it is too old."""
    query = {
        "watch": "true",
        "resourceVersion": progress.version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(context.rng.randint(*WATCH_SECONDS)),
    }
    if source.field_selector:
        query["fieldSelector"] = source.field_selector
    was_refused = progress.refused
    stream = context.transport.stream(source.path, query=query, read_timeout=SILENCE)
    try:
        async with contextlib.aclosing(stream) as lines:
            async for raw in lines:
                line = _line(raw)
                if line.type == "ERROR":
                    raise _told(source, line)
                progress.arrived(context.wall(), context.clock())
                if was_refused:
                    was_refused = False
                    yield Resumed()
                if line.type == "BOOKMARK":
                    progress.version = wire.identity(line.object).metadata.resourceVersion or progress.version
                    continue
                try:
                    found, version = source.decode(line.object)
                except Unreadable as error:
                    progress.version = error.version or progress.version
                    continue
                progress.version = version or progress.version
                yield Gone(found) if line.type == "DELETED" else Seen(found)
        progress.well()
        if was_refused:
            yield Resumed()
    except ClusterError as error:
        if error.status == 410:
            progress.version = ""  # no failure: time has passed
            return
        progress.fail(error, context.wall())
        if progress.refused and context.wall() - (progress.failing or 0.0) >= NO_ACCIDENT:
            yield Refused()


def _page(source: Source[T], raw: bytes) -> wire.Page:
    try:
        return wire.page(raw)
    except msgspec.MsgspecError as error:
        raise ClusterError(
            "unreachable", f"a list of {source.kind} was answered with something else ({error})"
        ) from None


def _line(raw: bytes) -> wire.Line:
    try:
        return wire.line(raw)
    except msgspec.MsgspecError as error:  # half a line, or a proxy's page: this stream is of no more use
        raise ClusterError("unreachable", f"a watch sent something that is no event ({error})") from None


def _told(source: Source[T], line: wire.Line) -> ClusterError:
    try:
        code = msgspec.json.decode(line.object, type=Status).code or 500
    except msgspec.MsgspecError:
        code = 500
    return refused(f"watch {source.kind}", code, bytes(line.object))
