"""Which pods of a machine that is drained are asked to leave now: those that serve the others go last.

A pod of system-node-critical or system-cluster-critical may be the storage, the network or the name service that another
one needs to end in order. The API server gives priorities from two thousand million on to these two classes only.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.domain.kube import Pod

CRITICAL = 2_000_000_000


def asked_now(leaving: Sequence[Pod], now: float, slack: float) -> list[Pod]:
    """`leaving`: all that are waited for. A critical one is asked when no other is left that may still end in order.

    Past its own grace, and `slack`, a pod has been killed and holds back no critical one, whatever keeps its object; one
    that may not be evicted does until the drain itself is given up, and is a reason for that.
    """
    others = [pod for pod in leaving if pod.shape.priority < CRITICAL]
    if any(pod.deleting_at is None or now <= pod.deleting_at + slack for pod in others):
        return others
    return list(leaving)
