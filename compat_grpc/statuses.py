"""How a refusal of ours is told over gRPC: the code by its reason, the sentence with its numbers.

cluster-autoscaler treats every error alike, so codes and words are for the people who read its events.
"""

from __future__ import annotations

import grpc

from controller.domain.plan import Explanation
from controller.domain.reason import Reason

_SCARCE = grpc.StatusCode.RESOURCE_EXHAUSTED
_AWAY = grpc.StatusCode.UNAVAILABLE
_NOT_NOW = grpc.StatusCode.FAILED_PRECONDITION

CODES: dict[Reason, grpc.StatusCode] = {
    Reason.NO_CAPACITY: _SCARCE,
    Reason.QUOTA: _SCARCE,
    Reason.NO_FUNDS: _SCARCE,
    Reason.LIMIT_GPUS: _SCARCE,
    Reason.LIMIT_MACHINES: _SCARCE,
    Reason.LIMIT_PRICE: _SCARCE,
    Reason.LIMIT_BUDGET: _SCARCE,
    Reason.LIMIT_CORES: _SCARCE,
    Reason.LIMIT_MEMORY: _SCARCE,
    Reason.LIMIT_RATE: _SCARCE,
    Reason.LIMIT_SCRIPTS: _SCARCE,
    Reason.SWITCH_LIMIT: _SCARCE,
    Reason.SWITCH_FAILED: _AWAY,
    Reason.UNAVAILABLE: _AWAY,
    Reason.RATE_LIMITED: _AWAY,
    Reason.JOIN_UNPREPARED: _AWAY,
    Reason.NOT_LEADER: _AWAY,
}


class Refusal(Exception):
    """Ends a call with this code."""

    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


def refused(why: Explanation) -> Refusal:
    return Refusal(CODES.get(why.code, _NOT_NOW), f"{why.message} ({why.code.value})")
