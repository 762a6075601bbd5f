"""Switched machines under a driver that knows nodes by marks: what their Nodes need, and when they come to have it.

Nobody of ours writes a startup script for such a machine, so its kubelet may set no provider ID and no GPU label.
cluster-autoscaler matches what is listed with what registered by the provider ID, and takes a Node whose GPUs are not
there yet for a ready one unless it carries the label; both are written as soon as the Node is seen, which is before it
is Ready. What is there already stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.domain import gpu_labels, names
from controller.domain.kube import Node, Taint
from controller.domain.policy import Pool
from controller.domain.resources import GPU, Resources
from controller.domain.switching import Power, Switch, Switched
from controller.fleet.dressing import GPUS_COME, awaits_identity
from controller.fleet.usable import lacking
from controller.planning.predict import gpu_resources

_SOME = "gpu"  # the label's value where nobody says which GPUs they are


def gpu_label(switch: Switch, labels: Mapping[str, str]) -> str:
    """The label's value, with these other labels beside it; "" where no whole GPUs are promised: it would wait for them."""
    promised = gpu_resources(Pool(name=switch.name, max=1, resources=switch.resources), switch.gpus)
    if not promised.get(GPU):
        return ""
    known = labels.get(names.LABEL_GPU, "")
    return known or names.gpu_slug(switch.model or labels.get(gpu_labels.PRODUCT, "")) or _SOME


def provider_id(switch: Switch, record: Switched, node: Node | None) -> str:
    """The Node's own, else the one that it had when it was seen last, else the one that it will get."""
    if node is not None and node.provider_id:
        return node.provider_id
    return (record.face.provider_id if record.face is not None else "") or names.provider_id(switch.name)


def lacking_marks(switch: Switch, node: Node) -> tuple[dict[str, str], str]:
    """Labels and the provider ID to write."""
    value = gpu_label(switch, node.labels) if names.LABEL_GPU not in node.labels else ""
    labels = {names.LABEL_GPU: value} if value else {}
    return labels, "" if node.provider_id or awaits_identity(node) else names.provider_id(switch.name)


def startup_taint(
    record: Switched | None, node: Node, promised: Resources
) -> tuple[tuple[Taint, ...], tuple[Taint, ...]]:
    """What to put on and what to take off: where there is no label, a taint says that its GPUs are still to come.

    `record`: None of one that is no longer in the settings.
    """
    there = node.has_taint(GPUS_COME.key, GPUS_COME.effect)
    waits = record is not None and record.power is Power.RISING and bool(promised) and not promised.get(GPU)
    if waits and not there and lacking(promised, node):
        return (GPUS_COME,), ()
    over = record is None or record.power is Power.ON
    return (), (GPUS_COME,) if there and over else ()
