"""Binding the pods of a plan one by one, as the scheduler would: what cannot be bound is a fault.

Shares no rule with the planner. Places are the nodes that are there and then the machines that the plan buys;
pods come in the order in which the planner took their places. Quick enough for ten thousands of pods, and
only as far as the workloads go: no ports, no volumes, selectors of labels alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from controller.domain.kube import PodShape, PodTerm, Spread, Taint
from controller.domain.plan import Launch, Plan, Snapshot
from controller.planning import predict

_HOST = "kubernetes.io/hostname"


@dataclass
class Place:
    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    free: dict[str, int]


@dataclass
class Rule:
    """Pods that a selector counts, by domain."""

    key: str
    labels: dict[str, str]
    counts: Counter[str] = field(default_factory=Counter)
    heights: Counter[int] = field(default_factory=Counter)  # how many domains have how many
    keepers: Counter[str] = field(default_factory=Counter)  # pods there that keep such pods away

    def matches(self, labels: dict[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.labels.items())

    def least(self) -> int:
        return min((height for height, domains in self.heights.items() if domains), default=0)


class Replay:
    def __init__(self, snapshot: Snapshot, plan: Plan, order: Sequence[tuple[str, str]]) -> None:
        """`order`: the keys of the pods that are placed, and the names of nodes, or anything else for new ones."""
        self.faults: list[str] = []
        self._places = {
            n.name: Place(n.name, {_HOST: n.name, **n.labels}, n.taints, {"pods": 110, **n.allocatable})
            for n in snapshot.nodes
        }
        self._rules: dict[bytes, Rule] = {}
        self._of_labels: dict[bytes, list[Rule]] = {}
        waiting = {pod.key: pod for pod in snapshot.pods if not pod.node}
        for pod in snapshot.pods:
            for term in (*pod.shape.affinity, *pod.shape.anti_affinity, *pod.shape.spreads):
                self._rule(term)
        for pod in snapshot.pods:
            if pod.node in self._places and not pod.finished:
                self._put(pod.shape, self._places[pod.node])
        goes = self._bought(snapshot, plan)
        joined = False
        for key, named in order:
            pod = waiting.pop(key, None)
            if pod is None:
                self.faults.append(f"{key} is placed twice, or does not wait")
                continue
            if named not in self._places and not joined:
                joined = True
                self._join(place for place, _ in goes.values())
            place = self._places.get(named) or goes.pop(key, (None, key))[0]
            if place is None:
                self.faults.append(f"{key} goes to {named}, which is not there")
                continue
            why = self._objection(pod.shape, place)
            if why:
                self.faults.append(f"{key} on {place.name}: {why}")
            self._put(pod.shape, place)
        self.faults += [f"{key} is bought for, and not placed" for key in goes]

    def _bought(self, snapshot: Snapshot, plan: Plan) -> dict[str, tuple[Place, str]]:
        """The new machine of each pod."""
        found: dict[str, tuple[Place, str]] = {}
        launches = [action for action in plan.actions if isinstance(action, Launch)]
        for number, launch in enumerate(launches):
            pool = snapshot.policy.pool(launch.pool)
            assert pool is not None
            name = f"new-{number}"
            labels = predict.labels_of(pool, launch.offer, name)
            free = predict.allocatable_of(snapshot.policy, pool, launch.offer.type, snapshot.observed)
            for daemonset in snapshot.daemonsets:  # those of the workloads run everywhere
                for resource, units in {**daemonset.shape.requests, "pods": 1}.items():
                    free[resource] = free.get(resource, 0) - units
            place = Place(name, labels, pool.taints, free)
            for key in launch.pods:
                if key in found:
                    self.faults.append(f"{key} is bought for twice")
                found[key] = (place, key)
        return found

    def _join(self, places: Iterable[Place]) -> None:
        """All new machines at once: each is a domain of its own for hosts, and maybe a new one for zones."""
        for place in {place.name: place for place in places}.values():
            for rule in self._rules.values():
                self._domain(rule, place)

    @staticmethod
    def _domain(rule: Rule, place: Place) -> None:
        domain = place.labels.get(rule.key, "")
        if domain not in rule.counts:
            rule.counts[domain] = 0
            rule.heights[0] += 1

    # -- rules

    def _rule(self, term: PodTerm | Spread) -> Rule:
        assert term.selector is not None
        assert not term.selector.expressions
        text = msgspec.json.encode((term.topology_key, sorted(term.selector.labels.items())))
        rule = self._rules.get(text)
        if rule is None:
            rule = self._rules[text] = Rule(term.topology_key, dict(term.selector.labels))
            for place in self._places.values():
                self._domain(rule, place)
        return rule

    def _counting(self, shape: PodShape) -> list[Rule]:
        text = msgspec.json.encode(sorted(shape.labels.items()))
        known = self._of_labels.get(text)
        if known is None:
            found = [rule for rule in self._rules.values() if rule.matches(dict(shape.labels))]
            known = self._of_labels[text] = found
        return known

    # -- binding

    def _put(self, shape: PodShape, place: Place) -> None:
        for name, units in {**shape.requests, "pods": 1}.items():
            place.free[name] = place.free.get(name, 0) - units
        for rule in self._counting(shape):
            domain = place.labels.get(rule.key, "")
            rule.heights[rule.counts[domain]] -= 1
            rule.counts[domain] += 1
            rule.heights[rule.counts[domain]] += 1
        for term in shape.anti_affinity:
            rule = self._rule(term)
            rule.keepers[place.labels.get(rule.key, "")] += 1

    def _objection(self, shape: PodShape, place: Place) -> str:
        for name, units in {**shape.requests, "pods": 1}.items():
            if units > place.free.get(name, 0):
                return f"{name}: {units} of {place.free.get(name, 0)}"
        if any(place.labels.get(key) != value for key, value in shape.node_selector.items()):
            return "its node selector"
        if shape.required_terms is not None and not any(
            term.matches(place.name, place.labels) for term in shape.required_terms
        ):
            return "its node affinity"
        for taint in place.taints:
            if not any(toleration.tolerates(taint) for toleration in shape.tolerations):
                return f"taint {taint}"
        return self._of_others(shape, place)

    def _of_others(self, shape: PodShape, place: Place) -> str:
        mine = self._counting(shape)
        for term in shape.affinity:
            rule = self._rule(term)
            first = not sum(rule.counts.values()) and rule in mine
            if not first and not rule.counts[place.labels.get(rule.key, "")]:
                return f"no {rule.labels} in its {rule.key}"
        for term in shape.anti_affinity:
            rule = self._rule(term)
            if rule.counts[place.labels.get(rule.key, "")]:
                return f"{rule.labels} in its {rule.key}"
        for rule in mine:
            if rule.keepers[place.labels.get(rule.key, "")]:
                return f"somebody keeps {rule.labels} away"
        for spread in shape.spreads:
            rule = self._rule(spread)
            count = rule.counts[place.labels.get(rule.key, "")]
            if spread.hard and count + (rule in mine) - rule.least() > spread.max_skew:
                return f"{count} {rule.labels} in its {rule.key}, {rule.least()} elsewhere"
        return ""


def faults(snapshot: Snapshot, plan: Plan, order: Sequence[tuple[str, str]]) -> list[str]:
    """What of the plan the scheduler could not bind, in words."""
    return Replay(snapshot, plan, order).faults
