"""The board: every place that a pod could go to, and who is where. What the scheduler would say, at speed.

A place is a node, a machine on its way, or a new machine of the plan; it is one bit, and the sets of
places that labels, taints, ports, volumes, other pods and free amounts allow are integers. Pods that
differ in amounts only are one profile, worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from controller.domain import names
from controller.domain.kube import HostPort, NodeTerm, Pod, PodShape, Requirement
from controller.domain.plan import Snapshot
from controller.planning.census import (
    COMING,
    POSSIBLE,
    THERE,
    Census,
    Described,
    Spreading,
    described,
    spread_over,
)
from controller.planning.fit import Ask, enough
from controller.planning.looks import NAME, Looks
from controller.planning.room import Room
from controller.planning.sizes import Sizes, levels_of
from controller.planning.storage import NOTHING, Attached, Held, Storage
from controller.planning.volumes_taken import VolumesTaken

_HOST_KEYS = (names.LABEL_HOSTNAME, names.LABEL_MACHINE)
_ZONE_KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_EVERY_HOST = 1 << 30


@dataclass(frozen=True, slots=True)
class Mark:
    """What a board knew about new machines, and about pods wherever they are, at one moment."""

    new: int
    pinned: dict[int, dict[str, str | None]]
    unpinned: dict[str, int]
    looks: dict[str, dict[str, int]]
    censuses: list[tuple[Census, dict[str, int], list[int], int, int | None]]
    ports: dict[tuple[str, int], dict[str, int]]
    volumes: VolumesTaken
    places: int
    spare: list[int]


@dataclass(slots=True, eq=False)
class Profile:
    """What decides where a pod can go, but for amounts."""

    namespace: str
    shape: PodShape
    held: Held = NOTHING
    nodes: int = 0  # where selectors, taints and volumes let it in
    later: int = 0  # the same, once the taints of young nodes are gone
    offers: int = 0
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


class Board:
    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Sequence[Room],
        asks: Sequence[Ask],
        *,
        offers: Looks | None = None,
        buyable: int = 0,
        there: int | None = None,
        stages: int | None = None,
    ) -> None:
        """`there`: which rooms are Nodes (the others are on their way); `stages`: which may take pods at all."""
        self.rooms = list(rooms)
        self.count = len(self.rooms)
        every = (1 << self.count) - 1
        self.there = every if there is None else there
        self.open_to_pods = every if stages is None else stages
        self.old = every  # all places that are not new machines
        self.new = 0
        self.looks = Looks()
        self.offers = offers if offers is not None else Looks()
        self.buyable = buyable
        self.offer_number: dict[int, int] = {}  # by the template of the offer
        self._spaces = {space.name: space.labels for space in snapshot.namespaces}
        self._storage = Storage(snapshot)
        self._daemons = snapshot.daemonsets
        self._later_looks: Looks | None = None
        self.free: list[dict[str, int]] = []
        self.pinned: dict[int, dict[str, str | None]] = {}  # of new machines: values decided
        self.unpinned: dict[str, int] = {}
        self._ports: dict[tuple[str, int], dict[str, int]] = {}
        self._volumes = VolumesTaken(self._storage)
        self._spare: list[int] = []  # places that new machines have left
        self._number: dict[str, int] = {}
        self._spreading: set[Census] = set()  # those that count for spreading, where pods that leave do not
        self.spread_at_most: dict[Census, int] = {}
        needs: dict[str, set[int]] = {}
        for ask in asks:
            for name, units in ask.needs.items():
                needs.setdefault(name, set()).add(units)
        levels = {name: levels_of(amounts) for name, amounts in needs.items()}
        self.sizes = Sizes(levels)
        self.later_sizes: Sizes | None = None
        self.soon = 0
        if any(room.soon is not None for room in self.rooms):
            self.later_sizes, self._later_looks = Sizes(levels), Looks()
        for number, room in enumerate(self.rooms):
            self.looks.add(room.name, room.labels, room.taints)
            self._number.setdefault(room.name, number)
            self.free.append(dict(room.free))
            self.sizes.add(room.free)
            if self.later_sizes is not None and self._later_looks is not None:
                self._later_looks.add(room.name, room.labels, room.soon_taints)
                self.later_sizes.add(room.soon or {})
                if room.soon is not None:
                    self.soon |= 1 << number
        self._censuses: dict[bytes, Census] = {}
        self._owned: list[tuple[Described, Census]] = []
        self.profiles: dict[int, Profile] = {}
        self._by_host = {key: self._is_host(key) for key in _HOST_KEYS}
        for ask in asks:
            if ask.profile not in self.profiles:
                self.profiles[ask.profile] = self._profile(ask.pod)
        self._seat(snapshot.pods)

    # -- profiles

    def _profile(self, pod: Pod) -> Profile:
        shape = pod.shape
        held = self._storage.held(pod)
        profile = Profile(pod.namespace, shape, held)
        profile.special = bool(held.choices or held.alone or (held.attached and self._storage.limited))
        looks = self.looks
        nodes = looks.selected(shape)
        if held.wrong:
            nodes = 0
        elif held is not NOTHING:
            nodes &= self.where_volumes_are(held, looks)
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
            profile.offers = sold
        self._wish(profile)
        self._rules(profile)
        return profile

    def where_volumes_are(self, held: Held, looks: Looks, *, new: bool = False) -> int:
        found = looks.everywhere
        for terms in held.all_of:
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
                found &= looks.meeting(Requirement(key, "In", values)) | (looks.everywhere & ~zoned)
        return found

    def offers_taking(self, attached: Iterable[Attached]) -> int:
        """Offers of machines that take so many volumes, as far as is known."""
        pools, types = self.offers.by(names.LABEL_POOL), self.offers.by(names.LABEL_INSTANCE_TYPE)
        too_few = 0
        for pool, kind in self._storage.kinds_that_take_fewer(attached):
            too_few |= pools.get(pool, 0) & types.get(kind, 0)
        return ~too_few

    def _without_lost_host(self, term: NodeTerm) -> NodeTerm:
        """A local volume's host that is gone binds no new machine: its name will never come back."""
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
        shape = profile.shape
        terms = sorted(shape.preferred_terms, key=lambda term: -term.weight)
        for looks, wishes in ((self.looks, profile.wishes), (self.offers, profile.offer_wishes)):
            untainted = looks.tolerated(shape.tolerations, soft=True)
            met = untainted
            for term in terms:
                met &= looks.term(term.term)
                wishes.append(met)
            wishes.reverse()
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

    def _seat(self, pods: Iterable[Pod]) -> None:
        """Count the pods that run, and connect profiles with whatever counts them."""
        bound = [pod for pod in pods if pod.node and not pod.finished]
        for pod in bound:
            for term in pod.shape.anti_affinity:
                self._owners(described(pod.namespace, (term,)), term.topology_key)
        for profile in self.profiles.values():
            labels = profile.shape.labels
            feeds = [
                census
                for census in self._censuses.values()
                if census.who is not None and census.who.matches(profile.namespace, labels, self._spaces)
            ]
            profile.feeds = feeds + profile.owns
            for who, owners in self._owned:
                if who.matches(profile.namespace, labels, self._spaces):
                    profile.anti.append(owners)
            minding = (*profile.feeds, *profile.anti, *profile.affinity, *(s.census for s in profile.spreads))
            where = sorted({key for choice in profile.held.choices for key in choice.keys})
            profile.pins = tuple(dict.fromkeys((*(c.key for c in minding if not c.by_host), *where)))
            for key in where:
                self.unpinned.setdefault(key, 0)
            profile.ruled = bool(profile.anti or profile.affinity or profile.spreads)
        memo: dict[tuple[int, str], list[Census]] = {}
        # Every Job has labels of its own: what no description looks at does not tell its pods apart.
        alike: dict[tuple[str | None, ...], list[Census]] = {}
        looked_at = sorted(
            {key for census in self._censuses.values() if census.who for key in census.who.keys}
        )
        limited, anyone = self._storage.limited, bool(self._censuses)
        for pod in bound:
            number = self._number.get(pod.node)
            if number is None:
                continue
            shape = pod.shape
            for port in shape.host_ports:
                self._take_port(port, 1 << number)
            if limited and shape.volumes:
                self._volumes.attach(number, self._storage.attached(pod))
            if not anyone:
                continue
            about = memo.get((id(shape), pod.namespace))
            if about is None:
                look = (pod.namespace, *(shape.labels.get(key) for key in looked_at))
                if look not in alike:
                    alike[look] = [
                        census
                        for census in self._censuses.values()
                        if census.who is not None
                        and census.who.matches(pod.namespace, shape.labels, self._spaces)
                    ]
                about = alike[look] + [
                    self._owners(described(pod.namespace, (term,)), term.topology_key)
                    for term in shape.anti_affinity
                ]
                memo[(id(shape), pod.namespace)] = about
            for census in about:
                # A pod that is leaving is no longer spread over, but still repels and attracts.
                if pod.deleting_at is not None and census in self._spreading:
                    continue
                census.add(1 << number, self.domain(number, census.key))

    # -- asking

    def domain(self, number: int, key: str) -> str | None:
        pins = self.pinned.get(number)
        return pins.get(key) if pins is not None else self.looks.value(number, key)

    def domains(self, key: str, values: Iterable[str]) -> tuple[int, int]:
        """The places and the offers in these domains."""
        places = sold = 0
        by, offered = self.looks.by(key), self.offers.by(key)
        for value in values:
            places |= by.get(value, 0)
            sold |= offered.get(value, 0)
        return places, sold

    def allowed(self, profile: Profile, scope: int) -> tuple[int, int, int]:
        """Where other pods let it go: places, offers of machines already open, and offers for a new one."""
        nodes = self.old | self.new
        offers = fresh = -1
        for census in profile.anti:
            if not census.total:
                continue
            if census.by_host:
                nodes &= ~census.levels[0]
            else:
                places, sold = self.domains(census.key, census.counts)
                nodes &= ~places
                offers &= ~sold
        if profile.affinity:
            if any(census.total for census in profile.affinity):
                for census in profile.affinity:
                    if census.by_host:
                        nodes &= census.holds_more_than(0)
                        fresh = 0
                    else:
                        places, sold = self.domains(census.key, census.counts)
                        nodes &= places | self.unpinned[census.key]
                        offers &= sold
            elif profile.starts:
                for census in profile.affinity:
                    if census.by_host:
                        nodes &= self.looks.having(census.key) | self.new
                    else:
                        nodes &= self.looks.having(census.key) | self.unpinned[census.key]
                        offers &= self.offers.having(census.key)
            else:
                return 0, 0, 0
        for spreading in profile.spreads:
            places, sold, new = self.evenly(spreading, scope)
            nodes &= places
            offers &= sold
            fresh &= new
        return nodes, offers, fresh & offers

    def evenly(self, spreading: Spreading, scope: int) -> tuple[int, int, int]:
        spread, census, itself = spreading.spread, spreading.census, spreading.itself
        eligible = self.old | self.new if census.eligible is None else census.eligible
        if scope == THERE:
            eligible &= self.there
        possible = scope == POSSIBLE and bool(census.offers & self.buyable)
        if census.by_host:
            low = 0
            if not possible:
                while eligible and not eligible & ~census.holds_more_than(low):
                    low += 1
                if not eligible:
                    low = _EVERY_HOST
            if spread.min_domains is not None and not possible and eligible.bit_count() < spread.min_domains:
                low = 0
            most = spread.max_skew + low - itself
            having = self.looks.having(census.key) | self.new
            if most < 0:
                return 0, -1, 0
            return having & ~census.holds_more_than(most), -1, -1
        by, offered = self.looks.by(census.key), self.offers.by(census.key)
        values = {value for value, places in by.items() if places & eligible}
        if possible:
            sold = census.offers & self.buyable
            values |= {value for value, places in offered.items() if places & sold}
        low = min((census.counts.get(value, 0) for value in values), default=_EVERY_HOST)
        if spread.min_domains is not None and len(values) < spread.min_domains:
            low = 0
        fine = [
            value
            for value in {*by, *offered}
            if census.counts.get(value, 0) + itself - low <= spread.max_skew
        ]
        places, sold = self.domains(census.key, fine)
        return places | self.unpinned[census.key], sold, sold

    def free_ports(self, profile: Profile) -> int:
        """Places where another pod holds one of its ports."""
        found = 0
        for port in profile.shape.host_ports:
            by_ip = self._ports.get((port.protocol, port.port))
            if by_ip:
                for ip, places in by_ip.items():
                    if not port.ip or not ip or ip == port.ip:
                        found |= places
        return found

    def fits_specially(
        self, profile: Profile, number: int, kind: tuple[str, str] | None = None, offer: int | None = None
    ) -> bool:
        """Volumes that are limited in number: attachments, free static volumes, claims for one pod.

        `kind`: pool and type of a new machine, `offer` what it is now.
        """
        limits = self._attach_limits(number, kind)
        return self._volumes.fit(profile.held, number, lambda key: self._value(number, key, offer), limits)

    def offers_specially(self, profile: Profile, offers: int) -> int:
        """Of these those that have what is limited in number, after what the pods on the board took."""
        held, volumes = profile.held, self._volumes
        if volumes.reserved(held):
            return 0
        if not held.choices:
            return offers
        keys = sorted({key for choice in held.choices for key in choice.keys})
        found = 0
        while offers:
            first = (offers & -offers).bit_length() - 1
            alike = offers
            for key in keys:
                value = self.offers.value(first, key)
                alike &= ~self.offers.having(key) if value is None else self.offers.by(key)[value]
            if volumes.choose(held, partial(self._look, first)) is not None:
                found |= alike
            offers &= ~alike
        return found

    def _value(self, number: int, key: str, offer: int | None) -> str | None:
        """A label of a place; of a new machine, as far as it is decided, and else as the offer has it."""
        if number < len(self.rooms):
            room = self.rooms[number]
            return room.name if key == NAME else room.labels.get(key)
        pins = self.pinned.get(number, {})
        return pins[key] if key in pins else self._look(offer, key) if offer is not None else None

    def _look(self, offer: int, key: str) -> str | None:
        return None if key in (NAME, *_HOST_KEYS) else self.offers.value(offer, key)

    def _attach_limits(self, number: int, kind: tuple[str, str] | None) -> Mapping[str, int]:
        if number < len(self.rooms):
            room = self.rooms[number]
            if known := self._storage.limits(room.name):
                return known
            if room.machine is not None:
                kind = (room.machine.pool, room.machine.instance_type)
            elif room.pool is not None and room.offer is not None:
                kind = (room.pool.name, room.offer.type.name)
        return self._storage.limits_of_kind(*kind) if kind is not None else {}

    def candidates(self, ask: Ask, among: int, scope: int, *, later: bool = False) -> int:
        """Existing places among these that let the pod in and are large enough, or nearly."""
        profile = self.profiles[ask.profile]
        among &= profile.later if later else profile.nodes
        if not among:
            return 0
        if later:
            among = self.later_sizes.holding(ask.needs, among & self.soon) if self.later_sizes else 0
        else:
            among = self.sizes.holding(ask.needs, among)
        if not among:
            return 0
        if profile.ruled:
            among &= self.allowed(profile, scope)[0]
        if profile.shape.host_ports:
            among &= ~self.free_ports(profile)
        return among

    def holds(self, ask: Ask, number: int, *, later: bool = False) -> bool:
        """The exact look at one of the candidates."""
        room = self.rooms[number]
        free = (room.soon or {}) if later else self.free[number]
        if not enough(ask.needs, free):
            return False
        profile = self.profiles[ask.profile]
        return not profile.special or self.fits_specially(profile, number)

    def each(self, ask: Ask, among: int, scope: int, *, later: bool = False) -> Iterator[int]:
        """The places that hold the pod: those that it would rather have first, then in their order."""
        left = self.candidates(ask, among, scope, later=later)
        profile = self.profiles[ask.profile]
        for wish in (*profile.wishes, -1) if left else ():
            wanted = left & wish
            while wanted:
                bit = wanted & -wanted
                wanted ^= bit
                left ^= bit
                number = bit.bit_length() - 1
                if self.holds(ask, number, later=later):
                    yield number

    def first(self, ask: Ask, among: int, scope: int, *, later: bool = False) -> int | None:
        return next(self.each(ask, among, scope, later=later), None)

    # -- new machines

    @property
    def plain(self) -> bool:
        """Whether a place is no more than what is free there: nobody minds who else is on it."""
        return not self._censuses and not any(
            profile.special or profile.shape.host_ports for profile in self.profiles.values()
        )

    def mark(self) -> Mark:
        """What `back_to` needs. Until then new machines are opened and filled, and nothing else happens."""
        return Mark(
            new=self.new,
            pinned={number: dict(pins) for number, pins in self.pinned.items()},
            unpinned=dict(self.unpinned),
            looks={key: dict(self.looks.by(key)) for key in (*self.unpinned, *_HOST_KEYS)}
            if self.unpinned or self._censuses
            else {},
            censuses=[
                (census, dict(census.counts), list(census.levels), census.total, census.eligible)
                for census in self._censuses.values()
            ],
            ports={key: dict(by_ip) for key, by_ip in self._ports.items()},
            volumes=self._volumes.copy(),
            places=len(self.free),
            spare=list(self._spare),
        )

    def back_to(self, mark: Mark) -> None:
        """All that was opened since then is gone, and whoever was seated there."""
        self.new = mark.new
        self.pinned, self.unpinned, self._ports = mark.pinned, mark.unpinned, mark.ports
        for key, by in mark.looks.items():
            known = self.looks.by(key)
            known.clear()
            known.update(by)
        for census, counts, levels, total, eligible in mark.censuses:
            census.counts, census.levels, census.total, census.eligible = counts, levels, total, eligible
        self._volumes = mark.volumes
        del self.free[mark.places :]
        self.sizes.cut(mark.places)
        self._spare = mark.spare

    def leave(self, number: int) -> None:
        """Take a new machine off a plain board; its place is for the next one."""
        self.new &= ~(1 << number)
        self.resize(number, dict.fromkeys(self.free[number], 0))
        self._spare.append(number)

    def open(self, free: dict[str, int], offer: int) -> int:
        """A new machine, as the offer has it; which of its keys are decided is told by `pin`."""
        if self._spare:
            number = self._spare.pop()
            self.new |= 1 << number
            self.resize(number, free)
            return number
        number = len(self.free)
        bit = 1 << number
        self.new |= bit
        self.free.append(free)
        self.sizes.add(free)
        self.pinned[number] = {}
        for key in self.unpinned:
            self.unpinned[key] |= bit
        for census in self._censuses.values():
            if census.eligible is not None and census.offers >> offer & 1:
                census.eligible |= bit
        return number

    def pin(self, number: int, key: str, offer: int) -> int:
        """Decide the machine's domain as the offer has it; the offers that remain are returned."""
        pins = self.pinned[number]
        if key in pins:
            return -1
        bit = 1 << number
        value = self.offers.value(offer, key)
        if key in _HOST_KEYS:
            value = f"<new machine {number}>"
        pins[key] = value
        self.unpinned[key] &= ~bit
        if value is None:
            return ~self.offers.having(key)
        by = self.looks.by(key)
        by[value] = by.get(value, 0) | bit
        return -1 if key in _HOST_KEYS else self.offers.by(key)[value]

    def close(self) -> None:
        """Take the newest machine, which must be empty, off the board."""
        number = len(self.free) - 1
        bit = 1 << number
        for key, value in self.pinned.pop(number).items():
            if value is not None:
                self.looks.by(key)[value] &= ~bit
                if not self.looks.by(key)[value]:
                    del self.looks.by(key)[value]
        for key in self.unpinned:
            self.unpinned[key] &= ~bit
        for census in self._censuses.values():
            if census.eligible is not None:
                census.eligible &= ~bit
        self.new &= ~bit
        self.free.pop()
        self.sizes.pop()

    def resize(self, number: int, free: dict[str, int]) -> None:
        """Another offer for a machine: what is free changes."""
        self.free[number] = free
        for name, units in free.items():
            self.sizes.change(number, name, units)

    # -- taking places

    def _take_port(self, port: HostPort, bit: int) -> None:
        by_ip = self._ports.setdefault((port.protocol, port.port), {})
        by_ip[port.ip] = by_ip.get(port.ip, 0) | bit

    def put(self, ask: Ask, number: int) -> None:
        """Seat the pod, amounts and all. A new machine's keys must have been decided before."""
        profile = self.profiles[ask.profile]
        free = self.free[number]
        for name, units in ask.needs.items():
            if name in free:
                free[name] -= units
                self.sizes.change(number, name, free[name])
        if number < len(self.rooms):
            soon = self.rooms[number].soon
            if soon is not None and self.later_sizes is not None:
                for name, units in ask.needs.items():
                    if name in soon:
                        soon[name] -= units
                        self.later_sizes.change(number, name, soon[name])
        self.seat(profile, number)

    def seat(self, profile: Profile, number: int) -> None:
        """Count the pod; amounts apart."""
        bit = 1 << number
        for census in profile.feeds:
            census.add(bit, self.domain(number, census.key) if not census.by_host else None)
        for port in profile.shape.host_ports:
            self._take_port(port, bit)
        if profile.special:
            key = f"{id(profile)} {number}"
            self._volumes.seat(key, profile.held, number, lambda key: self._value(number, key, None))

    def take(self, ask: Ask, number: int) -> None:
        """Undo `put`."""
        profile = self.profiles[ask.profile]
        free = self.free[number]
        for name, units in ask.needs.items():
            if name in free:
                free[name] += units
                self.sizes.change(number, name, free[name])
        if number < len(self.rooms):
            soon = self.rooms[number].soon
            if soon is not None and self.later_sizes is not None:
                for name, units in ask.needs.items():
                    if name in soon:
                        soon[name] += units
                        self.later_sizes.change(number, name, soon[name])
        self.unseat(profile, number)

    def unseat(self, profile: Profile, number: int) -> None:
        bit = 1 << number
        for census in profile.feeds:
            census.remove(bit, self.domain(number, census.key) if not census.by_host else None)
        for port in profile.shape.host_ports:
            by_ip = self._ports[(port.protocol, port.port)]
            by_ip[port.ip] &= ~bit
        if profile.special:
            self._volumes.unseat(f"{id(profile)} {number}", profile.held, number)


def clash(mine: HostPort, theirs: HostPort) -> bool:
    """Whether two host ports cannot be on one node."""
    return (
        mine.port == theirs.port
        and mine.protocol == theirs.protocol
        and (not mine.ip or not theirs.ip or mine.ip == theirs.ip)
    )


__all__ = ["COMING", "NAME", "POSSIBLE", "THERE", "Board", "Profile", "clash"]
