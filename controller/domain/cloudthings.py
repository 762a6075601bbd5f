"""What the cloud sells and what we have there: instance types, offers, instances, disks, scripts."""

from __future__ import annotations

from decimal import Decimal

import msgspec

SPOT = "spot"
ON_DEMAND = "on-demand"
SWITCHED = "switched"  # a machine that is there already, and off


# The cloud does not say which types are arm64; these are the models with NVIDIA's Grace as the host CPU.
ARCH_BY_MODEL_PREFIX: tuple[tuple[str, str], ...] = (("GB", "arm64"), ("GH", "arm64"))


def arch_of(model: str) -> str:
    upper = model.strip().upper()
    return next((arch for prefix, arch in ARCH_BY_MODEL_PREFIX if upper.startswith(prefix)), "amd64")


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the catalogue. Resources are never derived from the name."""

    name: str
    model: str
    gpus: int
    vcpus: int
    memory_gib: int
    gpu_memory_gib: int = 0  # of all GPUs together, as the cloud lists it
    price: Decimal
    spot_price: Decimal
    images: tuple[str, ...] = ()
    arch: str = "amd64"

    def price_in(self, market: str) -> Decimal:
        return self.spot_price if market == SPOT else self.price


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be bought: a type in a location and market, at a price, now or not."""

    type: InstanceType
    location: str
    market: str
    available: bool = True

    @property
    def price(self) -> Decimal:
        return self.type.price_in(self.market)

    @property
    def key(self) -> str:
        return f"{self.type.name}/{self.location}/{self.market}"


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as the cloud lists it. Statuses are an open set; `state` folds them into ours."""

    id: str
    hostname: str
    description: str
    status: str
    instance_type: str
    location: str
    market: str
    price: Decimal
    created_at: float
    contract: str = ""  # PAY_AS_YOU_GO, SPOT or LONG_TERM; "": not told
    currency: str = ""  # of the price; "": not told
    tags: tuple[tuple[str, str], ...] = ()
    ip: str = ""
    volume_ids: tuple[str, ...] = ()
    os_volume_id: str = ""
    script_id: str = ""
    gpus: int = 0  # as the machine itself says: its type may have left the catalogue
    vcpus: int = 0
    memory_gib: int = 0

    @property
    def state(self) -> str:
        """coming | running | stopped | failed | leaving | gone | unknown (= not ready, not gone)."""
        return _STATES.get(self.status, "unknown")

    @property
    def disks(self) -> tuple[str, ...]:
        """The disks that were made with the machine and go with it.

        Only the system disk: whatever else is attached was attached by somebody else, and stays.
        """
        return (self.os_volume_id,) if self.os_volume_id else ()


_STATES = {
    "new": "coming",
    "ordered": "coming",
    "pending": "coming",
    "provisioning": "coming",
    "validating": "coming",
    "running": "running",
    "offline": "stopped",
    "deleting": "leaving",
    "discontinued": "gone",
    "notfound": "gone",
    "no_capacity": "failed",
    "installation_failed": "failed",
    "error": "failed",
}


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: str
    size_gb: int = 0
    location: str = ""
    instance_id: str = ""
    is_os: bool = False
    tags: tuple[tuple[str, str], ...] = ()
    price_per_hour: Decimal = Decimal(0)
    currency: str = ""
    created_at: float = 0.0
    deleted_at: float = 0.0  # when it went into the trash


class Volumes(msgspec.Struct, frozen=True, kw_only=True):
    """Every disk of an account, those in the trash too. What it lacks is gone there, and nowhere else."""

    listed: tuple[Volume, ...] = ()
    account: str = ""  # see `Inventory.account`


class Script(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    text: str
    created_at: float = 0.0


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything listed at one moment. `complete` is false when the list is known to be short."""

    at: float
    instances: tuple[Instance, ...] = ()
    complete: bool = True
    account: str = ""  # which account answered: a mark that tells accounts apart, and nothing else


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Offers at one moment, and the images that exist."""

    at: float
    offers: tuple[Offer, ...] = ()
    currency: str = "usd"

    def type_named(self, name: str) -> InstanceType | None:
        wanted = name.upper()
        return next((offer.type for offer in self.offers if offer.type.name.upper() == wanted), None)
