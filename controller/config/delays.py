"""How long each phase may take, how often things are looked at, and how replicas agree on who may spend."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.config.section import Section, lasting
from controller.config.values import Duration, SomeTime, whole


class UnknownCreate(Section):
    lists: Annotated[int, whole(2)] = Field(
        3, description="Complete lists without the machine; 3, because one bad list proves nothing."
    )
    over: Duration = lasting(
        60, "Time that these lists span; 60 s, because a new machine may be listed late."
    )


class Backoff(Section):
    first: SomeTime = lasting(
        180, "Pause of an offer after a refusal; 3 min, because stock rarely comes back sooner."
    )
    most: SomeTime = lasting(
        1800, "It doubles up to this; 30 min, so that returning stock is found the same hour."
    )
    unusable: SomeTime = lasting(
        3600,
        "Pause after two machines in a row that never became usable, before one more is tried; 1 h, because each costs the "
        "time of a boot for nothing. It doubles up to a day.",
    )


class Deadlines(Section):
    launch: SomeTime = lasting(
        1200,
        "Ordered until running; 20 min, because large machines are built slowly and a second order is paid too.",
    )
    join: SomeTime = lasting(
        900, "Running until the node registers; 15 min, because a first boot may install packages."
    )
    ready: SomeTime = lasting(
        300, "Registered until Ready; 5 min, because the network's pod has to be pulled."
    )
    gpu: SomeTime = lasting(
        600, "Ready until the GPUs are usable; 10 min, because the device plug-in has to be pulled."
    )
    gpu_settle: Duration = lasting(
        20, "GPUs must stay this long; 20 s, because a plug-in may restart right after its start."
    )
    gpu_lost: SomeTime = lasting(
        600,
        "Missing GPUs are believed lost after this; 10 min, so that an upgrade of the plug-in is no loss.",
    )
    stopped: SomeTime = lasting(
        600,
        "A machine that the cloud says is off, and whose node is not Ready, is deleted after this; 10 min, because "
        "it costs its full price, Kubernetes gives up its pods after six, and somebody may only restart it. A node that is not "
        "Ready for longer takes nothing from the disruption budget any more.",
    )
    unknown_create: UnknownCreate = Field(
        default_factory=UnknownCreate,
        description="When an order without an answer is known not to have happened, so that nothing is paid twice.",
    )
    backoff: Backoff = Field(
        default_factory=Backoff,
        description="How long an offer that was refused is left alone, so that others are tried first.",
    )
    eviction_grace: Duration = lasting(
        600, "Evictions are retried this long; 10 min, enough for a disruption budget to free up."
    )
    drain_pause: Duration = lasting(
        5, "Hard taint until eviction; 5 s, for pods that the scheduler is binding just then."
    )
    terminating_slack: Duration = lasting(
        30, "Added to the grace of ending pods; 30 s, because kubelets report late."
    )
    job_wait: Duration = lasting(
        10, "Longest wait for the rest of a Job's pods; 10 s, so that it is planned whole and not late."
    )
    tombstone: SomeTime = lasting(
        86400, "Memory of orders that did not happen; 24 h, in case the machine appears after all."
    )


class Timing(Section):
    quiet: Duration = lasting(
        0.1, "Planning waits until changes pause; 100 ms, because replicas appear in bursts."
    )
    longest: SomeTime = lasting(1, "But no longer than this; 1 s, because somebody is waiting.")
    tick: SomeTime = lasting(10, "Planning without any change; 10 s, because deadlines pass silently.")
    poll_cloud: SomeTime = lasting(
        30, "Listing of machines when nothing changes; 30 s, often enough to notice an eviction."
    )
    poll_cloud_busy: SomeTime = lasting(
        5, "The same while machines come or go; 5 s, because people are waiting."
    )
    reload: SomeTime = lasting(
        5,
        "Changed files of settings are looked for this often; 5 s, because Kubernetes itself needs up to a minute to change them.",
    )
    catalogue: SomeTime = lasting(
        60, "Prices and stock are read this often; 60 s, because they change by the minute."
    )


class Lease(Section):
    duration: SomeTime = lasting(
        15, "Another replica takes over after this silence; 15 s, as Kubernetes' own controllers do."
    )
    renew: SomeTime = lasting(5, "Time between renewals; 5 s, so that two may fail.")
    spend_within: SomeTime = lasting(
        10, "Spending stops this long after the last renewal; 10 s, before another can take over."
    )
