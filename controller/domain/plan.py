"""The input and the output of planning: one immutable picture of the world, one set of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from controller.domain.cloudthings import Offer
from controller.domain.kube import (
    CsiNode,
    DaemonSet,
    DeviceClaim,
    DeviceClass,
    DisruptionBudget,
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PodGroup,
    StorageClass,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Machine
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.domain.switching import Own


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An offer that was refused and is left alone until its back-off ends."""

    offer: str  # Offer.key
    reason: Reason
    until: float
    message: str = ""


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type, in one location, came to nothing, since one of them last was of use."""

    since: float  # when the first of them was given up
    last: float
    tries: tuple[int, ...] = ()  # which tries of their pool they were of


class InVain(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one pool came to nothing. Those ordered together are one try, and tries are numbered."""

    tries: int
    last: float  # when the last of them was given up
    reason: Reason
    counted: float = 0.0  # when the present try began to fail; what was ordered before is of it
    firsts: tuple[int, ...] = ()  # tries for pods that had none before
    # By "type/location"; what nobody has noted is not known, and speaks against all of the pool.
    sorts: Mapping[str, Failing] = {}
    fine: Mapping[str, float] = {}  # when the last one was of use, since the pool's first came to nothing


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one sort never became usable, since one last did. Those ordered together are one try."""

    tries: int
    last: float  # when the last of them was given up
    machines: tuple[str, ...] = ()  # of them, those that waiting pods were promised
    counted: float = 0.0
    dates: Mapping[str, float] = {}  # of `machines`: when each came to nothing, where that was not at `last`


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    now: float
    policy: Policy
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    daemonsets: tuple[DaemonSet, ...] = ()
    jobs: tuple[Job, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CsiNode, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    device_claims: tuple[DeviceClaim, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    unreadable: tuple[str, ...] = ()  # optional kinds that the cluster has and that may not be read
    machines: tuple[Machine, ...] = ()
    # Second instances of one order, which nobody works with: each costs like a machine until it is gone.
    surplus: tuple[Machine, ...] = ()
    offers: tuple[Offer, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    own: Mapping[str, Own] = {}  # switched machines, by name
    observed: Mapping[str, Resources] = {}  # by instance type: what real nodes of it offered
    launches: tuple[float, ...] = ()  # when machines were ordered lately, for the rate limit
    scripts_free: int | None = None  # startup scripts that the account takes beside ours; None: not known
    spent_this_month: Decimal = Decimal(0)
    # By the identity of a waiting pod: machines that were bought for it, in vain.
    disappointed: Mapping[str, tuple[str, ...]] = {}  # they were ready and did not hold it
    given_up: Mapping[
        str, Mapping[str, Reason]
    ] = {}  # they never became usable, or broke before it ran there
    tried: Mapping[str, Tried] = {}  # by sort (Machine.sort, Machine.sort_once_ready)
    in_vain: Mapping[str, InVain] = {}  # by pool


class Explanation(msgspec.Struct, frozen=True):
    code: Reason
    message: str


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Buy one machine for these pods."""

    pool: str
    offer: Offer
    pods: tuple[str, ...]
    reason: str


class Retire(msgspec.Struct, frozen=True, kw_only=True):
    """Take this machine away."""

    machine: str
    reason: Reason
    message: str
    moving: tuple[str, ...] = ()  # identities of the GPU pods that a consolidation moves off it
    excused: tuple[
        str, ...
    ] = ()  # keys of pods that it was bought for, and that did not run there for no fault of its


class MarkIdle(msgspec.Struct, frozen=True, kw_only=True):
    """Write down since when this machine's node is idle, or (None) that it no longer is.

    `avoid`: the scheduler is asked to prefer other nodes, so that its cooldown can end; or (False) no longer.
    """

    machine: str
    since: float | None
    avoid: bool | None = None  # None: as it is


class KeepAfterAll(msgspec.Struct, frozen=True, kw_only=True):
    """Call off the removal of a machine that is being drained: demand returned."""

    machine: str
    message: str


Action = Launch | Retire | MarkIdle | KeepAfterAll


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    actions: tuple[Action, ...] = ()
    pods: Mapping[str, Explanation] = {}  # by namespace/name: every waiting pod
    machines: Mapping[str, Explanation] = {}  # by name: every machine
    pools: Mapping[
        str, Explanation
    ] = {}  # by name: whose minimum is not filled up, for other reasons than limits
    awaited: Mapping[str, tuple[str, ...]] = {}  # by own machine on its way: the pods that count on it
    price_floor: Decimal | None = None  # strategy cheapest: machines for the same pods cost no less an hour
    wake_at: float | None = None  # when time alone could change this plan
