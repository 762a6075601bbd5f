"""A cloud that repeats in its errors whatever it was ever told: none of it comes out anywhere.

It says again the token of the call, the client secret, the join token and the script, in every way in which an
error is read. Events, ConfigMaps (the ledger, the status), Nodes, metrics and the page are searched, and, as after
every test, all that was logged, unmasked.
"""

from __future__ import annotations

import json

import pytest

from controller.sandbox.wire import Request, Response
from tests import marked
from tests.loop.lives import SECRET, Life, life

pytestmark = pytest.mark.life

JOIN_TOKEN = "K10::server:not-a-real-token"
OVERHEARD = "overheard"  # what is told of such an answer, and proves that its sentence was read at all
CODES = {400: "invalid_request", 403: "forbidden_action", 500: "server_error"}


class Parrot:
    """Between the controller and the cloud; the first call of each kind it answers in the cloud's place."""

    def __init__(self, lived: Life, status: int) -> None:
        self._status = status
        self._script = ""
        self.said: set[str] = set()
        self._handle = lived.stage.cloud.handle
        lived.stage.cloud.handle = self.handle  # type: ignore[method-assign]

    def handle(self, request: Request) -> Response:
        path = request.path.removeprefix("/v1")
        if path.startswith("/_sandbox"):
            return self._handle(request)
        call = f"{request.method} {'/'.join(path.split('/')[:2])}"
        if call == "POST /scripts":
            self._script = json.loads(request.body)["script"]
            marked.note_script(self._script)
        if call in self.said:
            return self._handle(request)
        self.said.add(call)
        return self._answer(call, request)

    def _answer(self, call: str, request: Request) -> Response:
        words = f"{OVERHEARD} {SECRET} {JOIN_TOKEN} {request.headers.get('authorization', '')} {self._script}"
        if call == "POST /scripts":
            words = f"quota {OVERHEARD} {JOIN_TOKEN}"  # short enough to be quoted
        if call == "PUT /instances":
            row = {
                "instanceId": json.loads(request.body)["id"],
                "status": "error",
                "statusCode": 403,
                "error": words,
            }
            return Response.of_json(207 if self._status % 2 else 202, [row])
        return Response.of_json(self._status, {"code": CODES[self._status], "message": words})


@pytest.mark.parametrize("status", CODES)
async def test_what_an_error_repeats_of_our_secrets_is_never_told(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with life() as lived:
        plans: set[str] = set()
        lived.program.loop.on_plan.append(
            lambda plan: plans.update(why.message for why in (*plan.pods.values(), *plan.machines.values()))
        )
        parrot = Parrot(lived, status)
        await lived.stage.tell_cloud("POST", "revoke-tokens", {})
        await lived.in_use()
        await lived.show_no_secret()
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()
    assert parrot.said >= {
        "POST /oauth2",
        "POST /scripts",
        "POST /instances",
        "PUT /instances",
        "GET /instances",
    }
    told = "\n".join((*plans, *(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)))
    assert OVERHEARD in told
    assert marked.found_in(told) == []
