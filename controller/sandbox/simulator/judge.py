"""What must hold after every step, whatever happens. Nothing here trusts what the controller says of itself.

Judged is what arrives: each call that changes something is looked at when it leaves its process (does it
hold the lease?) and when it has been carried out (was the purchase right? was what is taken away idle, and
ours?). What the judge excuses is what design excuses: a process that stood still between its look at the
lease and its call, and a call that a slow network delivered late.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

from controller.config.load import Loaded
from controller.config.policy import to_policy
from controller.planning.protection import KEPT_BY_OWNER
from controller.sandbox.cloud.catalogue import load
from controller.sandbox.cluster.resources import PODS
from controller.sandbox.simulator.books import Books, gpus_of
from controller.sandbox.simulator.bound import everything_sold
from controller.sandbox.simulator.holdings import Holdings
from controller.sandbox.simulator.owner import Owner
from controller.sandbox.simulator.possible import why_never
from controller.sandbox.simulator.process import Process
from controller.sandbox.simulator.purchases import Purchases
from controller.sandbox.simulator.standing import Kept
from controller.sandbox.simulator.strangers import NODES as NOT_OURS
from controller.sandbox.simulator.strangers import Strangers
from controller.sandbox.simulator.worlds import Worlds
from controller.sandbox.wire import Request

EXCUSED = 90.0  # seconds after a process went on, for what it had decided before
MOST_VIOLATIONS = 50  # what follows then says nothing new


class Judge:
    def __init__(
        self, worlds: Worlds, owner: Owner, loaded: Loaded, cluster_id: str, note: Callable[[str], None]
    ) -> None:
        self.violations: list[str] = []
        self.launches = 0
        self.busy_evictions = 0
        self._worlds = worlds
        self._owner = owner
        self.policy = to_policy(loaded.settings, cluster_id=cluster_id)
        self._note = note
        self.books = Books(worlds, loaded.settings.namespace)
        self.strangers = Strangers(worlds, cluster_id)
        kept = Kept(self.policy, worlds.loop.time, owner.used)
        self.holdings = Holdings(worlds, self.books, self.strangers, self.policy, kept)
        self.impossible: dict[str, int] = {}  # pods that nobody could have run, by what forbids it
        self.kept: dict[str, int] = {}  # machines that stay at the end, by what keeps them
        self.purchases = Purchases(self.policy, self.books, self.holdings, owner)
        self._lease_for = loaded.settings.lease.duration.total_seconds()
        self._leased: dict[str, float] = {}  # by process: when it last wrote the lease
        self._hurts: list[str] = []  # pods that use GPUs, and that the call which is being made takes away
        self._movable = False  # somebody makes the one that is evicted again

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
        self._has_lease(process, request)

    def _has_lease(self, process: Process, request: Request) -> None:
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

    def cloud_asked(self, request: Request) -> None:
        """A call arrives. What was due before it is done, so that nothing of it is taken for the caller's deed."""
        if request.method != "GET":
            self._worlds.turn_cloud()
            self.strangers.settle()

    def cloud_arrived(self, request: Request, *, late: bool) -> None:
        """A call has been carried out."""
        if request.method == "GET":
            return
        new = self.holdings.new()
        for one in new:
            self.launches += 1
            self._note(f"bought {one.hostname} {one.type_name} {one.location}{' late' if late else ''}")
            if not late and len(new) == 1:
                for wrong in self.purchases.wrong(one):
                    self.violated(wrong)
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
        elif status < 300 and self._hurts:
            self._hurt(request)
        elif request.method in ("PATCH", "PUT", "DELETE") and _node_of(path) in NOT_OURS:
            self.violated(f"{request.method} {path}: the node is not ours")

    # -- promise 3: never hurt work

    def _removed(self, request: Request, *, late: bool) -> None:
        try:
            asked = json.loads(request.body or b"{}")
        except ValueError:
            return
        ids = asked.get("id") if isinstance(asked, dict) else None
        for key in ids if isinstance(ids, list) else [ids]:
            one = self.holdings.one(str(key))
            if one is None or asked.get("action") not in ("delete", "discontinue"):
                continue
            if one.status not in ("deleting", "discontinued"):
                continue
            busy = self.books.gpu_pods_on(one.hostname)
            self._note(f"deleted {one.hostname}")
            others = any(o.hostname == one.hostname for o in self.holdings.alive())
            if busy and not late and not others and not self.holdings.is_off(one):
                self.violated(f"{one.hostname} was deleted while {', '.join(busy)} ran there")

    def cluster_asked(self, process: Process, request: Request) -> None:
        """A call to the cluster, before it is done: with the lease? and who uses GPUs where it takes away?"""
        self._hurts, self._movable = [], False
        if request.method == "GET":
            return
        parts = request.path.split("/")
        if parts[:4] == ["", "api", "v1", "nodes"]:
            self._has_lease(process, request)
            if request.method == "DELETE" and self.holdings.works(parts[4]):
                self._hurts = self.books.gpu_pods_on(parts[4])
        elif parts[5:6] == ["pods"] and (request.method == "DELETE" or parts[7:] == ["eviction"]):
            self._has_lease(process, request)
            pod = self._worlds.cluster.store.get(PODS, parts[4], parts[6]) or {}
            if pod and gpus_of(pod) and pod["status"].get("phase") == "Running":
                self._hurts = [f"{parts[4]}/{parts[6]}"]
                owners = pod["metadata"].get("ownerReferences") or ()
                self._movable = any(owner.get("kind") in KEPT_BY_OWNER for owner in owners)

    def _hurt(self, request: Request) -> None:
        path = request.path
        if path.startswith("/api/v1/nodes/"):
            self.violated(f"{path}: the Node was deleted while {', '.join(self._hurts)} ran there")
        elif request.method == "DELETE":
            self.violated(f"a pod was deleted while it used GPUs: {path}")
        else:
            self.busy_evictions += 1
            if self.policy.consolidate == "off" or not self._movable:
                self.violated(f"a pod was evicted while it used GPUs: {path}")

    # -- promise 2: never leak

    def look(self) -> None:
        """After each step of the cloud: every machine is known to the ledger, or reported."""
        for one in self.holdings.unknown():
            self.violated(f"{one.hostname} costs money and is in no ledger and no report")

    def cost(self) -> Decimal:
        """All that was paid, without what strangers cost."""
        state = self._worlds.cloud.state
        now = state.ground.machine
        theirs = sum((state.account.cost(meter, now) for meter in self.strangers.meters()), Decimal(0))
        return state.account.total(now) - theirs

    def hopeless(self) -> dict[str, str]:
        """By work: what forbids those that wait, by the settings and the catalogue."""
        stays = self.holdings.wanted()
        there = [one for one in self.books.ledger().machines if one.name in stays]
        types, kinds, spent = load().types, everything_sold(), self.cost()
        told: dict[tuple[object, ...], str] = {}

        def sells(kind: str, place: str, market: str) -> bool:
            return bool(types[kind].locations) if place == "*" else place in types[kind].locations

        found = {}
        for want in self._owner.wants:
            if want.done or want.began >= 0:
                continue
            work = want.work
            shape = (work.gpus, work.cpu_milli, work.memory_mib, work.models)
            if shape not in told:
                told[shape] = why_never(work, self.policy, kinds, sells, there=there, spent=spent)
            if told[shape]:
                found[work.name] = told[shape]
        return found

    def at_the_end(self) -> tuple[int, int]:
        """Faults are over: all that can run has run, and nothing is left. Leaked machines and disks."""
        hopeless = self.hopeless()
        self.impossible = dict(sorted(Counter(hopeless.values()).items()))
        self.kept = dict(sorted(Counter(self.holdings.wanted().values()).items()))
        for want in self._owner.wants:
            if not want.done and want.work.name not in hopeless:
                where = f"runs on {want.node}" if want.began >= 0 else "waits"
                self.violated(
                    f"{want.work.name} ({want.work.gpus} GPU) has not run to its end: {want.pod} {where}"
                )
        left, machines, disks = self.holdings.left()
        for words in left:
            self.violated(words)
        return machines, disks


def _node_of(path: str) -> str:
    """The name in a path to a Node, or to what hangs on it."""
    parts = path.split("/")
    return parts[4] if parts[:4] == ["", "api", "v1", "nodes"] and len(parts) > 4 else ""
