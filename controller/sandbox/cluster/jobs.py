"""Jobs: pods until enough of them have succeeded.

The pods may come in batches (a setting), so that a Job whose pods are still being created can be seen.
Quirks kept: pods that have ended count even when they are deleted afterwards; an indexed Job numbers its
pods; a suspended one has none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.making import FINISHED, PodMaker, is_ready, key_of
from controller.sandbox.cluster.resources import JOBS, PODS, Obj
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shelf import Key


class Jobs:
    def __init__(
        self, maker: PodMaker, agenda: Agenda, settings: Settings, due: Callable[[Key], None]
    ) -> None:
        self.maker = maker
        self.agenda = agenda
        self.settings = settings
        self.due = due  # look at a Job again
        self._batch_waits: set[Key] = set()
        self._ended: dict[str, dict[str, tuple[str, int]]] = {}  # Job -> its pods that have ended

    def forget(self, uid: str) -> None:
        self._ended.pop(uid, None)

    def step(self, job: Obj) -> None:
        spec, status = job["spec"], copy.deepcopy(job.get("status") or {})
        key = key_of(job)
        if any(
            c["type"] in ("Complete", "Failed") and c["status"] == "True"
            for c in status.get("conditions") or ()
        ):
            return
        pods = self.maker.mine(job)
        phases = [pod["status"].get("phase") for pod in pods]
        active = [
            pod
            for pod, phase in zip(pods, phases, strict=True)
            if phase not in FINISHED and not pod["metadata"].get("deletionTimestamp")
        ]
        ended = self._ended.setdefault(job["metadata"]["uid"], {})
        for pod, phase in zip(pods, phases, strict=True):
            if phase in FINISHED:
                ended[pod["metadata"]["uid"]] = (phase, _index_of(pod))
        outcomes = [phase for phase, _ in ended.values()]
        succeeded, failed = outcomes.count("Succeeded"), outcomes.count("Failed")
        status |= {"succeeded": succeeded, "failed": failed, "terminating": 0, "uncountedTerminatedPods": {}}
        status["ready"] = sum(is_ready(pod) for pod in active)
        now = self.maker.store.now()
        if not spec.get("suspend"):
            status.setdefault("startTime", now)
        wanted = spec.get("completions")
        done = succeeded >= wanted if wanted is not None else succeeded > 0 and not active
        if failed > spec["backoffLimit"]:
            for pod in active:
                self.maker.store.delete(PODS, key_of(pod))
            active = []
            reason = {
                "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit",
            }
            self._tell(status, "Failed", "True", reason["reason"], reason["message"])
            self.maker.recorder.tell(
                JOBS, job, "BackoffLimitExceeded", reason["message"], "job-controller", warning=True
            )
        elif done:
            status["completionTime"] = now
            for kind in ("SuccessCriteriaMet", "Complete"):
                self._tell(
                    status, kind, "True", "CompletionsReached", "Reached expected number of succeeded pods"
                )
            self.maker.recorder.tell(JOBS, job, "Completed", "Job completed", "job-controller")
        elif spec.get("suspend"):
            for pod in active:
                self.maker.store.delete(PODS, key_of(pod))
            active = []
            self._tell(status, "Suspended", "True", "JobSuspended", "Job suspended")
        else:
            if any(c["type"] == "Suspended" for c in status.get("conditions") or ()):
                self._tell(status, "Suspended", "False", "JobResumed", "Job resumed")
            want = min(spec["parallelism"], wanted - succeeded if wanted is not None else spec["parallelism"])
            if wanted is None and succeeded:
                want = len(active)
            for pod in active[max(0, want) :]:
                self.maker.store.delete(PODS, key_of(pod))
            made = self._job_batch(job, key, pods, want - len(active))
            status["active"] = min(len(active), max(0, want)) + made
            self.maker.write(JOBS, job, status)
            return
        status["active"] = len(active)
        self.maker.write(JOBS, job, status)

    def _tell(self, status: Obj, kind: str, value: str, reason: str, message: str) -> None:
        now = self.maker.store.now()
        held = next((each for each in status.get("conditions") or () if each["type"] == kind), None)
        if held is None or held["status"] != value:
            told = {"reason": reason, "message": message, "lastProbeTime": now}
            set_condition(status, now, type=kind, status=value, **told)

    def _job_batch(self, job: Obj, key: Key, pods: list[Obj], missing: int) -> int:
        """Create some of the missing pods; the rest when the batch delay is over."""
        if missing <= 0 or key in self._batch_waits:
            return 0
        name = job["metadata"]["name"]
        indexes: list[int] = []
        if job["spec"]["completionMode"] == "Indexed":
            taken = {_index_of(pod) for pod in pods if pod["status"].get("phase") not in FINISHED}
            taken |= {
                index for phase, index in self._ended[job["metadata"]["uid"]].values() if phase == "Succeeded"
            }
            indexes = [index for index in range(job["spec"].get("completions") or 0) if index not in taken]
        batch = min(missing, self.settings.job_batch)
        made = 0
        for at in range(batch):
            index = indexes[at] if at < len(indexes) else None
            made += self.maker.make(JOBS, job, {}, _indexed(name, index))
        if missing > batch:
            self._batch_waits.add(key)

            def go_on() -> None:
                self._batch_waits.discard(key)
                self.due(key)

            self.agenda.after(self.settings.job_batch_delay, go_on)
        return made


def _index_of(pod: Obj) -> int:
    return int((pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-completion-index", -1))


def _indexed(name: str, index: int | None) -> Callable[[Obj], None]:
    def edit(pod: Obj) -> None:
        if index is None:
            return
        label = "batch.kubernetes.io/job-completion-index"
        pod["metadata"]["labels"][label] = str(index)
        pod["metadata"].setdefault("annotations", {})[label] = str(index)
        pod["metadata"]["generateName"] = f"{name}-{index}-"
        pod["spec"].setdefault("hostname", f"{name}-{index}")
        for each in pod["spec"]["containers"]:
            path = f"metadata.labels['{label}']"
            variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
            each["env"] = [*(each.get("env") or ()), variable]

    return edit
