"""Whether some pods would all find a place on some machines: first fit, the largest pods first.

It may miss a way to place them, never invent one, so what is judged by it is judged in the accused's favour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controller.domain.machine import Machine
from controller.domain.names import gpu_slug

_MEMORY_KEPT = 0.9  # of a machine's memory, what pods may surely use
_CPU_KEPT = 200  # thousandths of a CPU that daemons may want
_MIB = 1024


class Need(NamedTuple):
    gpus: int
    cpu_milli: int
    memory_mib: int
    models: tuple[str, ...] = ()


def surely_usable(vcpus: int, memory_gib: int) -> tuple[int, int]:
    """Thousandths of a CPU and MiB that pods may have on such a machine, whatever the system takes."""
    return vcpus * 1000 - _CPU_KEPT, int(memory_gib * _MIB * _MEMORY_KEPT)


def all_placed(needs: Iterable[Need], machines: Sequence[Machine]) -> bool:
    free = [(one.gpus, *surely_usable(one.vcpus, one.memory_gib)) for one in machines]
    slugs = [gpu_slug(one.model) for one in machines]
    for need in sorted(needs, reverse=True):
        for number, (gpus, cpu, memory) in enumerate(free):
            if need.models and slugs[number] not in need.models:
                continue
            if need.gpus <= gpus and need.cpu_milli <= cpu and need.memory_mib <= memory:
                free[number] = (gpus - need.gpus, cpu - need.cpu_milli, memory - need.memory_mib)
                break
        else:
            return False
    return True
