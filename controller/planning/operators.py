"""Labels that only some clusters have on GPU nodes: those of node feature discovery (NFD) and of NVIDIA's operator.

NFD names what is in a PCI slot, by vendor alone or by class and vendor, as it is configured; the operator then says
which of its parts the node gets. Pods and DaemonSets select on them, and no catalogue tells whether a cluster has them.
A pod gets a machine for such a label only where the cluster shows that it writes it, or the machine stood there in vain;
a DaemonSet that selects on one is taken to run there until a node of that kind shows otherwise, or a pod would not fit
beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.domain import gpu_labels
from controller.domain.kube import DaemonSet, Node, PodShape
from controller.domain.names import gpu_slug
from controller.domain.plan import Snapshot

_TRUE = ("true",)


def perhaps(labels: Mapping[str, str], shown: Mapping[str, str] | None) -> dict[str, str]:
    """What a machine with these labels may carry besides, as far as anybody knows; `shown`: by a node of its kind."""
    if labels.get(gpu_labels.PRESENT) != "true" or gpu_labels.PRODUCT in (shown or {}):
        return {}
    off = labels.get(gpu_labels.OPERANDS) == "false"
    keys = gpu_labels.PCI if off else (*gpu_labels.PCI, *gpu_labels.OPERATED)
    return {key: "true" for key in keys if key not in labels}


def everywhere(snapshot: Snapshot) -> dict[tuple[str, str], dict[str, str]]:
    """By pool and type: what its machines certainly get in this cluster, as far as a type decides."""
    keys = _written(snapshot.daemonsets, snapshot.nodes)
    if not keys:
        return {}
    models = {machine.instance_type: machine.model for machine in snapshot.machines if machine.gpus}
    models |= {offer.type.name: offer.type.model for offer in snapshot.offers if offer.type.gpus}
    whole = {kind: _for_model(keys, model) for kind, model in models.items()}
    bare = {kind: _for_model(keys & set(gpu_labels.PCI), model) for kind, model in models.items()}
    return {
        (pool.name, kind): labels
        for pool in snapshot.policy.pools
        for kind, labels in (bare if pool.labels.get(gpu_labels.OPERANDS) == "false" else whole).items()
    }


def _written(daemonsets: Iterable[DaemonSet], nodes: Iterable[Node]) -> frozenset[str]:
    """Which of these labels GPU nodes of this cluster get: one has it, or a DaemonSet would run nowhere without."""
    found = set()
    for daemon in daemonsets:
        if daemon.shape.node_selector or daemon.shape.required_terms:
            found |= _needed(daemon.shape)
    for node in nodes:
        labels = node.labels
        found.update(key for key in gpu_labels.PCI if labels.get(key) == "true")
        if gpu_labels.PRESENT in labels:
            found.update(key for key in gpu_labels.OPERATED if labels.get(key) == "true")
    return frozenset(found)


def _needed(shape: PodShape) -> set[str]:
    keys = {*gpu_labels.PCI, *gpu_labels.OPERATED}
    found = {key for key in keys & shape.node_selector.keys() if shape.node_selector[key] == "true"}
    terms = shape.required_terms or ()
    for key in keys if terms else ():
        if all(
            any(
                r.key == key and (r.operator, r.values) in (("In", _TRUE), ("Exists", ()))
                for r in term.labels
            )
            for term in terms
        ):
            found.add(key)
    return found


def _for_model(keys: Iterable[str], model: str) -> dict[str, str]:
    """Those that a machine with GPUs of this model certainly gets where the cluster writes these.

    What the driver's part says hangs on the image, and the class of graphics cards on how they are set.
    """
    look = gpu_labels.LOOKS.get(gpu_slug(model))
    unsure = {gpu_labels.DEPLOY + "driver", gpu_labels.PCI_GRAPHICS}
    if look is None or look.graphics:
        unsure.add(gpu_labels.PCI_COMPUTE)
    if look is None or not look.mig:
        unsure.add(gpu_labels.DEPLOY + "mig-manager")
    return dict.fromkeys(sorted(set(keys) - unsure), "true")


def learned(labels: Mapping[str, str]) -> dict[str, str]:
    """Of a real node's labels those that the next one of its kind will have; a part that is paused comes back."""
    found = {key: labels[key] for key in (*gpu_labels.PCI, *gpu_labels.OPERATED) if key in labels}
    return {key: "true" if value.startswith("paused-") else value for key, value in found.items()}
