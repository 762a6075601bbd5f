"""Amounts of named resources, in scheduler units (see `quantity`), and the arithmetic on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.domain.quantity import show

Resources = Mapping[str, int]

GPU = "nvidia.com/gpu"
PODS = "pods"
HUGE_PAGES = "hugepages-"  # and their size
_GPUS = (
    f"{GPU}.",
    f"{GPU}-",
    "nvidia.com/mig-",
)  # shared ones, and slices; nvidia.com/gpumem counts megabytes
_CARDS = ("rdma/",)
_NVIDIA = "nvidia.com/"
_BESIDE = tuple(
    _NVIDIA + kind
    for kind in ("hostdev", "rdma", "sriov", "mlnx", "ib", "roce", "gpumem", "gpucores", "priority")
)


def add(left: Resources, right: Resources) -> dict[str, int]:
    total = dict(left)
    for name, units in right.items():
        total[name] = total.get(name, 0) + units
    return total


def subtract(left: Resources, right: Resources) -> dict[str, int]:
    """What remains of `left`; resources that `left` never had are left out, and nothing below zero."""
    return {name: max(0, units - right.get(name, 0)) for name, units in left.items()}


def total(parts: Iterable[Resources]) -> dict[str, int]:
    result: dict[str, int] = {}
    for part in parts:
        for name, units in part.items():
            result[name] = result.get(name, 0) + units
    return result


def maximum(left: Resources, right: Resources) -> dict[str, int]:
    result = dict(left)
    for name, units in right.items():
        result[name] = max(result.get(name, 0), units)
    return result


def fits(request: Resources, free: Resources) -> bool:
    """Whether every non-zero request is there; a request of zero fits where the resource is unknown."""
    return all(units <= free.get(name, 0) for name, units in request.items() if units)


def missing(request: Resources, free: Resources) -> tuple[str, ...]:
    """The resources that do not fit, as sentences with both numbers."""
    return tuple(
        f"{name}: needs {show(name, units)}, has {show(name, free.get(name, 0))}"
        for name, units in sorted(request.items())
        if units and units > free.get(name, 0)
    )


def is_accelerator(name: str, declared: Iterable[str] = ()) -> bool:
    """Resources whose use makes a machine busy: all of NVIDIA's, and what pools declare beside them."""
    return name.startswith("nvidia.com/") or name in declared


def is_gpu(name: str) -> bool:
    """A GPU by its usual name, whole, shared or a slice."""
    return name == GPU or name.startswith(_GPUS)


def stands_for_gpus(name: str) -> bool:
    """What a device plug-in shows in place of whole GPUs, also under a name of its own (nvidia.com/pgpu), and not what is known
    to come beside them: network cards, shares of memory and cores."""
    return name.startswith(_NVIDIA) and not name.startswith(_BESIDE)


def gpus_of(requests: Resources, declared: Iterable[str] = ()) -> dict[str, int]:
    """The GPUs that are asked for, whole, shared or in slices; where there are none, what stands for them in this
    cluster. What comes beside GPUs (a network card, say) is counted in units of its own, often far more of them."""
    wanted = {name: units for name, units in requests.items() if units and is_accelerator(name, declared)}
    for counts in (is_gpu, stands_for_gpus):
        if found := {name: units for name, units in wanted.items() if counts(name)}:
            return found
    return {name: units for name, units in wanted.items() if not name.startswith(_CARDS)}


def uses_accelerator(requests: Resources, declared: Iterable[str] = ()) -> bool:
    for name, units in requests.items():
        if units and (name.startswith("nvidia.com/") or name in declared):
            return True
    return False
