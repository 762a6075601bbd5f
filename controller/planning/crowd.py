"""Who is where, as far as other pods mind: what a place's pods let in beside them, amounts apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.domain.kube import Pod
from controller.domain.plan import Snapshot
from controller.planning.belongings import Belongings
from controller.planning.census import POSSIBLE, THERE, Census, Spreading, described
from controller.planning.fit import Ask
from controller.planning.looks import Looks
from controller.planning.profiles import Profile
from controller.planning.room import Room
from controller.planning.sites import frees_soon

_EVERY_HOST = 1 << 30


class Crowd(Belongings):
    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Sequence[Room],
        asks: Sequence[Ask],
        *,
        offers: Looks | None = None,
        buyable: int = 0,
        there: int | None = None,
    ) -> None:
        """`there`: which rooms are Nodes; the others are on their way."""
        self._snapshot = snapshot
        self.count = len(rooms)
        every = (1 << self.count) - 1
        self.there = every if there is None else there
        self.old = every  # all places that are not new machines
        self.new = 0
        self.buyable = buyable
        self._number: dict[str, int] = {}
        looks = Looks()
        later = Looks() if any(room.soon is not None for room in rooms) else None
        for number, room in enumerate(rooms):
            self._number.setdefault(room.name, number)
            looks.add(room.name, room.labels, room.taints)
            if later is not None:
                later.add(room.name, room.labels, room.soon_taints)
        super().__init__(snapshot, rooms, looks, later, offers)
        for number, room in enumerate(rooms):
            if room.shut:
                self.shut[room.shut] = self.shut.get(room.shut, 0) | 1 << number
        for ask in asks:
            if ask.profile not in self.profiles:
                self.profiles[ask.profile] = self._profile(ask.pod)
        self._count(snapshot.pods)

    def _count(self, pods: Iterable[Pod]) -> None:
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
            leaving = pod.deleting_at is not None and frees_soon(pod, self._snapshot)
            for port in shape.host_ports:
                self._take_port(port, 1 << number, leaving=leaving)
            if limited and shape.volumes:
                self._volumes.attach(number, self._storage.attached(pod), leaving=leaving)
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
                # A pod that is leaving is no longer spread over, but still repels and attracts: the one for as long
                # as it is there, the other as if what replaces it came to the same place.
                if pod.deleting_at is not None and census in self._spreading:
                    continue
                domain = self.domain(number, census.key)
                census.add(1 << number, domain)
                if leaving:
                    census.leave(1 << number, domain)

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

    def allowed(self, profile: Profile, scope: int, *, later: bool = False) -> tuple[int, int, int]:
        """Where other pods let it go: places, offers of machines already open, and offers for a new one.

        `later`: once those that are terminating no longer keep it away.
        """
        nodes = self.old | self.new
        offers = fresh = -1
        for census in profile.anti:
            if not census.total:
                continue
            if census.by_host:
                nodes &= ~census.places(later)
            else:
                places, sold = self.domains(census.key, census.domains(later))
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

    # -- taking places

    def seat(self, profile: Profile, number: int) -> None:
        """Count the pod; amounts apart."""
        bit = 1 << number
        for census in profile.feeds:
            census.add(bit, self.domain(number, census.key) if not census.by_host else None)
        if profile.owning:
            self._own(profile, number)

    def unseat(self, profile: Profile, number: int) -> None:
        bit = 1 << number
        for census in profile.feeds:
            census.remove(bit, self.domain(number, census.key) if not census.by_host else None)
        if profile.owning:
            self._disown(profile, number)
