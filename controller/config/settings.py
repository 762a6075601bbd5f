"""The settings: every key, its default, and why the default is what it is.

This is the one place where a number comes from. `load` is the one way in: it merges the sources,
checks what concerns more than one key (`rules`) and remembers where each value stands; so the model
itself reads no environment. `docs/configuration.md` is generated from the descriptions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from controller.config.delays import Deadlines, Lease, Timing
from controller.config.externalgrpc import ExternalGrpc
from controller.config.joining import JoinEntry
from controller.config.money import GpuLabelSetting, PriceSetting
from controller.config.pools import Headroom, NamespaceLimits, PoolSetting
from controller.config.removal import Disruption, ScaleDown
from controller.config.section import Section, lasting, without_nulls
from controller.config.switching import SwitchedMachine, WebhookSetting
from controller.config.urls import Url
from controller.config.values import (
    Count,
    Duration,
    Flag,
    Money,
    Name,
    Secret,
    SomeTime,
    Text,
    matching,
    parse_patterns,
    whole,
)
from controller.domain.names import DEFAULT_NAMESPACE
from controller.domain.policy import QUOTA_MESSAGES

Namespace = Annotated[
    str,
    matching(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", "the name of a namespace: 1 to 63 of a-z, 0-9 and -"),
]


class Limits(Section):
    machines: Count | None = Field(
        None,
        description="Machines of all pools together; none unless given, as each pool has its own maximum.",
    )
    gpus: Count | None = Field(
        None,
        description="GPUs of all machines together; none unless given, as each pool has its own maximum.",
    )
    cores: Count | None = Field(
        None, description="CPU cores of all machines together; none unless given, as GPUs cost more."
    )
    memory_gb: Count | None = Field(
        None,
        description="Memory of all machines together, as the catalogue counts it; none unless given, for the same reason.",
    )
    cluster_wide: Flag = Field(
        False,
        description="Whether nodes that were not bought here count against machines, gpus, cores and memory_gb; false, because they cost nothing more.",
    )
    price_per_hour: Money | None = Field(
        None, description="Of all machines together; none unless given, as the maxima bound it already."
    )
    price_per_month: Money | None = Field(
        None,
        description="Budget of a calendar month (UTC): what closed machines cost, what those that run have cost so far, and what each reserves. It stops purchases, and work that runs goes on costing; none unless given.",
    )
    launches_per_minute: Count = Field(
        30, description="Brake on mistakes: 30, more than a busy cluster needs and few enough to notice."
    )
    scripts: Count = Field(
        80,
        description="Machines that boot at once with a startup script of their own; 80, because an account holds 100 scripts and may have others.",
    )


class ScaleUp(Section):
    strategy: Literal["smallest", "cheapest", "priority"] = Field(
        "smallest",
        description="What to prefer among machines that fit; smallest, because GPUs that nobody asked for idle first.",
    )
    own_machines: Literal["first", "compare"] = Field(
        "first",
        description="Whether machines that are switched on come before all that is bought; compare lets the strategy decide by GPUs and price (price_per_hour of the machine). First, because they are paid for already.",
    )
    priorities: tuple[Text, ...] = Field(
        (),
        description="Pools in order of preference, for the strategy `priority`; the order of `pools`, because somebody chose that already.",
    )
    spread_locations: Flag = Field(
        False,
        description="Whether a machine for pods is bought where its pool has the fewest, among locations that sell the type at the same price; false, because the order of a pool's locations is its preference.",
    )


class Billing(Section):
    increment_s: Annotated[int, whole(1)] = Field(
        600,
        description="What the cloud bills at once, in seconds; 600, as Verda does. Only where nothing is refunded does it matter.",
    )
    refund_unused: Flag = Field(
        True,
        description="Whether the rest of an increment comes back on delete; true, as Verda does. Where it does not, an idle machine goes at the end of the increment in which its cooldown ends.",
    )
    on_exhausted: Literal["stop_buying", "drain_idle"] = Field(
        "stop_buying",
        description="What a used-up budget of the month does: drain_idle also removes idle machines without waiting for the cooldown. It stops purchases, because killing work is never the default.",
    )
    reserve_hours: Count = Field(
        1,
        description="Hours that each machine reserves of the month's budget when it is ordered; 1, because nothing useful runs shorter.",
    )


class DefaultSpreadSetting(Section):
    """One of the scheduler's `defaultConstraints`."""

    topology_key: Annotated[
        str, matching(r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9._-]{1,63}", "the key of a label of nodes")
    ] = Field(description="Over what it spreads; required, as there.")
    max_skew: Annotated[int, whole(1, 1_000_000)] = Field(
        1, description="By how many pods at most; 1, the strictest."
    )
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = Field(
        "ScheduleAnyway",
        description="What it does where it cannot hold; ScheduleAnyway, because no pod waits for it then.",
    )


