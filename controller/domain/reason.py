"""Why: the stable codes that metrics, tests, alerts and events use, with one sentence for people each.

A code never changes its meaning; new ones may be added. `docs/reasons.md` is generated from this table.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    # a pod
    LAUNCHING = "launching"
    ON_THE_WAY = "on_the_way"
    FITS_NOW = "fits_now"
    GPUS_FREED_SOON = "gpus_freed_soon"
    WAITS_FOR_SIBLINGS = "waits_for_siblings"
    TOO_YOUNG = "too_young"
    NOT_DEMAND = "not_demand"
    TOO_LARGE = "too_large"
    SELECTOR = "selector"
    AFFINITY = "affinity"
    TAINT = "taint"
    TOPOLOGY = "topology"
    VOLUME = "volume"
    RESOURCES = "resources"
    GANG_INCOMPLETE = "gang_incomplete"
    QUOTA_BLOCKED = "quota_blocked"
    DRA_UNSUPPORTED = "dra_unsupported"
    LIMIT_GPUS = "limit_gpus"
    LIMIT_MACHINES = "limit_machines"
    LIMIT_PRICE = "limit_price"
    LIMIT_BUDGET = "limit_budget"
    LIMIT_CORES = "limit_cores"
    LIMIT_MEMORY = "limit_memory"
    LIMIT_NAMESPACE = "limit_namespace"
    LIMIT_RATE = "limit_rate"
    LIMIT_SCRIPTS = "limit_scripts"
    NO_POOLS = "no_pools"
    PREDICTION_WRONG = "prediction_wrong"
    PLACE_TAKEN = "place_taken"
    PAUSED = "paused"
    RETIRED = "retired"
    NOT_LEADER = "not_leader"
    # an answer of the cloud
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    NO_FUNDS = "no_funds"
    IMAGE_NOT_SUPPORTED = "image_not_supported"
    RATE_LIMITED = "rate_limited"
    NOT_ALLOWED_YET = "not_allowed_yet"
    ALREADY_GONE = "already_gone"
    BAD_REQUEST = "bad_request"
    UNAUTHORISED = "unauthorised"
    UNAVAILABLE = "unavailable"
    JOIN_UNPREPARED = "join_unprepared"
    # a machine
    IN_USE = "in_use"
    PROMISED = "promised"
    MIN_SIZE = "min_size"
    COOLDOWN = "cooldown"
    MIN_AGE = "min_age"
    PAID = "paid"
    WINDOW = "window"
    HEADROOM = "headroom"
    PDB = "pdb"
    DO_NOT_DISRUPT = "do_not_disrupt"
    IDLE = "idle"
    EXPIRED = "expired"
    DRIFTED = "drifted"
    POOL_REMOVED = "pool_removed"
    CONSOLIDATION = "consolidation"
    NEEDED = "needed"
    BUDGET = "budget"
    STARTING = "starting"
    DRAINING = "draining"
    DELETING = "deleting"
    UNKNOWN_OUTCOME = "unknown_outcome"
    LAUNCH_DEADLINE = "launch_deadline"
    JOIN_DEADLINE = "join_deadline"
    READY_DEADLINE = "ready_deadline"
    GPU_DEADLINE = "gpu_deadline"
    GPU_LOST = "gpu_lost"
    STOPPED = "stopped"
    SILENT = "silent"
    LAUNCH_FAILED = "launch_failed"
    VANISHED = "vanished"
    SURPLUS = "surplus"
    IDENTITY_CLASH = "identity_clash"
    WITHDRAWN = "withdrawn"
    DISMISSED = "dismissed"
    # a machine that is switched
    OFF = "off"
    ON_DEADLINE = "on_deadline"
    OFF_DEADLINE = "off_deadline"
    SWITCH_FAILED = "switch_failed"
    SWITCHED_BY_HAND = "switched_by_hand"
    SWITCH_LIMIT = "switch_limit"
    SWITCHING_OFF = "switching_off"
    LATE_CALL = "late_call"
    MIN_ON = "min_on"
    MIN_OFF = "min_off"


SENTENCES: dict[Reason, str] = {
    Reason.LAUNCHING: "A machine is being ordered for this pod.",
    Reason.ON_THE_WAY: "A machine that is on its way has room for this pod.",
    Reason.FITS_NOW: "A node has room for this pod; the scheduler will place it.",
    Reason.GPUS_FREED_SOON: "A pod that is terminating will free the GPUs, or the place, that this pod needs.",
    Reason.WAITS_FOR_SIBLINGS: "The pods of the same Job are still being created; they are planned together.",
    Reason.TOO_YOUNG: "The pod asked to be left alone until it is older.",
    Reason.NOT_DEMAND: "The pod is no demand for GPUs, or asked to be ignored.",
    Reason.TOO_LARGE: "No single machine that the pools may buy has that many GPUs.",
    Reason.SELECTOR: "The pod's node selector or affinity matches no machine that the pools may buy.",
    Reason.AFFINITY: "The pod's affinity to other pods cannot be satisfied by a new machine.",
    Reason.TAINT: "The pod does not tolerate the taints of the pools that could hold it.",
    Reason.TOPOLOGY: "The pod's topology spread cannot be satisfied by a new machine.",
    Reason.VOLUME: "The pod's volumes cannot be used on any machine that the pools may buy.",
    Reason.RESOURCES: "No machine that the pools may buy has the CPU, memory or other resources beside the GPUs.",
    Reason.GANG_INCOMPLETE: "The pod's gang cannot be completed, so nothing is bought for it.",
    Reason.QUOTA_BLOCKED: "A queueing system holds the pod back until its queue has quota; a machine would not help.",
    Reason.DRA_UNSUPPORTED: "The pod's resource claims are of a form that is not planned for, or it asks for GPUs by name where claims alone are served.",
    Reason.LIMIT_GPUS: "A limit on the number of GPUs is reached.",
    Reason.LIMIT_MACHINES: "A limit on the number of machines is reached.",
    Reason.LIMIT_PRICE: "A limit on the price is reached.",
    Reason.LIMIT_BUDGET: "The budget of the month is spent or reserved.",
    Reason.LIMIT_CORES: "A limit on the number of CPU cores is reached.",
    Reason.LIMIT_MEMORY: "A limit on the memory of all machines is reached.",
    Reason.LIMIT_NAMESPACE: "A limit of the pod's namespace is reached.",
    Reason.LIMIT_RATE: "The limit of launches per minute is reached; the rest follows.",
    Reason.LIMIT_SCRIPTS: "Too many machines boot with a startup script of their own; the rest follows.",
    Reason.NO_POOLS: "No pool is configured.",
    Reason.PREDICTION_WRONG: "Machines were bought for this pod and, once ready, did not take it; nothing more is bought.",
    Reason.PLACE_TAKEN: "The place bought for this pod was taken by others; it is planned anew.",
    Reason.PAUSED: "Scaling is paused by an annotation or a setting.",
    Reason.RETIRED: "Every machine of this cluster is being retired.",
    Reason.NOT_LEADER: "Another replica holds the lease; this one only watches.",
    Reason.NO_CAPACITY: "The cloud has no capacity for this offer now.",
    Reason.QUOTA: "A quota of the cloud project is exhausted.",
    Reason.NO_FUNDS: "The balance of the cloud project is too low.",
    Reason.IMAGE_NOT_SUPPORTED: "The instance type does not accept the image.",
    Reason.RATE_LIMITED: "The cloud asked for fewer calls.",
    Reason.NOT_ALLOWED_YET: "The cloud refuses this action in the machine's present state; it is tried again.",
    Reason.ALREADY_GONE: "The cloud no longer knows it.",
    Reason.BAD_REQUEST: "The cloud refused the request as invalid.",
    Reason.UNAUTHORISED: "The cloud refused the credentials.",
    Reason.UNAVAILABLE: "The cloud does not answer.",
    Reason.JOIN_UNPREPARED: "The script of the first boot cannot be made, so nothing is ordered.",
    Reason.IN_USE: "Pods on the machine use its GPUs, or would be lost or without a place.",
    Reason.PROMISED: "The machine is promised to pods that have not started yet.",
    Reason.MIN_SIZE: "The pool's minimum keeps the machine.",
    Reason.HEADROOM: "The machine has GPUs that the settings want to be kept free.",
    Reason.COOLDOWN: "The machine is idle, and its cooldown runs.",
    Reason.MIN_AGE: "The machine is idle, and younger than the least age of one that is removed.",
    Reason.PAID: "The machine is idle, and paid for a while longer; the cloud gives nothing back.",
    Reason.WINDOW: "The machine may go, and at this hour nothing is removed.",
    Reason.PDB: "A PodDisruptionBudget does not allow an eviction now.",
    Reason.DO_NOT_DISRUPT: "An annotation forbids to disturb the machine or a pod on it.",
    Reason.IDLE: "The machine has been idle for longer than the cooldown.",
    Reason.EXPIRED: "The machine is older than its pool allows; it goes as soon as it is idle.",
    Reason.DRIFTED: "The machine was made with other settings of its pool; it goes as soon as it is idle.",
    Reason.POOL_REMOVED: "The machine's pool is no longer in the settings; it takes no new pods and goes, or is kept, as they say.",
    Reason.CONSOLIDATION: "The machine is half empty, and its pods are moved to other nodes that have room.",
    Reason.NEEDED: "A waiting pod fits the machine.",
    Reason.BUDGET: "As many machines as allowed are being removed already.",
    Reason.STARTING: "The machine is on its way.",
    Reason.DRAINING: "The machine is being drained.",
    Reason.DELETING: "The machine is being deleted.",
    Reason.UNKNOWN_OUTCOME: "The answer to the order was lost; the cloud's inventory will tell.",
    Reason.LAUNCH_DEADLINE: "The cloud did not start the machine in time.",
    Reason.JOIN_DEADLINE: "The machine runs and never joined the cluster.",
    Reason.READY_DEADLINE: "The node joined and never became Ready.",
    Reason.GPU_DEADLINE: "The node is Ready and never offered the GPUs that were promised.",
    Reason.GPU_LOST: "The node offers fewer GPUs than it did.",
    Reason.STOPPED: "The machine was shut down in the cloud, where it goes on costing its full price.",
    Reason.SILENT: "The node has not been Ready for long, and nobody says that the machine is off: work may run there.",
    Reason.LAUNCH_FAILED: "The cloud reports that the machine failed.",
    Reason.VANISHED: "The machine is gone without our doing (eviction, console, balance).",
    Reason.SURPLUS: "A machine appeared that no promise needs.",
    Reason.IDENTITY_CLASH: "More than one Node or machine claims this identity.",
    Reason.WITHDRAWN: "Whoever asked for the machine took that back before the order was sent.",
    Reason.DISMISSED: "The driver that decides on sizes, such as cluster-autoscaler, asked for its removal.",
    Reason.OFF: "The machine is switched off, and nothing needs it.",
    Reason.ON_DEADLINE: "The machine was switched on, and its Node did not become Ready in time.",
    Reason.OFF_DEADLINE: "The machine was switched off, and its Node is still Ready.",
    Reason.SWITCH_FAILED: "The endpoint that switches the machine refused, could not be reached, or changed nothing.",
    Reason.SWITCHED_BY_HAND: "Somebody else switched the machine; it is left as it is for a while.",
    Reason.SWITCH_LIMIT: "The machine was switched on as often in a day as its settings allow.",
    Reason.SWITCHING_OFF: "The machine is being switched off.",
    Reason.LATE_CALL: "The machine is on, and a call that switches it off may act yet; until then no pod is bound to it.",
    Reason.MIN_ON: "The machine is idle, and was switched on a short while ago.",
    Reason.MIN_OFF: "The machine was switched off a short while ago.",
}
