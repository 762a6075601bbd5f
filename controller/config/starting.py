"""A digest of the settings that decide how machines start: what was given up under others may be tried again.

What a machine costs, how many there may be and whether any is bought now has no part in it, and neither has
what lies outside of the settings: a join token (its Secret is looked at beside this), or a script in the
cloud account. Location and market have: machines that do not start in one place may start in another.
"""

from __future__ import annotations

import hashlib
import json

from controller.config.load import show
from controller.config.settings import Settings

_HOW_MANY = frozenset(
    {"min", "max", "max_gpus_total", "max_price_per_hour", "pause", "expire_after", "strategy"}
)
_WAITS = ("join", "ready", "gpu")


def starting_digest(settings: Settings) -> str:
    shown = show(settings)
    pools = [{key: value for key, value in pool.items() if key not in _HOW_MANY} for pool in shown["pools"]]
    waits = {name: shown["deadlines"][name] for name in _WAITS}
    scripts = {
        name: hashlib.sha256(entry.script.get_secret_value().encode()).hexdigest()
        for name, entry in settings.join.items()
        if entry.script is not None
    }
    told = {"pools": pools, "join": shown["join"], "deadlines": waits} | (
        {"scripts": scripts} if scripts else {}
    )
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
