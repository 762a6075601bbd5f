"""What was measured of the planner, as rows with their goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.beside import Figures
from tests.e2e.controlplane.bench.rows import Part, Row

FASTER = {1000: 20, 10000: 50}  # than Karpenter
OVER_FLOOR = 8.0
GPU_SECONDS = {1000: 0.2, 10000: 1.0}
GROWTH = 12  # of the time from 5,000 to 50,000 pods
MEAN_GAP, WORST_GAP = 1.0, 5.0


@dataclass(frozen=True)
class Run:
    numbers: Mapping[str, Any]
    faults: int | None  # that the verifier found; None: it did not look


def karpenter(ours: Mapping[int, Run], theirs: Figures, version: str, runs: int = 3) -> Part:
    found: list[Row] = []
    for pods, run in ours.items():
        key, beside = f"karpenter_{pods}", theirs.get(pods)
        found += _common(key, pods, run, None)
        # One of every five pods keeps off the hosts of its like, so fewer machines there cannot be.
        found.append(
            Row(f"{key}_machines", f"{pods:,} pods: machines", run.numbers["machines"], at_most=pods // 5)
        )
        found += _over_floor(key, pods, run, OVER_FLOOR)
        if beside is not None:
            speed = run.numbers["pods_per_second"] / beside["pods/sec"]
            found += [
                Row(
                    f"{key}_theirs",
                    f"{pods:,} pods: Karpenter {version}",
                    round(beside["pods/sec"]),
                    "pods/s",
                    note=f"{pods / beside['pods/sec']:.2f} s, {beside['nodes']:,.0f} nodes",
                ),
                Row(
                    f"{key}_faster",
                    f"{pods:,} pods: as fast as Karpenter, times",
                    round(speed, 1),
                    at_least=FASTER.get(pods),
                ),
            ]
    about = (
        "Karpenter's own scheduling benchmark, retold for the production planner with all rules on, strategy "
        f"`cheapest`; the fastest of three runs, each on pods made anew. Karpenter's own program, the fastest of {runs} "
        f"run{'s' * (runs != 1)}, is measured right after on the same machine. The floor is a linear programme over the "
        "offers: topology ignored, machines divisible."
    )
    return Part("karpenter", "Karpenter's workload", about, found)


def gpu(ours: Mapping[int, Run]) -> Part:
    found: list[Row] = []
    for pods, run in ours.items():
        found += _common(f"gpu_{pods}", pods, run, GPU_SECONDS.get(pods))
        found.append(Row(f"gpu_{pods}_machines", f"{pods:,} pods: machines bought", run.numbers["machines"]))
        found += _over_floor(f"gpu_{pods}", pods, run, None)
    if 5000 in ours and 50000 in ours:
        growth = ours[50000].numbers["seconds"] / ours[5000].numbers["seconds"]
        found.append(
            Row(
                "gpu_growth",
                "50,000 pods take as long as 5,000, times",
                round(growth, 1),
                at_most=GROWTH,
            )
        )
    about = (
        "Pods of 1, 2, 4 and 8 GPUs (60, 20, 10 and 10 %), each with 30 to 100 % of the CPU and memory that some "
        "machine has for each of its GPUs; 100 offers, 1,000 nodes with 80 % of their GPUs in use, half of them ours, "
        "five DaemonSets; strategy `smallest`; the fastest of three runs, each on pods made anew."
    )
    return Part("gpu", "GPU workload", about, found)


def optimum(found: Mapping[str, Any], seconds: float = 20) -> Part:
    note = f"{found['proven']} proven"
    if found.get("at_length"):
        note += (
            f"; {found['at_length']} that were not at once, the widest gaps first, had up to {seconds:g} s"
        )
    rows = [
        Row("optimum_instances", "instances", found["instances"], note=note),
        Row("optimum_unplaced", "pods without a place", found["unplaced"], exactly=0),
    ]
    for strategy, goals in (("cheapest", (MEAN_GAP, WORST_GAP)), ("smallest", (None, None))):
        gaps = found[strategy]
        rows += [
            Row(
                f"optimum_{strategy}_mean",
                f"`{strategy}` pays more than the optimum, on average",
                round(gaps["mean"] * 100, 2),
                "%",
                at_most=goals[0],
            ),
            Row(
                f"optimum_{strategy}_worst",
                f"`{strategy}` pays more than the optimum, at worst",
                round(gaps["worst"] * 100, 2),
                "%",
                at_most=goals[1],
                note=f"seed {gaps['worst_seeds'][0]}",
            ),
        ]
        proven = found.get("of_proven", {}).get(strategy)
        if proven and proven["mean"] is not None:
            rows.append(
                Row(
                    f"optimum_{strategy}_proven",
                    f"`{strategy}`, where the optimum is proven: on average",
                    round(proven["mean"] * 100, 2),
                    "%",
                    note=f"at worst {proven['worst'] * 100:.2f} %",
                )
            )
    about = (
        "Seeded GPU instances of 5 to 60 pods and 12 to 40 offers, no nodes, each solved by branch and price with "
        f"HiGHS for at most {seconds:g} s of CPU, as long as the time for all of them allows; one that is not proven is "
        "compared with the solver's bound, which no solution reaches."
    )
    return Part("optimum", "Gap to the exact optimum", about, rows)


def failed(name: str, trouble: Exception) -> Part:
    """What is told of a part that came to no end."""
    return Part(name, name.capitalize(), "It came to no end.", [not_measured(name, "all of it", trouble)])


def not_measured(key: str, what: str, trouble: Exception) -> Row:
    words = " ".join(f"{type(trouble).__name__}: {trouble}".split())
    return Row(f"{key}_ended", f"{what}: measurements that failed", 1, exactly=0, note=words[:200])


def _common(key: str, pods: int, run: Run, seconds: float | None) -> list[Row]:
    numbers = run.numbers
    note = f"{numbers['pods_per_second']:,.0f} pods/s, {numbers['classes']:,} classes"
    below = None if seconds is None else seconds * 1000
    rows = [
        Row(
            f"{key}_ms",
            f"{pods:,} pods: planned in",
            round(numbers["seconds"] * 1000, 1),
            "ms",
            below=below,
            note=note,
        ),
        Row(f"{key}_unplaced", f"{pods:,} pods: without a place", numbers["unplaced"], exactly=0),
    ]
    if run.faults is not None:
        rows.append(
            Row(f"{key}_faults", f"{pods:,} pods: faults that the verifier found", run.faults, exactly=0)
        )
    return rows


def _over_floor(key: str, pods: int, run: Run, at_most: float | None) -> list[Row]:
    price, floor = run.numbers["price_per_hour"], run.numbers["price_floor"]
    if not floor:
        return []
    note = f"{price:,.2f} $/h, floor {floor:,.2f}"
    over = round((price / floor - 1) * 100, 2)
    return [Row(f"{key}_over", f"{pods:,} pods: price over the floor", over, "%", at_most=at_most, note=note)]
