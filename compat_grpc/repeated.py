"""What an earlier life of cluster-autoscaler asked for and is still on its way.

Releases from 1.36 on know nothing of it after a restart, count it for nothing, and ask for the same again. Refused by
the group where it boots they try the next one that the pods fit. So all groups are held until those machines are
ready, but for what the pods that wait need beside them: the planner counts these machines, and says how many more.
"""

from __future__ import annotations

from collections.abc import Callable

from compat_grpc.groups import Group
from compat_grpc.roster import Roster


def repeated(roster: Roster, group: Group, count: int, began: float, lacking: Callable[[], int]) -> str:
    """Why so many more are taken for what is on its way already, or ""; `began`: when the caller's present life did."""
    before = [
        entry
        for group_id in roster.groups
        for entry in roster.entries(group_id)
        if 0 < entry.asked_at < began
    ]
    if not before:
        return ""
    here = [entry for entry in before if entry.group == group.id]
    if not here and lacking() >= count:
        return ""
    named = sorted(entry.name for entry in here or before)
    groups = group.id if here else ", ".join(sorted({entry.group for entry in before}))
    return (
        f"{', '.join(named[:3])}{' and others' if len(named) > 3 else ''} of group {groups} still boot, and were asked "
        f"for before cluster-autoscaler restarted: {group.id} grows again when they are ready"
        f"{'' if here else ', or when pods wait that they have no room for'} (externalgrpc.refuse_after_restart)"
    )
