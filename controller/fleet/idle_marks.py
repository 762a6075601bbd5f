"""`gpu-autoscaler/idle-since` on the Nodes: what was wished last counts at once, and is written until it is there.

Between a decision and the watch that shows it lie a write, its retries and the lag of the watch. A plan that
looks only at the Node would meanwhile take a mark from before the last use for the truth, or begin each cooldown
anew with every pass; then cooldowns are counted wrongly, and machines leave in the wrong order. A use that began
and ended between two passes takes the mark away, too.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from controller.cluster.protocol import View, Writer
from controller.domain import names
from controller.domain.kube import Node
from controller.fleet.removal import SOFT
from controller.fleet.tasks import Tasks
from controller.planning.scale_down import parse_time

# What was written is not seen at once: the watch lags behind. After that the Node is right again.
_WATCH_LAG = 10.0
_ROUNDED = 0.001  # marks are written in whole milliseconds


@dataclass(slots=True)
class _Mark:
    text: str | None  # None: not idle
    at: float  # when it was wished, later when it was written
    avoid: bool | None = None  # whether the scheduler is to prefer other nodes; None: as it is
    written: bool = False


class IdleMarks:
    def __init__(
        self, writer: Writer, tasks: Tasks, clock: Callable[[], float], may_act: Callable[[], bool]
    ) -> None:
        self._writer = writer
        self._tasks = tasks
        self._clock = clock
        self._may_act = may_act
        self._marks: dict[str, _Mark] = {}  # by name, of late

    def __len__(self) -> int:
        return len(self._marks)

    def mark(self, name: str, since: float | None, avoid: bool | None = None) -> None:
        """Idle since then, or not idle (None); `avoid`: whether other nodes are better for pods; None: as it is."""
        text = (
            None if since is None else datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
        )
        known = self._marks.get(name)
        if known is None or known.text != text or avoid not in (None, known.avoid):
            self._marks[name] = _Mark(text, self._clock(), False if text is None else avoid)
        self._write(name)

    def cleared(self, name: str) -> None:
        """A removal that was called off took it away."""
        self._marks[name] = _Mark(None, self._clock(), avoid=False, written=True)

    def forget(self, name: str) -> None:
        self._marks.pop(name, None)

    def forget_all(self) -> None:
        """Somebody else may have led meanwhile: what the Nodes say is newer than what is remembered."""
        self._marks.clear()

    def follow(self, there: Container[str]) -> None:
        """Write what is not written yet; believe the Node again where it had time to show what was.

        `there` are the machines that exist. Without the lease nothing is remembered: whoever leads marks them.
        """
        now, leads = self._clock(), self._may_act()
        for name, mark in list(self._marks.items()):
            seen = mark.written and not 0 <= now - mark.at < _WATCH_LAG
            if seen or not leads or name not in there:
                del self._marks[name]
            else:
                self._write(name)

    def shown(self, node: Node, view: View) -> Node:
        """The Node with the mark that it will have, and the taint."""
        mark = self._marks.get(node.name)
        if mark is not None and mark.avoid not in (None, node.has_taint(SOFT.key, SOFT.effect)):
            taints = tuple(taint for taint in node.taints if taint != SOFT)
            node = replace(node, taints=(*taints, SOFT) if mark.avoid else taints)
        has = node.annotations.get(names.NODE_IDLE_SINCE)
        text = has if mark is None else mark.text
        if (
            text is not None
            and (used := view.used_until(node.name))
            and (parse_time(text) or 0.0) + _ROUNDED < used
        ):
            text = None
        if text == has:
            return node
        notes = {key: note for key, note in node.annotations.items() if key != names.NODE_IDLE_SINCE}
        return replace(node, annotations=notes if text is None else {**notes, names.NODE_IDLE_SINCE: text})

    def _write(self, name: str) -> None:
        mark = self._marks[name]
        if not mark.written:
            self._tasks.start(f"mark {name}", lambda: self._until_written(name))

    async def _until_written(self, name: str) -> None:
        while (mark := self._marks.get(name)) is not None and not mark.written and self._may_act():
            if mark.avoid is False:
                # The mark goes last: it tells whoever leads next that something is to be done.
                await self._writer.taint(name, remove=(SOFT,))
            await self._writer.annotate(name, {names.NODE_IDLE_SINCE: mark.text})
            if mark.avoid and self._marks.get(name) is mark and self._may_act():
                await self._writer.taint(name, add=(SOFT,))
            mark.written, mark.at = True, self._clock()
