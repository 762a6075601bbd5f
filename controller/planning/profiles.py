"""What decides where a pod can go, worked out once for all pods that differ in amounts only.

Selectors, taints and volumes become sets of places and of offers; rules about other pods become censuses, which
pods with the same rule share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from controller.domain import names
from controller.domain.kube import HostPort, NodeTerm, Pod, PodShape, Requirement, Taint
from controller.domain.plan import Snapshot
from controller.planning.census import Census, Described, Spreading, described, spread_over
from controller.planning.fit import untolerated
from controller.planning.looks import Looks
from controller.planning.storage import NOTHING, Attached, Held, Storage

HOST_KEYS = (names.LABEL_HOSTNAME, names.LABEL_MACHINE)
_ZONE_KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)

# Preferences that count, the heaviest; and how many sums of their weights are told apart.
_WISHES, _LEVELS = 16, 16

# Old volumes have the keys of long ago, and nodes without these are asked for what they are called now.
_LATER_KEYS = dict(zip(_ZONE_KEYS[2:], _ZONE_KEYS[:2], strict=True))


@dataclass(slots=True, eq=False)
class Profile:
    """Of one pod and its like."""

    namespace: str
    shape: PodShape
    held: Held = NOTHING
    nodes: int = 0  # where selectors, taints and volumes let it in
    later: int = 0  # the same, once the taints of young nodes are gone
    offers: int = 0  # that it is to have
    sold: int = 0  # all that let it in: how large a machine may be is judged by these
    wishes: list[int] = field(default_factory=list)  # sets of places that it would rather have, best first
    offer_wishes: list[int] = field(default_factory=list)
    anti: list[Census] = field(default_factory=list)  # whoever it does not go to, and who does not want it
    affinity: list[Census] = field(default_factory=list)
    starts: bool = False  # its affinity is to pods like itself
    spreads: list[Spreading] = field(default_factory=list)
    soft_spreads: list[Spreading] = field(default_factory=list)
    feeds: list[Census] = field(default_factory=list)  # whoever counts it
    owns: list[Census] = field(default_factory=list)  # counts of the owners of its own anti-affinity
    pins: tuple[str, ...] = ()  # keys whose value a new machine must decide on when the pod goes there
    special: bool = False  # volumes: to be looked at place by place
    ruled: bool = False  # other pods matter
    owning: bool = False  # it has something of its place that others then cannot have


class Profiles:
    """`looks` and `later_looks`: the places that are there, now and once the taints of young nodes are gone."""

    def __init__(
        self, snapshot: Snapshot, looks: Looks, later_looks: Looks | None, offers: Looks | None
    ) -> None:
        self.looks = looks
        self.offers = offers if offers is not None else Looks()
        self._later_looks = later_looks
        self._spaces = {space.name: space.labels for space in snapshot.namespaces}
        self._storage = Storage(snapshot)
        self._daemons = snapshot.daemonsets
        self.unpinned: dict[str, int] = {}  # by key: new machines whose value is not decided
        self._spreading: set[Census] = set()  # those that count for spreading, where pods that leave do not
        self.spread_at_most: dict[Census, int] = {}
        self._censuses: dict[bytes, Census] = {}
        self._owned: list[tuple[Described, Census]] = []
        self._by_host = {key: self._is_host(key) for key in HOST_KEYS}
        self.profiles: dict[int, Profile] = {}
        # Places that only whoever tolerates these may have; where pods are spread, such a taint does not count.
        self.shut: dict[tuple[Taint, ...], int] = {}

    def _profile(self, pod: Pod) -> Profile:
        shape = pod.shape
        held = self._storage.held(pod)
        profile = Profile(pod.namespace, shape, held)
        profile.special = bool(held.choices or held.alone or (held.attached and self._storage.limited))
        profile.owning = profile.special or bool(shape.host_ports)
        looks = self.looks
        nodes = looks.selected(shape)
        if held.wrong:
            nodes = 0
        elif held is not NOTHING:
            nodes &= self.where_volumes_are(held, looks)
        for taints, places in self.shut.items():
            if untolerated(shape, taints) is not None:
                nodes &= ~places
        profile.nodes = nodes & looks.tolerated(shape.tolerations)
        if self._later_looks is not None:
            profile.later = nodes & self._later_looks.tolerated(shape.tolerations)
        offers = self.offers
        if offers.everywhere:
            sold = offers.selected(shape) & offers.tolerated(shape.tolerations)
            if held.wrong:
                sold = 0
            elif held is not NOTHING:
                sold &= self.where_volumes_are(held, offers, new=True)
            if shape.host_ports:
                sold &= ~self._ports_of_daemons(shape.host_ports)
            if held.attached:
                sold &= self.offers_taking(held.attached)
            profile.offers = profile.sold = sold
        self._wish(profile)
        self._rules(profile)
        return profile

    def where_volumes_are(self, held: Held, looks: Looks, *, new: bool = False) -> int:
        found = looks.everywhere
        for terms in held.all_of:
            found &= looks.terms(terms)
        for terms in held.local:
            found &= looks.terms(tuple(map(self._without_lost_host, terms)) if new else terms)
        for choice in held.choices:
            reach = [volume.terms for volume in choice.volumes] + [choice.allowed] * choice.made
            near = 0
            for within in reach:
                near |= looks.everywhere if within is None else looks.terms(within)
            found &= near
        if held.zones:
            zoned = 0
            for key in _ZONE_KEYS:
                zoned |= looks.having(key)
            for key, values in held.zones:
                met = looks.meeting(Requirement(key, "In", values))
                if (later := _LATER_KEYS.get(key)) is not None:
                    met |= looks.meeting(Requirement(later, "In", values)) & ~looks.having(key)
                found &= met | (looks.everywhere & ~zoned)
        return found

    def offers_taking(self, attached: Iterable[Attached]) -> int:
        """Offers of machines that take so many volumes, as far as is known."""
        pools, types = self.offers.by(names.LABEL_POOL), self.offers.by(names.LABEL_INSTANCE_TYPE)
        too_few = 0
        for pool, kind in self._storage.kinds_that_take_fewer(attached):
            too_few |= pools.get(pool, 0) & types.get(kind, 0)
        return ~too_few

    def _without_lost_host(self, term: NodeTerm) -> NodeTerm:
        """A local volume's host that is gone binds no new machine: its name will never come back, and its data went
        with it. A disk of the network that is bound to a host by name is still there, and is used nowhere else."""
        hosts = self.looks.by(names.LABEL_HOSTNAME)
        kept = tuple(
            condition
            for condition in term.labels
            if condition.key != names.LABEL_HOSTNAME
            or condition.operator != "In"
            or any(value in hosts for value in condition.values)
        )
        if len(kept) == len(term.labels):
            return term
        return NodeTerm(labels=kept or (Requirement("", "DoesNotExist"),), fields=term.fields)

    def _ports_of_daemons(self, ports: Sequence[HostPort]) -> int:
        found = 0
        for daemon in self._daemons:
            if any(clash(mine, theirs) for mine in ports for theirs in daemon.shape.host_ports):
                shape = daemon.shape
                found |= self.offers.selected(shape) & self.offers.tolerated(shape.tolerations)
        return found

    def _wish(self, profile: Profile) -> None:
        """Each set holds the one before it, with what meets preferences of less weight in all."""
        shape = profile.shape
        terms = sorted(shape.preferred_terms, key=lambda term: -term.weight)[:_WISHES]
        nodes, offers = profile.nodes | profile.later, profile.sold
        for looks, wishes, open_to_it in (
            (self.looks, profile.wishes, nodes),
            (self.offers, profile.offer_wishes, offers),
        ):
            untainted = looks.tolerated(shape.tolerations, soft=True)
            if terms:
                preferred = [(term.weight, looks.term(term.term)) for term in terms]
                of_weight = _by_weight(untainted & open_to_it, preferred)
                wanted = 0
                for weight in sorted((total for total in of_weight if total), reverse=True)[:_LEVELS]:
                    wanted |= of_weight[weight]
                    wishes.append(wanted)
            if untainted != looks.everywhere or terms:
                wishes.append(untainted)

    def _rules(self, profile: Profile) -> None:
        shape, space = profile.shape, profile.namespace
        for term in shape.anti_affinity:
            who = described(space, (term,))
            profile.anti.append(self._census(who, term.topology_key))
            profile.owns.append(self._owners(who, term.topology_key))
        if shape.affinity:
            everyone = described(space, shape.affinity)
            profile.affinity = [self._census(everyone, term.topology_key) for term in shape.affinity]
            profile.starts = everyone.matches(space, shape.labels, self._spaces)
        hard = tuple(sorted({spread.topology_key for spread in shape.spreads if spread.hard}))
        for spread in shape.spreads:
            who = spread_over(space, shape, spread)
            keys = hard if spread.hard else (spread.topology_key,)
            nodes, offers = self.looks.everywhere, self.offers.everywhere
            text = b""
            if spread.honors_affinity and (shape.node_selector or shape.required_terms is not None):
                nodes, offers = self.looks.selected(shape), self.offers.selected(shape)
                text += msgspec.json.encode((shape.node_selector, shape.required_terms))
            if spread.honors_taints:
                nodes &= self.looks.tolerated(shape.tolerations)
                offers &= self.offers.tolerated(shape.tolerations)
                text += msgspec.json.encode(shape.tolerations)
            for key in keys:
                nodes &= self.looks.having(key)
                offers &= self.offers.having(key)
            text += b"/".join(key.encode() for key in keys)
            census = self._census(who, spread.topology_key, b"spread " + text, nodes, offers)
            self._spreading.add(census)
            if spread.hard:
                known = self.spread_at_most.get(census, spread.max_skew)
                self.spread_at_most[census] = min(known, spread.max_skew)
            itself = int(who.matches(space, shape.labels, self._spaces))
            (profile.spreads if spread.hard else profile.soft_spreads).append(
                Spreading(spread, census, itself)
            )

    def _is_host(self, key: str) -> bool:
        return all(places & (places - 1) == 0 for places in self.looks.by(key).values())

    def _census(
        self, who: Described, key: str, extra: bytes = b"", nodes: int | None = None, offers: int = -1
    ) -> Census:
        text = key.encode() + extra + who.text
        known = self._censuses.get(text)
        if known is None:
            known = self._censuses[text] = self._new_census(key, who, nodes, offers)
        return known

    def _new_census(self, key: str, who: Described | None, nodes: int | None, offers: int) -> Census:
        by_host = self._by_host.get(key, False)
        if by_host:
            nodes = self.looks.having(key) if nodes is None else nodes & self.looks.having(key)
        else:
            self.unpinned.setdefault(key, 0)
        return Census(key, who, by_host, nodes, offers)

    def _owners(self, who: Described, key: str) -> Census:
        """Counts the pods that carry this anti-affinity: it holds against whoever comes later, too."""
        text = b"owners " + key.encode() + who.text
        known = self._censuses.get(text)
        if known is None:
            known = self._censuses[text] = self._new_census(key, None, None, -1)
            self._owned.append((who, known))
        return known


def _by_weight(places: int, terms: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The places by the sum of the weights of the terms that they meet, as the scheduler's score has it."""
    found = {0: places}
    for weight, meeting in terms:
        now: dict[int, int] = {}
        for total, some in found.items():
            if met := some & meeting:
                now[total + weight] = now.get(total + weight, 0) | met
            if missed := some & ~meeting:
                now[total] = now.get(total, 0) | missed
        found = now
    return found


def clash(mine: HostPort, theirs: HostPort) -> bool:
    """Whether two host ports cannot be on one node."""
    return (
        mine.port == theirs.port
        and mine.protocol == theirs.protocol
        and (not mine.ip or not theirs.ip or mine.ip == theirs.ip)
    )
