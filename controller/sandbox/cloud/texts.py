"""The things in the cloud that cost nothing: startup scripts, SSH keys, and what the journal says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.sandbox.cloud.model import USER, stamp


@dataclass(frozen=True, slots=True)
class Script:
    id: str
    name: str
    script: str
    created_at: float

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "script": self.script,
            "created_at": stamp(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class SshKey:
    id: str
    name: str
    key: str
    fingerprint: str | None

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "key": self.key,
            "fingerprint": self.fingerprint,
            "created_by_user_id": USER,
        }


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    at: float
    instance_id: str
    action: str
    by: str  # api, console, or nobody
    error: str | None
    properties: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "created_at": stamp(self.at),
            "instance_id": self.instance_id,
            "action_code": self.action,
            "actor_id": USER if self.by else None,
            "request_origin": self.by or "system",
            "error_message": self.error,
            "properties": self.properties,
        }
