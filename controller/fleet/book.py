"""What the ledger's ConfigMap holds, and how two writers' versions of it become one. Pure.

A conflict has several causes that look alike: a write of ours whose answer was lost, another leader, a
person with `kubectl edit` or `annotate`. Whatever stands there that we never wrote is somebody else's
knowledge and wins; whatever we wrote ourselves gives way to what we know now, also where that is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

import msgspec

from controller.domain import names
from controller.domain.machine import Machine
from controller.domain.plan import InVain, Tried
from controller.domain.reason import Reason
from controller.domain.switching import Switched

KEY = "ledger.json"
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_GivenUp = dict[str, dict[str, Reason]]
_Disappointed = dict[str, list[str]]
VERSION = 1


class LedgerError(Exception):
    """The ledger cannot be read or written; nothing may be bought."""


class Book(msgspec.Struct, kw_only=True):
    """The content of the ConfigMap."""

    version: int = VERSION
    cluster_id: str = ""
    machines: list[Machine] = []
    figures: dict[str, dict[str, int]] = {}  # by instance type: what real nodes offered
    costs: dict[str, Decimal] = {}  # by day: what closed machines cost
    launches: list[float] = []  # when machines were ordered lately
    # By waiting pod, machines that were bought for it in vain:
    disappointed: dict[str, list[str]] = {}  # they did not hold it
    given_up: dict[str, dict[str, Reason]] = {}  # they never became usable
    tried: dict[str, Tried] = {}  # by sort: how often, and the machines of `given_up` that are of it
    in_vain: dict[str, InVain] = {}  # by pool: tries since one of its machines last became usable
    account: str = ""  # where the machines were seen last
    switched: dict[str, Switched] = {}  # machines that are switched, by name
    driver_began: float = 0.0  # when whoever decides instead of the planner began its present life
    starting: str = (
        ""  # a digest of the way to start under which `given_up`, `tried` and `in_vain` came to be
    )


def parse(data: Mapping[str, str], cluster_id: str) -> Book:
    where = f"ConfigMap {names.LEDGER_CONFIGMAP}"
    try:
        book = msgspec.json.decode(data.get(KEY, "{}").encode(), type=Book)
    except msgspec.DecodeError as error:
        raise LedgerError(
            f"{where} key {KEY} is damaged ({error}); restore it, or delete the ConfigMap to rebuild it from "
            "the cloud's inventory"
        ) from error
    if book.cluster_id not in ("", cluster_id):
        raise LedgerError(
            f"{where} belongs to cluster id {book.cluster_id!r}, this is {cluster_id!r}; set cluster_id back, or "
            "use another namespace"
        )
    if book.version > VERSION:
        raise LedgerError(
            f"{where} was written by a newer version of this program (format {book.version}, known is {VERSION}); "
            "run that version again"
        )
    return book


def merge(ours: Book, known: Sequence[Book], theirs: Book, refused: Book | None = None) -> Book:
    """What to write after a conflict. `known` is what we read or wrote (or may have written) before.

    `refused` is the one of them that met the conflict: nobody else built on it.
    """
    mine = {m.intent: m for m in ours.machines}
    found = {m.intent: m for m in theirs.machines}
    versions = [{m.intent: m for m in book.machines} for book in known]
    machines = []
    for intent in sorted(mine.keys() | found.keys()):
        ours_it_is = any(version.get(intent) == found.get(intent) for version in versions)
        if intent in mine and intent not in found and not any(intent in v for v in versions):
            ours_it_is = True  # new with us
        machine = mine.get(intent) if ours_it_is else found.get(intent)
        if machine is not None:
            machines.append(machine)
    costs = dict(ours.costs)
    if not any(book.costs == theirs.costs for book in known):
        for day, cost in theirs.costs.items():
            # They built on one of our versions: on the latest that they can have read.
            before = [book.costs.get(day, Decimal(0)) for book in known if book is not refused]
            base = max((one for one in before if one <= cost), default=cost if known else Decimal(0))
            costs[day] = costs.get(day, Decimal(0)) + cost - base
    given_up, tried, in_vain = dict(ours.given_up), dict(ours.tried), dict(ours.in_vain)
    if not (ours.starting and theirs.starting and ours.starting != theirs.starting):
        given_up = _given_up(ours, known, theirs)
        tried = _changes(ours.tried, [book.tried for book in known], theirs.tried)
        in_vain = _changes(ours.in_vain, [book.in_vain for book in known], theirs.in_vain)
    return Book(
        cluster_id=ours.cluster_id,
        machines=machines,
        # Nothing is ever taken out of the figures, so none can come back; and launches of both count.
        figures=theirs.figures | ours.figures,
        costs=costs,
        launches=sorted({*theirs.launches, *ours.launches}),
        disappointed=_disappointed(ours, known, theirs),
        given_up=given_up,
        account=ours.account or theirs.account,
        driver_began=max(ours.driver_began, theirs.driver_began),
        starting=ours.starting,
        tried=tried,
        in_vain=in_vain,
        switched=_changes(ours.switched, [book.switched for book in known], theirs.switched),
    )


def _changes(
    ours: Mapping[_Key, _Value], known: Sequence[Mapping[_Key, _Value]], theirs: Mapping[_Key, _Value]
) -> dict[_Key, _Value]:
    """Entry by entry: theirs where they added or changed it; what they dropped stays only if we changed it."""
    read: Mapping[_Key, _Value] = known[0] if known else {}
    merged = {}
    for key in dict.fromkeys((*ours, *theirs)):
        here, there = ours.get(key), theirs.get(key)
        ours_it_is = any(version.get(key) == there for version in known)
        if there is None and here != read.get(key):
            ours_it_is = True
        found = here if ours_it_is else there
        if found is not None:
            merged[key] = found
    return merged


def _given_up(ours: Book, known: Sequence[Book], theirs: Book) -> _GivenUp:
    """Machine by machine: two leaders may have bought for the same pod."""

    def flat(book: Book) -> dict[tuple[str, str], Reason]:
        return {(pod, name): reason for pod, found in book.given_up.items() for name, reason in found.items()}

    merged: _GivenUp = {}
    for (pod, name), reason in _changes(flat(ours), [flat(book) for book in known], flat(theirs)).items():
        merged.setdefault(pod, {})[name] = reason
    return merged


def _disappointed(ours: Book, known: Sequence[Book], theirs: Book) -> _Disappointed:
    def flat(book: Book) -> dict[tuple[str, str], bool]:
        return {(pod, name): True for pod, found in book.disappointed.items() for name in found}

    merged: _Disappointed = {}
    for pod, name in _changes(flat(ours), [flat(book) for book in known], flat(theirs)):
        merged.setdefault(pod, []).append(name)
    return merged
