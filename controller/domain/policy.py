"""What the user wants, as plain values: pools, limits, delays. Made by `config`, read by everybody.

Every number here has its default and its reason in `controller/config/settings.py`; nothing outside
that module invents one.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from controller.domain.cloudthings import SWITCHED
from controller.domain.kube import Taint
from controller.domain.prices import PriceRule
from controller.domain.remembering import remembered
from controller.domain.resources import GPU, HUGE_PAGES, Resources
from controller.domain.switching import Switch
from controller.domain.windows import Window

SPOT_ONLY = "spot_only"
PREFER_SPOT = "prefer_spot"
PREFER_ON_DEMAND = "prefer_on_demand"
ON_DEMAND_ONLY = "on_demand_only"
_PLAIN = {"cpu", "memory", "ephemeral-storage", "pods"}
OWN = "own"  # of a pool that is one switched machine

# Words by which queueing systems call a pod unschedulable that waits for its queue's quota, not for machines.
QUOTA_MESSAGES = (
    r"quota has reached the allowable limit",  # KAI
    r"[Nn]on-preemptible workload is over quota",  # KAI
    r"because ElasticQuota .* is more than Max",  # scheduler-plugins, CapacityScheduling
    r"total ElasticQuota used is more than min",
    r"queue resource quota insufficient",  # Volcano
)


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    instance_types: tuple[str, ...] = ()
    gpu_models: tuple[str, ...] = ()
    min_gpu_memory_gb: int = 0  # of one GPU
    max_gpus: int = 0  # of one machine; 0: no bound
    locations: tuple[str, ...] = ()  # order = preference; empty: anywhere
    market: str = ON_DEMAND_ONLY
    min: int = 0
    max: int
    max_gpus_total: int | None = None  # of all its machines
    max_price_per_hour: Decimal | None = None
    images: tuple[str, ...] = ()  # empty: automatic
    disk_gb: int = 100
    ssh_key_ids: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: Resources = {}
    join: str = ""
    arm64: bool = False
    startup_taint: bool = False
    own_script: bool = False  # each machine boots with a script made for it
    script_after_create: bool = False  # which goes as soon as the order is accepted, not only after the join
    feature_discovery: bool = True  # NVIDIA's labels appear on the pool's nodes
    expire_after: float | None = None  # seconds
    resource_claims: str = (
        "never"  # whether its machines serve claims for devices, not the plug-in: never | always
    )
    pause: str = ""  # scale-up | scale-down | all
    waits_by_taint: bool = (
        False  # a taint, and not the GPU label, says on its Nodes that their GPUs are still to come
    )
    strategy: str = ""  # among its own machines; "": that of the policy

    def markets(self) -> tuple[str, ...]:
        """Markets in order of preference."""
        return {
            SPOT_ONLY: ("spot",),
            PREFER_SPOT: ("spot", "on-demand"),
            PREFER_ON_DEMAND: ("on-demand", "spot"),
            ON_DEMAND_ONLY: ("on-demand",),
            OWN: (SWITCHED,),
        }[self.market]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    machines: int | None = None
    gpus: int | None = None
    cores: int | None = None
    memory_gb: int | None = None
    price_per_hour: Decimal | None = None
    price_per_month: Decimal | None = None
    cluster_wide: bool = False  # nodes that are not ours count against machines, gpus, cores and memory
    launches_per_minute: int = 30
    scripts: int = 80


class NamespaceLimit(msgspec.Struct, frozen=True, kw_only=True):
    gpus: int | None = None
    price_per_hour: Decimal | None = None


class DefaultSpread(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of spreading that the cluster's scheduler has for pods without any."""

    topology_key: str
    max_skew: int = 1
    hard: bool = False


