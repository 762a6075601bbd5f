"""Between cluster-autoscaler and our server: every call is passed on as it is, but for what it is told to spoil.

One call comes too late: either the call itself, so that the server hears of it when nobody waits for the answer any
more, or its answer. Or nodes are said to be known by another GPU label than the one that they have. Its first line is
the port that it listens on, and `late` is said when that has happened.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from compat_grpc.wire import externalgrpc_pb2 as wire


class Relay(grpc.GenericRpcHandler):
    def __init__(self, port: int, told: argparse.Namespace) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._method, self._late, self._seconds = told.method, told.late, told.seconds
        self._gpu_label = told.gpu_label
        self._first = threading.Lock()

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._pass(path, request, context)
        )

    def _pass(self, path: str, request: bytes, context: Any) -> bytes:
        chosen = path.endswith(f"/{self._method}") and self._first.acquire(blocking=False)
        if chosen and self._late == "request":
            time.sleep(self._seconds)
        try:
            answer: bytes = self._channel.unary_unary(path)(request, timeout=30)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise
        if self._gpu_label and path.endswith("/GPULabel"):
            return wire.GPULabelResponse(label=self._gpu_label).SerializeToString()
        if chosen and self._late == "answer":
            time.sleep(self._seconds)
        if chosen:
            print("late", flush=True)
        return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=int)
    parser.add_argument("--method", default="none")
    parser.add_argument("--late", choices=("request", "answer"))
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--gpu-label", default="")
    flags = parser.parse_args()
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((Relay(flags.to, flags),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
