"""What may be bought: pools, and what is kept free in them or allowed to a namespace."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from controller.config.kubernetes_names import (
    parse_labels,
    parse_resources,
    parse_taint_key,
    parse_taint_text,
    parse_taint_value,
)
from controller.config.section import Section
from controller.config.values import (
    Count,
    Flag,
    Lifetime,
    Money,
    Name,
    Text,
    parse_text,
    parse_windows,
    whole,
)


class TaintSetting(Section):
    """A taint of a pool's nodes; the short form `key=value:Effect` is read too."""

    key: Annotated[str, PlainValidator(parse_taint_key)] = Field(
        description="Which taint; those of the autoscaler itself are refused, because it sets and removes them."
    )
    value: Annotated[str, PlainValidator(parse_taint_value)] = Field(
        "", description="Empty unless given, because most tolerations ask only for the key."
    )
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        description="Required, because a taint with a guessed effect keeps the wrong pods away."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        return parse_taint_text(data) if isinstance(data, str) else data


def _parse_images(value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        parse_text(value)
    images = tuple(parse_text(image) for image in found)
    return () if images == ("auto",) else images


def _show_images(images: tuple[str, ...]) -> str | list[str]:
    return list(images) if images else "auto"


class PoolSetting(Section):
    """Machines of one kind, between a minimum and a maximum."""

    name: Name = Field(
        description="Part of every hostname, which is why it is short and never reused for another kind."
    )
    instance_types: tuple[Text, ...] = Field(
        (),
        description="Types that may be bought; one of these three must be given, so that nothing is bought by guess.",
    )
    gpu_models: tuple[Text, ...] = Field(
        (),
        description="GPU models that may be bought, in any size, for those who care about the GPU and not the machine.",
    )
    min_gpu_memory_gb: Count = Field(
        0, description="Memory of one GPU at least; 0 asks for none, because most pools name types or models."
    )
    max_gpus: Count = Field(
        0, description="GPUs of one machine at most; 0 means no bound, because max and limits bound the rest."
    )
    locations: tuple[Text, ...] = Field(
        (), description="In order of preference; empty means anywhere, because capacity is scarce."
    )
    market: Literal["spot_only", "prefer_spot", "prefer_on_demand", "on_demand_only"] = Field(
        "on_demand_only",
        description="On demand unless asked for, because spot machines are taken away without notice. prefer_spot takes what is cheaper; prefer_on_demand takes a type on the spot market only where it is not to be had on demand in any location (types are compared by price).",
    )
    min: Count = Field(
        0, description="Machines kept even when idle; 0, because an idle GPU is what this program is against."
    )
    max: Count = Field(
        description="Machines at most; required, because no default is right for somebody else's money."
    )
    max_gpus_total: Count | None = Field(
        None, description="GPUs of all its machines together; none unless given, because max bounds them too."
    )
    max_price_per_hour: Money | None = Field(
        None, description="Of one machine; none unless given, because the pool already says what it may buy."
    )
    image: Annotated[
        tuple[Text, ...], PlainValidator(_parse_images), PlainSerializer(_show_images, when_used="json")
    ] = Field(
        (),
        description="`auto`, an image or an ordered list; auto, because each type supports different images.",
    )
    disk_gb: Annotated[int, whole(50, 10_000)] = Field(
        100,
        description="System disk; 100 GB, because container images for GPUs are large and the cloud's own 50 GB fill up.",
    )
    ssh_key_ids: tuple[Text, ...] = Field(
        (),
        description="Keys of the cloud account put on the machine; none, because nothing here needs to log in.",
    )
    labels: Annotated[dict[str, str], PlainValidator(parse_labels)] = Field(
        {},
        description="Of the pool's nodes; those that a kubelet may not set on itself (node-role.kubernetes.io/…) are set by the controller once it has joined.",
    )
    taints: tuple[TaintSetting, ...] = Field(
        (),
        description="Of the pool's nodes; none, because a taint unknown to the GPU DaemonSets means no GPUs at all.",
    )
    resources: Annotated[dict[str, str], PlainValidator(parse_resources)] = Field(
        {},
        description="Totals per node where they differ from the catalogue. GPUs in another form (nvidia.com/mig-1g.10gb, nvidia.com/gpu.shared, other names of NVIDIA's) are there instead of whole ones, all else beside them; so are nvidia.com/hostdev, rdma, sriov, mlnx, ib, roce, gpumem, gpucores and priority, and what is declared together with nvidia.com/gpu. Huge pages are taken off the memory.",
    )
    join: Text | None = Field(
        None,
        description="Name of the entry under `join`; the only entry where there is one, because then there is no choice.",
    )
    arm64: Flag = Field(
        False, description="Whether arm64 types may be bought; false, because most images are amd64 only."
    )
    startup_taint: Flag = Field(
        False,
        description="Whether nodes register with a taint until identified; false, because device plug-ins may not tolerate it.",
    )
    feature_discovery: Flag = Field(
        True,
        description="Whether NVIDIA's labels (nvidia.com/gpu.product …) appear on its nodes; true, as the GPU operator and the device plug-in's chart bring them. With `resource_claims: always` only nvidia.com/gpu.present is expected: feature discovery does not run beside the DRA driver.",
    )
    expire_after: Lifetime | None = Field(
        None,
        description="A machine that has been usable for longer goes as soon as it is idle, without a cooldown, and is replaced where `min` needs it; an hour at least. Never unless given, because age alone breaks nothing. A busy one is only told about.",
    )
    resource_claims: Literal["never", "always"] = Field(
        "never",
        description="Whether its GPUs are had by resource claims (NVIDIA's DRA driver). With always its machines are usable as soon as their Nodes are Ready, as no GPUs of the device plug-in are waited for; never, because nothing shows beforehand that the driver runs there. Pods that ask for nvidia.com/gpu itself get no machine of it unless a DeviceClass maps that name.",
    )
    strategy: Literal["", "smallest", "cheapest", "priority"] = Field(
        "",
        description="Which of its machines it prefers: as `scale_up.strategy`, except that priority goes by the order of its `instance_types` (else `gpu_models`). That of all pools unless given, which also decides between pools that could hold a pod.",
    )
    pause: Literal["", "scale-up", "scale-down", "all"] = Field(
        "",
        description="Stops buying, removing or both for this pool; nothing, because pausing is for people at work on it.",
    )


class NamespaceLimits(Section):
    """What the machines that are charged to one namespace may have and cost."""

    gpus: Count | None = Field(
        None, description="GPUs at most; none unless given, because limits are for those who share."
    )
    price_per_hour: Money | None = Field(
        None, description="Price at most; none unless given, for the same reason."
    )


class Headroom(Section):
    """Room kept free in a pool, so that the first pod need not wait."""

    pool: Name = Field(description="The pool that holds it.")
    gpus: Count = Field(description="GPUs kept free; required, because every one costs money while idle.")
    schedule: (
        Annotated[tuple[str, ...], PlainValidator(parse_windows), PlainSerializer(list, when_used="json")]
        | None
    ) = Field(
        None,
        description='One window or a list, such as "Mon-Fri 08:00-18:00 Europe/Helsinki" (summer time counts); always unless given.',
    )
    max_price_per_hour: Money | None = Field(
        None,
        description="Price at most of what is free in the pool, each machine by its free part; none unless given, because pools and limits bound it too.",
    )
