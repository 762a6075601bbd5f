"""The gRPC server: in the controller's own loop, with what is optional around it, ended gracefully.

Health tells whether this replica can answer; reflection lets tools ask what there is. Pings find out that a
caller is gone, since it sends none itself, and a caller's own pings are welcome. cluster-autoscaler keeps to one
connection for ever: it is asked for a new one now and then, or it would stay at a replica that leads no more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from compat_grpc.calls import SERVICE, Figures, handlers
from compat_grpc.servicer import Servicer
from compat_grpc.transport import Certificates, Files, admission

log = logging.getLogger("gpu_autoscaler.grpc")

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the port is an error, not a lottery
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)
GRACE = 5.0  # seconds
CONNECTION_AGE = 60.0  # seconds; calls under way end as usual, and no call fails of it
# gRPC asks for certificates on threads of its own, also for a handshake that outlives its server: what it then
# points at must still be there, or the process dies of it. A process has one server, so nothing piles up.
_KEPT: list[tuple[Any, grpc.ServerCredentials]] = []


class GrpcServer:
    def __init__(
        self,
        servicer: Servicer,
        figures: Figures,
        *,
        files: Files | None,
        allowed: tuple[str, ...] = (),
        with_health: bool = False,
        with_reflection: bool = False,
    ) -> None:
        age = (
            ("grpc.max_connection_age_ms", round(1000 * CONNECTION_AGE)),
            ("grpc.max_connection_age_grace_ms", 60_000),
        )
        self._server = grpc.aio.server(options=(*_OPTIONS, *age))
        admit: Callable[[Any], str] = admission(allowed if files is not None and files.client_ca else ())
        self._server.add_generic_rpc_handlers((handlers(servicer, figures, admit),))
        self._certificates = Certificates(files) if files is not None else None
        self._health: health.aio.HealthServicer | None = None
        if with_health:
            self._health = health.aio.HealthServicer()
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if with_reflection:
            names = [SERVICE.full_name, reflection.SERVICE_NAME]
            reflection.enable_server_reflection(
                [*names, health.SERVICE_NAME] if with_health else names, self._server
            )
        self.port = 0

    def add(self, more: grpc.GenericRpcHandler) -> None:
        """Another service, before the start."""
        self._server.add_generic_rpc_handlers((more,))

    async def start(self, address: str) -> None:
        """Raises OSError where the address is taken."""
        try:
            if self._certificates is None:
                self.port = self._server.add_insecure_port(address)
            else:
                credentials = self._certificates.credentials
                _KEPT.append((self._server, credentials))
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"{address} cannot be listened on") from error
        if not self.port:
            raise OSError(f"{address} cannot be listened on")
        await self._server.start()
        await self.tell(False)

    async def tell(self, serving: bool) -> None:
        """What the health service says."""
        if self._health is not None:
            status = health_pb2.HealthCheckResponse
            state = status.SERVING if serving else status.NOT_SERVING
            for name in ("", SERVICE.full_name):
                await self._health.set(name, state)

    async def stop(self, grace: float = GRACE) -> None:
        """No new calls; those under way may end."""
        await self.tell(False)
        await self._server.stop(grace)
