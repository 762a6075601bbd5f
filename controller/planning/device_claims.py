"""Whether a pod holds devices through resource claims (DRA), which requests do not show.

A claim whose every request is an adminAccess one only watches devices that others hold. Whatever cannot
be found, or says nothing, counts as held: a machine is not taken away by guess.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.kube import DeviceClaim, Pod


def holds_devices(pod: Pod, claims: Iterable[DeviceClaim]) -> bool:
    shape = pod.shape
    if not shape.has_claims and not shape.device_claims:
        return False
    if not shape.device_claims:
        return True  # it has some, and nobody says which
    mine = [one for one in claims if one.namespace == pod.namespace and not one.template]
    made = [one for one in mine if one.owner_uid and one.owner_uid == pod.uid]
    named = {one.name: one for one in mine}
    wanted = [ref for ref in shape.device_claims if not ref.claim]
    if len(made) < len(wanted):
        return True
    found = [*made, *(named.get(ref.claim) for ref in shape.device_claims if ref.claim)]
    return not all(one is not None and _watches_only(one) for one in found)


def _watches_only(claim: DeviceClaim) -> bool:
    return bool(claim.requests) and all(request.admin for request in claim.requests)
