"""Binding the pods of a plan one by one, as the scheduler would: what cannot be bound is a fault.

Shares no code with the planner's rules. Places are the nodes that are there and the machines that the plan
buys; a pod goes to the place that the plan tells, in an order in which the rules of all pods allow it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from controller.domain.kube import Pod, PodShape, PodTerm, Spread, Taint
from controller.domain.plan import Launch, Plan, Snapshot
from controller.planning import predict

_TOLD = re.compile(r"^(?:node|machine) (\S+) has room for it")
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
        return min(height for height, domains in self.heights.items() if domains)


class Replay:
    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.faults: list[str] = []
        self.order: list[tuple[Pod, str]] = []  # in which all could be bound
        self._places: dict[str, Place] = {}
        self._goes: dict[str, str] = {}
        self._rules: dict[bytes, Rule] = {}
        self._of_labels: dict[bytes, list[Rule]] = {}
        self._existing(snapshot)
        self._bought(snapshot, plan)
        self.empty = {place.name: replace(place, free=dict(place.free)) for place in self._places.values()}
        waiting = {pod.key: pod for pod in snapshot.pods if not pod.node}
        for key, why in plan.pods.items():
            told = _TOLD.match(why.message)
            if key in waiting and told is not None and key not in self._goes:
                self._goes[key] = told[1]
        for key in self._goes:
            if key not in waiting:
                self.faults.append(f"{key} is placed and does not wait")
        pods = [waiting[key] for key in self._goes if key in waiting]
        for pod in [*snapshot.pods, *pods]:
            self._learn(pod.shape)
        for pod in snapshot.pods:
            if pod.node in self._places and not pod.finished:
                self._put(pod.shape, self._places[pod.node])
        self._bind(pods)

    def _existing(self, snapshot: Snapshot) -> None:
        for node in snapshot.nodes:
            labels = {_HOST: node.name, **node.labels}
            self._places[node.name] = Place(node.name, labels, node.taints, {"pods": 110, **node.allocatable})

    def _bought(self, snapshot: Snapshot, plan: Plan) -> None:
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
            self._places[name] = Place(name, labels, pool.taints, free)
            for key in launch.pods:
                if key in self._goes:
                    self.faults.append(f"{key} is placed twice")
                self._goes[key] = name

    # -- rules

    def _rule(self, term: PodTerm | Spread) -> Rule:
        assert term.selector is not None
        assert not term.selector.expressions
        text = msgspec.json.encode((term.topology_key, sorted(term.selector.labels.items())))
        rule = self._rules.get(text)
        if rule is None:
            rule = self._rules[text] = Rule(term.topology_key, dict(term.selector.labels))
            domains = {place.labels.get(rule.key, "") for place in self._places.values()}
            rule.heights[0] = len(domains)
        return rule

    def _learn(self, shape: PodShape) -> None:
        for term in (*shape.affinity, *shape.anti_affinity, *shape.spreads):
            self._rule(term)

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

    def _comes(self, left: Iterable[Pod]) -> Counter[tuple[int, str]]:
        """Where pods that spread over a rule's pods still come to, by rule and domain."""
        return Counter(
            (id(rule), self._places[self._goes[pod.key]].labels.get(rule.key, ""))
            for pod in left
            for rule in map(self._rule, pod.shape.spreads)
        )

    def _spoils(self, pod: Pod, place: Place, come: Counter[tuple[int, str]], ahead: int) -> bool:
        """Whether a domain would run ahead of the others, though a pod that minds still comes there."""
        own = self._comes([pod])
        for rule in self._counting(pod.shape):
            at = (id(rule), place.labels.get(rule.key, ""))
            if not own[at] and come[at] and rule.counts[at[1]] - rule.least() >= ahead:
                return True
        return False

    def _bind(self, pods: Iterable[Pod]) -> None:
        left = []
        for pod in self._by_turns(pods):
            if self._goes[pod.key] in self._places:
                left.append(pod)
            else:
                self.faults.append(f"{pod.key} goes to {self._goes[pod.key]}, which is not there")
        while left:
            come = self._comes(left)
            for ahead in (0, 1):  # those that no coming pod minds, then those that let a domain lead by one
                later = [pod for pod in left if not self._seat(pod, come, ahead)]
                if len(later) < len(left):
                    break
            else:
                if not self._push(later, come):
                    break
            left = later
        for pod in left:
            place = self._places[self._goes[pod.key]]
            self.faults.append(f"{pod.key} on {place.name}: {self._objection(pod.shape, place)}")

    def _seat(self, pod: Pod, come: Counter[tuple[int, str]], ahead: int) -> bool:
        place = self._places[self._goes[pod.key]]
        if self._spoils(pod, place, come, ahead) or self._objection(pod.shape, place):
            return False
        self._put(pod.shape, place)
        self.order.append((pod, place.name))
        come.subtract(self._comes([pod]))
        return True

    def _push(self, left: list[Pod], come: Counter[tuple[int, str]]) -> bool:
        """Bind one that may be bound though its domain runs ahead: the one that the fewest others mind."""
        best: tuple[int, int] | None = None
        for number, pod in enumerate(left):
            place = self._places[self._goes[pod.key]]
            if not self._objection(pod.shape, place):
                harm = self._harm(pod, place, come)
                best = min(best or (harm, number), (harm, number))
        if best is None:
            return False
        return self._seat(left.pop(best[1]), come, 10**9)

    def _harm(self, pod: Pod, place: Place, come: Counter[tuple[int, str]]) -> int:
        own = self._comes([pod])
        harm = 0
        for rule in self._counting(pod.shape):
            at = (id(rule), place.labels.get(rule.key, ""))
            harm += (come[at] - own[at]) * max(0, rule.counts[at[1]] - rule.least())
        return harm

    def _by_turns(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that are counted by rules of their own first, then others with rules; zone after zone."""
        turns: Counter[tuple[str, bytes]] = Counter()
        keyed = defaultdict(list)
        for pod in pods:
            place = self._places.get(self._goes[pod.key])
            zone = place.labels.get("topology.kubernetes.io/zone", "") if place else ""
            alike = (zone, msgspec.json.encode(sorted(pod.shape.labels.items())))
            turns[alike] += 1
            own = any(self._rule(spread) in self._counting(pod.shape) for spread in pod.shape.spreads)
            keyed[(not own, not pod.shape.inter_pod, turns[alike])].append(pod)
        return [pod for turn in sorted(keyed) for pod in keyed[turn]]


def faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What of the plan the scheduler could not bind, in words."""
    return Replay(snapshot, plan).faults
