"""What volumes the pods on the board took: free ones for good, places to attach them, claims for one pod only.

Of a claim that waits for its pod the scheduler counts the driver of its class; once it is bound to a free
volume, it counts as that volume, of that volume's driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from controller.domain.kube import NodeTerm
from controller.planning.looks import NAME
from controller.planning.storage import Attached, Held, Storage

Label = Callable[[str], str | None]  # of some node: the value of a label, or its name


class VolumesTaken:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._attached: dict[int, Counter[Attached]] = {}  # by place
        self._for_now: dict[int, set[Attached]] = {}  # the same, of pods that are gone soon
        self._by_pod: dict[str, dict[str, str]] = {}  # by claim, the volume that it took; "": one is made
        self._alone: set[str] = set()

    def copy(self) -> VolumesTaken:
        other = VolumesTaken(self._storage)
        other._attached = {place: Counter(there) for place, there in self._attached.items()}
        other._for_now = self._for_now  # nothing that is planned changes it
        other._by_pod, other._alone = dict(self._by_pod), set(self._alone)
        return other

    def attach(self, place: int, attached: Iterable[Attached], *, leaving: bool = False) -> None:
        """What a pod that runs there has."""
        if leaving:
            self._for_now.setdefault(place, set()).update(attached)
            return
        self._attached.setdefault(place, Counter()).update(attached)

    def fit(
        self, held: Held, place: int, label: Label, limits: Mapping[str, int], *, later: bool = False
    ) -> bool:
        """`later`: once those that are terminating are gone."""
        if self.reserved(held) or self.choose(held, label) is None:
            return False
        if not limits or not (held.attached or held.choices):
            return True
        there = set(+self._attached.get(place, Counter()))
        if not later:
            there |= self._for_now.get(place, set())
        more = self._attaches(held, self._decided) - there
        for driver, most in limits.items():
            new = sum(1 for each in more if each[0] == driver)
            if new and new + sum(1 for each in there if each[0] == driver) > most:
                return False
        return True

    def reserved(self, held: Held) -> bool:
        """Whether another pod has a claim that is for one pod only."""
        return any(claim in self._alone for claim in held.alone)

    def choose(self, held: Held, label: Label) -> dict[str, str] | None:
        """By claim, the free volume that it takes on a node with these labels; None: one lacks."""
        if not held.choices:
            return {}
        decided = self._decided
        taken = {name for name in decided.values() if name}
        chosen: dict[str, str] = {}
        for choice in held.choices:
            before = decided.get(choice.claim)
            for volume in choice.volumes:
                free = volume.name not in taken if before is None else volume.name == before
                if free and (volume.terms is None or any(_meets(term, label) for term in volume.terms)):
                    chosen[choice.claim] = volume.name
                    taken.add(volume.name)
                    break
            else:
                makes = choice.allowed is None or any(_meets(term, label) for term in choice.allowed)
                if before or not choice.made or not makes:
                    return None
                chosen[choice.claim] = ""
        return chosen

    def seat(self, pod: str, held: Held, place: int, label: Label) -> None:
        chosen = self.choose(held, label) or {}
        self._by_pod[pod] = chosen
        self._alone.update(held.alone)
        self.attach(place, self._attaches(held, chosen))

    def unseat(self, pod: str, held: Held, place: int) -> None:
        chosen = self._by_pod.pop(pod, {})
        self._alone.difference_update(held.alone)
        self._attached[place].subtract(self._attaches(held, chosen))

    def _attaches(self, held: Held, chosen: Mapping[str, str]) -> set[Attached]:
        others = {attached for attached in held.attached if not chosen.get(attached[1])}
        mine = [chosen[choice.claim] for choice in held.choices if choice.claim in chosen]
        return others | set(self._storage.drivers_of(mine))

    @property
    def _decided(self) -> dict[str, str]:
        return {claim: name for each in self._by_pod.values() for claim, name in each.items()}


def _meets(term: NodeTerm, label: Label) -> bool:
    keys = {condition.key for condition in (*term.labels, *term.fields)}
    labels = {key: value for key in keys if (value := label(key)) is not None}
    return term.matches(labels.get(NAME, ""), labels)
