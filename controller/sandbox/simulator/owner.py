"""Who wants the pods: makes them when their time has come, makes them again when they were lost, and counts.

A pod that vanishes with its machine, or is evicted, is made again under a new name and begins from the
start, as a Job would do it. Finished pods are tidied away after a while, as with a Job's time to live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from controller.domain import names
from controller.sandbox.cluster.resources import PODS
from controller.sandbox.cluster.shelf import Change
from controller.sandbox.simulator.workload import Work
from controller.sandbox.simulator.worlds import Worlds

NAMESPACE = "default"
_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
KEPT = 600.0  # seconds after the end of a pod
AGAIN = 5.0
UNHEARD = 1.0  # seconds that it may take until a binding is heard of


class Want:
    """One work, through as many pods as it takes."""

    __slots__ = (
        "began",
        "bound_at",
        "done",
        "evicted",
        "first_began",
        "node",
        "pod",
        "tries",
        "used",
        "work",
    )

    def __init__(self, work: Work) -> None:
        self.work = work
        self.pod = ""
        self.tries = 0
        self.first_began = -1.0
        self.began = -1.0  # of the pod that runs now
        self.node = ""
        self.bound_at = -1.0
        self.used = 0.0  # seconds, lost ones too
        self.evicted = 0
        self.done = False

    @property
    def waits(self) -> bool:
        return bool(self.pod) and self.began < 0 and not self.done


class Owner:
    def __init__(self, worlds: Worlds, works: Sequence[Work], note: Callable[[str], None]) -> None:
        self.wants = [Want(work) for work in works]
        self.left = len(self.wants)
        self.waiting = 0
        self.running = 0
        self.used_gpu_s = 0.0
        self.used: dict[str, float] = {}  # by Node: when a pod was there last
        self.changed: list[Callable[[Want], None]] = []
        self._by_pod: dict[str, Want] = {}
        self._worlds = worlds
        self._loop = worlds.loop
        self._note = note
        worlds.cluster.store.follow(PODS, self._pod_changed)
        for want in self.wants:
            self._loop.call_at(want.work.arrives, self._make, want)

    def want_of(self, pod: str) -> Want | None:
        return self._by_pod.get(pod)

    @property
    def now(self) -> float:
        return self._loop.time()

    def waited(self, since: float) -> list[Want]:
        """Who waits for a node, or did at that moment as far as anybody could have heard."""
        found = (want for want in self.wants if want.pod and not want.done)
        return [want for want in found if not want.node or want.bound_at >= since - UNHEARD]

    def will_end(self, now: float) -> bool:
        """Whether some pod runs whose end is still to come."""
        return any(w.began >= 0 and not w.done and now < w.began + w.work.lasts + KEPT for w in self.wants)

    def forget_nodes(self, known: Collection[str]) -> None:
        """All but these are no more; their pods, which are noticed later, neither."""
        for name in [name for name in self.used if name not in known]:
            del self.used[name]

    def count_running(self) -> None:
        """The course ends: what runs still has used its GPUs until now."""
        for want in self.wants:
            if want.began >= 0 and not want.done:
                self._count_use(want)
                want.began = self.now

    def ran(self) -> list[Work]:
        """All that ran, and of what did not end, as much as ran of it."""
        parts = [want.work if want.done else _part(want) for want in self.wants]
        return [work for work in parts if work.lasts > 0]

    def _make(self, want: Want) -> None:
        work = want.work
        want.tries += 1
        want.pod = work.name if want.tries == 1 else f"{work.name}-{want.tries}"
        want.began, want.node = -1.0, ""
        self._by_pod[want.pod] = want
        self.waiting += 1
        response = self._worlds.ask_cluster("POST", _PATH, _manifest(want.pod, work))
        if response.status >= 300:
            raise RuntimeError(f"pod {want.pod}: {response.body.decode()}")
        self._note(f"pod {want.pod} asks for {work.gpus} GPU")

    def _pod_changed(self, change: Change) -> None:
        namespace, name = change.item.key
        want = self._by_pod.get(name) if namespace == NAMESPACE else None
        if want is None or want.pod != name or want.done:
            return
        if change.verb == "DELETED":
            self._lost(want, "is gone")
            return
        if change.item.node and want.node != change.item.node:
            want.node, want.bound_at = change.item.node, self._loop.time()
            self.used[want.node] = want.bound_at
        phase = (change.new.get("status") or {}).get("phase")
        now = self._loop.time()
        if phase == "Running" and want.began < 0:
            want.began = now
            if want.first_began < 0:
                want.first_began = now
            self.waiting -= 1
            self.running += 1
            self._note(f"pod {name} runs on {want.node}")
            self._tell(want)
        elif phase == "Succeeded":
            self._count_use(want)
            want.done = True
            self.left -= 1
            self._note(f"pod {name} has finished")
            self._loop.call_later(KEPT, self._tidy, name)
            self._tell(want)
        elif phase == "Failed":
            self._lost(want, "has failed")
            self._loop.call_later(KEPT, self._tidy, name)

    def _count_use(self, want: Want) -> None:
        if want.node:
            self.used[want.node] = self._loop.time()
        if want.began >= 0:
            spent = self._loop.time() - want.began
            want.used += spent
            self.used_gpu_s += spent * want.work.gpus
            self.running -= 1
        else:
            self.waiting -= 1

    def _lost(self, want: Want, what: str) -> None:
        self._count_use(want)
        self._note(f"pod {want.pod} {what}")
        self._by_pod.pop(want.pod, None)
        want.pod, want.began, want.node = "", -1.0, ""
        self._loop.call_later(AGAIN, self._make, want)
        self._tell(want)

    def _tell(self, want: Want) -> None:
        for hear in self.changed:
            hear(want)

    def _tidy(self, name: str) -> None:
        self._by_pod.pop(name, None)
        self._worlds.ask_cluster("DELETE", f"{_PATH}/{name}?gracePeriodSeconds=0")


def _part(want: Want) -> Work:
    return want.work._replace(lasts=min(want.work.lasts, want.used))


def _manifest(name: str, work: Work) -> dict[str, Any]:
    limits = {
        "cpu": f"{work.cpu_milli}m",
        "memory": f"{work.memory_mib}Mi",
        "nvidia.com/gpu": str(work.gpus),
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "work", "image": "registry.local/work:1", "resources": {"limits": limits}}],
    }
    if work.models:
        wanted = {"key": names.LABEL_GPU, "operator": "In", "values": list(work.models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    notes = {"gpu-autoscaler-sandbox/run-for": f"{work.lasts:.1f}s"}
    return {"kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}
