"""A machine from the intent to buy it to the proof that it is gone; also the record of the ledger.

The intent is written before the create call, with everything needed to recognise the machine when
the answer is lost. Times are epoch seconds; each phase's deadline counts from its own start.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum

import msgspec

from controller.domain.reason import Reason

ONCE_READY = "/once-ready"  # at the end of a sort: of machines that broke after they had become usable


class Phase(StrEnum):
    INTENDED = "intended"  # written; the create call may or may not have been sent
    ORDERED = "ordered"  # the cloud has it, it does not run yet
    BOOTING = "booting"  # runs, has not joined
    JOINED = "joined"  # its Node exists
    STARTED = "started"  # its Node is Ready, the GPUs are not usable yet
    READY = "ready"  # usable; idle or busy is told by the Node
    DRAINING = "draining"  # tainted for removal, pods are leaving
    DELETING = "deleting"  # the cloud was asked to delete it, or must be
    TOMBSTONE = "tombstone"  # proven never to have existed; kept for a day to recognise a late arrival

    @property
    def on_the_way(self) -> bool:
        return self in (Phase.INTENDED, Phase.ORDERED, Phase.BOOTING, Phase.JOINED, Phase.STARTED)

    @property
    def leaving(self) -> bool:
        return self in (Phase.DRAINING, Phase.DELETING)


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    intent: str
    name: str  # hostname and node name
    pool: str
    instance_type: str
    location: str
    market: str
    phase: Phase
    price: Decimal = Decimal(0)
    gpus: int = 0
    vcpus: int = 0
    memory_gib: int = 0
    model: str = ""
    pods: tuple[str, ...] = ()  # promised to, as namespace/name
    reason: Reason | None = None  # why it failed or leaves
    note: str = ""  # the sentence to it
    intended_at: float = 0.0
    ordered_at: float = 0.0
    running_at: float = 0.0
    joined_at: float = 0.0
    node_ready_at: float = 0.0
    gpus_seen_at: float = 0.0
    ready_at: float = 0.0
    gpus_lost_at: float = 0.0
    node_missing_at: float = 0.0
    stopped_at: float = 0.0  # since when the cloud says that it is off
    faulty_at: float = 0.0  # since when its lists say that it failed, of one that was of use
    drain_at: float = 0.0  # of one that is not leaving: marks of a removal are to be taken off its Node
    delete_at: float = 0.0
    instance_id: str = ""
    script_id: str = ""
    node_uid: str = ""
    made_with: Mapping[str, str] = {}  # digests of its pool's settings then; empty: not known
    moving: tuple[str, ...] = ()  # identities of the GPU pods that a consolidation moves off it
    kept_at: float = 0.0  # when a consolidation of it was given up last
    disks: tuple[str, ...] = ()
    absent_lists: int = 0  # complete lists in a row that did not show it
    absent_since: float = 0.0
    spared_at: float = 0.0  # when it was given more time to join, since nobody had led
    gone_at: float = 0.0  # proven gone in the cloud; what remains is cleaning up
    gone_in: str = ""  # the account that has its disks: the one that proved it, or that was left; "": any
    surplus: bool = False
    adopted: bool = (
        False  # made by somebody else and taken over by command: its mark is the tag, not the hostname
    )

    @property
    def awaits_restoring(self) -> bool:
        return self.drain_at > 0 and not self.phase.leaving and self.phase is not Phase.TOMBSTONE

    @property
    def sort(self) -> str:
        """What it shares with all that start in the same way, in the same place."""
        return f"{self.pool}/{self.kind}"

    @property
    def kind(self) -> str:
        """The same among those of its pool."""
        return f"{self.instance_type}/{self.location}"

    @property
    def sort_once_ready(self) -> str:
        """The same of those that became usable and broke then: that another one becomes usable says nothing of these."""
        return f"{self.sort}{ONCE_READY}"

    @property
    def failed(self) -> bool:
        return self.reason in FAILURES


FAILURES = frozenset(
    {
        Reason.LAUNCH_DEADLINE,
        Reason.JOIN_DEADLINE,
        Reason.READY_DEADLINE,
        Reason.GPU_DEADLINE,
        Reason.GPU_LOST,
        Reason.STOPPED,
        Reason.LAUNCH_FAILED,
        Reason.VANISHED,
        Reason.NO_CAPACITY,
        Reason.IDENTITY_CLASH,
        Reason.ON_DEADLINE,
    }
)
