"""Whether the account that answers is ours at all. Pure.

Credentials may be replaced by those of another project: every answer is then complete and well formed, and
knows nothing of ours. A machine whose Node is Ready runs, though, so where none of those is known any more the
answers are not about our machines, and an order would go to the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from controller.fleet.life import Seen


def out_of_sight(judged: Iterable[tuple[Machine, Seen]]) -> str:
    """What to tell while no working machine of ours is known to the cloud; "": some are, or there is none.

    One that the cloud itself calls gone says nothing here: a Node looks Ready for a while after an eviction.
    """
    at_work = [(m, seen) for m, seen in judged if seen.node is not None and seen.node.ready and _runs(m)]
    if not at_work or any(seen.instance is not None for _, seen in at_work):
        return ""
    names = sorted(m.name for m, _ in at_work)
    few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"the cloud knows none of the machines whose Nodes are Ready ({few}): nothing is ordered before it does, or "
        "these Nodes are gone; are the credentials those of another project?"
    )


def _runs(machine: Machine) -> bool:
    """As far as we know; of those believed to have vanished the ones that lists merely did not show."""
    if machine.phase is Phase.DELETING:
        return machine.reason is Reason.VANISHED and machine.absent_lists > 0 and not machine.delete_at
    return machine.phase is not Phase.TOMBSTONE
