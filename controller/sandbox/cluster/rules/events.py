"""What is refused in events: little by the older group, much by events.k8s.io, where only a series grows.

An event with an `eventTime` is a new one, whichever group it comes by, and has to say who reports it.
"""

from __future__ import annotations

from controller.sandbox.cluster.errors import Cause, required, wrong
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.rules.metadata import IMMUTABLE
from controller.sandbox.cluster.rules.names import qualified

ELSEWHERE = "does not match event.namespace"
LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
# Fields that may not change by events.k8s.io, with the names that its refusals use.
FIXED = {
    each: {"reportingComponent": "reportingController"}.get(each, each)
    for each in (
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    )
}


def event_causes(event: Obj, *, newer: bool, old: Obj | None = None) -> list[Cause]:
    """`newer` where the event comes by events.k8s.io."""
    causes = _old_rules(event, newer=newer)
    if not newer:
        return causes
    if old is not None:
        return causes + [
            wrong(told, event.get(each), IMMUTABLE)
            for each, told in FIXED.items()
            if event.get(each) != old.get(each)
        ]
    series = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            causes.append(wrong("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            causes.append(required("series.lastObservedTime"))
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        causes.append(wrong("type", "", f"has invalid value: {kind}"))
    for each in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(each):
            causes.append(wrong(each, "", "needs to be unset"))
    return causes


def _old_rules(event: Obj, *, newer: bool) -> list[Cause]:
    space, own = event["involvedObject"].get("namespace", ""), event["metadata"].get("namespace", "")
    field = "involvedObject.namespace"
    if not event.get("eventTime"):
        homeless = not space and own == "default"
        return [] if homeless or space == own else [wrong(field, space, ELSEWHERE)]
    causes = [] if space or own in ("default", "kube-system") else [wrong(field, space, ELSEWHERE)]
    reporter = event.get("reportingComponent", "")
    named = "reportingController" if newer else "reportingComponent"
    if not reporter:
        causes.append(required(named))
    causes += [wrong(named, reporter, text) for text in qualified(reporter)]
    for each, most in LONGEST.items():
        if not event.get(each) and each != "message":
            causes.append(required(each))
        if len(event.get(each, "")) > most:
            causes.append(wrong(each, "", f"can have at most {most} characters"))
    return causes
