"""The rarer kinds of a snapshot as rows of its file, and the order in which they stand in a picture."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.cluster import encode_kinds as encode
from controller.domain.plan import Snapshot


def kind_rows(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    claims = snapshot.device_claims
    return {
        "namespaces": [encode.namespace(found) for found in snapshot.namespaces],
        "persistentvolumeclaims": [encode.volume_claim(found) for found in snapshot.volume_claims],
        "persistentvolumes": [encode.volume(found) for found in snapshot.volumes],
        "storageclasses": [encode.storage_class(found) for found in snapshot.storage_classes],
        "csinodes": [encode.csi_node(found) for found in snapshot.csi_nodes],
        "limitranges": [encode.limit_range(found) for found in snapshot.limit_ranges],
        "podgroups": [encode.pod_group(found) for found in snapshot.pod_groups],
        "resourceclaims": [encode.device_claim(found) for found in claims if not found.template],
        "resourceclaimtemplates": [encode.device_claim(found) for found in claims if found.template],
        "deviceclasses": [encode.device_class(found) for found in snapshot.device_classes],
    }


def order(found: msgspec.Struct) -> tuple[str, ...]:
    """The names that tell objects of one kind apart: claims before templates, gangs by their schedulers."""
    template = "template" if getattr(found, "template", False) else ""
    return (
        template,
        getattr(found, "namespace", ""),
        getattr(found, "name", ""),
        getattr(found, "system", ""),
    )
