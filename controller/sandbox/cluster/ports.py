"""Ports of the host that pods ask for, and which of them cannot be had side by side.

Quirks kept: a port on one address leaves the same port on another one free, but not that on all of them; those of
init containers count only where these go on beside the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.sandbox.cluster.resources import Obj

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  (compared only)
Port = tuple[str, int, str]  # protocol, number, address


def host_ports(spec: Obj) -> frozenset[Port]:
    return frozenset(
        (port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or EVERY_ADDRESS)
        for each in (
            *(spec.get("containers") or ()),
            *(c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"),
        )
        for port in each.get("ports") or ()
        if port.get("hostPort")
    )


def clash(wanted: Iterable[Port], taken: Mapping[Port, int]) -> bool:
    """Whether one of the ports is in use there."""
    if not taken:
        return False
    return any(
        (protocol, number, EVERY_ADDRESS) in taken
        or (protocol, number, address) in taken
        or (address == EVERY_ADDRESS and any(each[:2] == (protocol, number) for each in taken))
        for protocol, number, address in wanted
    )
