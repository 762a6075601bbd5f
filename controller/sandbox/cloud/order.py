"""Reading the body of a create: every field checked, nothing bought yet.

Pure apart from looking things up. The sentences that clients match on ("Operating system is not valid
for this instance type") are the real ones. Explicit nulls count as absent, because the SDK sends them
for everything; unknown fields are ignored, as the API's promise of compatibility implies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud.answers import id_list, invalid
from controller.sandbox.cloud.catalogue import InstanceType
from controller.sandbox.cloud.disk_orders import Disk, extra_disk, os_disk, text
from controller.sandbox.cloud.model import Tag, Volume
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.tags import parse_tags
from controller.sandbox.cloud.texts import Script

HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Order:
    kind: InstanceType
    type_name: str
    price: Decimal
    image: str
    os_name: str
    hostname: str
    description: str
    location: str
    spot: bool
    contract: str
    ssh_key_ids: list[str]
    script: Script | None
    tags: list[Tag]
    os_disk: Disk
    os_from: Volume | None  # a detached OS disk that is booted again
    disks: list[Disk]
    existing: list[Volume]


def read_order(state: State, body: Mapping[str, Any]) -> Order:
    settings = state.settings
    kind, type_name = _type(state, body)
    location = text(body, "location_code")
    if location not in state.catalogue.codes:
        raise invalid(f"Invalid location code {location}")
    hostname = _hostname(state, body)
    spot, contract = _market(body)
    slug, os_name, os_from = _image(state, kind, location, body)
    return Order(
        kind=kind,
        type_name=type_name,
        price=kind.price(spot=spot),
        image=slug,
        os_name=os_name,
        hostname=hostname,
        description=_description(settings, body),
        location=location,
        spot=spot,
        contract=contract,
        ssh_key_ids=_ssh_keys(state, body),
        script=_script(state, body),
        tags=parse_tags(state, body.get("tags")),
        os_disk=os_disk(state, body, spot),
        os_from=os_from,
        disks=[extra_disk(state, raw, spot) for raw in _list(body, "volumes")],
        existing=_existing(state, body, location),
    )


def _list(body: Mapping[str, Any], key: str) -> list[Any]:
    value = body.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(f"{key} must be an array")
    return value


def _type(state: State, body: Mapping[str, Any]) -> tuple[InstanceType, str]:
    name = text(body, "instance_type")
    kind = state.type_named(name)
    if kind is None:
        raise invalid(f"Invalid instance type {name}")
    return kind, name


def _hostname(state: State, body: Mapping[str, Any]) -> str:
    hostname = text(body, "hostname")
    longest = state.settings.hostname_max
    if not HOSTNAME.fullmatch(hostname) or not re.search("[A-Za-z]", hostname):
        raise invalid(
            "Invalid hostname: letters, digits and hyphens only, at least one letter, no hyphen at an end"
        )
    if longest is not None and len(hostname) > longest:
        raise invalid(f"hostname must be at most {longest} characters long")
    taken = (other.hostname for other in state.instances.values() if other.live)
    if state.settings.unique_hostnames and hostname in taken:
        raise invalid(f"Hostname {hostname} is already in use")
    return hostname


def _description(settings: Settings, body: Mapping[str, Any]) -> str:
    description = body.get("description") or ""
    if not isinstance(description, str):
        raise invalid("description must be a string")
    if len(description) > settings.description_max:
        raise invalid(f"description must be at most {settings.description_max} characters long")
    return description


def _market(body: Mapping[str, Any]) -> tuple[bool, str]:
    spot, contract, pricing = body.get("is_spot") or False, body.get("contract"), body.get("pricing")
    if not isinstance(spot, bool):
        raise invalid("is_spot must be a boolean")
    if contract not in (None, "PAY_AS_YOU_GO", "SPOT", "LONG_TERM"):
        raise invalid(f"Invalid contract {contract}")
    if contract == "LONG_TERM":
        raise invalid("Long-term contracts are not available for this project")
    if contract == "SPOT" and not spot:
        raise invalid("contract SPOT requires is_spot")
    if pricing not in (None, "FIXED_PRICE"):
        raise invalid("Only FIXED_PRICE pricing is supported")
    return spot, "SPOT" if spot else "PAY_AS_YOU_GO"


def _image(
    state: State, kind: InstanceType, location: str, body: Mapping[str, Any]
) -> tuple[str, str, Volume | None]:
    wanted = text(body, "image")
    volume = state.volumes.get(wanted)
    if volume is not None and volume.is_os_volume:
        if body.get("os_volume") is not None:
            raise invalid("os_volume must not be given when image is an OS volume")
        _check_free(volume, location)
        image = state.catalogue.image(volume.os_image or "")
        return volume.os_image or wanted, image.os_name if image else "", volume
    image = state.catalogue.image(wanted)
    if image is None or image.slug not in kind.supported_os:
        raise invalid("Operating system is not valid for this instance type")
    return image.slug, image.os_name, None


def _check_free(volume: Volume, location: str) -> None:
    if not volume.live or volume.instance_id is not None or volume.fate is not None:
        raise invalid(f"Volume {volume.id} is not detached")
    if volume.location != location:
        raise invalid(f"Volume {volume.id} is not in location {location}")


def _existing(state: State, body: Mapping[str, Any], location: str) -> list[Volume]:
    found = []
    for volume_id in dict.fromkeys(map(str, _list(body, "existing_volumes"))):
        volume = state.volumes.get(volume_id)
        if volume is None or volume_id == body.get("image"):
            raise invalid(f"Invalid volume id {volume_id}")
        _check_free(volume, location)
        found.append(volume)
    return found


def _ssh_keys(state: State, body: Mapping[str, Any]) -> list[str]:
    raw = body.get("ssh_key_ids")
    keys = id_list(raw, "ssh_key_ids") if raw else []
    if state.settings.require_ssh_key and not keys:
        raise invalid("At least one SSH key is required")
    if not state.settings.any_ssh_key and not all(key in state.ssh_keys for key in keys):
        raise invalid("Invalid ssh-key ID")
    return keys


def _script(state: State, body: Mapping[str, Any]) -> Script | None:
    script_id = body.get("startup_script_id")
    if script_id is None:
        return None
    script = state.scripts.get(script_id) if isinstance(script_id, str) else None
    if script is None:
        raise invalid("Invalid startup script ID")
    return script
