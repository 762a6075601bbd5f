"""What of its pool's settings a machine was made with, so that it can be told later that they have changed.

Digests, because a ledger is small and nobody reads them; each setting has its own, so that an explanation can
name it. What only says how many machines there may be, or for how much, makes no other machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from controller.domain.policy import Pool


def made_with(pool: Pool) -> dict[str, str]:
    settings: dict[str, object] = {
        "image": pool.images,
        "disk_gb": pool.disk_gb,
        "ssh_key_ids": sorted(pool.ssh_key_ids),
        "labels": sorted(pool.labels.items()),
        "taints": sorted(str(taint) for taint in pool.taints),
        "join": pool.join,
    }
    return {name: _digest(value) for name, value in settings.items()}


def changed(machine: Mapping[str, str], now_is: Mapping[str, str]) -> list[str]:
    """The settings that are others now; of a machine of which nothing is known, none."""
    return [name for name, digest in machine.items() if now_is.get(name, digest) != digest]


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:8]
