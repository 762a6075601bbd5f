"""Reading pods: our typed reader against the generated models of `kubernetes_asyncio`, side by side.

Both start from the same bytes of the same 10,000 pods. Ours ends with the domain's `Pod`; the models end
with a `V1Pod`, so they are still short of the effective requests that ours has computed.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from controller.cluster.decode import Decoder
from controller.sandbox.samples import pod_json

PODS = 10_000
ROUNDS = 3


def measure(pods: int = PODS, rounds: int = ROUNDS) -> dict[str, Any]:
    raws = [
        msgspec.json.encode(pod_json(i, node=f"node-{i % 1000:04d}" if i % 10 else "", gpus=i // 50 % 3))
        for i in range(pods)
    ]
    read_model = asyncio.run(_model_reader())
    ours = models = float("inf")
    for _ in range(rounds):  # by turns, so that both meet the same weather
        ours = min(ours, _seconds(Decoder().pod, raws))
        models = min(models, _seconds(read_model, raws))
    return {
        "ratio": round(models / ours, 1),
        "pods": pods,
        "bytes_per_pod": sum(map(len, raws)) // pods,
        "ours_ms_per_pod": round(ours / pods * 1000, 5),
        "models_ms_per_pod": round(models / pods * 1000, 5),
    }


def _seconds(read: Callable[[bytes], object], raws: Iterable[bytes]) -> float:
    gc.collect()
    start = time.perf_counter()
    for raw in raws:
        read(raw)
    return time.perf_counter() - start


async def _model_reader() -> Callable[[bytes], object]:
    from kubernetes_asyncio import client

    class Answer:
        def __init__(self, data: bytes) -> None:
            self.data = data

    async with client.ApiClient(client.Configuration()) as api:
        deserialize = api.deserialize
    return lambda raw: deserialize(Answer(raw), "V1Pod")
