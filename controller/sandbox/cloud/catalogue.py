"""What the sandbox cloud sells: instance types, images and locations, as the real catalogue shows them.

The rows in `catalogue.json` are a dump of the public catalogue of February 2026. The quirks kept on
purpose: prices are strings with four significant digits for the whole machine, `gpu_memory` is the
total over all GPUs, CPU types have an empty gpu description, GB300 supports no image at all, and the
Blackwell types take only the open drivers of CUDA 12.8 and 13.0.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any

MARKETS = ("on-demand", "spot")
NAMESPACE = uuid.UUID("6a1f3c5e-2b7d-4f0a-9c84-5d0e7b1a2c3f")  # makes ids of types and images stable


@dataclass(frozen=True, slots=True)
class InstanceType:
    instance_type: str
    model: str
    gpus: int
    vcpus: int
    price_per_hour: Decimal
    spot_price: Decimal
    supported_os: tuple[str, ...]
    locations: tuple[str, ...]  # where stock exists unless the stock table says otherwise
    hardware: Mapping[str, Any]  # cpu, gpu, gpu_memory, memory, storage: also shown in instances
    facts: Mapping[str, Any]  # everything else that never changes

    def price(self, *, spot: bool) -> Decimal:
        return self.spot_price if spot else self.price_per_hour


@dataclass(frozen=True, slots=True)
class Image:
    id: str
    slug: str
    details: tuple[str, ...]

    @property
    def os_name(self) -> str:
        return self.details[0]

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "image_type": self.slug,
            "name": " + ".join(self.details),
            "is_default": self.slug == "ubuntu-24.04",
            "is_cluster": self.slug.endswith("-cluster"),
            "details": [detail for detail in self.details if detail != "Docker"],
            "category": _category(self.slug),
        }


@dataclass(slots=True)
class Catalogue:
    types: Mapping[str, InstanceType]
    images: Mapping[str, Image]
    locations: tuple[Mapping[str, str], ...]
    _by_id: dict[str, Image] = field(init=False)

    def __post_init__(self) -> None:
        self._by_id = {image.id: image for image in self.images.values()}

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(location["code"] for location in self.locations)

    def image(self, slug_or_id: str) -> Image | None:
        return self.images.get(slug_or_id) or self._by_id.get(slug_or_id)


def four_digits(price: Decimal) -> str:
    """A price as the real catalogue writes it: four significant digits, zeros kept."""
    if price == 0:
        return "0.000"
    return f"{price:.{max(0, 3 - price.adjusted())}f}"


def shown_type(kind: InstanceType, *, name: str, currency: str, rate: Decimal) -> dict[str, Any]:
    """A row of the public list, in a currency worth `rate` dollars each."""
    listed, spot = kind.price_per_hour * rate, kind.spot_price * rate
    return {
        "id": kind.facts["id"],
        "instance_type": name,
        "model": kind.model,
        **{key: value for key, value in kind.facts.items() if key != "id"},
        **kind.hardware,
        "price_per_hour": four_digits(listed),
        "spot_price": four_digits(spot),
        "dynamic_price": four_digits(listed),
        "max_dynamic_price": four_digits(listed * Decimal("1.5")),
        "serverless_price": four_digits(listed * Decimal("1.1")),
        "serverless_spot_price": four_digits(spot * Decimal("1.1")),
        "currency": currency,
        "supported_os": list(kind.supported_os),
    }


@cache
def load() -> Catalogue:
    """The catalogue that comes with the sandbox. Its values are never changed in place."""
    raw = json.loads(resources.files(__package__).joinpath("catalogue.json").read_text())
    codes = [location["code"] for location in raw["locations"]]
    types = {}
    for values in raw["types"]:
        row = dict(zip(raw["columns"], values, strict=True))
        model = raw["models"][row["model"]]
        where = raw["only_in"].get(row["model"], codes)
        kind = _instance_type(row, model, raw["images"][model["images"]], where)
        types[kind.instance_type] = kind
    slugs = sorted({slug for names in raw["images"].values() for slug in names})
    images = {slug: _image(slug, raw["image_ids"].get(slug)) for slug in slugs}
    return Catalogue(types, images, tuple(raw["locations"]))


def _instance_type(
    row: Mapping[str, Any], model: Mapping[str, Any], slugs: list[str], locations: list[str]
) -> InstanceType:
    gpus, vram = row["gpus"], row["vram_gb"]
    hardware = {
        "cpu": {"description": f"{row['vcpus']} CPU", "number_of_cores": row["vcpus"]},
        "gpu": {"description": f"{gpus}x {model['name']}" if gpus else "", "number_of_gpus": gpus},
        "gpu_memory": {"description": f"{vram}GB GPU RAM" if gpus else "", "size_in_gigabytes": vram},
        "memory": {"description": f"{row['ram_gb']}GB RAM", "size_in_gigabytes": row["ram_gb"]},
        "storage": _storage(row["storage"]),
    }
    facts = {
        "id": str(uuid.uuid5(NAMESPACE, row["instance_type"])),
        "name": model["name"],
        "display_name": row["display_name"],
        "manufacturer": model["manufacturer"],
        "description": "Dedicated Hardware Instance",
        "best_for": model["best_for"],
        "p2p": row["p2p"],
        "deploy_warning": model["deploy_warning"],
    }
    return InstanceType(
        instance_type=row["instance_type"],
        model=row["model"],
        gpus=gpus,
        vcpus=row["vcpus"],
        price_per_hour=Decimal(row["price_per_hour"]),
        spot_price=Decimal(row["spot_price"]),
        supported_os=tuple(slugs),
        locations=tuple(locations),
        hardware=hardware,
        facts=facts,
    )


def _storage(description: str) -> dict[str, Any]:
    size = re.match(r"(\d+)GB", description)
    return {"description": description} | ({"size_in_gigabytes": int(size[1])} if size else {})


def _image(slug: str, known_id: str | None) -> Image:
    return Image(known_id or str(uuid.uuid5(NAMESPACE, slug)), slug, _details(slug))


def _details(slug: str) -> tuple[str, ...]:
    if slug.startswith("jupyter"):
        return ("Ubuntu 24.04", "Jupyter", *(["CUDA 12.8"] if slug.endswith("12.8") else []))
    if kubernetes := re.fullmatch(r"([\d.]+?)\.kubernetes([\d.]+)\.cuda([\d.]+)\.qcow2", slug):
        return (f"Ubuntu {kubernetes[1]}", f"Kubernetes {kubernetes[2]}", f"CUDA {kubernetes[3]}")
    system, *rest = slug.removeprefix("ubuntu-").split("-cuda-")
    if not rest:
        return (f"Ubuntu {system}",)
    version, *extras = rest[0].split("-")
    cuda = f"CUDA {version}" + (" Open" if "open" in extras else "")
    return (f"Ubuntu {system}", cuda, *(extra.capitalize() for extra in extras if extra != "open"))


def _category(slug: str) -> str:
    for word in ("jupyter", "kubernetes", "docker"):
        if word in slug:
            return word
    return "ubuntu"