class Billing(msgspec.Struct, frozen=True, kw_only=True):
    increment: float = 600  # seconds that the cloud bills at once
    refund_unused: bool = True
    reserve_hours: int = 1
    drain_idle: bool = False  # what an exhausted budget does beside buying nothing


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that a pool keeps free."""

    pool: str
    gpus: int
    schedule: tuple[Window, ...] | None = None  # None: always
    max_price_per_hour: Decimal | None = None  # of the machines that it keeps or has bought


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, each from the start of its own phase."""

    launch: float = 1200
    join: float = 900
    ready: float = 300
    gpu: float = 600
    gpu_settle: float = 20
    gpu_lost: float = 600
    stopped: float = 600
    unknown_lists: int = 3
    unknown_over: float = 60
    backoff_first: float = 180
    backoff_most: float = 1800
    backoff_unusable: float = 3600  # after two machines in a row that never became usable
    eviction_grace: float = 600
    drain_pause: float = 5
    terminating_slack: float = 30
    job_wait: float = 10
    tombstone: float = 86400

    def drained_by(self, since: float) -> float:
        """The end of the grace of a drain that began then: it counts from when evictions begin."""
        return since + self.drain_pause + self.eviction_grace


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str
    namespace: str = "gpu-autoscaler"
    pools: tuple[Pool, ...] = ()
    limits: Limits = Limits()
    deadlines: Deadlines = Deadlines()
    strategy: str = "smallest"
    priorities: tuple[str, ...] = ()  # pools in order of preference for the strategy `priority`
    spread_locations: bool = False  # equal offers are taken where the fewest machines are
    max_overshoot: int = 1  # GPUs that a machine may have beyond the one bought if nothing were sold out
    cooldown: float = 600
    order: str = "largest"
    min_age: float = 0
    removed_pools: str = "drain"  # drain | keep: machines of pools that are no more
    consolidate: str = "off"  # off | cheaper
    consolidate_saving: Decimal = Decimal(1)  # an hour, at least
    disruption_budget: str = "20%"
    disruption_budgets: Mapping[str, str] = {}  # the same for one reason
    windows: tuple[Window, ...] = ()  # when machines may be removed; empty: always
    not_during: tuple[Window, ...] = ()  # when none is
    scheduler_names: tuple[str, ...] = ("default-scheduler",)
    priority_cutoff: int = -10
    ignore_namespaces: tuple[str, ...] = ()
    min_pod_age: float = 0  # seconds that a pod waits before anything is bought for it
    gangs_in_one_location: bool = False
    default_spreads: tuple[DefaultSpread, ...] = ()
    fractions: str = ""  # kai: its shares of a GPU are demand
    quota_messages: tuple[str, ...] = QUOTA_MESSAGES  # regular expressions
    namespaces: Mapping[str, NamespaceLimit] = {}
    billing: Billing = Billing()
    headroom: tuple[Headroom, ...] = ()
    pause: str = ""  # from the annotation on our own objects, or all pools
    retire: str = ""  # everything that was bought is to go: all | after-work | force, from the annotation
    prices: Mapping[str, PriceRule] = {}  # what is paid, by slug of a type or model
    gpu_labels: Mapping[str, Mapping[str, str]] = {}  # by slug of a type or model, where they differ
    switches: tuple[Switch, ...] = ()  # machines that are switched, not bought
    own_first: bool = True  # such machines come before all that is bought
    script_quota: int = 100
    kubelet_reserves_memory: bool = True  # plain kubelets keep 100Mi back, k3s and RKE2 do not

    def pool(self, name: str) -> Pool | None:
        for pool in self.pools:  # for every machine, at every look
            if pool.name == name:
                return pool
        return None

    @property
    def common_strategy(self) -> str:
        """By which pools are compared, and whole sets of machines: what all pools have in common, if anything."""
        found = {pool.strategy or self.strategy for pool in self.pools if pool.market != OWN}
        return self.strategy if len(found) != 1 or "priority" in found else found.pop()

    @property
    def gpu_resources(self) -> frozenset[str]:
        """What keeps a machine beside `nvidia.com/*`: whatever pools declare."""
        declared = _declared(self.pools)
        return declared | _of_switches(self.switches) if self.switches else declared

    @property
    def wanted_resources(self) -> frozenset[str]:
        """What machines are bought for beside `nvidia.com/*`: huge pages are memory, which no GPU is needed for."""
        return _wanted(self.gpu_resources)


@remembered
def _declared(pools: tuple[Pool, ...]) -> frozenset[str]:
    declared = {name for pool in pools for name in pool.resources}
    return frozenset(declared - _PLAIN | {GPU})


@remembered
def _of_switches(switches: tuple[Switch, ...]) -> frozenset[str]:
    return frozenset({name for switch in switches for name in switch.resources} - _PLAIN)


def _wanted(declared: frozenset[str]) -> frozenset[str]:
    if not any(name.startswith(HUGE_PAGES) for name in declared):
        return declared
    return frozenset(name for name in declared if not name.startswith(HUGE_PAGES))


AFTER_WORK, FORCE = "after-work", "force"
RETIRE = ("all", AFTER_WORK, FORCE)


def halts(direction: str, *marks: str) -> bool:
    """Whether one of these marks of a pause stops this direction: scale-up | scale-down."""
    return any(mark in (direction, "all") for mark in marks)
