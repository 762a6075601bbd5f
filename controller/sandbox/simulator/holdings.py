"""Every machine that the controller has bought, from its purchase to its end: whose it is, and who knows of it.

The second promise is judged here, never to leak: a machine costs money from its purchase on, so within an hour it is
in the ledger by its id, or the status names it; and at the end nothing is left of any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy
from controller.sandbox.cloud.billing import SECOND
from controller.sandbox.cloud.model import Instance, Volume
from controller.sandbox.cluster.resources import NODES
from controller.sandbox.cluster.shelf import Change
from controller.sandbox.simulator.books import Books
from controller.sandbox.simulator.possible import gpus_shown
from controller.sandbox.simulator.standing import Kept
from controller.sandbox.simulator.strangers import NODES as NOT_OURS
from controller.sandbox.simulator.strangers import Strangers
from controller.sandbox.simulator.worlds import Worlds

FORGOTTEN = 3600.0  # a machine that nobody knows of: the time to notice it, faults of lists included
_DOOMED = ("deleting", "discontinued", "no_capacity", "installation_failed", "error")


class Holdings:
    def __init__(
        self, worlds: Worlds, books: Books, strangers: Strangers, policy: Policy, kept: Kept
    ) -> None:
        self.launches_failed = 0
        self.paid_gpu_s = 0.0
        self._worlds = worlds
        self._books = books
        self._strangers = strangers
        self._policy = policy
        self._kept = kept
        self._known: set[str] = set(worlds.cloud.state.instances)
        self._ours: dict[str, Instance] = {}  # by id
        self._unknown_since: dict[str, float] = {}
        self._off: set[str] = set()  # ids of those that somebody shut down: nothing runs there
        self._promised: dict[str, Machine] = {}  # as the ledger had it when it was bought
        self._served: set[str] = set()  # nodes that once offered GPUs
        self._checked: tuple[int, int] = (-1, -1)
        worlds.cluster.store.follow(NODES, self._node_changed)

    # -- what comes and goes

    def new(self) -> list[Instance]:
        """Machines that were not there at the last question."""
        instances = self._worlds.cloud.state.instances
        self._known &= instances.keys()  # the worlds forget what ended long ago
        found = [one for key, one in instances.items() if key not in self._known]
        for one in found:
            self._known.add(one.id)
            self._ours[one.id] = one
        return found

    def promised(self, one: Instance, record: Machine) -> None:
        """What the ledger says in the moment of the purchase."""
        self._promised[one.id] = record

    def _node_changed(self, change: Change) -> None:
        name = change.item.key[1]
        if change.verb == "DELETED":
            self._forget_served(name)
        elif name not in self._served:
            figures = (change.new.get("status") or {}).get("allocatable") or {}
            if figures.get("nvidia.com/gpu", "0") != "0":
                self._served.add(name)

    def _ended(self, one: Instance) -> None:
        lasted = one.meter.lasted(self._worlds.cloud.state.ground.machine) / SECOND
        self.paid_gpu_s += lasted * self._gpus(one)
        if one.hostname not in self._served:
            self.launches_failed += 1

    def _gpus(self, one: Instance) -> int:
        """As its pool shows them, which may cut them."""
        record = self._promised.get(one.id)
        pool = self._policy.pool(record.pool) if record is not None else None
        return one.kind.gpus if pool is None else gpus_shown(pool, one.kind.gpus)

    # -- promise 2: never leak

    def unknown(self) -> Iterator[Instance]:
        """After a step of the cloud: machines that nobody has known of for too long, each once."""
        mark = (self._books.version, self._worlds.turns)
        if mark == self._checked:
            return
        self._checked = mark
        now = self._worlds.loop.time()
        held = [m for m in self._books.ledger().machines if m.phase is not Phase.TOMBSTONE]
        known = {machine.name: machine.instance_id for machine in held}
        for key, one in list(self._ours.items()):
            if one.status == "offline":
                self._off.add(key)
            elif one.status not in ("deleting", "discontinued"):
                self._off.discard(key)
            if one.status == "discontinued":
                self._ended(one)
                self._forget(key)
                if one.hostname not in self._nodes():
                    self._forget_served(one.hostname)
            elif known.get(one.hostname) in ("", key) or one.status in _DOOMED[:2]:
                self._unknown_since.pop(key, None)
            elif now - self._unknown_since.setdefault(key, now) > FORGOTTEN:
                self._unknown_since[key] = 1e12
                told, named = self._books.reported(), one.hostname not in known
                if one.id not in told and not (named and one.hostname in told):
                    yield one

    def _forget(self, key: str) -> None:
        self._ours.pop(key)
        self._promised.pop(key, None)
        self._unknown_since.pop(key, None)

    def _forget_served(self, name: str) -> None:
        if not any(one.hostname == name for one in self._ours.values()):
            self._served.discard(name)

    def left(self) -> tuple[list[str], int, int]:
        """At the end, in words, and how many machines and disks; from now on nothing is ours any more."""
        for one in self._ours.values():
            self._ended(one)
        self._ours.clear()
        strangers, wanted = self._strangers, self.wanted()
        machines = [one for one in self._machines() if one.hostname not in wanted]
        disks = [one for one in self._disks() if not (one.name in wanted and one.instance_id)]
        state = self._worlds.cloud.state
        scripts = [one for one in state.scripts.values() if one.id not in strangers.scripts]
        words = [
            *(f"machine {one.hostname} ({one.status}) is left" for one in machines),
            *(f"disk {disk.name} ({disk.status}) is left" for disk in disks),
            *(f"script {script.name} is left" for script in scripts),
            *(
                f"{one.name} is left in the ledger as {one.phase.value}"
                for one in self._books.ledger().machines
                if one.phase is not Phase.TOMBSTONE and one.name not in wanted
            ),
            *(f"Node {node} is left" for node in self._nodes() if node not in wanted),
        ]
        return words, len(machines), len(disks)

    def settled(self, ahead: float) -> bool:
        """Whether nothing is left but what the settings keep for so long, so that the end need not be waited for."""
        wanted = self.wanted(ahead).keys()
        return (
            {one.hostname for one in self._machines()} <= wanted
            and {one.name if one.instance_id else "" for one in self._disks()}
            <= wanted  # loose ones are nobody's
            and len(self._worlds.cloud.state.scripts) <= len(self._strangers.scripts)
            and all(m.phase is Phase.TOMBSTONE or m.name in wanted for m in self._books.ledger().machines)
            and wanted >= set(self._nodes())
        )

    def wanted(self, ahead: float = 0.0) -> dict[str, str]:
        """By name, what keeps those that the settings keep although nothing runs there; a second one of a name is none."""
        names = Counter(one.hostname for one in self._machines() if one.status == "running")
        kept = self._kept.of(self._books.ledger().machines, ahead)
        return {name: why for name, why in kept.items() if names.get(name) == 1}

    def _machines(self) -> list[Instance]:
        """All that live and are no strangers'."""
        instances, theirs = self._worlds.cloud.state.instances, self._strangers.instances
        return [one for one in instances.values() if one.live and one.id not in theirs]

    def _disks(self) -> list[Volume]:
        volumes, theirs = self._worlds.cloud.state.volumes, self._strangers.volumes
        return [one for one in volumes.values() if not one.destroyed and one.id not in theirs]

    def _nodes(self) -> list[str]:
        return [key[1] for key in self._worlds.cluster.store.shelf(NODES).keys if key[1] not in NOT_OURS]

    # -- questions

    def one(self, key: str) -> Instance | None:
        return self._ours.get(key)

    def alive(self) -> list[Instance]:
        """Those that cost money, in the order of their purchase."""
        return [one for one in self._ours.values() if one.status not in _DOOMED]

    def promised_once(self) -> list[Instance]:
        """Those alive; of several that one order brought only the first: the others nobody has promised."""
        found: dict[str, Instance] = {}
        for one in self.alive():
            found.setdefault(one.hostname, one)
        return list(found.values())

    def promise(self, one: Instance) -> Machine | None:
        """What the ledger says of it; where it was given up without proof, what was said when it was bought."""
        known, then = self._books.machine(one.hostname), self._promised.get(one.id)
        if known is None:
            return then
        early = known.gone_at - known.intended_at < self._policy.deadlines.unknown_over
        return then if known.phase is Phase.TOMBSTONE and early else known

    def served(self, one: Instance) -> bool:
        """Whether its Node has ever offered GPUs: then the scheduler gives them to whom it likes."""
        return one.hostname in self._served

    def is_off(self, one: Instance) -> bool:
        return one.id in self._off

    def works(self, hostname: str) -> bool:
        """Whether a machine of this name runs."""
        return any(one.hostname == hostname for one in self._ours.values() if one.status == "running")

    def like(self, pattern: str) -> list[str]:
        """Ids of living machines, in the order of their purchase."""
        return [one.id for one in self.alive() if fnmatchcase(one.hostname, pattern)]

    def counted(self) -> tuple[int, int]:
        """Machines and their GPUs that cost money."""
        alive = self.alive()
        return len(alive), sum(one.kind.gpus for one in alive)
