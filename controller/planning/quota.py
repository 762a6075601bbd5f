"""Pods that wait for quota of a queueing system, not for machines: they must not buy.

KAI, scheduler-plugins' CapacityScheduling and (for plain pods) Volcano call such a pod Unschedulable, the
same as one that lacks a machine. Only the words tell, and they drift between versions, so the patterns
are a setting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from controller.domain.kube import Pod
from controller.domain.plan import Explanation
from controller.domain.reason import Reason

_LONGEST = 500  # of what is quoted


class Quota:
    """The patterns, each message looked at once: thousands of pods wait with the same words."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._known: dict[str, Explanation | None] = {}

    def blocks(self, pod: Pod) -> Explanation | None:
        if not pod.message:
            return None
        if pod.message not in self._known:
            hit = any(pattern.search(pod.message) for pattern in self._patterns)
            self._known[pod.message] = blocked(pod.message) if hit else None
        return self._known[pod.message]


def blocked(words: str) -> Explanation:
    return Explanation(
        Reason.QUOTA_BLOCKED,
        f"it waits for quota of its queue, not for a machine: {words.strip()[:_LONGEST]}",
    )
