"""Who decides on sizes: the planner, or cluster-autoscaler, served by a module that need not be there.

That module needs grpc, which this program neither imports nor mentions without it; so it is asked for by name,
and only when somebody wants it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import msgspec

from controller.app.driver import Driver
from controller.app.exits import CONFIGURATION, Ends
from controller.config.load import Loaded

PLANNER, EXTERNALGRPC, AUTO = "planner", "externalgrpc", "auto"
MODULE = "compat_grpc.running"
EXTRA = "pip install 'verda-gpu-autoscaler[grpc]'"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of serving cluster-autoscaler."""

    insecure: bool = False
    listen: str = ""  # "": as the settings say
    variables: Mapping[str, str] | None = None  # the Python provider's; certificates may stand there


def resolve(name: str) -> str:
    """`auto` is externalgrpc where what it needs is installed."""
    if name not in (PLANNER, EXTERNALGRPC, AUTO):
        raise Ends(CONFIGURATION, f"--driver {name!r}: expected {PLANNER}, {EXTERNALGRPC} or {AUTO}")
    if name != AUTO:
        return name
    try:
        importlib.import_module(MODULE)
    except ImportError:
        return PLANNER
    return EXTERNALGRPC


def make(name: str, loaded: Loaded, wish: Wish) -> Driver | None:
    """None for the planner."""
    if resolve(name) == PLANNER:
        return None
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:
        raise Ends(
            CONFIGURATION,
            f"--driver {name}: {error.name or 'grpc'} is not installed; it comes with the extra grpc: {EXTRA}",
        ) from error
    driver: Driver = module.make(
        loaded.settings.externalgrpc, insecure=wish.insecure, listen=wish.listen, variables=wish.variables
    )
    return driver
