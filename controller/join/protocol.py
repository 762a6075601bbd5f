"""What the fleet asks of joining: the text of a machine's first boot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from controller.domain.kube import Taint


class JoinError(Exception):
    """The script cannot be made now; the message says what to do and carries no secret."""


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """Who the machine will be: known before it exists."""

    cluster_id: str
    intent: str
    name: str
    provider_id: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    gpus: int
    entry: str  # name of the entry under `join` in the settings


class Prepared(msgspec.Struct, frozen=True):
    """Either a script to upload, or the id of one that the user keeps in the cloud account."""

    script: str = ""
    script_id: str = ""


class Joiner(Protocol):
    async def prepare(self, joining: Joining) -> Prepared: ...
