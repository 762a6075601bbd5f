"""The ledger: what was promised and bought, in one ConfigMap that is compared-and-swapped.

An intent is in it before the create call is sent. Changes that arrive while a write is under way are
written together by the next one, so a burst of launches costs two writes and not fifty. The ledger
refuses to write over a version that it has not read: whoever else wrote meanwhile is read first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from controller.cluster.protocol import ClusterError, Writer
from controller.domain import names
from controller.domain.machine import Machine, Phase
from controller.domain.resources import Resources
from controller.domain.switching import Switched
from controller.fleet.book import KEY, Book, LedgerError, merge, parse
from controller.fleet.failures import Failures
from controller.fleet.starting import starting_now

__all__ = ["KEY", "Book", "Ledger", "LedgerError"]

log = logging.getLogger("gpu_autoscaler.fleet")

_ATTEMPTS = 4
_KNOWN = 16  # versions of ours that are remembered while the answers to our writes are lost
_DAYS = 62
_DAY = 86400.0


class Ledger:
    def __init__(
        self, writer: Writer, cluster_id: str, settings: str = "", secrets: Sequence[str] = ()
    ) -> None:
        """`settings`: a digest of how machines start, "" compares nothing; `secrets`: names, of join tokens."""
        self._writer = writer
        self._cluster_id = cluster_id
        self._settings = settings
        self._secrets = tuple(secrets)
        self._starting = settings
        self._version: str | None = None
        self._known: list[Book] = []  # what is stored, or may be: read, written, or written without an answer
        self._lock = asyncio.Lock()
        self._dirty = False
        self._ordered = False  # since it was last asked with which tokens machines start
        # Changed in place only: whoever holds one of these sees what is known now.
        self.machines: dict[str, Machine] = {}  # by intent
        self.figures: dict[str, Resources] = {}
        self.costs: dict[str, Decimal] = {}
        self.launches: list[float] = []
        self.failures = Failures(self.look_again)
        self.switched: dict[str, Switched] = {}  # by name
        self.account = ""  # where the machines were seen last
        self.driver_began = 0.0
        self.version = 0  # another one after every change of a record, whoever made it
        self.lost = False  # somebody else dropped records that were alive here: read everything again

    async def load(self) -> None:
        """Read everything; called before anything is decided, and again after losing the lease."""
        async with self._lock:
            stored = await self._read()
            book = stored[1] if stored else Book()
            digest = await starting_now(self._writer, self._settings, self._secrets, book.starting)
            self._starting = digest or book.starting
            self._version = stored[0] if stored else None
            self._known = [book]
            self._take(book)
            self._dirty, self.lost = self.driver_began != book.driver_began, False
            self._forget_other_ways(book.starting)

    def starts_with(self, settings: str, secrets: Sequence[str]) -> None:
        """Other settings are in force: machines may start in another way, and what was given up is tried again."""
        if settings == self._settings and tuple(secrets) == self._secrets:
            return
        before = self._starting
        tail = before.partition(".")[2]
        self._settings, self._secrets = settings, tuple(secrets)
        self._starting = f"{settings}.{tail}" if tail and secrets else settings
        self._forget_other_ways(before)

    async def _read(self) -> tuple[str, Book] | None:
        try:
            stored = await self._writer.read_config_map(names.LEDGER_CONFIGMAP)
        except ClusterError as error:
            raise LedgerError(f"the ledger cannot be read: {error.message}") from error
        return (stored.version, parse(stored.data, self._cluster_id)) if stored else None

    async def heed_tokens(self) -> None:
        """A join token that was mended ends what was given up at once. Asked for only while there is any.

        And after an order: a token that was replaced before it is the one that may come to nothing now.
        """
        if not (self.failures.may_pass or self._ordered):
            return
        before, self._ordered = self._starting, False
        now = await starting_now(self._writer, self._settings, self._secrets, before)
        if self._starting == before:  # else it was read again meanwhile
            self._starting = now
            self._forget_other_ways(before)

    def _forget_other_ways(self, before: str) -> None:
        """Machines that start in another way now may become usable."""
        if not self._starting or before == self._starting:
            return
        if before and self.failures.may_pass:
            log.info("settings or join tokens of starting machines changed: what was given up is tried again")
            self.failures.pass_over()
        self._dirty = True

    def _take(self, book: Book) -> None:
        self.version += 1
        self.machines.clear()
        self.machines.update({machine.intent: machine for machine in book.machines})
        self.figures.clear()
        self.figures.update(book.figures)
        self.costs.clear()
        self.costs.update(book.costs)
        self.launches[:] = book.launches
        self.failures.take(book)
        self.switched.clear()
        self.switched.update(book.switched)
        self.account = book.account
        self.driver_began = max(
            self.driver_began, book.driver_began
        )  # it may be heard of before this is read

    # -- changes in memory ----------------------------------------------------------------------

    def put(self, *machines: Machine) -> bool:
        """Change records in memory; `flush` makes them last. Returns whether anything changed."""
        changed = [m for m in machines if self.machines.get(m.intent) != m]
        for machine in changed:
            self.machines[machine.intent] = machine
        self._dirty = self._dirty or bool(changed)
        self.version += bool(changed)
        return bool(changed)

    def change(self, intent: str, **fields: Any) -> Machine | None:
        """Change these fields of the record as it is *now*; None if there is no such record any more.

        Whoever waited for an answer holds an old record: writing that back would undo what others learned.
        """
        current = self.machines.get(intent)
        if current is None:
            return None
        self.put(replace(current, **fields))
        return self.machines[intent]

    def look_again(self) -> None:
        """Somebody else may have written: the next write finds that out, and takes over what stands there."""
        self._dirty = True

    def put_switched(self, record: Switched) -> bool:
        """Whether anything changed."""
        if self.switched.get(record.name) == record:
            return False
        self.switched[record.name] = record
        self._dirty = True
        self.version += 1
        return True

    def change_switched(self, name: str, **fields: Any) -> Switched:
        """Change these fields of the record as it is now."""
        self.put_switched(replace(self.switched[name], **fields))
        return self.switched[name]

    def drop_switched(self, name: str) -> None:
        if self.switched.pop(name, None) is not None:
            self._dirty = True
            self.version += 1

    def driver_begins(self, now: float) -> None:
        """Whoever decides instead of the planner has forgotten what it asked for before. Written with the next change."""
        self.driver_began = now
        self._dirty = True

    def drop(self, intents: Iterable[str]) -> None:
        for intent in intents:
            if self.machines.pop(intent, None) is not None:
                self._dirty = True
                self.version += 1

    def close(self, machine: Machine, now: float) -> Decimal:
        """The machine is gone for good: book its cost on the days that it ran, and forget it."""
        # From the intent on: with a lost answer the moment of the order itself is not known.
        begin = machine.intended_at or machine.ordered_at
        cost = self.book(machine.price, begin, machine.gone_at or now) if machine.ordered_at else Decimal(0)
        self.drop([machine.intent])
        return cost

    def book(self, price: Decimal, begin: float, end: float) -> Decimal:
        """Each day has its own part, so that a month pays for its own days only."""
        total, since, end = Decimal(0), begin, max(begin, end)
        earliest = end - (_DAYS - 1) * _DAY  # what was before counts there: no day before it is kept
        while True:
            at = max(since, earliest)
            until = min(end, (at // _DAY + 1) * _DAY)
            hours = Decimal(str(until - since)) / 3600
            cost = (price * hours).quantize(Decimal("0.0001"))
            day = datetime.fromtimestamp(at, UTC).date().isoformat()
            self.costs[day] = self.costs.get(day, Decimal(0)) + cost
            total += cost
            if until >= end:
                break
            since = until
        for old in sorted(self.costs)[:-_DAYS]:
            del self.costs[old]
        self._dirty = True
        return total

    def spent_in_month(self, now: float) -> Decimal:
        """What machines that are gone have cost in this calendar month (UTC)."""
        month = datetime.fromtimestamp(now, UTC).date().isoformat()[:7]
        return sum((cost for day, cost in self.costs.items() if day.startswith(month)), Decimal(0))

    def learn(self, instance_type: str, offered: Resources) -> None:
        """Remember what a healthy node of this type offered."""
        figures = {name: offered[name] for name in ("cpu", "memory", "pods") if name in offered}
        if self.figures.get(instance_type) != figures:
            self.figures[instance_type] = figures
            self._dirty = True

    def launched(self, now: float) -> None:
        self._ordered = True
        self.launches[:] = [*(at for at in self.launches if at > now - 60), now]
        self._dirty = True

    def launched_by(self, now: float) -> None:
        """A clock that was set back must not let what was launched before count for ever."""
        if any(at > now for at in self.launches):
            self.launches[:] = [min(at, now) for at in self.launches]
            self._dirty = True

    def found_in(self, account: str, *, with_all: bool = False) -> None:
        """Our machines are in this account, or there are none yet. `with_all`: it is the last one by
        another name, so what went there went here; else what is not known to be gone stays where it was."""
        if self.account == account:
            return
        self._dirty = True
        before, self.account = self.account, account
        if with_all:
            there = [m for m in self.machines.values() if m.gone_in and m.gone_in == before]
            self.put(*(replace(m, gone_in=account) for m in there))
        elif before:
            left = [m for m in self.machines.values() if not m.gone_in and m.phase is not Phase.TOMBSTONE]
            self.put(*(replace(m, gone_in=before) for m in left))

    # -- storing --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Return only when everything changed so far is stored."""
        async with self._lock:
            for _ in range(_ATTEMPTS):
                if not self._dirty:
                    return
                book = self._book()
                new = not self._known or self._known[-1] != book
                if new:
                    self._known = [*self._known[:1], *self._known[1:][-_KNOWN:], book]
                self._dirty = False
                try:
                    self._version = await self._writer.write_config_map(
                        names.LEDGER_CONFIGMAP, {KEY: msgspec.json.encode(book).decode()}, self._version
                    )
                except ClusterError as error:
                    self._dirty = True
                    if error.kind != "conflict":
                        raise LedgerError(f"the ledger cannot be written: {error.message}") from error
                    await self._catch_up(self._known[-1] if new else None)
                except BaseException:
                    self._dirty = True  # cancelled: nobody knows whether it was written
                    raise
                else:
                    self._known = [book]
            if self._dirty:
                raise LedgerError("the ledger cannot be written: somebody else keeps changing it")

    def _book(self) -> Book:
        failures = self.failures
        return Book(
            cluster_id=self._cluster_id,
            machines=sorted(self.machines.values(), key=lambda m: m.intent),
            figures={kind: dict(found) for kind, found in sorted(self.figures.items())},
            costs=dict(self.costs),
            disappointed={pod: list(found) for pod, found in sorted(failures.disappointed.items())},
            given_up={pod: dict(found) for pod, found in sorted(failures.given_up.items())},
            account=self.account,
            driver_began=self.driver_began,
            starting=self._starting,
            tried=dict(sorted(failures.tried.items())),
            in_vain=dict(sorted(failures.in_vain.items())),
            switched=dict(sorted(self.switched.items())),
            launches=list(self.launches),
        )

    async def _catch_up(self, refused: Book | None) -> None:
        """After a conflict: take over the version, and whatever somebody else wrote meanwhile."""
        stored = await self._read()
        self._version = stored[0] if stored else None
        if stored is None or not stored[1].cluster_id:
            return  # deleted, or emptied by hand: what is known here is all there is
        before = [m.intent for m in self.machines.values() if m.phase is not Phase.TOMBSTONE]
        self._take(merge(self._book(), self._known, stored[1], refused))
        # No write of ours from before can come to be any more: each of them names an older version.
        self._known = [stored[1]]
        self.lost = self.lost or any(intent not in self.machines for intent in before)
