"""The real scheduler, asked about one pod after the other in worlds that are made for it.

A control plane with nothing that would meddle: no kubelets, no controller that taints silent nodes, no
admission of service accounts. The volume controllers run, for claims are bound by them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import yaml

from tests.e2e.controlplane.conformance.side import Answer, Side
from tests.e2e.controlplane.differential.listener import Listener
from tests.e2e.controlplane.differential.watched import Watched
from tests.e2e.controlplane.differential.worlds import (
    FAILED,
    FINISHED,
    NAMESPACES,
    PATHS,
    RESIZED,
    STATUS,
    TERMINATING,
    Case,
    Json,
    World,
    collection,
    named,
    path,
    state,
)  # fmt: skip
from tests.e2e.controlplane.plane import ControlPlane

# Tolerations that compare numbers are known to the planner, and an option of the cluster today. That a pod
# is tried on the node of its predecessor first is a matter of speed, and would hide the other nodes.
GATES = "TaintTolerationComparisonOperators=true"
UNMEDDLED = "ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition"
CONTROLLERS = "persistentvolume-binder-controller,ephemeral-volume-controller"
SETTLING = 0.15  # seconds until the scheduler has most likely heard of everything; in doubt it is asked again
WITHIN = 20.0
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


class Refused(Exception):
    """The API server does not take this object; so there is nothing to compare."""


@dataclass(frozen=True)
class Verdict:
    """What the scheduler said of a pod."""

    nodes: frozenset[str]  # that passed its filters
    bound: str = ""
    message: str = ""

    def __str__(self) -> str:
        return f"{', '.join(sorted(self.nodes)) or 'no node'}{f' ({self.message})' if self.message else ''}"


class Bare(ControlPlane):
    """Without those who would meddle."""

    def begin(self, extender: dict[str, Any]) -> None:
        self.serve("--disable-admission-plugins", UNMEDDLED, "--feature-gates", GATES)
        self.schedule({"extenders": [extender]}, "--feature-gates", f"{GATES},OpportunisticBatching=false")
        self.manage("--controllers", CONTROLLERS, "--kube-api-qps", "500", "--kube-api-burst", "1000",
                    "--pvclaimbinder-sync-period", "1s")  # fmt: skip


class Reality:
    def __init__(self, plane: Bare) -> None:
        self._plane = plane
        self._there: dict[str, Json] = {}  # by path: the manifests of what was made
        self._heard = threading.Condition()
        self.listener = Listener(self._wake)

    def _wake(self) -> None:
        with self._heard:
            self._heard.notify_all()

    def __enter__(self) -> Reality:
        self.listener.__enter__()
        try:
            self._plane.begin(self.listener.configuration)
            token = yaml.safe_load(self._plane.kubeconfig.read_text())["users"][0]["user"]["token"]
            self.side = Side(self._plane.url, token, str(self._plane.certificate))
            self.watched = Watched(self.side.another(), self._wake)
            self.watched.start()
            for name, labels in NAMESPACES.items():
                meta = {"name": name, "labels": labels}
                self._done(self.side.ask("POST", "/api/v1/namespaces", {"metadata": meta}, JSON))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "watched"):
            self.watched.end()
        self._plane.stop()
        if hasattr(self, "side"):
            self.side.close()
        self.listener.__exit__(kind, error, trace)

    @staticmethod
    def _done(answer: Answer) -> Json:
        if answer.code in (400, 403, 422):
            raise Refused(str(answer.body.get("message", answer.body)))
        if answer.code >= 300:
            raise RuntimeError(f"{answer.code}: {answer.body}")
        body: Json = answer.body
        return body

    # -- what is there ----------------------------------------------------------------------------------

    def furnish(self, world: World, also: Sequence[Json] = ()) -> None:
        """Make it so that exactly this is there. What is already there stays."""
        wanted = {path(each): each for each in (*world.everything(), *also)}
        kinds = list(PATHS)
        old = [each for at, each in self._there.items() if wanted.get(at) != each]
        for each in sorted(old, key=lambda it: -kinds.index(it["kind"])):
            self.remove(each)
        new = [each for at, each in wanted.items() if at not in self._there]
        for each in sorted(new, key=lambda it: kinds.index(it["kind"])):
            self.make(each)
        claims = [
            each for each in new if each["kind"] == "PersistentVolumeClaim" and self._is_bound(each, wanted)
        ]
        for each in map(path, claims):
            self._until(f"{each} is bound", partial(self._has_phase, each, "Bound"))
        for each in new:
            if state(each) == TERMINATING and each["kind"] != "Pod":  # only now: it had to be bound before
                self.side.ask("DELETE", path(each))
        if new or any(each["kind"] in ("Node", "CSINode") for each in old):
            time.sleep(SETTLING)

    @staticmethod
    def _is_bound(claim: Json, wanted: dict[str, Json]) -> bool:
        volume = claim["spec"].get("volumeName")
        found = wanted.get(f"{PATHS['PersistentVolume']}/{volume}")
        kept = (found or {}).get("spec", {}).get("claimRef")
        meta = claim["metadata"]
        return kept == {"namespace": meta["namespace"], "name": meta["name"]}

    def make(self, manifest: Json) -> Json:
        made = self._done(self.side.ask("POST", collection(manifest), manifest, JSON))
        self._there[path(manifest)] = manifest
        match state(manifest):
            case kind if kind == TERMINATING and manifest["kind"] == "Pod":
                self.side.ask("DELETE", f"{path(manifest)}?gracePeriodSeconds=3600")
            case kind if kind in (FINISHED, FAILED):
                phase = {"status": {"phase": "Succeeded" if kind == FINISHED else "Failed"}}
                self._done(self.side.ask("PATCH", f"{path(manifest)}/status", phase, MERGE))
            case kind if kind == RESIZED:
                said = manifest["metadata"]["annotations"].get(STATUS, "{}")  # which shrinking may take away
                status = {"status": json.loads(said)}
                self._done(self.side.ask("PATCH", f"{path(manifest)}/status", status, MERGE))
        return made

    def remove(self, manifest: Json) -> None:
        at = path(manifest)
        if "finalizers" in manifest["metadata"]:
            self.side.ask("PATCH", at, {"metadata": {"finalizers": None}}, MERGE)
        self.side.ask("DELETE", f"{at}?gracePeriodSeconds=0")
        self._there.pop(at, None)
        if manifest["kind"] == "Pod":
            for volume in manifest["spec"].get("volumes", ()):
                if "ephemeral" in volume:  # nobody here collects what its owner left behind
                    claim = {"name": f"{manifest['metadata']['name']}-{volume['name']}"}
                    claim["namespace"] = manifest["metadata"]["namespace"]
                    self.side.ask("DELETE", path({"kind": "PersistentVolumeClaim", "metadata": claim}))
        else:
            self._until(f"{at} is gone", lambda: self.side.ask("GET", at).code == 404)

    def _has_phase(self, at: str, phase: str) -> bool:
        return bool(self.side.ask("GET", at).body.get("status", {}).get("phase") == phase)

    @staticmethod
    def _until(what: str, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + WITHIN
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {WITHIN:g} s: {what}")
            time.sleep(0.01)

    def listed(self, kinds: Iterable[str]) -> dict[str, list[Json]]:
        """What the API server says is there, by the plural of the kind."""
        found = {}
        for kind in kinds:
            at = PATHS[kind].replace("/namespaces/{namespace}", "") if kind in PATHS else "/api/v1/namespaces"
            items: list[Json] = self.side.ask("GET", at).body["items"]
            found[at.rpartition("/")[2]] = items
        return found

    # -- one pod ----------------------------------------------------------------------------------------

    def submit(self, case: Case) -> Json:
        """The pod as the API server made it."""
        if case.refused:
            self.listener.allow[named(case.pod)] = frozenset()
        return self.make(case.pod)

    def verdict(
        self, pod: Json, *, within: float = WITHIN, other_than: Verdict | None = None
    ) -> Verdict | None:
        """What was said of it, once it is something else than that."""
        uid, end = pod["metadata"]["uid"], time.monotonic() + within
        with self._heard:
            while True:
                said = self._said(uid, named(pod))
                if said is not None and said != other_than:
                    return said
                left = end - time.monotonic()
                if left <= 0:
                    return said
                self._heard.wait(left)

    def _said(self, uid: str, name: str) -> Verdict | None:
        passed, seen = self.listener.passed.get(uid), self.watched.latest.get(uid)
        if passed is not None and self.listener.allow.get(name) == frozenset():
            return Verdict(passed)
        if seen is None:
            return None
        if node := seen["spec"].get("nodeName"):
            return Verdict(passed or frozenset({node}), node)
        for condition in seen["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return Verdict(passed or frozenset(), "", condition.get("message", ""))
        return None

    def withdraw(self, pod: Json) -> None:
        self.remove({"kind": "Pod", **pod})
        uid = pod["metadata"]["uid"]
        self.listener.passed.pop(uid, None)
        self.listener.allow.pop(named(pod), None)
        self.watched.latest.pop(uid, None)
