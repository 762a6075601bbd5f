"""What a service account asked of the API server, from the server's own audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tests.e2e.controlplane.plane import ControlPlane

LASTING = ("watch",)


@dataclass(frozen=True)
class Asked:
    at: float
    verb: str
    resource: str  # with its subresource
    name: str
    agent: str


def asked(
    plane: ControlPlane,
    namespace: str,
    *,
    since: float = 0.0,
    until: float = float("inf"),
    lease: bool = False,
) -> list[Asked]:
    """Requests of the namespace's accounts in this time, without watches, and without Leases unless wanted."""
    found = []
    for each in plane.audited(namespace):
        about = each.get("objectRef", {})
        resource = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
        at = datetime.fromisoformat(each["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
        if each["verb"] in LASTING or not since <= at < until or (resource == "leases" and not lease):
            continue
        found.append(Asked(at, each["verb"], resource, about.get("name", ""), each.get("userAgent", "")))
    return found
