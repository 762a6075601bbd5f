"""What must hold after every step, whatever happens. Nothing here trusts what the controller says of itself.

Judged is what arrives: each call that changes something is looked at when it leaves its process (does it
hold the lease?) and when it has been carried out (was the purchase promised, needed, within the limits? was
what is taken away idle, and ours?). What the judge excuses is what design excuses: a process that stood
still between its look at the lease and its call, and a call that a slow network delivered late.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fnmatch import fnmatchcase

from controller.config.load import Loaded
from controller.config.policy import to_policy
from controller.domain.machine import Machine, Phase
from controller.sandbox.cloud.billing import SECOND
from controller.sandbox.cloud.model import Instance
from controller.sandbox.cluster.resources import NODES, PODS
from controller.sandbox.cluster.shelf import Change
from controller.sandbox.simulator.books import Books, gpus_of
from controller.sandbox.simulator.needs import Need, all_placed
from controller.sandbox.simulator.owner import Owner
from controller.sandbox.simulator.process import Process
from controller.sandbox.simulator.strangers import NODE, Strangers
from controller.sandbox.simulator.worlds import Worlds
from controller.sandbox.wire import Request

EXCUSED = 90.0  # seconds after a process went on, for what it had decided before
FORGOTTEN = 3600.0  # a machine that nobody knows of: the time to notice it, faults of lists included
MOST_VIOLATIONS = 50  # what follows then says nothing new
_DOOMED = ("deleting", "discontinued", "no_capacity", "installation_failed", "error")


class Judge:
    def __init__(
        self, worlds: Worlds, owner: Owner, loaded: Loaded, cluster_id: str, note: Callable[[str], None]
    ) -> None:
        self.violations: list[str] = []
        self.launches = 0
        self.double_launches = 0
        self.busy_evictions = 0
        self.excused: set[str] = set()  # machines that something happened to: their pods are nobody's fault
        self._worlds = worlds
        self._owner = owner
        self.policy = to_policy(loaded.settings, cluster_id=cluster_id)
        self._note = note
        self.books = Books(worlds, loaded.settings.namespace)
        self.strangers = Strangers(worlds, cluster_id)
        self._lease_for = loaded.settings.lease.duration.total_seconds()
        self._leased: dict[str, float] = {}  # by process: when it last wrote the lease
        self._known: set[str] = set(worlds.cloud.state.instances)
        self._unknown_since: dict[str, float] = {}
        self._ours: dict[str, Instance] = {}
        self._off: set[str] = set()  # ids of those that somebody shut down: nothing runs there
        self._evicting = False
        self._promised: dict[str, Machine] = {}  # as the ledger had it when it was bought
        self._served: set[str] = set()  # nodes that once offered GPUs
        self.launches_failed = 0
        self.paid_gpu_s = 0.0
        worlds.cluster.store.follow(NODES, self._node_changed)
        self._checked: tuple[int, int] = (-1, -1)

    def violated(self, what: str) -> None:
        text = f"{self._worlds.loop.time():.1f} {what}"
        self._note(f"VIOLATION {what}")
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(text)

    # -- what a process sends

    def sent(self, process: Process, request: Request) -> None:
        """A call to the cloud leaves its process: whoever changes something there holds the lease."""
        if request.method == "GET" or request.path.endswith("/oauth2/token"):
            return
        now = self._worlds.loop.time()
        if now - process.stood_still_at < EXCUSED or process.skew:
            return
        holder = self.books.holder()
        written = self._leased.get(process.name, -1e9)
        if holder != process.name:
            self.violated(
                f"{process.name} sent {request.method} {request.path} while {holder or 'nobody'} held the lease"
            )
        elif now - written > self._lease_for:
            self.violated(
                f"{process.name} sent {request.method} {request.path} on a lease {now - written:.0f} s old"
            )

    def cloud_arrived(self, request: Request, *, late: bool) -> None:
        """A call has been carried out."""
        if request.method == "GET":
            return
        state = self._worlds.cloud.state
        new = [one for key, one in state.instances.items() if key not in self._known]
        for one in new:
            self._known.add(one.id)
            self._ours[one.id] = one
            self.launches += 1
            self._bought(one, late=late, twice=len(new) > 1)
        if request.method in ("PUT", "DELETE"):
            self._removed(request, late=late)
        for touched in self.strangers.touched():
            self.violated(f"{touched} is not ours and was changed by {request.method} {request.path}")

    def cluster_arrived(self, process: Process, request: Request, status: int) -> None:
        if request.method == "GET":
            return
        path = request.path
        if ("/leases/" in path and status < 300) or (path.endswith("/leases") and status == 201):
            self._leased[process.name] = self._worlds.loop.time()
        elif path.endswith("/eviction") and status < 300 and self._evicting:
            self._evicted(path)
        elif path.startswith(f"/api/v1/nodes/{NODE}") and request.method in ("PATCH", "PUT", "DELETE"):
            self.violated(f"{request.method} {path}: the node is not ours")

    # -- promise 1: never pay twice; and limits

    def _bought(self, one: Instance, *, late: bool, twice: bool) -> None:
        self._note(f"bought {one.hostname} {one.type_name} {one.location}{' late' if late else ''}")
        if late or twice:
            return
        record = self.books.machine(one.hostname)
        if record is None:
            self.violated(f"{one.hostname} was bought without an intent in the ledger")
            return
        if record.phase is not Phase.INTENDED:
            self.violated(f"{one.hostname} was bought when its intent was already {record.phase.value}")
        self._promised[one.id] = record
        same = [other for other in self._alive() if other.hostname == one.hostname and other is not one]
        if same:
            self.double_launches += 1
            self.violated(f"{one.hostname} was bought twice")
        elif self._needless(one, record):
            self.double_launches += 1
            self.violated(
                f"{one.hostname} was bought for {', '.join(record.pods) or 'nobody'}, whom machines on their way "
                "would have served"
            )
        self._within_limits(record)

    def _alive(self) -> list[Instance]:
        return [one for one in self._ours.values() if one.status not in _DOOMED]

    def _needless(self, one: Instance, record: Machine) -> bool:
        """Whether everybody who waits would have found a place on what was on its way already."""
        if not record.pods or any(pool.min for pool in self.policy.pools) or self.policy.headroom:
            return False
        coming = []
        by_name = {other.hostname: other for other in self._alive()}  # a twin is nothing to count on
        for other in by_name.values():
            known = self._promise(other)
            if other is one or known is None or not known.phase.on_the_way or known.failed:
                continue
            if other.hostname in self._served:
                continue  # the scheduler gives its GPUs to whom it likes
            coming.append(known)
        if not coming:
            return False
        wanted = {want.pod: want.work for want in self._owner.wants if want.waits and not want.node}
        for key in record.pods:
            want = self._owner.want_of(key.partition("/")[2])
            if want is None:
                return False  # gone since it was decided
            wanted[want.pod] = want.work
        needs = [Need(work.gpus, work.cpu_milli, work.memory_mib, work.models) for work in wanted.values()]
        return all_placed(needs, coming)

    def _promise(self, one: Instance) -> Machine | None:
        """What the ledger says of it; where it was given up without proof, what was said when it was bought."""
        known, then = self.books.machine(one.hostname), self._promised.get(one.id)
        if known is None:
            return then
        early = known.gone_at - known.intended_at < self.policy.deadlines.unknown_over
        return then if known.phase is Phase.TOMBSTONE and early else known

    def _within_limits(self, record: Machine) -> None:
        alive = self._alive()
        records = [self.books.machine(one.hostname) for one in alive]
        if any(known is None or known.surplus for known in records):
            return  # one that nobody could know of
        pool = self.policy.pool(record.pool)
        mine = [known for known in records if known is not None and known.pool == record.pool]
        if pool is not None and len(mine) > pool.max:
            self.violated(f"{len(mine)} machines in pool {pool.name}, of {pool.max} at most")
        limits, gpus = self.policy.limits, sum(known.gpus for known in records if known is not None)
        price = sum((one.price for one in alive), Decimal(0))
        for what, got, most in (
            ("machines", len(alive), limits.machines),
            ("GPUs", gpus, limits.gpus),
            ("an hour", price, limits.price_per_hour),
        ):
            if most is not None and got > most:
                self.violated(f"{got} {what}, of {most} at most")

    # -- promise 3: never hurt work

    def _removed(self, request: Request, *, late: bool) -> None:
        try:
            asked = json.loads(request.body or b"{}")
        except ValueError:
            return
        ids = asked.get("id") if isinstance(asked, dict) else None
        for key in ids if isinstance(ids, list) else [ids]:
            one = self._ours.get(str(key))
            if one is None or asked.get("action") not in ("delete", "discontinue"):
                continue
            if one.status not in ("deleting", "discontinued"):
                continue
            busy = self.books.gpu_pods_on(one.hostname)
            self._note(f"deleted {one.hostname}")
            others = [o for o in self._alive() if o.hostname == one.hostname]
            if busy and not late and not others and one.id not in self._off:
                self.violated(f"{one.hostname} was deleted while {', '.join(busy)} ran there")

    def evicting(self, path: str) -> None:
        """Before it is done: whether the pod uses GPUs."""
        _, _, _, _, namespace, _, name, *_ = path.split("/")
        pod = self._worlds.cluster.store.get(PODS, namespace, name) or {}
        self._evicting = bool(pod and gpus_of(pod) and pod["status"].get("phase") == "Running")

    def _evicted(self, path: str) -> None:
        self.busy_evictions += 1
        if self.policy.consolidate == "off" and not any(p.expire_after for p in self.policy.pools):
            self.violated(f"a pod was evicted while it used GPUs: {path}")

    # -- promise 2: never leak

    def look(self) -> None:
        """After each step of the cloud: every machine is known to the ledger, or reported."""
        mark = (self.books.version, self._worlds.turns)
        if mark == self._checked:
            return
        self._checked = mark
        now = self._worlds.loop.time()
        known = {machine.name for machine in self.books.ledger().machines}
        for key, one in list(self._ours.items()):
            if one.status == "offline":
                self._off.add(key)
            elif one.status not in ("deleting", "discontinued"):
                self._off.discard(key)
            if one.status == "discontinued":
                self._ours.pop(key)
                self._promised.pop(key, None)
                self._unknown_since.pop(key, None)
                self._ended(one)
            elif one.hostname in known or one.status in _DOOMED[:2]:
                self._unknown_since.pop(key, None)
            elif now - self._unknown_since.setdefault(key, now) > FORGOTTEN:
                self._unknown_since[key] = 1e12
                if one.hostname not in self.books.reported() and one.id not in self.books.reported():
                    self.violated(f"{one.hostname} costs money and is in no ledger and no report")

    def _node_changed(self, change: Change) -> None:
        name = change.item.key[1]
        if change.verb != "DELETED" and name not in self._served:
            figures = (change.new.get("status") or {}).get("allocatable") or {}
            if figures.get("nvidia.com/gpu", "0") != "0":
                self._served.add(name)

    def _ended(self, one: Instance) -> None:
        lasted = one.meter.lasted(self._worlds.cloud.state.ground.machine) / SECOND
        self.paid_gpu_s += lasted * one.kind.gpus
        if one.hostname not in self._served:
            self.launches_failed += 1

    def ours_like(self, pattern: str) -> list[str]:
        """Ids of living machines, in the order of their purchase."""
        return [one.id for one in self._alive() if fnmatchcase(one.hostname, pattern)]

    def machines_now(self) -> tuple[int, int]:
        """Machines and their GPUs that cost money."""
        alive = self._alive()
        return len(alive), sum(one.kind.gpus for one in alive)

    def at_the_end(self) -> tuple[int, int]:
        """Faults are over: everything has run, and nothing is left. Leaked machines and disks."""
        for want in self._owner.wants:
            if not want.done:
                where = f"runs on {want.node}" if want.began >= 0 else "waits"
                self.violated(
                    f"{want.work.name} ({want.work.gpus} GPU) has not run to its end: {want.pod} {where}"
                )
        state = self._worlds.cloud.state
        for one in self._ours.values():
            self._ended(one)
        self._ours.clear()
        machines = [o for o in state.instances.values() if o.live and o.id not in self.strangers.instances]
        disks = [v for v in state.volumes.values() if not v.destroyed and v.id not in self.strangers.volumes]
        scripts = [s for s in state.scripts.values() if s.id not in self.strangers.scripts]
        for one in machines:
            self.violated(f"machine {one.hostname} ({one.status}) is left")
        for disk in disks:
            self.violated(f"disk {disk.name} ({disk.status}) is left")
        for script in scripts:
            self.violated(f"script {script.name} is left")
        for left in self.books.ledger().machines:
            if left.phase is not Phase.TOMBSTONE:
                self.violated(f"{left.name} is left in the ledger as {left.phase.value}")
        nodes = [key[1] for key in self._worlds.cluster.store.shelf(NODES).keys if key[1] != NODE]
        for node in nodes:
            self.violated(f"Node {node} is left")
        return len(machines), len(disks)

    def settled(self) -> bool:
        """Whether nothing is left, so that the end need not be waited for any longer."""
        state = self._worlds.cloud.state
        return (
            all(not o.live or o.id in self.strangers.instances for o in state.instances.values())
            and all(v.destroyed or v.id in self.strangers.volumes for v in state.volumes.values())
            and len(state.scripts) <= len(self.strangers.scripts)
            and all(m.phase is Phase.TOMBSTONE for m in self.books.ledger().machines)
            and len(self._worlds.cluster.store.shelf(NODES).keys) <= 1
        )
