"""Settings about what things are called and cost at the cloud: agreed prices, and NVIDIA's labels per GPU.

Both are tables by instance type or GPU model, as the cloud writes them; case and punctuation do not
count, because `A100 80GB`, `a100-80gb` and `A100-80GB` are one GPU to people.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from controller.config.kubernetes_names import parse_taint_value
from controller.config.section import Section
from controller.config.values import parse_money, parse_whole, show_money, wrong

_PERCENT = re.compile(r"([0-9]{1,2}(?:\.[0-9]{1,4})?)%")


def _parse_price(value: Any) -> Decimal:
    price = parse_money(value)
    if not price:
        raise wrong("a price above 0: nothing is free, and a price of 0 would escape every limit")
    return price


def _parse_percent(value: Any) -> str:
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        raise wrong('a share such as "10%" or "12.5%", less than 100%')
    return value


def _parse_count(value: Any) -> str:
    return str(parse_whole(value, 1))


Price = Annotated[Decimal, PlainValidator(_parse_price), PlainSerializer(show_money, when_used="json")]
LabelValue = Annotated[str, PlainValidator(parse_taint_value)]
LabelCount = Annotated[str, PlainValidator(_parse_count)]


class PriceSetting(Section):
    """What is paid for a type, a GPU model, or (`*`) for everything, where it is not the list price."""

    price_per_hour: Price | None = Field(
        None, description="Of one machine, on demand; the list price unless given, because most pay that."
    )
    spot_price_per_hour: Price | None = Field(None, description="The same on the spot market.")
    discount: Annotated[str, PlainValidator(_parse_percent)] = Field(
        "0%", description="Taken off the list price where no price is given; none unless agreed."
    )

    @model_validator(mode="after")
    def _says_something(self) -> PriceSetting:
        if self.price_per_hour is None and self.spot_price_per_hour is None and not self.share:
            raise wrong("price_per_hour, spot_price_per_hour or discount")
        return self

    @property
    def share(self) -> Decimal:
        return Decimal(self.discount.removesuffix("%")) / 100


class GpuLabelSetting(Section):
    """What NVIDIA's feature discovery writes for a type or a GPU model, where the built-in table is wrong."""

    product: LabelValue | None = Field(
        None,
        description="nvidia.com/gpu.product; the built-in value unless given, with -SHARED where a pool declares more nvidia.com/gpu than there are.",
    )
    memory: LabelCount | None = Field(
        None, description="nvidia.com/gpu.memory in MiB; the built-in value unless given, as ECC changes it."
    )
    family: LabelValue | None = Field(
        None, description="nvidia.com/gpu.family; the built-in value unless given, as old plug-ins differ."
    )
    count: LabelCount | None = Field(
        None, description="nvidia.com/gpu.count; the catalogue's GPUs unless given, as MIG counts devices."
    )
