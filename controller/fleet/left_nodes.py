"""Nodes that machines of ours left behind and no record speaks of: the ledger was lost while they were being removed.

Nobody else takes such a Node away, and what was bound there is not planned again as long as it stands. It is ours by its
name, its provider ID and the label of its pool, which agree; it is left behind once it has been silent for half an hour
and several complete lists over a minute show no machine of that name. It becomes the record of a vanished
machine then, and goes the way of all of these: disks, Node, script. While any other one of these Nodes is Ready without
its machine, the lists are doubted and none is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.domain import names
from controller.domain.cloudthings import Inventory
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.fleet.account import BELIEVED_AFTER


class LeftNodes:
    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._absent: dict[
            str, tuple[int, float]
        ] = {}  # by UID: lists without its machine, and the first's time

    def vanished(
        self,
        nodes: Iterable[Node],
        machines: Mapping[str, Machine],
        inventory: Inventory,
        limits: Deadlines,
        now: float,
    ) -> list[Machine]:
        """What to enter into the ledger. Asked once for each complete list."""
        shown = {one.hostname for one in inventory.instances} | {one.id for one in inventory.instances}
        left = {
            node.uid: (node, *whose)
            for node in nodes
            if (whose := self._ours(node)) is not None and whose[1] not in machines and node.name not in shown
        }
        if any(node.ready for node, _, _ in left.values()):
            left = {}
        silent = {uid: one for uid, one in left.items() if _is_silent(one[0], limits, now)}
        before, self._absent = self._absent, {}
        found = []
        for uid, (node, pool, intent) in silent.items():
            count, since = before.get(uid, (0, inventory.at))
            self._absent[uid] = (count + 1, min(since, inventory.at))
            if count + 1 >= limits.unknown_lists and inventory.at - since >= limits.unknown_over:
                found.append(_record(node, pool, intent, inventory.account, now))
        return found

    def _ours(self, node: Node) -> tuple[str, str] | None:
        """Pool and intent, of one whose name, provider ID and label agree: another cluster's id may begin like ours."""
        found = names.parse_hostname(self._cluster_id, node.name)
        if found is None or names.resolve(node.provider_id) != node.name:
            return None
        return found if node.labels.get(names.LABEL_POOL) == found[0] else None


def _is_silent(node: Node, limits: Deadlines, now: float) -> bool:
    """As long as it takes to believe another account: nobody here remembers whose machine it was."""
    return node.ready_since is not None and now > node.ready_since + max(limits.ready, BELIEVED_AFTER)


def _record(node: Node, pool: str, intent: str, account: str, now: float) -> Machine:
    labels = node.labels
    return Machine(
        intent=intent,
        name=node.name,
        pool=pool,
        instance_type=labels.get(names.LABEL_INSTANCE_TYPE, ""),
        location=labels.get(names.LABEL_LOCATION, ""),
        market=labels.get(names.LABEL_MARKET, ""),
        phase=Phase.DELETING,
        reason=Reason.VANISHED,
        note="its Node was left behind, and no list shows its machine",
        intended_at=node.created or now,
        node_uid=node.uid,
        gone_at=now,
        gone_in=account,
    )
