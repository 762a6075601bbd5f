"""How things go away: what a delete makes of an object, decided without writing it.

Outside quirks kept: a pod that is not bound, or that has finished, goes at once whatever its grace, but its
watchers first see it marked; a grace can only be shortened, and never into the past; a finalizer holds an
object until the last one is taken off; orphaning and foreground deletion are finalizers, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.sandbox.cluster import errors
from controller.sandbox.cluster.resources import PODS, Obj, Resource
from controller.sandbox.cluster.shelf import Item
from controller.sandbox.cluster.stamps import seconds_of, stamp

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
DEFAULT_GRACE = 30


@dataclass(frozen=True)
class Step:
    changed: bool  # the object was edited and has to be written
    gone: bool  # and then it is removed


def finished(meta: Obj) -> bool:
    """Whether nothing holds an object any more that is being deleted."""
    held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
    return bool(meta.get("deletionTimestamp")) and not held


def check(resource: Resource, before: Item, uid: str | None, version: str | None) -> None:
    """The preconditions of a delete."""
    name = before.key[1]
    if uid is not None and uid != before.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({before.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.precondition(resource, name, why)
    if version is not None and version != str(before.version):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({before.version}). The object might have been modified"
        )
        raise errors.precondition(resource, name, why)


def step(resource: Resource, obj: Obj, grace: int | None, propagation: str, now: float) -> Step:
    """Edit the object as a delete would, in place."""
    meta = obj["metadata"]
    period: int | None = None
    changed = False
    if resource is PODS:
        asked = grace if grace is None or grace >= 0 else 1
        left = meta.get("deletionGracePeriodSeconds")
        if not meta.get("deletionTimestamp"):
            period = _period(obj, asked)
            _mark(meta, now, period)
            changed = True
        elif left:
            if asked is None or asked >= left:
                return Step(False, False)
            period = _shorten(meta, left, asked, now)
            changed = True
    wanted = _finalizers(resource, meta, propagation)
    if wanted != (meta.get("finalizers") or []):
        meta["finalizers"] = wanted
        changed = True
    if not wanted:
        meta.pop("finalizers", None)
        return Step(changed, not period)
    if period is None and not meta.get("deletionTimestamp"):
        _mark(meta, now, 0)
        changed = True
    return Step(changed, False)


def _period(pod: Obj, asked: int | None) -> int:
    spec = pod.get("spec", {})
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    period: int = asked if asked is not None else spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    return period if period >= 0 else 1


def _mark(meta: Obj, now: float, period: int) -> None:
    meta["deletionTimestamp"] = stamp(now + period)
    meta["deletionGracePeriodSeconds"] = period
    if meta.get("generation"):
        meta["generation"] += 1


def _shorten(meta: Obj, left: int, asked: int, now: float) -> int:
    at = seconds_of(meta["deletionTimestamp"]) - left + asked
    if at < now:
        at, asked = now, asked and 1
    meta["deletionTimestamp"] = stamp(at)
    meta["deletionGracePeriodSeconds"] = asked
    return asked


def _finalizers(resource: Resource, meta: Obj, propagation: str) -> list[str]:
    """What the collector of garbage is to do, as finalizers; a policy that is said takes the others off."""
    held: list[str] = list(meta.get("finalizers") or ())
    policy = propagation
    if not policy:
        if ORPHAN in held or FOREGROUND in held:
            return held
        policy = "Orphan" if resource.orphans else "Background"
    kept = [each for each in held if each not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return kept + added if added or len(kept) != len(held) else held
