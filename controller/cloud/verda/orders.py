"""The body of a create call. Pure.

The traps of this request: `on_spot_discontinue` makes the API refuse an on-demand order and, left out of
a spot order, leaves a paid disk behind after every eviction; a description of more than 60 characters is
a 400; explicit contracts only ever name pay-as-you-go or spot; `pricing` is deprecated and stays out.
"""

from __future__ import annotations

from typing import Any

from controller.cloud.protocol import Order
from controller.domain.cloudthings import SPOT

LONGEST_DESCRIPTION = 60


def body(order: Order, *, with_tags: bool = True) -> dict[str, Any]:
    spot = order.market == SPOT
    disk: dict[str, Any] = {"name": order.hostname, "size": order.disk_gb}
    if spot:
        disk["on_spot_discontinue"] = "delete_permanently"
    request: dict[str, Any] = {
        "instance_type": order.instance_type,
        "image": order.image,
        "hostname": order.hostname,
        "description": description(order.description),
        "location_code": order.location,
        "ssh_key_ids": list(order.ssh_key_ids),
        "startup_script_id": order.script_id or None,
        "is_spot": spot,
        "contract": "SPOT" if spot else "PAY_AS_YOU_GO",
        "os_volume": disk,
    }
    if with_tags and order.tags:
        request["tags"] = tags(order.tags)
        disk["tags"] = tags(order.tags)
    return request


def tags(pairs: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} if value else {"key": key} for key, value in pairs]


def description(text: str) -> str:
    """One line of at most 60 characters, cut between words; the marks are at its beginning."""
    line = " ".join(text.split())
    if len(line) <= LONGEST_DESCRIPTION:
        return line
    head, space, _ = line[: LONGEST_DESCRIPTION + 1].rpartition(" ")
    return head if space else line[:LONGEST_DESCRIPTION]
