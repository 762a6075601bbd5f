"""What `shell` does over HTTP, done in memory: a request meets at most one fault on its way to a core and back.

Pure apart from the core: it tells what the client gets and after how many seconds; whoever asked waits.
A request on a slow way (`Late`) reaches the core only then: its sender may have died or lost its right by
that time, and nobody can call it back.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from controller.sandbox.faults import Faults, Rule
from controller.sandbox.wire import Request, Response

NEVER = 1e9  # seconds: the client leaves long before


class Core(Protocol):
    def handle(self, request: Request) -> Response: ...


class Carried(NamedTuple):
    response: Response | None  # None: the connection ended, or nothing came at all
    seconds: float = 0.0  # until the client knows
    whole: bool = True  # False: cut in the middle of the answer


def carry(core: Core, faults: Faults, request: Request) -> Carried:
    rule = faults.choose(request) if faults.rules else None
    if rule is None:
        return Carried(core.handle(request))
    response = core.handle(request) if rule.commits else None
    if response is not None and rule.fault == "twice":
        _abandon(response)
        response = core.handle(request)
    if rule.cuts or rule.fault in ("answer_after", "cut_answer"):
        _abandon(response)
    if rule.fault in ("hang", "hang_after"):
        return Carried(None, NEVER if rule.seconds is None else rule.seconds)
    if rule.cuts:
        return Carried(None, rule.seconds or 0.0)
    answer = rule.answer(response)
    return Carried(answer, rule.seconds or 0.0, whole=rule.fault != "cut_answer")


def _abandon(response: Response | None) -> None:
    if response is not None and response.stream is not None:
        response.stream.abandon()


__all__ = ["NEVER", "Carried", "Core", "Rule", "carry"]
