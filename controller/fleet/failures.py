"""What machines that came to nothing say, as long as it matters: for the pods that still wait, for their sort, for their pool.

Remembered in the ledger, since a restart would otherwise buy the same again. Machines that never became usable are
counted in tries: those ordered together are one. One that is of use ends what is held against its type in its location.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec.structs import replace

from controller.domain.machine import ONCE_READY, Machine
from controller.domain.plan import InVain, Tried
from controller.domain.reason import Reason
from controller.domain.tries import counted, ended_by_later, later, refuted, with_failure, with_use
from controller.fleet.book import Book

_GIVEN_UP = 8  # machines that are remembered of those that were bought in vain for a pod


class Failures:
    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change: it is to be stored."""
        self._changed = changed
        # Changed in place only: whoever holds one of these sees what is known now.
        self.disappointed: dict[str, list[str]] = {}
        self.given_up: dict[str, dict[str, Reason]] = {}
        self.tried: dict[str, Tried] = {}  # by sort
        self.in_vain: dict[str, InVain] = {}

    def take(self, book: Book) -> None:
        """What stands there. Copied, so that the book goes on saying what was read while this changes."""
        self.disappointed.clear()
        self.disappointed.update({pod: list(found) for pod, found in book.disappointed.items()})
        self.given_up.clear()
        self.given_up.update({pod: dict(found) for pod, found in book.given_up.items()})
        self.tried.clear()
        self.tried.update(book.tried)
        self.in_vain.clear()
        self.in_vain.update(book.in_vain)

    @property
    def may_pass(self) -> bool:
        """Whether anything is known that ends where machines start in another way."""
        return bool(self.given_up or self.in_vain)

    def pass_over(self) -> None:
        """Machines start in another way: those that never became usable say nothing any more."""
        self.given_up.clear()
        self.tried.clear()
        self.in_vain.clear()
        self._changed()

    def give_up(self, pod: str, machine: str, reason: Reason) -> None:
        """The machine was bought for the pod, which still waits, and never became usable, or broke before it ran."""
        known = self.given_up.setdefault(pod, {})
        if machine not in known:
            known[machine] = reason
            while len(known) > _GIVEN_UP:
                del known[next(iter(known))]
            self._changed()

    def tried_in_vain(self, machine: Machine, reason: Reason, now: float, *, first: bool = False) -> None:
        """A machine never became usable; one ordered before its try began to fail is of that try. `first`: some pod
        that it was bought for had none in vain before."""
        known = self.in_vain.get(machine.pool)
        self.in_vain[machine.pool] = with_failure(known, machine, reason, now, first=first)
        self._tried(machine.sort, machine, now, now)

    def late(self, machine: Machine, now: float) -> None:
        """The cloud did not start it in time, which says nothing of how machines of its pool start."""
        self._tried(machine.sort, machine, now, now)

    def broke(self, machine: Machine, since: float, now: float) -> None:
        """A machine became usable, and broke before those that it was bought for ran there.

        Dated by the beginning of its trouble: the next one may be ordered before that is believed.
        """
        self._tried(machine.sort_once_ready, machine, since, now)

    def broke_soon(self, machine: Machine, reason: Reason, since: float, now: float, *, first: bool) -> None:
        """It became usable and broke before it was of use for long. `first`: as of one that was tried in vain."""
        key = f"{machine.pool}{ONCE_READY}"
        known = self.in_vain.get(key)
        if not refuted(known, machine.kind, since):
            self.in_vain[key] = with_failure(known, machine, reason, since, first=first, now=now)
            self._changed()

    def _tried(self, sort: str, machine: Machine, at: float, now: float) -> None:
        alike = self.tried.get(sort)
        names, last = (alike.machines, alike.last) if alike is not None else ((), at)
        tries, began = counted(alike, machine, at)
        dates = {name: alike.dates.get(name, last) for name in names} if alike is not None else {}
        self.tried[sort] = Tried(
            tries=tries,
            counted=began,
            last=later(last, at, now),
            machines=tuple(dict.fromkeys((*names, machine.name))),
            dates={**dates, machine.name: at},
        )
        self._changed()

    def works(self, machine: Machine, now: float) -> None:
        """It became usable, which ends what is held against its type in its location, and says less of others."""
        self._of_use(machine.pool, machine, now)

    def holds(self, machine: Machine) -> None:
        """It has been of use for long: what broke before it came up is not held against its like any more."""
        key, sort = f"{machine.pool}{ONCE_READY}", machine.sort_once_ready
        known, alike = self.in_vain.get(key), self.tried.get(sort)
        if known is not None and machine.ready_at > ended_by_later(known, machine.kind):
            self._of_use(key, machine, machine.ready_at)
        if alike is not None and machine.ready_at > alike.last:
            self._end(sort)

    def _of_use(self, key: str, machine: Machine, at: float) -> None:
        known = self.in_vain.get(key)
        if known is None:
            return
        left = with_use(known, machine.kind, at)
        if left is not None:
            self.in_vain[key] = left
        else:
            del self.in_vain[key]
        self._changed()

    def comes_up(self, machine: Machine) -> None:
        """It became usable, so what failed of its sort before is held against nothing any more."""
        self._end(machine.sort)

    def _end(self, sort: str) -> None:
        known = self.tried.pop(sort, None)
        if known is None:
            return
        self._changed()
        for pod, found in list(self.given_up.items()):
            for name in found.keys() & set(known.machines):
                del found[name]
            if not found:
                del self.given_up[pod]

    def date_tries(self, now: float) -> None:
        """Forget tries that no waiting pod knows of; one that nobody dated (a conflict lost that) counts from now on."""
        if not (self.tried or self.given_up):
            return
        names = {name for found in self.given_up.values() for name in found}
        for sort, known in list(self.tried.items()):
            left = tuple(name for name in known.machines if name in names)
            names -= set(left)
            if not left:
                del self.tried[sort]
            elif left != known.machines:
                dates = {name: at for name, at in known.dates.items() if name in left}
                self.tried[sort] = replace(known, machines=left, dates=dates)
            if left != known.machines:
                self._changed()
        if names:
            before = self.tried[""].machines if "" in self.tried else ()
            self.tried[""] = Tried(tries=1, last=now, machines=tuple(sorted({*before, *names})))
            self._changed()

    def disappoint(self, pod: str, machine: str) -> None:
        """The machine was bought for the pod and goes again, and the pod still waits."""
        known = self.disappointed.setdefault(pod, [])
        if machine not in known:
            known.append(machine)
            self._changed()

    def forget_disappointments(self, waiting: Collection[str]) -> None:
        """Of pods that wait no longer."""
        for pod in (self.disappointed.keys() | self.given_up.keys()) - set(waiting):
            self.disappointed.pop(pod, None)
            self.given_up.pop(pod, None)
            self._changed()
