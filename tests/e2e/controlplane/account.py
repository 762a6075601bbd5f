"""One scenario's cloud account, as its owner, another client and the sandbox itself see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.request import Request, urlopen


class Account:
    """`cloud` is the address of its API."""

    cloud: str

    def state(self) -> dict[str, Any]:
        with urlopen(self.cloud.removesuffix("/v1") + "/_sandbox/state", timeout=10) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found

    def tell_cloud(self, method: str, path: str, body: Any) -> None:
        url = f"{self.cloud.removesuffix('/v1')}/_sandbox/{path}"
        request = Request(url, data=json.dumps(body).encode(), method=method)  # noqa: S310
        with urlopen(request, timeout=10) as answer:  # noqa: S310
            answer.read()

    def live(self) -> list[dict[str, Any]]:
        """Instances that nobody has begun to delete."""
        return [
            each for each in self.state()["instances"] if each["status"] not in ("deleting", "discontinued")
        ]

    def faults(self) -> list[dict[str, Any]]:
        """The faults in force, and how often each was met."""
        with urlopen(self.cloud.removesuffix("/v1") + "/_sandbox/faults", timeout=10) as answer:  # noqa: S310
            found: list[dict[str, Any]] = json.load(answer)["faults"]
            return found

    def bought(self) -> list[tuple[str, str]]:
        """Type and location of everything in the account, in order."""
        return sorted((i["instance_type"], i["location"]) for i in self.state()["instances"])

    def console(self, path: str, body: Any, method: str = "PUT") -> Any:
        """What a person, or another program, does through the cloud's own API."""
        words = {
            "grant_type": "client_credentials",
            "client_id": "person",
            "client_secret": "person-not-a-key",
        }
        token = self._api("POST", "/oauth2/token", words, {})["access_token"]
        return self._api(method, path, body, {"Authorization": f"Bearer {token}"})

    def delete_in_console(self, hostname: str) -> None:
        """As a careful person does it, with its disk."""
        (found,) = (i for i in self.state()["instances"] if i["hostname"] == hostname)
        words = {"id": [found["id"]], "action": "delete", "volume_ids": found["volume_ids"]}
        self.console("/instances", words | {"delete_permanently": True})

    def _api(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        headers = {"Content-Type": "application/json", **headers}
        asked = Request(self.cloud + path, json.dumps(body).encode(), headers, method=method)  # noqa: S310
        with urlopen(asked, timeout=10) as answer:  # noqa: S310
            text = answer.read()
            return json.loads(text) if text else None

    def empty(self) -> bool:
        return not any(self.state()[part] for part in ("instances", "volumes", "trash", "scripts"))
