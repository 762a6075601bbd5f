"""Machines that are switched on and off through HTTP endpoints.

A machine with nothing but its four mandatory keys is called as the small webhook controller calls it: POST with the
JSON body `{}`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from controller.config.kubernetes_names import key_problem, parse_labels, parse_resources
from controller.config.pools import TaintSetting
from controller.config.section import Section, lasting
from controller.config.urls import Endpoint
from controller.config.values import (
    Duration,
    Flag,
    Money,
    SomeTime,
    Text,
    matching,
    whole,
)
from controller.config.webhooks import WebhookSetting

__all__ = ["SwitchedMachine", "WebhookSetting"]


def _parse_expected_labels(value: Any) -> dict[str, str]:
    """Of a node that exists already: whatever it carries may be told, also what no kubelet may set."""
    return parse_labels(value, key_problem)


class SwitchedMachine(Section):
    """A machine that exists already and is switched through two HTTP endpoints."""

    name: Annotated[
        str, matching(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", "the name of a Kubernetes node (lower case)")
    ] = Field(description="Name of its Kubernetes node, by which it is found.")
    gpu_count: Annotated[int, whole(1, 1024)] = Field(
        description="GPUs it has; required, because it cannot be asked while it is off."
    )
    scale_up_endpoint: Endpoint = Field(description="Called to switch it on.")
    scale_down_endpoint: Endpoint = Field(description="Called to switch it off.")
    status_endpoint: Endpoint | None = Field(
        None,
        description="Asked (GET) whether it is on; none unless given, because its Node tells. With one, it is off only when both say so.",
    )
    webhook: Text | None = Field(
        None,
        description="Name of the entry under `webhooks` that says how its endpoints are called; the only entry where there is one, and a plain POST of `{}` where there is none.",
    )
    delete_node_when_off: Flag = Field(
        False,
        description="Whether its Node object goes when it is off; false, because the same machine comes back. cluster-autoscaler is served only machines with true.",
    )
    gpu_model: Text | None = Field(
        None,
        description="Such as A100 80GB; not known unless given. Its Node's labels count as soon as it was seen once.",
    )
    location: Text | None = Field(
        None,
        description="Where it stands, for pods that must be in one place; its Node's labels count as soon as it was seen once.",
    )
    labels: Annotated[
        dict[str, str], PlainValidator(_parse_expected_labels), PlainSerializer(dict, when_used="json")
    ] = Field(
        {},
        description="Labels that its Node will have, for as long as it was never seen; none unless given. They are not set by the autoscaler.",
    )
    taints: tuple[TaintSetting, ...] = Field((), description="The same for taints.")
    resources: Annotated[dict[str, str], PlainValidator(parse_resources)] = Field(
        {},
        description="What its Node will offer beside the GPUs, such as {cpu: 32, memory: 128Gi}, for as long as it was never seen; until then enough is assumed.",
    )
    price_per_hour: Money = Field(
        Decimal(0),
        description="What an hour of it costs (electricity); 0, because it is paid for already. It counts in comparisons, not against limits.",
    )
    keep_on: Flag = Field(
        False,
        description="Whether it is kept on even when idle; false, because an idle GPU is what this program is against.",
    )
    min_on: Duration = lasting(
        600, "Not switched off before it was on that long; 10 min, because switching wears hardware."
    )
    min_off: Duration = lasting(
        60,
        "Not switched on before it was off that long; 1 min, because many machines ignore a switch while they go down.",
    )
    switches_per_day: Annotated[int, whole(1, 10_000)] = Field(
        24,
        description="Switched on at most so often in 24 hours, because switching wears hardware. When that is used up an idle machine is left on, so that no pod waits for it.",
    )
    on_within: SomeTime = lasting(
        900,
        "From the call until its Node is Ready; 15 min, because servers test themselves first. Then it is given up for a while, and switched off.",
    )
    off_within: SomeTime = lasting(
        600,
        "From the call until its Node is not Ready; 10 min, because a clean shutdown takes its time. Then the call is made again.",
    )
    left_alone_for: Duration = lasting(
        1800,
        "How long a machine that somebody else switched on or off is left as it is; 30 min, because somebody works on it.",
    )
    pause: Literal["", "scale-up", "scale-down", "all"] = Field(
        "",
        description="Never switches it on, off or either; nothing, because pausing is for people at work on it.",
    )
