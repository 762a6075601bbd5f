"""What NVIDIA's feature discovery writes on a node, by Verda's name of the GPU: data, with where it comes from.

Pods select on these labels before any such node exists, and they cannot be derived from the catalogue:
the product is the driver's own name of the board (with `Tesla` on old ones, without `SXM5` on new ones),
and the memory is MiB as the driver counts them, where the catalogue says 262 or 288 "GB". Drivers and ECC
change some of them, and nobody publishes which edition of a board a cloud racks; so the settings may
say otherwise (`gpu_labels`), and what a living node of the type shows wins over both.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.domain.names import gpu_slug

PREFIX = "nvidia.com/gpu."
PRESENT, PRODUCT, MEMORY, FAMILY, COUNT = (
    PREFIX + key for key in ("present", "product", "memory", "family", "count")
)
MIG_CAPABLE = "nvidia.com/mig.capable"
MIG_CONFIG = "nvidia.com/mig.config"
_SHARED = "-SHARED"
# The operator's, one for each of its parts; OPERANDS=false keeps all of them off a node.
DEPLOY = PREFIX + "deploy."
OPERATED = tuple(
    DEPLOY + part
    for part in (
        "driver",
        "container-toolkit",
        "device-plugin",
        "gpu-feature-discovery",
        "dcgm",
        "dcgm-exporter",
        "mig-manager",
        "node-status-exporter",
        "operator-validator",
    )
)
OPERANDS = DEPLOY + "operands"
# Of node feature discovery: 10de is NVIDIA, 0302 a processor without a screen, 0300 a graphics card.
PCI_VENDOR, PCI_COMPUTE, PCI_GRAPHICS = PCI = tuple(
    f"feature.node.kubernetes.io/pci-{slot}.present" for slot in ("10de", "0302_10de", "0300_10de")
)
# What a node can teach about the next one of its type: the others follow from the catalogue.
LEARNED = (PRODUCT, MEMORY, FAMILY)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    product: str
    memory: int  # MiB of one GPU
    family: str  # as since release 0.18 of the device plug-in
    compute: str  # compute capability
    mig: bool
    graphics: bool = False  # may show itself as a graphics card, as it is set
    source: str


_HARDWARE = "nvidia-smi of a physical board, NVIDIA/k8s-test-infra testdata/hardware/"
_RULE = "; product by the rule of NVIDIA/k8s-device-plugin internal/lm/resource.go"

# By `gpu_slug` of the catalogue's `model`.
LOOKS: Mapping[str, Look] = {
    "tesla-v100": Look(
        product="Tesla-V100-SXM2-16GB",
        memory=16384,
        family="volta",
        compute="7.0",
        mig=False,
        source="labels of a k3s node, Lambda docs (Ollama tutorial); drivers before 510 count 16160 MiB",
    ),
    "a100-40gb": Look(
        product="NVIDIA-A100-SXM4-40GB",
        memory=40960,
        family="ampere",
        compute="8.0",
        mig=True,
        source=_HARDWARE + "qx-a100.xml" + _RULE,
    ),
    "a100-80gb": Look(
        product="NVIDIA-A100-SXM4-80GB",
        memory=81920,
        family="ampere",
        compute="8.0",
        mig=True,
        source="nvidia-smi dumps and public cluster policies; old drivers count 81251 MiB" + _RULE,
    ),
    "h100": Look(
        product="NVIDIA-H100-80GB-HBM3",
        memory=81559,
        family="hopper",
        compute="9.0",
        mig=True,
        source="labels of an 8-GPU k3s node, Lambda docs; " + _HARDWARE + "qx-h100.xml",
    ),
    "h200": Look(
        product="NVIDIA-H200",
        memory=143771,
        family="hopper",
        compute="9.0",
        mig=True,
        source="nvidia-smi dumps of several clusters" + _RULE,
    ),
    "b200": Look(
        product="NVIDIA-B200",
        memory=183359,
        family="blackwell",
        compute="10.0",
        mig=True,
        source=_HARDWARE + "qx-b200.xml" + _RULE,
    ),
    "b300": Look(
        product="NVIDIA-B300-SXM6-AC",
        memory=275040,
        family="blackwell",
        compute="10.3",
        mig=True,
        source="EKS p6-b300 manifests; device name in NVIDIA/cosmos-framework#114" + _RULE,
    ),
    "gb300": Look(
        product="NVIDIA-GB300",
        memory=284208,
        family="blackwell",
        compute="10.3",
        mig=True,
        source=_HARDWARE + "qx-gb300.xml" + _RULE,
    ),
    "l40s": Look(
        product="NVIDIA-L40S",
        memory=46068,
        family="ada-lovelace",
        compute="8.9",
        mig=False,
        source=_HARDWARE + "qx-l40s.xml (ECC on; 49140 MiB with ECC off)" + _RULE,
    ),
    "rtx-a6000": Look(
        product="NVIDIA-RTX-A6000",
        memory=49140,
        family="ampere",
        compute="8.6",
        mig=False,
        graphics=True,
        source="labels of a k3s node with the GPU operator; 46068 MiB with ECC on",
    ),
    "rtx-6000-ada": Look(
        product="NVIDIA-RTX-6000-Ada-Generation",
        memory=49140,
        family="ada-lovelace",
        compute="8.9",
        mig=False,
        graphics=True,
        source="nvidia-smi dumps, labels of a time-sliced node; 46068 MiB with ECC on" + _RULE,
    ),
    "rtx-pro-6000": Look(
        product="NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        memory=97887,
        family="blackwell",
        compute="12.0",
        mig=True,
        graphics=True,
        source="labels in several operators' code; which edition Verda racks is not published" + _RULE,
    ),
}


def labels_for(
    model: str,
    type_name: str,
    gpus: int,
    said: Mapping[str, Mapping[str, str]] | None = None,
    *,
    shared: bool = False,
) -> dict[str, str]:
    """The labels of a node with these GPUs. `said` is what the settings say, by slug of a type or a model.

    `shared`: several pods take turns on each, under the name of whole ones.
    """
    if not gpus:
        return {}
    labels = {PRESENT: "true", COUNT: str(gpus)}
    look = LOOKS.get(gpu_slug(model))
    if look is not None:
        major, _, minor = look.compute.partition(".")
        labels |= {
            PRODUCT: look.product + _SHARED * shared,
            MEMORY: str(look.memory),
            FAMILY: look.family,
            PREFIX + "compute.major": major,
            PREFIX + "compute.minor": minor,
            MIG_CAPABLE: str(look.mig).lower(),
        }
    for key in (gpu_slug(model), gpu_slug(type_name)):
        labels |= (said or {}).get(key, {})
    return labels
