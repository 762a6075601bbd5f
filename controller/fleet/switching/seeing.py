"""What the world shows of one switched machine, as far as its life is judged by it. Pure."""

from __future__ import annotations

import msgspec

from controller.domain.kube import Node
from controller.domain.resources import Resources

TELLS = 120.0  # an answer of a status endpoint is believed that long
# On a Node that is not Ready and whose kubelet says so itself: somebody may be starting it.
SPEAKS = ("node.kubernetes.io/not-ready", "NoSchedule")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the world shows of one machine."""

    node: Node | None = None
    busy: bool = False  # some pod there uses its accelerators
    told: str = ""  # by its status endpoint, lately: on | off; "": nothing that is known
    told_at: float = 0.0  # when it said so
    paused: bool = False  # nobody may switch it off
    promised: Resources = {}  # the accelerators that its Node must offer

    @property
    def up(self) -> bool:
        return self.node is not None and self.node.ready and not self.node.deleting
