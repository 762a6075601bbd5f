"""What came of a simulation, under the names that scripts read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

Result = dict[str, Any]


class Waits(msgspec.Struct):
    """Seconds from wanting a pod to its running; of pods that ran."""

    seconds: list[float]

    def at(self, share: float) -> float:
        found = sorted(self.seconds)
        return round(found[min(len(found) - 1, int(share * len(found)))], 1) if found else 0.0


def words(result: Result) -> Sequence[str]:
    """For people."""
    paid, used = result["gpu_hours_paid"], result["gpu_hours_used"]
    share = f"{100 * used / paid:.0f} %" if paid else "nothing paid"
    bound = result["cost_lower_bound"]
    above = f"{result['cost'] / bound:.2f} times" if bound else "no bound"
    lines = [
        f"seed {result['seed']}: {result['pods_run']} of {result['pods']} pods ran, {result['launches']} machines bought"
        f" ({result['launches_failed']} in vain)",
        f"  paid   {result['cost']:.2f} for {paid:.1f} GPU hours, used {used:.1f} ({share}); {above} the lower bound"
        f" of {bound:.2f}",
        f"  waits  half of the pods up to {result['wait_p50_s']:.0f} s, 99 of 100 up to {result['wait_p99_s']:.0f} s",
        f"  twice  {result['double_launches']} bought twice, {result['leaked_machines']} machines and"
        f" {result['leaked_disks']} disks leaked, {result['busy_evictions']} busy pods evicted",
        f"  took   {result['wall_s']:.1f} s",
    ]
    lines += [f"  {count} pods can never run: {why}" for why, count in result["pods_impossible"].items()]
    lines += [f"  {count} machines stay: {why}" for why, count in result["kept_by_settings"].items()]
    lines += [f"  VIOLATION at {text}" for text in result["violations"]]
    return lines
