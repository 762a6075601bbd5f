"""From a call on the wire to a method of the servicer and back: names, status codes, figures.

The handlers are made from the interface's own description, so that none is forgotten. Whatever goes wrong
inside is told as a status; an unexpected error is logged here and its words stay here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
from google.protobuf import message_factory
from prometheus_client import CollectorRegistry, Counter, Histogram

from compat_grpc.servicer import Servicer
from compat_grpc.statuses import Refusal
from compat_grpc.wire import externalgrpc_pb2 as wire

log = logging.getLogger("gpu_autoscaler.grpc")

SERVICE = wire.DESCRIPTOR.services_by_name["CloudProvider"]
Admit = Callable[[Any], str]  # a servicer context -> why its peer is not let in, or ""


class Figures:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "gpu_autoscaler_grpc_calls",
            "Calls of cluster-autoscaler, by method and status code.",
            ("method", "code"),
            registry=registry,
        )
        self.seconds = Histogram(
            "gpu_autoscaler_grpc_seconds",
            "Duration of the calls of cluster-autoscaler, by method.",
            ("method",),
            registry=registry,
            buckets=(0.0005, 0.001, 0.003, 0.01, 0.03, 0.1, 0.5, 1, 5),
        )


def handlers(servicer: Servicer, figures: Figures, admit: Admit) -> grpc.GenericRpcHandler:
    made = {}
    for method in SERVICE.methods:
        request = message_factory.GetMessageClass(method.input_type)
        response = message_factory.GetMessageClass(method.output_type)
        made[method.name] = grpc.unary_unary_rpc_method_handler(
            _behaviour(method.name, getattr(servicer, method.name), figures, admit),
            request_deserializer=request.FromString,
            response_serializer=response.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(SERVICE.full_name, made)


def _behaviour(
    name: str, method: Callable[..., Awaitable[Any]], figures: Figures, admit: Admit
) -> Callable[[Any, Any], Awaitable[Any]]:
    seconds = figures.seconds.labels(name)
    well = figures.calls.labels(name, "OK")

    async def call(request: Any, context: Any) -> Any:
        if why := admit(context):
            figures.calls.labels(name, "PERMISSION_DENIED").inc()
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        began = perf_counter()
        try:
            answer = await method(request, context.time_remaining)
        except Refusal as refusal:
            code, words = refusal.code, refusal.words
        except Exception:
            log.exception("unexpected error", extra={"call": name})
            code, words = grpc.StatusCode.INTERNAL, "an unexpected error; the log of the controller says more"
        else:
            seconds.observe(perf_counter() - began)
            well.inc()
            return answer
        seconds.observe(perf_counter() - began)
        figures.calls.labels(name, code.name).inc()
        return await context.abort(code, words)

    return call
