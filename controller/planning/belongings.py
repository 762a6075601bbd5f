"""What of a place only so many pods can have: host ports, attachments, static volumes, claims for one pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from controller.domain.kube import HostPort
from controller.domain.plan import Snapshot
from controller.planning.looks import Looks
from controller.planning.profiles import Profile, Profiles
from controller.planning.room import Room


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
        self._attached: dict[int, Counter[tuple[str, str]]] = {}
        self._taken_volumes: dict[str, list[str]] = {}  # by the profile and place that took them
        self._alone: set[str] = set()

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

    def fits_specially(self, profile: Profile, number: int, kind: tuple[str, str] | None = None) -> bool:
        """Volumes that are limited in number: attachments, free static volumes, claims for one pod.

        `kind`: pool and type of a new machine.
        """
        held = profile.held
        if any(claim in self._alone for claim in held.alone):
            return False
        if held.attached:
            limits = self._attach_limits(number, kind)
            if limits:
                there = set(+self._attached.get(number, Counter()))
                for driver, most in limits.items():
                    more = {a for a in held.attached if a[0] == driver} - there
                    if more and len(more) + sum(1 for a in there if a[0] == driver) > most:
                        return False
        return not held.choices or self._choose_volumes(profile, number) is not None

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

    def _choose_volumes(self, profile: Profile, number: int) -> list[str] | None:
        taken = {name for names_ in self._taken_volumes.values() for name in names_}
        chosen: list[str] = []
        for volumes in profile.held.choices:
            for volume in volumes:
                if volume.name in taken or volume.name in chosen:
                    continue
                near = volume.terms is None
                if not near and number < len(self.rooms):
                    room = self.rooms[number]
                    near = any(term.matches(room.name, room.labels) for term in volume.terms or ())
                if near:
                    chosen.append(volume.name)
                    break
            else:
                return None
        return chosen

    def _take_port(self, port: HostPort, bit: int) -> None:
        by_ip = self._ports.setdefault((port.protocol, port.port), {})
        by_ip[port.ip] = by_ip.get(port.ip, 0) | bit

    def _own(self, profile: Profile, number: int) -> None:
        for port in profile.shape.host_ports:
            self._take_port(port, 1 << number)
        if profile.special:
            chosen = self._choose_volumes(profile, number) or []
            self._taken_volumes[f"{id(profile)} {number}"] = chosen
            self._alone.update(profile.held.alone)
            self._attached.setdefault(number, Counter()).update(profile.held.attached)

    def _disown(self, profile: Profile, number: int) -> None:
        for port in profile.shape.host_ports:
            self._ports[(port.protocol, port.port)][port.ip] &= ~(1 << number)
        if profile.special:
            self._taken_volumes.pop(f"{id(profile)} {number}", None)
            self._alone.difference_update(profile.held.alone)
            self._attached[number].subtract(profile.held.attached)
