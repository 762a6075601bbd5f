"""An independent judge of finished plans: it replays the scheduler's rules, pod after pod, by plain loops.

Shares no code with the planner. Nodes are as they are, or as predicted; every planned pod is bound in the
order in which the plan took its places, and each binding must be one that the scheduler would make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.domain.kube import HostPort, Namespace, Pod, Selector, Spread, Taint
from tests.planning.verifier_volumes import Volumes


@dataclass
class Host:
    name: str
    labels: Mapping[str, str]
    taints: Sequence[Taint]
    allocatable: Mapping[str, int]
    pods: list[Pod] = field(default_factory=list)


def objections(
    hosts: Sequence[Host],
    bindings: Sequence[tuple[Pod, str]],
    namespaces: Sequence[Namespace] = (),
    new: Sequence[Host] = (),
    volumes: Volumes | None = None,
) -> list[str]:
    """What the scheduler would say against the plan, in words; empty if nothing.

    What fits on the nodes that are there is bound before the `new` ones join, all of them at once.
    """
    by_name = {host.name: host for host in (*hosts, *new)}
    names = {host.name for host in new}
    spaces = {space.name: space.labels for space in namespaces}
    held = volumes if volumes is not None else Volumes()
    for host in hosts:
        for pod in host.pods:
            held.bind(pod, host.name, host.labels)
    found = []
    for pod, name in bindings:
        if name in names:
            hosts, names = (*hosts, *new), set()
        at = by_name[name]
        why = objection(pod, at, hosts, spaces) or held.objection(pod, name, at.labels)
        if why:
            found.append(f"{pod.key} on {name}: {why}")
        at.pods.append(pod)
        held.bind(pod, name, at.labels)
    return found


def objection(pod: Pod, host: Host, hosts: Sequence[Host], spaces: Mapping[str, Mapping[str, str]]) -> str:
    shape = pod.shape
    asked = {**shape.requests, "pods": 1}
    for name, units in asked.items():
        used = sum({**p.shape.requests, "pods": 1}.get(name, 0) for p in host.pods)
        if units and used + units > host.allocatable.get(name, 0):
            return f"{name}: {used} used, {units} more, {host.allocatable.get(name, 0)} there"
    if not _selected(pod, host):
        return "selector"
    if not _tolerated(pod, host):
        return "taint"
    for theirs in (port for p in host.pods for port in p.shape.host_ports):
        if any(_clash(mine, theirs) for mine in shape.host_ports):
            return "host port"
    for other_host in hosts:
        for other in other_host.pods:
            for term in other.shape.anti_affinity:
                if _meant(term, other.namespace, pod, spaces) and _same(term.topology_key, host, other_host):
                    return f"anti-affinity of {other.key}"
            for term in shape.anti_affinity:
                if _meant(term, pod.namespace, other, spaces) and _same(term.topology_key, host, other_host):
                    return f"anti-affinity to {other.key}"
    if shape.affinity:
        near = [
            (h, p)
            for h in hosts
            for p in h.pods
            if all(_meant(term, pod.namespace, p, spaces) for term in shape.affinity)
            and any(term.topology_key in h.labels for term in shape.affinity)
        ]
        for term in shape.affinity:
            if term.topology_key not in host.labels:
                return f"no {term.topology_key}"
            if near and not any(_same(term.topology_key, host, h) for h, _ in near):
                return "affinity"
        if not near and not all(_meant(term, pod.namespace, pod, spaces) for term in shape.affinity):
            return "affinity to nobody"
    for spread in shape.spreads:
        if spread.hard and (why := _skewed(pod, spread, host, hosts)):
            return why
    return ""


def _skewed(pod: Pod, spread: Spread, host: Host, hosts: Sequence[Host]) -> str:
    key = spread.topology_key
    keys = {s.topology_key for s in pod.shape.spreads if s.hard}
    if key not in host.labels:
        return f"no {key}"
    counts: dict[str, int] = {}
    for h in hosts:
        if not keys <= set(h.labels):
            continue
        if spread.honors_affinity and not _selected(pod, h):
            continue
        if spread.honors_taints and not _tolerated(pod, h):
            continue
        here = sum(p.deleting_at is None and _counted(pod, spread, p) for p in h.pods)
        counts[h.labels[key]] = counts.get(h.labels[key], 0) + here
    least = min(counts.values(), default=0)
    if spread.min_domains is not None and len(counts) < spread.min_domains:
        least = 0
    mine = counts.get(host.labels[key], 0) + _counted(pod, spread, pod)
    return f"skew over {key}: {mine} here, {least} elsewhere" if mine - least > spread.max_skew else ""


def _counted(pod: Pod, spread: Spread, other: Pod) -> bool:
    if spread.selector is None or other.namespace != pod.namespace:
        return False
    labels = other.shape.labels
    same = all(labels.get(k) == pod.shape.labels[k] for k in spread.match_label_keys if k in pod.shape.labels)
    return same and _picks(spread.selector, labels)


def _picks(selector: Selector, labels: Mapping[str, str]) -> bool:
    if any(labels.get(k) != v for k, v in selector.labels.items()):
        return False
    for r in selector.expressions:
        has, value = r.key in labels, labels.get(r.key)
        fine = {
            "In": has and value in r.values,
            "NotIn": value not in r.values,
            "Exists": has,
            "DoesNotExist": not has,
        }[r.operator]
        if not fine:
            return False
    return True


def _meant(term: object, space: str, other: Pod, spaces: Mapping[str, Mapping[str, str]]) -> bool:
    names, chosen, selector = term.namespaces, term.namespace_selector, term.selector  # type: ignore[attr-defined]
    if not names and chosen is None:
        inside = other.namespace == space
    else:
        inside = other.namespace in names or (
            chosen is not None and _picks(chosen, spaces.get(other.namespace, {}))
        )
    return inside and selector is not None and _picks(selector, other.shape.labels)


def _same(key: str, one: Host, other: Host) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def _selected(pod: Pod, host: Host) -> bool:
    if any(host.labels.get(k) != v for k, v in pod.shape.node_selector.items()):
        return False
    terms = pod.shape.required_terms
    return terms is None or any(
        (term.labels or term.fields)
        and all(_picks(Selector(expressions=(r,)), host.labels) for r in term.labels)
        and all(_picks(Selector(expressions=(r,)), {"metadata.name": host.name}) for r in term.fields)
        for term in terms
    )


def _tolerated(pod: Pod, host: Host) -> bool:
    return all(
        taint.effect == "PreferNoSchedule"
        or any(
            t.effect in ("", taint.effect)
            and t.key in ("", taint.key)
            and (t.operator == "Exists" or (t.key == taint.key and t.value == taint.value))
            for t in pod.shape.tolerations
        )
        for taint in host.taints
    )


def _clash(mine: HostPort, theirs: HostPort) -> bool:
    same = (mine.port, mine.protocol) == (theirs.port, theirs.protocol)
    return same and (mine.ip == theirs.ip or "" in (mine.ip, theirs.ip))
