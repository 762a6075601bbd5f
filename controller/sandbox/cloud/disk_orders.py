"""Reading what a body says about disks to be made: with an instance, or by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.sandbox.cloud.answers import invalid
from controller.sandbox.cloud.model import FATES, KEEP, Tag
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.tags import parse_tags

REFUSED_VOLUME_TYPES = ("HDD", "HDD_Shared")
VOLUME_TYPES = ("NVMe", "NVMe_Shared", "NVMe_Local_Storage")


@dataclass(frozen=True, slots=True)
class Disk:
    name: str
    size: int
    type: str
    fate: str
    tags: list[Tag]


def text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if value is None or value == "":
        raise invalid(f"{key} is required")
    if not isinstance(value, str):
        raise invalid(f"{key} must be a string")
    return value


def read_disk_fields(settings: Settings, raw: Mapping[str, Any]) -> tuple[str, int, str]:
    """Name, size and type of a disk to be made, as in creates of volumes and of instances."""
    kind = raw.get("type") or "NVMe"
    if kind in REFUSED_VOLUME_TYPES:
        raise invalid("HDD volumes can no longer be created")
    if kind not in VOLUME_TYPES:
        raise invalid(f"Invalid volume type {kind}")
    return text(raw, "name"), _size(settings, raw.get("size"), 1), kind


def os_disk(state: State, body: Mapping[str, Any], spot: bool) -> Disk:
    raw, settings = body.get("os_volume"), state.settings
    if raw is None:
        name = f"OS-{state.rng.getrandbits(32):08x}"
        return Disk(name, settings.os_volume_default_gb, "NVMe", KEEP, [])
    if not isinstance(raw, dict):
        raise invalid("os_volume must be an object")
    size = _size(settings, raw.get("size"), settings.os_volume_min_gb)
    return Disk(text(raw, "name"), size, "NVMe", _fate(settings, raw, spot), _nested_tags(state, raw))


def extra_disk(state: State, raw: Any, spot: bool) -> Disk:
    if not isinstance(raw, dict):
        raise invalid("volumes must be an array of objects")
    name, size, kind = read_disk_fields(state.settings, raw)
    return Disk(name, size, kind, _fate(state.settings, raw, spot), _nested_tags(state, raw))


def _nested_tags(state: State, raw: Mapping[str, Any]) -> list[Tag]:
    """One client reports that disks made with an instance cannot carry tags; the document says they can."""
    tags = parse_tags(state, raw.get("tags"))
    return tags if state.settings.nested_tags else []


def _fate(settings: Settings, raw: Mapping[str, Any], spot: bool) -> str:
    if "on_spot_discontinue" not in raw:
        return KEEP
    fate = raw["on_spot_discontinue"]
    if not spot and (fate is not None or not settings.null_on_spot_discontinue):
        raise invalid("on_spot_discontinue can only be set for spot instances")
    if fate is not None and fate not in FATES:
        raise invalid("on_spot_discontinue must be one of " + ", ".join(FATES))
    return fate or KEEP


def _size(settings: Settings, value: Any, smallest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("size must be an integer number of gigabytes")
    if not smallest <= value <= settings.volume_max_gb:
        raise invalid(f"size must be between {smallest} and {settings.volume_max_gb} GB")
    return value
