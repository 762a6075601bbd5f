"""What volumes the pods on the board took: free ones for good, places to attach them, claims for one pod only.

Of a claim that waits for its pod the scheduler counts the driver of its class; once it is bound to a free
volume, it counts as that volume, of that volume's driver. A claim is made once: whoever has it too goes where
the first of its pods had it made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from controller.domain.kube import NodeTerm
from controller.planning.looks import NAME
from controller.planning.storage import Attached, Choice, Held, Storage, alone_with

Label = Callable[[str], str | None]  # of some node: the value of a label, or its name


class Taken(NamedTuple):
    """What became of a claim."""

    volume: str = ""  # that was free; "": one is made
    where: tuple[tuple[str, str | None], ...] = ()  # what decided that it may be made there


class VolumesTaken:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._attached: dict[int, Counter[Attached]] = {}  # by place
        self._for_now: dict[int, set[Attached]] = {}  # the same, of pods that are gone soon
        self._by_pod: dict[str, dict[str, Taken]] = {}  # by claim
        self._alone: dict[str, str] = {}  # by claim, the pod that has it
        self._users: Counter[str] = Counter()  # by claim: pods that decided it
        self._decided: dict[str, Taken] = {}
        self._gone: Counter[str] = Counter()  # free volumes that are taken, by name

    def copy(self) -> VolumesTaken:
        other = VolumesTaken(self._storage)
        other._attached = {place: Counter(there) for place, there in self._attached.items()}
        other._for_now = self._for_now  # nothing that is planned changes it
        other._by_pod, other._alone = dict(self._by_pod), dict(self._alone)
        other._users, other._decided, other._gone = (
            Counter(self._users),
            dict(self._decided),
            Counter(self._gone),
        )
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
        if self.user_of(held) or self.choose(held, label) is None:
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

    def user_of(self, held: Held) -> str:
        """The pod that has a claim of these which is for one pod only."""
        return next((self._alone[claim] for claim in held.alone if claim in self._alone), "")

    def objection(self, held: Held) -> str:
        """In words, what other pods of the same plan took of these; "": nothing."""
        for claim in held.alone:
            if claim in self._alone:
                return alone_with(claim, self._alone[claim])
        decided = self._decided
        for choice in held.choices:
            before, name = decided.get(choice.claim), choice.claim.partition("/")[2]
            if before is not None and before.volume:
                return f"another pod has claim {name} too, which volume {before.volume} is taken for"
            if before is not None and before.where:
                where = ", ".join(f"{key}={value}" for key, value in before.where)
                return f"another pod has claim {name} too, whose volume is made where that one goes ({where})"
        return ""

    def choose(self, held: Held, label: Label) -> dict[str, Taken] | None:
        """By claim, what it takes on a node with these labels; None: one lacks."""
        if not held.choices:
            return {}
        decided = self._decided
        taken = set[str]()
        chosen: dict[str, Taken] = {}
        for choice in held.choices:
            before = decided.get(choice.claim)
            for volume in choice.volumes:
                free = (
                    volume.name not in taken and not self._gone[volume.name]
                    if before is None
                    else volume.name == before.volume
                )
                if free and (volume.terms is None or any(_meets(term, label) for term in volume.terms)):
                    chosen[choice.claim] = Taken(volume.name)
                    taken.add(volume.name)
                    break
            else:
                made = _made(choice, label) if before is None else before
                if made is None or made.volume or any(label(key) != value for key, value in made.where):
                    return None
                chosen[choice.claim] = made
        return chosen

    def seat(self, pod: str, held: Held, place: int, label: Label) -> None:
        chosen = self.choose(held, label) or {}
        self._by_pod[pod] = chosen
        for claim, each in chosen.items():
            self._users[claim] += 1
            self._gone[each.volume] += 1
            self._decided[claim] = each
        self._alone.update(dict.fromkeys(held.alone, held.pod))
        self.attach(place, self._attaches(held, chosen))

    def unseat(self, pod: str, held: Held, place: int) -> None:
        chosen = self._by_pod.pop(pod, {})
        for claim, each in chosen.items():
            self._users[claim] -= 1
            self._gone[each.volume] -= 1
            if not self._users[claim]:
                del self._decided[claim]
        for claim in held.alone:
            self._alone.pop(claim, None)
        self._attached[place].subtract(self._attaches(held, chosen))

    def _attaches(self, held: Held, chosen: Mapping[str, Taken]) -> set[Attached]:
        others = {attached for attached in held.attached if not chosen.get(attached[1], Taken()).volume}
        mine = [chosen[choice.claim].volume for choice in held.choices if choice.claim in chosen]
        return others | set(self._storage.drivers_of(mine))


def _made(choice: Choice, label: Label) -> Taken | None:
    """One that is made for a node with these labels, if its class may.

    Its topology is what the class says it can be. A class that says nothing makes it anywhere: most provisioners
    bind it to a location all the same, but to which kind of location nobody tells before.
    """
    if not choice.made or choice.allowed is None:
        return Taken() if choice.made else None
    for term in choice.allowed:
        if _meets(term, label):
            return Taken(where=tuple((condition.key, label(condition.key)) for condition in term.labels))
    return None


def _meets(term: NodeTerm, label: Label) -> bool:
    keys = {condition.key for condition in (*term.labels, *term.fields)}
    labels = {key: value for key in keys if (value := label(key)) is not None}
    return term.matches(labels.get(NAME, ""), labels)
