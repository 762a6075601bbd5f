"""What the Node of a switched machine looked like when it was of use: what is planned with while the machine is off.

Taints that others put on a Node for a while are left out, or they would keep pods off a machine that is off.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.domain.kube import Node
from controller.domain.passing import lasting
from controller.domain.resources import Resources
from controller.domain.switching import Face


def face_of(node: Node, promised: Resources) -> Face:
    return Face(
        labels=dict(node.labels),
        taints=lasting(node.taints),
        allocatable=dict(node.allocatable),
        promised=dict(promised),
        provider_id=node.provider_id,
    )


def without_gpus(node: Node, promised: Resources) -> Face:
    """It was never seen to be of use, and a Node that is off may have lost sight of its GPUs."""
    face = face_of(node, promised)
    return replace(face, allocatable={n: u for n, u in face.allocatable.items() if n not in promised})
