"""What the cluster of a sweep says for itself, where there is one that can be asked.

It may be dead, or never have been named; then the cloud's marks are all there is. If it answers, its
ledger tells which machines live, its Lease whether a controller looks after them, and its pods whether
a machine is in use. A cluster that is named and does not answer is no dead one: that is said, not guessed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from controller.app.exits import Ends
from controller.app.parts import Now, cluster_id_of, make_connection
from controller.cluster.connection import Connection
from controller.cluster.protocol import ClusterError
from controller.cluster.writer import MERGE, ClusterWriter
from controller.config.policy import to_policy
from controller.config.settings import Settings
from controller.domain import names
from controller.domain.cloudthings import SWITCHED
from controller.domain.machine import Phase
from controller.fleet.book import KEY, Book, LedgerError, parse
from controller.fleet.orphans import Living
from controller.fleet.usable import in_use

NONE, OTHER, SAME, UNCLEAR = "none", "other", "same", "unclear"
_PATIENCE = 10.0


class _Named(msgspec.Struct):
    cluster_id: str = ""


class _LeaseSpec(msgspec.Struct):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None


class _Version(msgspec.Struct):
    resourceVersion: str = ""


class _Lease(msgspec.Struct):
    metadata: _Version = msgspec.field(default_factory=_Version)
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class ClusterSide:
    """`state`: none was named · another one than the swept · the same · unclear, with `note` saying why."""

    def __init__(self, state: str, note: str = "", connection: Connection | None = None) -> None:
        self.state = state
        self.note = note
        self.living = Living()
        self.holder = ""
        self._connection = connection
        self._writer: ClusterWriter | None = None
        self._lease = ""
        self._namespace = ""
        self._declared: frozenset[str] = frozenset()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def last_look(self, hostname: str) -> str:
        """Why the machine of this name must stay, by one consistent list of the pods there; or ""."""
        if self.state != SAME or self._writer is None:
            return ""
        try:
            pods = await self._writer.list_pods_on(hostname)
        except ClusterError as error:
            return f"the pods on it cannot be seen: {error.message}"
        busy = sorted(pod.key for pod in pods if in_use(pod, self._declared))
        return f"pods on it use its GPUs: {', '.join(busy[:3])}" if busy else ""

    async def controller_lives(self, now: Now, tell: Callable[[str], None]) -> bool:
        """Whether somebody renews the Lease, seen by watching it: clocks may differ, so times prove nothing."""
        if self._connection is None or not self.holder:
            return False
        first = await _read_lease(self._connection, self._lease)
        if first is None or not first.spec.holderIdentity:
            return False
        lasts = float(first.spec.leaseDurationSeconds or 15)
        tell(f"watching the Lease for {lasts:g} s, to see whether {self.holder} is alive")
        end = now.monotonic() + lasts + 1
        while now.monotonic() < end:
            await now.sleep(0.5)
            found = await _read_lease(self._connection, self._lease)
            if found is None or not found.spec.holderIdentity:
                return False
            if found.metadata.resourceVersion != first.metadata.resourceVersion:
                return True
        return False

    async def annotate_status(self, changes: Mapping[str, str | None]) -> bool:
        """On the status ConfigMap, for the controller to heed. False: no controller has ever led there."""
        if self._connection is None:
            return False
        path = f"/api/v1/namespaces/{self._namespace}/configmaps"
        meta = {"annotations": {key: value for key, value in changes.items() if value is not None}}
        body = {"kind": "ConfigMap", "metadata": {"name": names.STATUS_CONFIGMAP} | meta}
        for attempt in (1, 2):
            try:
                await self._connection.request(
                    "PATCH", f"{path}/{names.STATUS_CONFIGMAP}",
                    body={"metadata": {"annotations": dict(changes)}}, content_type=MERGE,
                )  # fmt: skip
                return True
            except ClusterError as error:
                if error.kind != "not_found" or attempt == 2:
                    raise
            if not self.holder:
                return False
            try:  # it has just begun to lead, and has told nothing yet
                await self._connection.request("POST", path, body=body)
                return True
            except ClusterError as error:
                if error.kind != "conflict":
                    raise
        return False

    async def retirement(self) -> tuple[bool, list[dict[str, Any]]]:
        """Whether the wish is heeded, and what has not ended, with what the status says of it. Raises LedgerError.

        The status comes first: it knows intents that are not stored yet, and once it tells of the wish there are no new ones.
        """
        status = await self._status()
        book = await self._read_book()
        told = {
            str(row.get("name")): row for row in status.get("machines", ()) if row.get("market") != SWITCHED
        }
        stored = {machine.name: machine.phase for machine in book.machines} if book else {}
        unstored = {name: str(row.get("phase", "")) for name, row in told.items() if name not in stored}
        alive = {name: phase.value for name, phase in stored.items() if phase is not Phase.TOMBSTONE}
        left = [
            {
                "name": name,
                "phase": phase,
                "code": told.get(name, {}).get("code", ""),
                "message": told.get(name, {}).get("message", ""),
            }
            for name, phase in sorted((alive | unstored).items())
        ]
        return bool(status.get("retiring")), left

    async def why_not_heeded(self) -> str:
        """As its status says it."""
        problems = (await self._status()).get("problems", ())
        said = next((str(words) for words in problems if names.RETIRE in str(words)), "")
        return said or "the controller has not taken up the wish; its log and its status say more"

    async def _status(self) -> dict[str, Any]:
        stored = await self._writer.read_config_map(names.STATUS_CONFIGMAP) if self._writer else None
        try:
            found = json.loads(stored.data.get(names.STATUS_KEY, "{}")) if stored else {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    async def _read_book(self) -> Book | None:
        stored = await self._writer.read_config_map(names.LEDGER_CONFIGMAP) if self._writer else None
        return parse(stored.data, self.living.cluster_id) if stored else None

    async def _learn(self, settings: Settings, wanted: str) -> None:
        connection = self._connection
        if connection is None:
            return
        now = Now()
        self._namespace = settings.namespace
        self._writer = ClusterWriter(
            connection, namespace=settings.namespace, wall=now.wall, sleep=now.sleep, rng=now.rng
        )
        stored = await self._writer.read_config_map(names.LEDGER_CONFIGMAP)
        text = stored.data.get(KEY, "{}") if stored else "{}"
        try:
            owner = msgspec.json.decode(text.encode(), type=_Named).cluster_id
        except msgspec.DecodeError as error:
            raise LedgerError(f"its ledger is damaged: {error}") from error
        if not owner:
            # A cluster id of the settings says nothing of the cluster that happens to answer.
            try:
                owner = await cluster_id_of(connection, settings.namespace)
            except Ends as end:
                raise ClusterError("other", end.lines[0]) from end
        if wanted and wanted != owner:
            self.note = f"the cluster that answers is {owner}, not {wanted}"
            return
        self.state = SAME
        book = parse(stored.data, owner) if stored else None
        machines = book.machines if book else []
        alive = {m.intent: m.phase.value for m in machines if m.phase is not Phase.TOMBSTONE}
        self.living = Living(cluster_id=owner, intents=alive)
        self._declared = to_policy(settings, cluster_id=self.living.cluster_id).gpu_resources
        self._lease = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases/{names.LEASE}"
        lease = await _read_lease(connection, self._lease)
        self.holder = (lease.spec.holderIdentity or "") if lease else ""


async def _read_lease(connection: Connection, path: str) -> _Lease | None:
    try:
        raw = await connection.request("GET", path, timeout=_PATIENCE)
    except ClusterError as error:
        if error.kind == "not_found":
            return None
        raise
    return msgspec.json.decode(raw, type=_Lease)


def _names_one(kubeconfig: str) -> bool:
    home = Path(os.environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    return bool(
        kubeconfig
        or os.environ.get("KUBECONFIG")
        or os.environ.get("KUBERNETES_SERVICE_HOST")
        or home.is_file()
    )


async def look(kubeconfig: str, settings: Settings, wanted: str) -> ClusterSide:
    """Ask the cluster that the kubeconfig, or the pod's own account, names."""
    if not _names_one(kubeconfig):
        return ClusterSide(
            NONE, "there is no kubeconfig (--kubeconfig, KUBECONFIG, ~/.kube/config), so no cluster was asked"
        )
    try:
        connection = await make_connection(kubeconfig, os.environ, Now())
    except Ends as end:
        if kubeconfig:
            raise
        return ClusterSide(UNCLEAR, end.lines[0])
    side = ClusterSide(OTHER, connection=connection)
    try:
        await side._learn(settings, wanted)
    except (ClusterError, LedgerError) as error:
        side.state, side.note = UNCLEAR, str(error)
    return side
