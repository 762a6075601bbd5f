"""Which Node is which machine. A wrong answer deletes somebody's work, so every doubt is a "no".

A kubelet that finds a Node of its own name keeps that object's provider ID and taints; k3s fills in a
provider ID of its own when ours was not given. So several shapes are read, a Node older than the order
is never ours, and two Nodes that claim one machine are reported, not chosen from.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine

# Clocks of the cloud, the cluster and this program differ a little.
CLOCK_SLACK = 60.0


def claims(node: Node, machine: Machine) -> bool:
    """Whether this Node says that it is this machine."""
    target = names.resolve(node.provider_id)
    if target and target not in (machine.name, machine.instance_id.lower()):
        return False
    if target:
        return True
    return node.name == machine.name and not node.provider_id


def node_for(machine: Machine, nodes: Sequence[Node]) -> tuple[Node | None, str]:
    """The Node of this machine, or None and (if there is something to report) why not."""
    named = next((node for node in nodes if node.name == machine.name), None)
    claimants = [node for node in nodes if claims(node, machine)]
    if len(claimants) > 1:
        listed = ", ".join(sorted(node.name for node in claimants))
        return None, f"nodes {listed} all claim machine {machine.name}; none is believed until one remains"
    if named is not None and not claimants:
        return None, f"node {named.name} carries provider ID {named.provider_id}, which is not this machine"
    if not claimants:
        return None, ""
    node = claimants[0]
    if node.name != machine.name:
        return None, f"node {node.name} claims machine {machine.name} under another name; it is not adopted"
    if names.resolve(node.provider_id) or not node.created:
        return node, ""  # our provider ID is believed, however far our clock was ahead
    # By its name alone it could be another one.
    if machine.node_uid and node.uid != machine.node_uid and node.created < machine.joined_at - CLOCK_SLACK:
        return None, f"node {node.name} is older than the one that joined"
    if node.created < machine.intended_at - CLOCK_SLACK:
        return None, f"node {node.name} is older than the order of machine {machine.name}"
    return node, ""
