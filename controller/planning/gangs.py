"""Pods that are of use together only: which gang a pod belongs to, how large it is, and who is there.

Every batch system marks its pods in a way of its own. What says how many pods are needed is the group's
own object, the owner, or an annotation, never the pods seen so far. Some systems start nothing before all
are there (`strict`); owners such as LeaderWorkerSet may create the rest only once the first pod runs, so
there the pods that exist are the gang. A plain Job is none: its pods are of use one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.domain import names
from controller.domain.kube import Job, Node, Pod, PodGroup
from controller.domain.plan import Snapshot
from controller.planning.rights import POD_GROUPS, WORKLOADS, missing_right

# Systems whose finished pods still count: the group's object is of one run.
_COUNTS_FINISHED = frozenset({"volcano", "kueue"})
_KINDS = {
    "ours": "gang",
    "native": "PodGroup",
    "coscheduling": "PodGroup",
    "volcano": "PodGroup",
    "kai": "PodGroup",
    "kueue": "Kueue pod group",
    "lws": "LeaderWorkerSet group",
    "jobset": "JobSet",
    "kubeflow": "training job",
    "ray": "Ray cluster",
}


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """What packing must know of one gang: of its waiting pods at least `needed` get a place, or none does.

    One more of them for each of those beside that has none, beyond those that may lack one.
    """

    key: str  # unique and stable
    name: str  # for people: `PodGroup default/llm`
    size: int = 0  # pods that must run at once, those that run already among them; 0: nobody says
    needed: int = 0  # of those that wait
    beside: tuple[Pod, ...] = ()  # who waits, too, and asks for nothing that we could buy
    spare: int = 0  # so many of these may lack a place
    one_location: bool = False
    location: str | None = (
        None  # where its running members are, if it must be one and they are in one; "": at home
    )


class Members(msgspec.Struct):
    """One gang as it is found in a snapshot."""

    key: str
    name: str
    system: str
    namespace: str
    strict: bool = False
    size: int = 0
    problem: str = ""  # what it says of itself cannot be used
    quota: str = ""  # the words of its scheduler that it waits for quota
    one_location: bool = False
    one_by_one: bool = False  # it turned out to be none
    pods: list[Pod] = []

    @property
    def in_workload(self) -> bool:
        """Of a Workload (Kubernetes 1.35): its name is that of the Workload, of a pod group in it, and a key."""
        return self.system == "native" and self.key.count("/") == 3

    @property
    def first(self) -> float:
        """Since when its present members come; those of an earlier run may still be listed."""
        return min(pod.created for pod in self.there or self.pods)

    @property
    def there(self) -> list[Pod]:
        """Members that run or could: not finished, not going, not held back by a gate."""
        finished = self.system in _COUNTS_FINISHED
        return [
            pod
            for pod in self.pods
            if (pod.phase == "Succeeded" and finished)
            or not (pod.finished or pod.deleting_at is not None or pod.gated)
        ]

    @property
    def pending(self) -> bool:
        """Whether the scheduler found no place for one of them: then the others are demand as well."""
        return any(pod.unschedulable_since is not None and not pod.node for pod in self.there)


def membership(pod: Pod) -> tuple[str, str] | None:
    """The system and the name (within the namespace) of the gang that the pod says it belongs to."""
    labels, annotations = pod.shape.labels, pod.shape.annotations
    if not (labels or annotations or pod.shape.workload):
        return None
    if names.POD_GANG in annotations or names.POD_GANG_SIZE in annotations:
        return "ours", annotations.get(names.POD_GANG, "").strip()
    if pod.shape.workload:
        return "native", pod.shape.workload
    for key in names.COSCHEDULING_GROUPS:
        if labels.get(key):
            return "coscheduling", labels[key]
    if annotations.get(names.VOLCANO_GROUP):
        return "volcano", annotations[names.VOLCANO_GROUP]
    if annotations.get(names.KAI_GROUP):
        return "kai", annotations[names.KAI_GROUP]
    if labels.get(names.KUEUE_GROUP):
        return "kueue", labels[names.KUEUE_GROUP]
    if labels.get(names.LWS_NAME):
        return "lws", f"{labels[names.LWS_NAME]}/{labels.get(names.LWS_GROUP, '0')}"
    if labels.get(names.JOBSET_NAME):
        return "jobset", labels[names.JOBSET_NAME]
    if labels.get(names.KUBEFLOW_JOB):
        return "kubeflow", labels[names.KUBEFLOW_JOB]
    if labels.get(names.RAY_CLUSTER) and labels.get(names.RAY_GANG) in ("true", "True"):
        return "ray", labels[names.RAY_CLUSTER]
    return None


def find(snapshot: Snapshot) -> dict[str, Members]:
    """Every gang with its members, by the gang's key."""
    found: dict[str, Members] = {}
    known: dict[int, tuple[str, str] | None] = {}
    for pod in snapshot.pods:
        shape = pod.shape
        if id(shape) in known:
            says = known[id(shape)]
        else:
            says = known[id(shape)] = None if shape.is_daemon or shape.mirror else membership(pod)
        if says is None:
            continue
        system, name = says
        key = f"{system} {pod.namespace}/{name}"
        gang = found.get(key)
        if gang is None:
            words = f"{_KINDS[system]} {pod.namespace}/{name}"
            gang = found[key] = Members(key, words, system, pod.namespace)
        gang.pods.append(pod)
    groups = {(g.system, g.namespace, g.name): g for g in snapshot.pod_groups}
    jobs = {job.uid: job for job in snapshot.jobs}
    for gang in found.values():
        kind = WORKLOADS if gang.in_workload else POD_GROUPS.get(gang.system, "")
        if kind and (why := missing_right(snapshot, kind)):
            gang.strict, gang.problem = True, why
        elif gang.in_workload:
            _measure_in_workload(gang, groups)
        else:
            _measure(gang, groups, jobs)
        gang.one_location = _one_location(gang, snapshot.policy.gangs_in_one_location)
    return {key: gang for key, gang in found.items() if not gang.one_by_one}


