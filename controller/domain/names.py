"""Every name that the outside world sees: labels, annotations, taints, marks, objects.

All binding: users' manifests, dashboards and scripts depend on them. A machine's identity is its
hostname, known before the machine exists; `resolve` reads it back from every provider ID shape that
this project or its predecessors wrote.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

PREFIX = "gpu-autoscaler/"

LABEL_POOL = PREFIX + "pool"
LABEL_MACHINE = PREFIX + "machine"
LABEL_LOCATION = PREFIX + "location"
LABEL_MARKET = PREFIX + "market"
LABEL_GPU = PREFIX + "gpu"
LABEL_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
LABEL_REGION = "topology.kubernetes.io/region"
LABEL_ZONE = "topology.kubernetes.io/zone"
LABEL_HOSTNAME = "kubernetes.io/hostname"
LABEL_ARCH = "kubernetes.io/arch"
LABEL_OS = "kubernetes.io/os"

POD_GANG = PREFIX + "gang"
POD_GANG_SIZE = PREFIX + "gang-size"
POD_GANG_ONE_LOCATION = PREFIX + "gang-one-location"
POD_IGNORE = PREFIX + "ignore"
POD_MIN_AGE = PREFIX + "min-age"
DO_NOT_DISRUPT = PREFIX + "do-not-disrupt"
KARPENTER_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
CA_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CA_POD_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
CA_SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

# How batch systems mark the pods that belong together. Labels unless said otherwise.
COSCHEDULING_GROUPS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")
COSCHEDULING_OLD_SIZE = "pod-group.scheduling.sigs.k8s.io/min-available"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"  # annotation
KAI_GROUP = "pod-group-name"  # annotation
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_GROUP_COUNT = "kueue.x-k8s.io/pod-group-total-count"  # annotation
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"  # annotation
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_PART = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
JOBSET_JOBS = "jobset.sigs.k8s.io/global-replicas"
KUBEFLOW_JOB = "training.kubeflow.org/job-name"
RAY_CLUSTER = "ray.io/cluster"
RAY_GANG = "ray.io/gang-scheduling-enabled"

# KAI's shares of a GPU: annotations of pods that request none.
KAI_FRACTION = "gpu-fraction"
KAI_MEMORY = "gpu-memory"  # MiB
KAI_DEVICES = "gpu-fraction-num-devices"

POD_ANNOTATIONS = frozenset(
    {
        POD_GANG,
        POD_GANG_SIZE,
        POD_GANG_ONE_LOCATION,
        VOLCANO_GROUP,
        KAI_GROUP,
        KUEUE_GROUP_COUNT,
        LWS_SIZE,
        KAI_FRACTION,
        KAI_MEMORY,
        KAI_DEVICES,
        POD_IGNORE,
        POD_MIN_AGE,
        DO_NOT_DISRUPT,
        KARPENTER_DO_NOT_DISRUPT,
        CA_SAFE_TO_EVICT,
        CA_POD_DELAY,
    }
)

NODE_IDLE_SINCE = PREFIX + "idle-since"
NODE_DRAIN_SINCE = PREFIX + "drain-since"
PAUSE = PREFIX + "pause"
RETIRE = PREFIX + "retire"  # on the status ConfigMap: all that was bought is to go
NODE_ANNOTATIONS = frozenset(
    {NODE_IDLE_SINCE, NODE_DRAIN_SINCE, DO_NOT_DISRUPT, PAUSE, CA_SCALE_DOWN_DISABLED}
)

TAINT_IDLE = PREFIX + "idle"  # PreferNoSchedule
TAINT_DRAINING = PREFIX + "draining"  # NoSchedule
# Where cluster-autoscaler decides: it makes templates of living nodes, and leaves out taints of this prefix.
TAINT_LEAVING = "ignore-taint.cluster-autoscaler.kubernetes.io/gpu-autoscaler-leaving"  # NoSchedule
# The same for machines that go on working: with the other prefix it would count their nodes as not ready.
TAINT_CLOSED = "status-taint.cluster-autoscaler.kubernetes.io/gpu-autoscaler-closed"  # NoSchedule
CA_TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"  # its own, before it asks for the end of a machine
TAINT_STARTUP = "ignore-taint.cluster-autoscaler.kubernetes.io/gpu-autoscaler-joining"  # opt-in

# Where cluster-autoscaler decides and knows nothing of such GPUs: the node is not ready to it before they are there.
TAINT_GPUS_COME = "ignore-taint.cluster-autoscaler.kubernetes.io/gpu-autoscaler-gpus-come"  # PreferNoSchedule

LEDGER_CONFIGMAP = "gpu-autoscaler-ledger"
STATUS_CONFIGMAP = "gpu-autoscaler-status"
STATUS_KEY = "status.json"
LEASE = "gpu-autoscaler"
DEFAULT_NAMESPACE = "gpu-autoscaler"

SCRIPT_PREFIX = "gpuas-"
TAG_CLUSTER = "gpuas-cluster"
TAG_POOL = "gpuas-pool"
TAG_INTENT = "gpuas-intent"

NAME_FORM = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?")
INTENT_FORM = re.compile(r"[a-z2-7]{10}")
INTENT_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
INTENT_LENGTH = 10


def default_cluster_id(kube_system_uid: str, namespace: str) -> str:
    return hashlib.sha256(f"{kube_system_uid}/{namespace}".encode()).hexdigest()[:8]


def hostname(cluster_id: str, pool: str, intent: str) -> str:
    return f"{cluster_id}-{pool}-{intent}"


def parse_hostname(cluster_id: str, name: str) -> tuple[str, str] | None:
    """Pool and intent, if the name has exactly the shape of one of this cluster's machines."""
    if not name.startswith(cluster_id + "-"):
        return None
    pool, dash, intent = name[len(cluster_id) + 1 :].rpartition("-")
    if not dash or not NAME_FORM.fullmatch(pool) or not INTENT_FORM.fullmatch(intent):
        return None
    return pool, intent


