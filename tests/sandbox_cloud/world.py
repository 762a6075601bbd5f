"""A cloud in memory with a clock that tests turn, and short words for what they do to it.

Every answer of every test is held against the description of the API, and so is every request that was
taken.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.wire import Request, Response

from .described import Seen, check_answer, check_request

START = 1_800_000_000.0
FIXED: Mapping[str, Any] = {  # every duration exact, one machine second a second
    "speed": 1,
    "ordered_s": 10,
    "provisioning_s": 100,
    "boot_s": 60,
    "delete_s": 30,
    "volume_gone_s": 120,
    "volume_delete_s": 5,
    "shutdown_s": 10,
    "start_s": 20,
    "rate_limits": False,
}
ORDER: Mapping[str, Any] = {
    "instance_type": "1A100.22V",
    "image": "ubuntu-24.04",
    "hostname": "home-a100-abcdefghij",
    "description": "gpuas home abcdefghij",
    "location_code": "FIN-03",
}


class Cloud:
    def __init__(self, **knobs: Any) -> None:
        self.now = START
        settings = Settings().changed({**FIXED, **knobs})
        self.world = CloudWorld(lambda: self.now, random.Random(7), settings)
        self.token = ""
        self.seen: set[Seen] = set()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        if seconds > 1000:
            self.token = ""  # it may be stale by then

    def log_in(self) -> None:
        body = {"grant_type": "client_credentials", "client_id": "id", "client_secret": "secret"}
        self.token = self.send("POST", "/oauth2/token", body).json()["access_token"]

    def send(
        self, method: str, path: str, body: Any = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        if not self.token and path != "/oauth2/token":
            self.log_in()
        sent = {"Authorization": f"Bearer {self.token}", "User-Agent": "tests", **(headers or {})}
        return self.checked(method, path, body, {key: value for key, value in sent.items() if value})

    def checked(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Response:
        response = self.world.handle(Request.of(method, "/v1" + path, body, headers))
        settings, where = self.world.state.settings, path.partition("?")[0]
        as_described = settings.id_body == "plain" and settings.id_content_type == "text/plain"
        if as_described or settings.id_body in ("quoted", "object"):  # all other ways are against it
            seen = check_answer(method, where, response, strict=not settings.extra_fields)
            self.seen.add(seen)
        if response.status < 300:
            check_request(method, where, body)
        return response

    def get(self, path: str) -> Any:
        response = self.send("GET", path)
        assert response.status == 200, response.body
        return response.json()

    def create(self, **changes: Any) -> str:
        response = self.send("POST", "/instances", {**ORDER, **changes})
        assert response.status == 202, response.body
        return response.body.decode()

    def running(self, **changes: Any) -> str:
        instance_id = self.create(**changes)
        self.wait(110)
        assert self.status(instance_id) == "running"
        return instance_id

    def status(self, instance_id: str) -> str:
        return str(self.get(f"/instances/{instance_id}")["status"])

    def delete(self, instance_id: str | list[str], **more: Any) -> Response:
        return self.send("PUT", "/instances", {"action": "delete", "id": instance_id, **more})

    def state(self) -> Any:
        return self.get("/_sandbox/state")

    def control(self, method: str, name: str, body: Any) -> Response:
        response = self.send(method, f"/_sandbox/{name}", body)
        assert response.status < 300, response.body
        return response


def refusal(response: Response) -> tuple[int, str, str]:
    body = response.json()
    return response.status, body["code"], body["message"]
