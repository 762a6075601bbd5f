"""The least that machines for these pods could cost: a linear programme over the offers.

Topology is ignored, machines and pods are divisible; a pod still goes only where it would run alone. What
was placed on existing nodes costs nothing and is not asked about. Where pods hardly resemble each other
their amounts are rounded down to a grid, which keeps the programme small, and the floor a floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from controller.domain.kube import Pod, PodShape
from controller.domain.plan import Snapshot
from controller.domain.resources import Resources, fits, subtract
from controller.planning import predict
from controller.planning.choice import candidates
from controller.planning.fit import admitted, with_place
from controller.planning.room import UNNAMED
from controller.sandbox.bench.planner.solver import Programme, installed

LARGEST = 400  # classes of pods that are taken as they are
NEVER_SCARCE = 10**6  # where so many pods find room, no row is made for it

Needs = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """Offers that are equal but for place and market, at the lowest of their prices."""

    free: Resources
    labels: Mapping[str, str]
    price: float
    admits: frozenset[int]


def price_floor(snapshot: Snapshot, pods: Sequence[Pod]) -> float | None:
    """Dollars an hour; None without a solver, or if some pod fits no machine."""
    if not installed():
        return None
    if not pods:
        return 0.0
    profiles: dict[bytes, tuple[int, PodShape]] = {}
    wanted: Counter[tuple[int, Needs]] = Counter()
    seen: dict[int, tuple[int, Needs]] = {}
    for pod in pods:
        if id(pod.shape) not in seen:
            seen[id(pod.shape)] = _class(pod.shape, profiles)
        wanted[seen[id(pod.shape)]] += 1
    machines = sold(snapshot, [shape for _, shape in profiles.values()])
    return _least(_coarser(wanted) if len(wanted) > LARGEST else wanted, machines)


def _class(shape: PodShape, profiles: dict[bytes, tuple[int, PodShape]]) -> tuple[int, Needs]:
    text = msgspec.json.encode((shape.node_selector, shape.required_terms, shape.tolerations))
    profile, _ = profiles.setdefault(text, (len(profiles), shape))
    return profile, tuple(sorted((n, u) for n, u in with_place(shape.requests).items() if u))


def sold(snapshot: Snapshot, profiles: Sequence[PodShape]) -> list[Machine]:
    """What can be bought, each only once, and nothing that something else beats in every respect."""
    cheapest: dict[tuple[Needs, frozenset[int]], Machine] = {}
    for candidate in candidates(snapshot):
        if candidate.hindrance is not None:
            continue
        pool, offer = candidate.pool, candidate.offer
        labels = predict.labels_of(pool, offer, UNNAMED, snapshot.policy.gpu_labels)
        taints = predict.taints_of(pool)
        free = subtract(
            predict.allocatable_of(snapshot.policy, pool, offer.type, snapshot.observed),
            predict.daemon_overhead(snapshot.daemonsets, UNNAMED, labels, taints),
        )
        admits = frozenset(n for n, s in enumerate(profiles) if admitted(s, UNNAMED, labels, taints))
        key = (tuple(sorted(free.items())), admits)
        known = cheapest.get(key)
        if known is None or float(offer.price) < known.price:
            cheapest[key] = Machine(free, labels, float(offer.price), admits)
    every = list(cheapest.values())
    return [one for one in every if not any(_beats(other, one) for other in every if other is not one)]


def _beats(one: Machine, other: Machine) -> bool:
    return one.price <= other.price and one.admits >= other.admits and fits(other.free, one.free)


def _coarser(wanted: Counter[tuple[int, Needs]]) -> Counter[tuple[int, Needs]]:
    """Amounts rounded down to the least of their cell in a grid. Counts of devices stay as they are."""
    cells: dict[tuple[int, Needs], list[tuple[Needs, int]]] = {}
    spans: dict[str, tuple[int, int]] = {}
    for (_, needs), _n in wanted.items():
        for name, units in needs:
            low, high = spans.get(name, (units, units))
            spans[name] = (min(low, units), max(high, units))
    for (profile, needs), count in wanted.items():
        levels = tuple((n, _level(u, spans[n]) if n in ("cpu", "memory") else u) for n, u in needs)
        cells.setdefault((profile, levels), []).append((needs, count))
    found: Counter[tuple[int, Needs]] = Counter()
    for (profile, _), inside in cells.items():
        least = {name: min(dict(needs)[name] for needs, _ in inside) for name, _ in inside[0][0]}
        found[(profile, tuple(sorted(least.items())))] += sum(count for _, count in inside)
    return found


def _level(units: int, span: tuple[int, int]) -> int:
    """By factors rather than by differences: small pods are told apart as well as large ones."""
    level, at = 0, span[0]
    while units > at:
        level, at = level + 1, max(at + 1, at * 9 // 8)
    return level


def _least(wanted: Mapping[tuple[int, Needs], int], machines: Iterable[Machine]) -> float | None:
    """How much of each class goes to which machine, and how much of each machine is bought."""
    programme = Programme()
    everyone = {key: programme.row(count, count) for key, count in wanted.items()}
    placeable = set()
    for machine in machines:
        inside = [key for key in everyone if key[0] in machine.admits and fits(dict(key[1]), machine.free)]
        scarce = {
            name for _, needs in inside for name, units in needs if units * NEVER_SCARCE > machine.free[name]
        }
        rooms = {name: programme.row(0) for name in sorted(scarce)}
        programme.column(machine.price, [(row, 1.0) for row in rooms.values()])
        for key in inside:
            placeable.add(everyone[key])
            used = [(rooms[name], -units / machine.free[name]) for name, units in key[1] if name in rooms]
            programme.column(0.0, [(everyone[key], 1.0), *used])
    if len(placeable) < len(everyone):
        return None
    solution = programme.solve()
    return solution.value if solution.optimal else None