def provider_id(name: str) -> str:
    return f"verda://{name}"


def resolve(provider_id: str) -> str:
    """The hostname or instance id that a provider ID points at, or "" for schemes not known."""
    scheme, separator, rest = provider_id.partition("://")
    if not separator or scheme not in ("verda", "verdacloud", "datacrunch", "k3s"):
        return ""
    return rest.rsplit("/", 1)[-1].lower()


def description(cluster_id: str, intent: str) -> str:
    return f"gpuas {cluster_id} {intent}"


def parse_description(cluster_id: str, text: str) -> str:
    """The intent that a description of this cluster's machine names, or ""."""
    words = text.split()
    if len(words) == 3 and words[0] == "gpuas" and words[1] == cluster_id and INTENT_FORM.fullmatch(words[2]):
        return words[2]
    return ""


def script_name(cluster_id: str, intent: str) -> str:
    return f"{SCRIPT_PREFIX}{cluster_id}-{intent}"


def script_mark(cluster_id: str, intent: str) -> str:
    """The second line of every script of ours."""
    return f"# gpuas {cluster_id} {intent}"


def owned_script(cluster_id: str, name: str, text: str) -> str:
    """The intent of a script that is ours by name *and* by its second line, or ""."""
    prefix = f"gpuas-{cluster_id}-"
    intent = name[len(prefix) :] if name.startswith(prefix) else ""
    if not INTENT_FORM.fullmatch(intent):
        return ""
    lines = text.splitlines()
    return intent if len(lines) > 1 and lines[1].strip() == script_mark(cluster_id, intent) else ""


def owned_intent(cluster_id: str, name: str, text: str, tags: Iterable[tuple[str, str]]) -> str:
    """The intent of a machine that at least two agreeing marks prove to be ours, or "".

    The marks are the hostname, the description and the tags; each is somebody else's free text, so
    one alone proves nothing, and marks that contradict each other prove that something is wrong.
    """
    named = dict(tags)
    found = parse_hostname(cluster_id, name)
    by_tag = named.get(TAG_INTENT, "") if named.get(TAG_CLUSTER) == cluster_id else ""
    claims = [
        claim for claim in (found[1] if found else "", parse_description(cluster_id, text), by_tag) if claim
    ]
    if len(claims) < 2 or len(set(claims)) != 1:
        return ""
    if named.get(TAG_CLUSTER, cluster_id) != cluster_id:
        return ""
    return claims[0]


@lru_cache(maxsize=1000)
def gpu_slug(model: str) -> str:
    """`A100 80GB` as a label value: `a100-80gb`."""
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