def located(gang: Members, nodes: Mapping[str, Node], bought: Mapping[str, str]) -> str | None:
    """The one location of the members that have a node, or a place on it; None if there is none yet, or more than one.

    Nodes that tell none, as at home, are one: "". `bought`: by Node, the location that is known without its labels.
    """
    places = set()
    for pod in gang.there:
        node = nodes.get(pod.node or pod.nominated)
        if node is not None:
            told = node.labels.get(names.LABEL_LOCATION) or node.labels.get(names.LABEL_ZONE, "")
            places.add(told or bought.get(node.name, ""))
    return places.pop() if len(places) == 1 else None


def _measure(gang: Members, groups: Mapping[tuple[str, str, str], PodGroup], jobs: Mapping[str, Job]) -> None:
    name = gang.key.split("/", 1)[1]
    match gang.system:
        case "ours":
            gang.strict = True
            if not name:
                gang.problem = f"the pod says {names.POD_GANG_SIZE} and no {names.POD_GANG}"
            else:
                _agree(gang, names.POD_GANG_SIZE, _alive(gang), annotations=True)
        case "coscheduling" | "volcano" | "kai" | "native":
            gang.strict = True
            group = groups.get((gang.system, gang.namespace, name))
            if group is not None:
                gang.size, gang.quota = group.min_member, group.waits_for_quota
                # Kubernetes' policy `basic`, and to every scheduler a minimum that is left out or 0.
                gang.one_by_one = not (gang.size or gang.quota)
            elif any(pod.shape.labels.get(names.COSCHEDULING_OLD_SIZE) for pod in gang.pods):
                _agree(gang, names.COSCHEDULING_OLD_SIZE, _alive(gang), annotations=False)
            else:
                gang.problem = (
                    f"{gang.name} is not to be seen, so nobody says how many pods it needs: create it, or let the "
                    "controller read it"
                )
        case "kueue":
            gang.strict = True
            _agree(gang, names.KUEUE_GROUP_COUNT, gang.pods, annotations=True)
        case "lws":
            _agree(gang, names.LWS_SIZE, _alive(gang), annotations=True)
        case "jobset":
            gang.size = _of_jobset(gang.pods, jobs)


def _measure_in_workload(gang: Members, groups: Mapping[tuple[str, str, str], PodGroup]) -> None:
    _, workload, part, _ = gang.key.split("/")
    found = groups.get(("workload", gang.namespace, workload))
    gang.strict = True
    if found is None:
        gang.problem = (
            f"Workload {gang.namespace}/{workload} is not to be seen, so nobody says how many pods it needs: create "
            "it, or let the controller read it"
        )
    elif part not in found.parts:
        gang.problem = f"Workload {gang.namespace}/{workload} has no pod group {part}"
    else:
        gang.size, gang.one_by_one = found.parts[part], not found.parts[part]


def _alive(gang: Members) -> list[Pod]:
    """A pod of an earlier run that is still listed has no say."""
    return [pod for pod in gang.pods if not pod.finished and pod.deleting_at is None] or gang.pods


def _agree(gang: Members, key: str, pods: Iterable[Pod], *, annotations: bool) -> None:
    """The size that all members say alike; else what is wrong."""
    said = {(pod.shape.annotations if annotations else pod.shape.labels).get(key) for pod in pods}
    listed = ", ".join(sorted(repr(text) if text is not None else "nothing" for text in said))
    texts = {text.strip() for text in said if text is not None}
    if len(said) > 1 and (len(texts) > 1 or None in said):
        gang.problem = f"the pods of {gang.name} disagree about {key}: {listed}"
        return
    text = next(iter(texts), "")
    if text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text) > 0:
        gang.size = int(text)
    else:
        gang.problem = f"{gang.name} needs a whole number above zero in {key}, and its pods say {listed}"


def _of_jobset(pods: Iterable[Pod], jobs: Mapping[str, Job]) -> int:
    """Replicas times parallelism of each of its replicated jobs; of one that no pod shows, a pod a Job."""
    shown: dict[str, tuple[int, int]] = {}
    every = 0
    for pod in pods:
        labels = pod.shape.labels
        job = jobs.get(pod.shape.owner_uid)
        parallelism = job.wanted if job is not None else 1
        replicas = _count(labels.get(names.JOBSET_REPLICAS, ""), 1)
        part = labels.get(names.JOBSET_PART, "")
        shown[part] = max(shown.get(part, (0, 0)), (replicas, parallelism))
        every = max(every, _count(labels.get(names.JOBSET_JOBS, ""), 0))
    unseen = max(0, every - sum(replicas for replicas, _ in shown.values()))
    return sum(replicas * parallelism for replicas, parallelism in shown.values()) + unseen


def _count(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else otherwise


def _one_location(gang: Members, otherwise: bool) -> bool:
    """What a member says wins over the setting; of contradicting words the stricter one."""
    said = {
        text.strip().lower()
        for pod in _alive(gang)
        if (text := pod.shape.annotations.get(names.POD_GANG_ONE_LOCATION)) is not None
    }
    if "true" in said:
        return True
    return False if "false" in said else otherwise
