"""The ledger: what was promised and bought, in one ConfigMap that is compared-and-swapped.

An intent is in it before the create call is sent. Changes that arrive while a write is under way are
written together by the next one, so a burst of launches costs two writes and not fifty. The ledger
refuses to write over a version that it has not read: whoever else wrote meanwhile is read first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from controller.cluster.protocol import ClusterError, Writer
from controller.domain import names
from controller.domain.machine import Machine
from controller.domain.resources import Resources

KEY = "ledger.json"
_ATTEMPTS = 4


class LedgerError(Exception):
    """The ledger cannot be read or written; nothing may be bought."""


class Book(msgspec.Struct, kw_only=True):
    """The content of the ConfigMap."""

    version: int = 1
    cluster_id: str = ""
    machines: list[Machine] = []
    figures: dict[str, dict[str, int]] = {}  # by instance type: what real nodes offered
    costs: dict[str, Decimal] = {}  # by day: what closed machines cost
    launches: list[float] = []  # when machines were ordered lately


class Ledger:
    def __init__(self, writer: Writer, cluster_id: str) -> None:
        self._writer = writer
        self._cluster_id = cluster_id
        self._version: str | None = None
        self._lock = asyncio.Lock()
        self._dirty = False
        self.machines: dict[str, Machine] = {}  # by intent
        self.figures: dict[str, Resources] = {}
        self.costs: dict[str, Decimal] = {}
        self.launches: list[float] = []

    async def load(self) -> None:
        """Read everything; called before anything is decided, and again after losing a race."""
        try:
            stored = await self._writer.read_config_map(names.LEDGER_CONFIGMAP)
        except ClusterError as error:
            raise LedgerError(f"the ledger cannot be read: {error.message}") from error
        self._version = stored.version if stored else None
        book = self._parse(stored.data) if stored else Book()
        self.machines = {machine.intent: machine for machine in book.machines}
        self.figures = dict(book.figures)
        self.costs = dict(book.costs)
        self.launches = list(book.launches)

    def _parse(self, data: Mapping[str, str]) -> Book:
        try:
            book = msgspec.json.decode(data.get(KEY, "{}").encode(), type=Book)
        except msgspec.DecodeError as error:
            raise LedgerError(
                f"ConfigMap {names.LEDGER_CONFIGMAP} key {KEY} is damaged ({error}); restore it, or delete the "
                "ConfigMap to rebuild it from the cloud's inventory"
            ) from error
        if book.cluster_id not in ("", self._cluster_id):
            raise LedgerError(
                f"ConfigMap {names.LEDGER_CONFIGMAP} belongs to cluster id {book.cluster_id!r}, this is "
                f"{self._cluster_id!r}; set cluster_id back, or use another namespace"
            )
        return book

    def put(self, *machines: Machine) -> bool:
        """Change records in memory; `flush` makes them last. Returns whether anything changed."""
        changed = [m for m in machines if self.machines.get(m.intent) != m]
        for machine in changed:
            self.machines[machine.intent] = machine
        self._dirty = self._dirty or bool(changed)
        return bool(changed)

    def drop(self, intents: Iterable[str]) -> None:
        for intent in intents:
            if self.machines.pop(intent, None) is not None:
                self._dirty = True

    def close(self, machine: Machine, now: float) -> Decimal:
        """The machine is gone for good: book its cost on today and forget it."""
        hours = Decimal(str(max(0.0, (machine.gone_at or now) - machine.ordered_at))) / 3600
        cost = (machine.price * hours if machine.ordered_at else Decimal(0)).quantize(Decimal("0.0001"))
        day = datetime.fromtimestamp(now, UTC).date().isoformat()
        self.costs[day] = self.costs.get(day, Decimal(0)) + cost
        self.costs = {d: self.costs[d] for d in sorted(self.costs)[-62:]}
        self.drop([machine.intent])
        self._dirty = True
        return cost

    def learn(self, instance_type: str, offered: Resources) -> None:
        """Remember what a healthy node of this type offered."""
        figures = {name: offered[name] for name in ("cpu", "memory") if name in offered}
        if self.figures.get(instance_type) != figures:
            self.figures[instance_type] = figures
            self._dirty = True

    def launched(self, now: float) -> None:
        self.launches = [*(at for at in self.launches if at > now - 60), now]
        self._dirty = True

    async def flush(self) -> None:
        """Return only when everything changed so far is stored."""
        async with self._lock:
            if not self._dirty:
                return
            for _ in range(_ATTEMPTS):
                self._dirty = False
                try:
                    self._version = await self._writer.write_config_map(
                        names.LEDGER_CONFIGMAP, {KEY: self._text()}, self._version
                    )
                    return
                except ClusterError as error:
                    self._dirty = True
                    if error.kind != "conflict":
                        raise LedgerError(f"the ledger cannot be written: {error.message}") from error
                    await self._catch_up()
            raise LedgerError("the ledger cannot be written: somebody else keeps changing it")

    def _text(self) -> str:
        book = Book(
            cluster_id=self._cluster_id,
            machines=sorted(self.machines.values(), key=lambda m: m.intent),
            figures={kind: dict(found) for kind, found in sorted(self.figures.items())},
            costs=self.costs,
            launches=self.launches,
        )
        return msgspec.json.encode(book).decode()

    async def _catch_up(self) -> None:
        """After a conflict: take over the version, and machines that somebody else put in meanwhile.

        A write of ours whose answer was lost looks like this too; then nothing is new. Anything that
        we do not know was bought by another leader: it is kept, never overwritten.
        """
        stored = await self._writer.read_config_map(names.LEDGER_CONFIGMAP)
        self._version = stored.version if stored else None
        if stored is None:
            return
        for machine in self._parse(stored.data).machines:
            if machine.intent not in self.machines:
                self.machines[machine.intent] = machine
