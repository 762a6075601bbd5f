"""The three ways in which a changing call to the outside can end. "Unknown" is a type, not an accident."""

from __future__ import annotations

import msgspec

from controller.domain.reason import Reason


class Happened(msgspec.Struct, frozen=True):
    id: str = ""


class Refused(msgspec.Struct, frozen=True):
    """It did not happen, for a reason with a stable code."""

    reason: Reason
    message: str
    retry_after: float | None = None


class Unknown(msgspec.Struct, frozen=True):
    """It may have happened. Nothing is repeated before the world was asked what it sees."""

    message: str
    answered: bool = False  # by the very thing that was called, with an error


Outcome = Happened | Refused | Unknown
