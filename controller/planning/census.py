"""Who is where: what other pods decide about a pod's place, counted by topology domain.

A census counts pods of one description in each domain of one topology key. For the hostname a domain is
a place, and the census keeps "holds more than k of them" as a set of places. A new machine whose location
is not decided yet is in no domain; a pod that is counted by location decides it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from controller.domain.kube import PodShape, PodTerm, Requirement, Selector, Spread

# Whose domains the scheduler's rule of spreading is about: the nodes that are there; also machines on their
# way and those of the plan; also every location that could still be bought in.
THERE, COMING, POSSIBLE = range(3)


@dataclass(frozen=True, slots=True)
class Described:
    """A description of pods: all of these pairs of namespaces and labels must match."""

    parts: tuple[tuple[frozenset[str], Selector | None, Selector | None], ...]

    @property
    def text(self) -> bytes:
        return msgspec.json.encode(
            [(sorted(names), chosen, selector) for names, chosen, selector in self.parts]
        )

    @property
    def keys(self) -> set[str]:
        """The keys of pods' labels that it looks at."""
        selectors = [selector for _, _, selector in self.parts if selector is not None]
        named = {key for selector in selectors for key in selector.labels}
        return named | {condition.key for selector in selectors for condition in selector.expressions}

    def matches(
        self, namespace: str, labels: Mapping[str, str], spaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        for names, chosen, selector in self.parts:
            if selector is None:
                return False
            if namespace not in names and not (
                chosen is not None and chosen.matches(spaces.get(namespace, {}))
            ):
                return False
            if not selector.matches(labels):
                return False
        return True


def described(namespace: str, terms: Iterable[PodTerm]) -> Described:
    parts = []
    for term in terms:
        own = not term.namespaces and term.namespace_selector is None
        names = frozenset((namespace,)) if own else frozenset(term.namespaces)
        parts.append((names, term.namespace_selector, term.selector))
    return Described(tuple(parts))


def spread_over(namespace: str, shape: PodShape, spread: Spread) -> Described:
    """The pods that a spread counts; `matchLabelKeys` adds the pod's own values of these keys."""
    selector = spread.selector
    if selector is not None and spread.match_label_keys:
        more = tuple(
            Requirement(key, "In", (shape.labels[key],))
            for key in spread.match_label_keys
            if key in shape.labels
        )
        selector = Selector(labels=selector.labels, expressions=selector.expressions + more)
    if selector is not None and not selector.labels and not selector.expressions:
        selector = None  # everybody, by its words; but the scheduler counts nobody then
    return Described((((frozenset((namespace,))), None, selector),))


@dataclass(slots=True, eq=False)
class Census:
    key: str
    who: Described | None  # None: counts owners of a rule, who are told apart elsewhere
    by_host: bool
    eligible: int | None = None  # places that count; None: all
    offers: int = -1  # of new machines: which count
    counts: dict[str, int] = field(default_factory=dict)  # by domain
    levels: list[int] = field(default_factory=list)  # by host: places that hold more than k
    total: int = 0
    leaving: dict[str | int, int] = field(
        default_factory=dict
    )  # by domain or place: of these, who is gone soon

    def add(self, bit: int, domain: str | None) -> None:
        if self.eligible is not None and not self.eligible & bit:
            return
        if self.by_host:
            for at, places in enumerate(self.levels):
                if not places & bit:
                    self.levels[at] = places | bit
                    break
            else:
                self.levels.append(bit)
        elif domain is None:
            return
        else:
            self.counts[domain] = self.counts.get(domain, 0) + 1
        self.total += 1

    def remove(self, bit: int, domain: str | None) -> None:
        if self.eligible is not None and not self.eligible & bit:
            return
        if self.by_host:
            for at in range(len(self.levels) - 1, -1, -1):
                if self.levels[at] & bit:
                    self.levels[at] &= ~bit
                    break
            while self.levels and not self.levels[-1]:
                self.levels.pop()
        elif domain is None:
            return
        else:
            self.counts[domain] -= 1
            if not self.counts[domain]:
                del self.counts[domain]
        self.total -= 1

    def leave(self, bit: int, domain: str | None) -> None:
        """Of those that were added, one is gone soon."""
        if self.eligible is not None and not self.eligible & bit:
            return
        where = bit if self.by_host else domain
        if where is not None:
            self.leaving[where] = self.leaving.get(where, 0) + 1

    def places(self, later: bool) -> int:
        """By host: the places that hold one; `later`: that still do once some are gone."""
        found = self.holds_more_than(0)
        if later:
            for bit, number in self.leaving.items():
                if isinstance(bit, int) and not self.holds_more_than(number) & bit:
                    found &= ~bit
        return found

    def domains(self, later: bool) -> Collection[str]:
        """The domains that hold one, or still do later."""
        if not later or not self.leaving:
            return self.counts
        return [domain for domain, number in self.counts.items() if number > self.leaving.get(domain, 0)]

    def holds_more_than(self, number: int) -> int:
        return self.levels[number] if number < len(self.levels) else 0


@dataclass(slots=True, eq=False)
class Spreading:
    """One topology spread constraint of one profile."""

    spread: Spread
    census: Census
    itself: int  # 1 if the pod is counted, too
