"""What of a place only so many pods can have: host ports, attachments, static volumes, claims for one pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from controller.domain.kube import HostPort
from controller.domain.plan import Snapshot
from controller.planning.looks import NAME, Looks
from controller.planning.profiles import HOST_KEYS, Profile, Profiles
from controller.planning.room import Room
from controller.planning.storage import Held
from controller.planning.volumes_taken import VolumesTaken


class Belongings(Profiles):
    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Sequence[Room],
        looks: Looks,
        later_looks: Looks | None,
        offers: Looks | None,
    ) -> None:
        super().__init__(snapshot, looks, later_looks, offers)
        self.rooms = list(rooms)
        self._ports: dict[tuple[str, int], dict[str, int]] = {}
        self._ports_for_now: dict[tuple[str, int], dict[str, int]] = {}  # of pods that are gone soon
        self._volumes = VolumesTaken(self._storage)
        self.pinned: dict[int, dict[str, str | None]] = {}  # of new machines: values decided

    def ports_held(self, profile: Profile, *, later: bool = False) -> int:
        """Places where another pod holds one of its ports; `later`: once those that are terminating are gone."""
        found = 0
        for ports in (self._ports,) if later else (self._ports, self._ports_for_now):
            for port in profile.shape.host_ports if ports else ():
                for ip, places in ports.get((port.protocol, port.port), {}).items():
                    if not port.ip or not ip or ip == port.ip:
                        found |= places
        return found

    def fits_specially(
        self,
        profile: Profile,
        number: int,
        kind: tuple[str, str] | None = None,
        offer: int | None = None,
        *,
        later: bool = False,
    ) -> bool:
        """Volumes that are limited in number: attachments, free static volumes, claims for one pod.

        `kind`: pool and type of a new machine, `offer` what it is now.
        """
        limits = self._attach_limits(number, kind)
        return self._volumes.fit(
            profile.held, number, lambda key: self._value(number, key, offer), limits, later=later
        )

    def offers_specially(self, profile: Profile, offers: int) -> int:
        """Of these those that have what is limited in number, after what the pods on the board took."""
        return self._offers_beside(self._volumes, profile, offers)

    def _offers_beside(self, volumes: VolumesTaken, profile: Profile, offers: int) -> int:
        held = profile.held
        if volumes.user_of(held):
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

    def volumes_taken(self, profile: Profile, users: Iterable[tuple[Held, Mapping[str, str]]]) -> str:
        """Why no machine helps: what other pods have of its volumes; "": that is not why.

        `users`: of the same claims, whose machines are off the board, and the labels of these.
        """
        volumes = self._volumes.copy()
        for number, (held, labels) in enumerate(users):
            volumes.seat(f"bought {number}", held, -1 - number, labels.get)
        if volumes.user_of(profile.held):
            return volumes.objection(profile.held)
        offers = profile.offers
        return (
            volumes.objection(profile.held)
            if offers and not self._offers_beside(volumes, profile, offers)
            else ""
        )

    def _value(self, number: int, key: str, offer: int | None) -> str | None:
        """A label of a place; of a new machine, as far as it is decided, and else as the offer has it."""
        if number < len(self.rooms):
            room = self.rooms[number]
            return room.name if key == NAME else room.labels.get(key)
        pins = self.pinned.get(number, {})
        return pins[key] if key in pins else self._look(offer, key) if offer is not None else None

    def _look(self, offer: int, key: str) -> str | None:
        return None if key in (NAME, *HOST_KEYS) else self.offers.value(offer, key)

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

    def _take_port(self, port: HostPort, bit: int, *, leaving: bool = False) -> None:
        by_ip = (self._ports_for_now if leaving else self._ports).setdefault((port.protocol, port.port), {})
        by_ip[port.ip] = by_ip.get(port.ip, 0) | bit

    def _own(self, profile: Profile, number: int) -> None:
        for port in profile.shape.host_ports:
            self._take_port(port, 1 << number)
        if profile.special:
            key = f"{id(profile)} {number}"
            self._volumes.seat(key, profile.held, number, lambda key: self._value(number, key, None))

    def _disown(self, profile: Profile, number: int) -> None:
        for port in profile.shape.host_ports:
            self._ports[(port.protocol, port.port)][port.ip] &= ~(1 << number)
        if profile.special:
            self._volumes.unseat(f"{id(profile)} {number}", profile.held, number)