class Planning(Section):
    scheduler_names: tuple[Text, ...] = Field(
        ("default-scheduler",),
        description="Pods of these schedulers count; the default one, because others have rules that are not known here.",
    )
    priority_cutoff: Annotated[int, whole(-(2**31), 2**31)] = Field(
        -10,
        description="Pods below this priority buy nothing; -10, the custom for pods that only fill what is free.",
    )
    ignore_namespaces: tuple[Text, ...] = Field(
        (), description="Namespaces whose pods buy nothing; none, because a waiting pod is a request."
    )
    min_pod_age: Duration = lasting(
        0,
        "Pods younger than this buy nothing yet, unless they say otherwise (gpu-autoscaler/min-age); 0, because a GPU pod mostly waits for a machine. More where other programs make room, or pods come and go.",
    )
    quota_messages: Annotated[
        tuple[str, ...], PlainValidator(parse_patterns), PlainSerializer(list, when_used="json")
    ] = Field(
        QUOTA_MESSAGES,
        description="Regular expressions: a pod that the scheduler refuses in such words waits for quota of its queue and buys nothing; the words of KAI, ElasticQuota and Volcano, because they call it unschedulable like any other.",
    )
    gangs_in_one_location: Flag = Field(
        False,
        description="Whether all pods of a gang get machines in one location, unless its pods say otherwise (gpu-autoscaler/gang-one-location); false, because capacity is scarce.",
    )
    default_spreads: tuple[DefaultSpreadSetting, ...] = Field(
        (),
        description="`defaultConstraints` of PodTopologySpread in the configuration of the cluster's scheduler, which no API shows: they hold for pods of ReplicaSets and StatefulSets without rules of their own. None, because the scheduler's built-in ones keep no pod waiting.",
    )
    fractions: Literal["", "kai"] = Field(
        "",
        description="Whose shares of a GPU are demand: `kai` reads KAI's annotations (gpu-fraction, gpu-memory) and ignores the pods of its node-scale-adjuster. Nobody's, because where that adjuster runs its pods ask for whole GPUs already.",
    )
    max_overshoot: Count = Field(
        1,
        description="GPUs that a machine may have beyond the one that its pods would get if nothing were sold out, or beyond those that each would get alone; 1, so that two GPUs help where one is sold out, and eight are never bought for one. Also of a `min`, and of `headroom`.",
    )


class Verda(Section):
    base_url: Url = Field(
        "https://api.verda.com/v1", description="Address of the cloud's API; the public one unless given."
    )
    client_id: Text | None = Field(
        None, description="Of the API credentials; better from VERDA_CLIENT_ID, because files get copied."
    )
    client_secret: Secret | None = Field(
        None, description="The same; better from VERDA_CLIENT_SECRET or VERDA_CLIENT_SECRET_FILE."
    )
    currency: Literal["usd", "eur"] = Field(
        "usd",
        description="Of every price and limit; usd, the cloud's own default. Take the one that the project is billed in.",
    )
    script_quota: Count = Field(
        100,
        description="Startup scripts that the account holds; 100, the cloud's default. Fewer are learned from its refusals.",
    )
    connect_timeout: SomeTime = lasting(
        5, "For a connection; 5 s, because a healthy API needs a fraction of it."
    )
    read_timeout: SomeTime = lasting(
        30, "For an answer; 30 s, because giving up early leaves orders whose outcome is unknown."
    )


class Settings(BaseSettings):
    """Everything that can be set. Use `controller.config.load`, which knows where each value stands."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    cluster_id: Name | None = Field(
        None,
        description="Marks what belongs to this cluster; derived from the cluster's own identity, because a constant would be shared. In one cloud account no two clusters may have the same: each would take the other's machines for its own, wait for them to join in vain, and delete them with the work on them.",
    )
    namespace: Namespace = Field(
        DEFAULT_NAMESPACE,
        description="Of the controller's objects; its own (POD_NAMESPACE, else its service account's), because it may write there.",
    )
    pools: tuple[PoolSetting, ...] = Field(
        (), description="What may be bought; nothing unless given, because it costs money."
    )
    machines: tuple[SwitchedMachine, ...] = Field(
        (), description="Machines to switch on and off instead of buying; none unless given."
    )
    webhooks: dict[str, WebhookSetting] = Field(
        {},
        description="Ways to call the endpoints of such machines, by name; a plain POST of `{}` unless given.",
    )
    prices: dict[str, PriceSetting] = Field(
        {},
        description="What is paid where it is not the list price, by instance type, GPU model or `*`; the list price unless given.",
    )
    gpu_labels: dict[str, GpuLabelSetting] = Field(
        {},
        description="NVIDIA's labels where the built-in table is wrong, by instance type or GPU model; known for every GPU that is sold.",
    )
    limits: Limits = Field(
        default_factory=Limits, description="Bounds over all pools together, beside each pool's own maximum."
    )
    scale_up: ScaleUp = Field(default_factory=ScaleUp, description="How machines are chosen.")
    scale_down: ScaleDown = Field(
        default_factory=ScaleDown, description="When and in which order idle machines go."
    )
    billing: Billing = Field(
        default_factory=Billing, description="How the cloud bills, and what an exhausted budget does."
    )
    planning: Planning = Field(default_factory=Planning, description="Which pods count.")
    namespaces: dict[str, NamespaceLimits] = Field(
        {},
        description="Bounds per namespace; none, because most clusters have one team. A machine is charged to the pods on it or promised to it, by their share of its GPUs; what nobody asked for, to the namespace whose pod it was bought for first.",
    )
    headroom: tuple[Headroom, ...] = Field(
        (), description="Room kept free; none, because free room costs money."
    )
    disruption: Disruption = Field(
        default_factory=Disruption, description="How much may be disturbed at once."
    )
    join: dict[str, JoinEntry] = Field({}, description="Ways for a machine to join the cluster, by name.")
    deadlines: Deadlines = Field(
        default_factory=Deadlines, description="How long each phase of a machine's life may take."
    )
    timing: Timing = Field(default_factory=Timing, description="How often things are looked at.")
    lease: Lease = Field(default_factory=Lease, description="How replicas agree on who may spend.")
    externalgrpc: ExternalGrpc = Field(
        default_factory=ExternalGrpc,
        description="How cluster-autoscaler reaches this program, with `run --driver externalgrpc`.",
    )
    verda: Verda = Field(default_factory=Verda, description="How to reach the cloud.")

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_not_set(cls, data: Any) -> Any:
        return without_nulls(cls, data)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)
