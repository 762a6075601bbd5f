"""How the driver is made: certificates, who may do without them, and what is optional around the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from compat_grpc.running import make
from compat_grpc.transport import Files
from controller.app.exits import CONFIGURATION, Ends
from controller.config.externalgrpc import ExternalGrpc, Tls
from tests.compat_grpc.scene import Served, served, world

SERVICE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
TLS = Tls(cert="/tls.crt", key="/tls.key", client_ca="/ca.crt")


def files(settings: ExternalGrpc, **more: object) -> Files | None:
    return make(settings, **more)._files  # type: ignore[arg-type]


def test_without_certificates_it_is_served_only_by_name() -> None:
    with pytest.raises(Ends) as ended:
        make(ExternalGrpc())
    assert ended.value.code == CONFIGURATION
    assert ended.value.lines == (
        "externalgrpc.tls: missing; expected cert, key and client_ca, or --insecure to serve whoever reaches the port",
    )
    assert files(ExternalGrpc(), insecure=True) is None
    assert files(ExternalGrpc(insecure=True)) is None
    assert files(ExternalGrpc(tls=TLS)) == Files(cert="/tls.crt", key="/tls.key", client_ca="/ca.crt")
    with pytest.raises(Ends, match=r"--insecure: expected without externalgrpc\.tls"):
        make(ExternalGrpc(tls=TLS), insecure=True)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"TLS_CERT_FILE": "/c", "TLS_KEY_FILE": "/k"}, Files(cert="/c", key="/k")),
        (
            {"TLS_CERT_FILE": "/c", "TLS_KEY_FILE": "/k", "TLS_CA_FILE": "/a"},
            Files(cert="/c", key="/k", client_ca="/a"),
        ),
    ],
)
def test_the_python_providers_variables(variables: dict[str, str], expected: Files | None) -> None:
    assert files(ExternalGrpc(), variables=variables) == expected


@pytest.mark.parametrize(
    ("variables", "missing"),
    [({"TLS_CERT_FILE": "/c"}, "TLS_KEY_FILE"), ({"TLS_CA_FILE": "/a"}, "TLS_CERT_FILE")],
)
def test_half_of_them_is_a_mistake(variables: dict[str, str], missing: str) -> None:
    with pytest.raises(Ends, match=f"{missing}: missing"):
        make(ExternalGrpc(), variables=variables)


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        (ExternalGrpc(allowed_names=("ca",), insecure=True), {}),
        (ExternalGrpc(allowed_names=("ca",)), {"insecure": True}),
        (ExternalGrpc(allowed_names=("ca",)), {"variables": {}}),
        (
            ExternalGrpc(allowed_names=("ca",)),
            {"variables": {"TLS_CERT_FILE": "/c", "TLS_KEY_FILE": "/k"}},
        ),
    ],
)
def test_names_that_nothing_proves_are_a_mistake(settings: ExternalGrpc, more: dict[str, Any]) -> None:
    """Silently letting everybody in is the opposite of what was asked for."""
    with pytest.raises(Ends, match=r"externalgrpc\.allowed_names: expected with client certificates"):
        make(settings, **more)


async def until_it(ask: Callable[[], Awaitable[int]], expected: int) -> None:
    async with asyncio.timeout(30):
        while await ask() != expected:  # a call is a pause
            continue


async def test_health_says_who_can_answer() -> None:
    async with served(health=True) as one, grpc.aio.insecure_channel(f"127.0.0.1:{one.port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def says(service: str) -> int:
            return int((await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)).status)

        for name in ("", SERVICE):
            await until_it(lambda name=name: says(name), health_pb2.HealthCheckResponse.SERVING)  # type: ignore[misc]
        await one.controller.lose_lease()  # no pass of the main loop follows
        await until_it(lambda: says(SERVICE), health_pb2.HealthCheckResponse.NOT_SERVING)


async def test_reflection_lists_the_service() -> None:
    async with served(reflection=True) as one, grpc.aio.insecure_channel(f"127.0.0.1:{one.port}") as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        answers = [answer async for answer in stub.ServerReflectionInfo(iter(asked), timeout=10)]
        assert SERVICE in [each.name for each in answers[0].list_services_response.service]


async def test_neither_is_there_unless_asked_for() -> None:
    async with served() as one, grpc.aio.insecure_channel(f"127.0.0.1:{one.port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_address_that_is_taken_is_told() -> None:
    async with served() as one:
        second = Served(one.world, one.world.policy, listen=f"127.0.0.1:{one.port}")
        with pytest.raises(OSError, match=str(one.port)):
            await second.driver.start()


async def test_calls_under_way_may_end() -> None:
    async with served(world()) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.settle()
        one.hands.gates["write_config_map"] = asyncio.Event()
        call = asyncio.ensure_future(client.NodeGroupIncreaseSize(id="g", delta=1))
        await asyncio.sleep(0.3)
        ending = asyncio.ensure_future(one.driver.stop())
        await asyncio.sleep(0.1)
        one.hands.gates.pop("write_config_map").set()
        await call
        await ending
