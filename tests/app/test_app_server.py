"""Health, readiness, metrics and status over real HTTP."""

from __future__ import annotations

import aiohttp
import pytest

from controller.app.server import Health, Server, split_address
from controller.report.metrics import Metrics


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("listen", "expected"),
    [(":8080", ("0.0.0.0", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9", ("::1", 9))],
)
def test_addresses_are_read_as_people_write_them(listen: str, expected: tuple[str, int]) -> None:
    assert split_address(listen) == expected


@pytest.mark.parametrize("listen", ["8080", "host:port", ":99999", ""])
def test_a_bad_address_is_refused_with_what_was_expected(listen: str) -> None:
    with pytest.raises(ValueError, match="expected ADDRESS:PORT"):
        split_address(listen)


async def test_health_fails_when_the_loop_stalls_and_readiness_until_in_step() -> None:
    clock, reason = Clock(), ["the watches are not in step yet"]
    health = Health(clock, 60)
    server = Server(
        metrics=Metrics(), health=health, ready=lambda: reason[0], status=lambda: {"machines": []}
    )
    await server.start("127.0.0.1:0")
    url = f"http://127.0.0.1:{server.port}"
    try:
        async with aiohttp.ClientSession() as http:

            async def get(path: str) -> tuple[int, str]:
                async with http.get(url + path) as answer:
                    return answer.status, await answer.text()

            assert await get("/healthz") == (200, "ok\n")
            assert await get("/readyz") == (503, "the watches are not in step yet\n")
            reason[0] = ""
            assert await get("/readyz") == (200, "ok\n")
            clock.now = 61
            assert (await get("/healthz"))[0] == 503
            health.beat()
            assert (await get("/healthz"))[0] == 200
            assert "gpu_autoscaler_leader" in (await get("/metrics"))[1]
            assert (await get("/status"))[1].startswith("{")
    finally:
        await server.stop()
