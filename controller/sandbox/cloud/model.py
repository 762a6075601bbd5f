"""The things in the cloud that cost money, instances and disks, and their tags.

Plain records, and how the API shows each. The quirks: an instance says `location` where the request
said `location_code`, its price is a number where the catalogue has a string, and a volume lists its
instances as objects although the published document says texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from controller.sandbox.cloud.answers import money_number
from controller.sandbox.cloud.billing import HOURS_IN_MONTH, Meter
from controller.sandbox.cloud.catalogue import InstanceType
from controller.sandbox.cloud.settings import STAGES, Settings

KEEP, TRASH, DESTROY = "keep_detached", "move_to_trash", "delete_permanently"
FATES = (KEEP, TRASH, DESTROY)
USER = "5c1f0a52-7a0e-4f7e-9a55-0f3a1c9d7b10"  # who all requests with a token come from


@lru_cache(maxsize=1000)
def stamp(at: float) -> str:
    """ISO 8601 in UTC with milliseconds, the only form of time in the API."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1000)
def storage_prices(hourly: Decimal) -> dict[str, float]:
    """The same for all disks of a size, and too slow to work out anew for thousands of them."""
    month = money_number(hourly * HOURS_IN_MONTH)
    return {"base_hourly_cost": round(float(hourly), 6), "monthly_price": month}


@dataclass(frozen=True, slots=True)
class Tag:
    id: str
    key: str
    value: str

    def shown(self) -> dict[str, str]:
        return {"id": self.id, "key": self.key, "value": self.value}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What befalls a create instead of success: no_capacity, installation_failed, error or stuck."""

    kind: str
    after_s: float | None  # machine seconds after acceptance
    stuck_in: str = "provisioning"
    error: str | None = None  # what the journal says


@dataclass(slots=True)
class Volume:
    id: str
    name: str
    size: int
    type: str
    location: str
    is_os_volume: bool
    created_at: float
    meter: Meter
    status: str = "created"
    instance_id: str | None = None
    hostname: str = ""  # of the instance it is attached to
    on_spot_discontinue: str = KEEP
    os_image: str | None = None  # the image an OS disk was made from
    deleted_at: float | None = None
    thrown_away: int = 0  # the same in machine time
    destroyed: bool = False
    fate: str | None = None  # what happens when the deletion under way has finished
    shown_instance_id: str | None = None
    change: int = 0  # every change of plan makes timers of older ones void
    tags: list[Tag] = field(default_factory=list)

    @property
    def in_trash(self) -> bool:
        return self.deleted_at is not None and not self.destroyed

    @property
    def live(self) -> bool:
        return self.deleted_at is None

    def shown(self, settings: Settings) -> dict[str, Any]:
        attached = [{"id": self.instance_id, "hostname": self.hostname}] if self.instance_id else []
        shown: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "size": self.size,
            "type": self.type,
            "status": self.status,
            "is_os_volume": self.is_os_volume,
            "location": self.location,
            "instance_id": self.shown_instance_id if settings.stale_volume_instance_id else self.instance_id,
            "instances": attached,
            "target": "vda" if self.is_os_volume and self.instance_id else None,
            "ssh_key_ids": [],
            "created_at": stamp(self.created_at),
            "contract": "PAY_AS_YOU_GO",
            **storage_prices(self.meter.hourly),
            "currency": settings.currency,
            "long_term": None,
        }
        if settings.has_tags:
            shown["tags"] = [tag.shown() for tag in self.tags]
        if self.deleted_at is not None:
            shown["deleted_at"] = stamp(self.deleted_at)
            shown["is_permanently_deleted"] = self.destroyed
        if self.type.endswith("_Shared"):
            shown |= self._mounting()
        return shown | settings.extra_fields

    def _mounting(self) -> dict[str, str]:
        """How a shared disk is mounted, in words that the console shows."""
        path, folder = f"/{self.name}-{self.id[:8]}", f"/mnt/{self.name}"
        host = f"nfs.{self.location.lower()}.example"
        return {
            "pseudo_path": path,
            "mount_command": f"mount -t nfs -o nconnect=16 {host}:{path} {folder}",
            "create_directory_command": f"mkdir -p {folder}",
            "filesystem_to_fstab_command": f"echo '{host}:{path} {folder} nfs defaults,nconnect=16 0 0' >> /etc/fstab",
        }


@dataclass(slots=True)
class Instance:
    id: str
    kind: InstanceType
    type_name: str
    hostname: str
    description: str
    location: str
    image: str
    os_name: str
    spot: bool
    contract: str
    created_at: float
    price: Decimal
    meter: Meter
    ssh_key_ids: list[str]
    startup_script_id: str | None
    script: str | None  # the text, copied when the create was accepted
    os_size: int
    os_name_wanted: str
    os_fate: str
    os_tags: list[Tag]
    status: str = "ordered"
    phase: int = 0  # every change of plan makes timers of older phases void
    ip: str | None = None
    os_volume_id: str | None = None
    volume_ids: list[str] = field(default_factory=list)
    tags: list[Tag] = field(default_factory=list)
    outcome: Outcome | None = None
    stock_counted: bool = False
    listed_from: float = 0.0
    running_at: float | None = None
    boot_at: float | None = None
    discontinued_at: float | None = None

    @property
    def market(self) -> str:
        return "spot" if self.spot else "on-demand"

    @property
    def live(self) -> bool:
        return self.status != "discontinued"

    @property
    def coming(self) -> bool:
        """Accepted, and not yet so far that it has a disk."""
        return self.status in STAGES and self.os_volume_id is None

    def shown(self, settings: Settings) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": self.id,
            "status": settings.status_alias.get(self.status, self.status),
            "ip": self.ip,
            "created_at": stamp(self.created_at),
            "created_by_user_id": USER,
            "hostname": self.hostname,
            "description": self.description,
            "location": self.location,
            "instance_type": self.type_name,
            "image": self.image,
            "os_name": self.os_name,
            "price_per_hour": float(self.price),
            "is_spot": self.spot,
            "contract": self.contract,
            "pricing": "FIXED_PRICE",
            **self.kind.hardware,
            "ssh_key_ids": list(self.ssh_key_ids),
            "startup_script_id": self.startup_script_id,
            "os_volume_id": self.os_volume_id,
            "volume_ids": list(self.volume_ids),
            "jupyter_token": f"jupyter-{self.id[:13]}" if settings.jupyter_token else None,
        }
        if settings.has_tags:
            shown["tags"] = [tag.shown() for tag in self.tags]
        return shown | settings.extra_fields
