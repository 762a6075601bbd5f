"""A cloud that repeats every secret in every error: none of them is told on, anywhere."""

from __future__ import annotations

from collections import Counter

from controller.sandbox.wire import Request, Response
from tests import marked
from tests.loop.lives import SECRET, Life, life

JUPYTER = "jupyter-token-of-this-life"
STATUSES = (400, 401, 403, 500, 429)


def repeat_everything(lived: Life) -> Counter[tuple[str, str]]:
    """Each path answers some errors first, with all that it was asked in their message."""
    handle, asked = lived.stage.cloud.handle, Counter[tuple[str, str]]()

    def telling(request: Request) -> Response:
        response = handle(request) if request.path.startswith("/_sandbox") else None
        if response is not None:
            return response
        place = (request.method, "/".join(request.path.split("/")[:3]))  # without ids
        asked[place] += 1
        if place[1] == "/v1/oauth2/token" or asked[place] > len(STATUSES):
            return handle(request)
        status = STATUSES[asked[place] - 1]
        said = f"{request.headers.get('authorization')} {SECRET} {request.body.decode()}"
        code = {400: "invalid_request", 401: "unauthorized_request", 403: "forbidden_action"}.get(
            status, "server_error"
        )
        headers = {"Retry-After": "1"} if status == 429 else {}
        return Response.of_json(status, {"code": code, "message": said}, headers)

    lived.stage.cloud.handle = telling  # type: ignore[method-assign]
    return asked


async def test_no_secret_reaches_logs_events_metrics_status_or_objects() -> None:
    # The logs of every test are searched (tests/conftest.py), and everything else at the end of every life.
    marked.note(JUPYTER)
    knobs = {"extra_fields": {"jupyter_token": JUPYTER}}
    async with life({"deadlines": {"backoff": {"first": "500ms", "most": "1s"}}}, cloud=knobs) as lived:
        asked = repeat_everything(lived)
        await lived.pod()
        await lived.runs(within=80)
        await lived.end(within=80)
        for place in (("POST", "/v1/scripts"), ("POST", "/v1/instances"), ("PUT", "/v1/instances")):
            assert asked[place] > len(STATUSES)
        told = [told["message"] for told in (await lived.stage.get("/api/v1/events"))["items"]]
        assert any("***" in message for message in told)  # it was there to be told
        assert any("unauthorised" in message for message in told)
