"""Giving memory back after large lists.

The pages of a large list leave holes in the heap that glibc keeps for ever, and every later collection
would walk through the thirty thousand objects that stay.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys

frugal = True  # False where many controllers live and die in one process, whose memory is no controller's


def settle() -> None:
    """Once, when all is in memory: freeze what is alive, so that the collector skips it from now on."""
    if not frugal:
        return
    gc.collect()
    gc.freeze()
    trim()


def trim() -> None:
    """Return free pages to the system."""
    if frugal and sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # musl has no malloc_trim, and needs none
            ctypes.CDLL(None).malloc_trim(0)
