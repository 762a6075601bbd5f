"""Whether the scheduler could bind what was planned: the replay's word, and where there is time the verifier's.

The replay finds an order in which all pods can be bound. The verifier of the planner's own tests judges each
binding of that order by plain loops over everything, which takes too long for more than a thousand pods.
"""

from __future__ import annotations

from controller.domain.plan import Plan, Snapshot
from tests.bench.replay import Replay
from tests.planning.verifier import Host, objections

MOST = 1000


def faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What the plan does that the scheduler would not allow."""
    replay = Replay(snapshot, plan)
    if len(replay.order) > MOST:
        return replay.faults
    hosts = {p.name: Host(p.name, p.labels, p.taints, p.free) for p in replay.empty.values()}
    for pod in snapshot.pods:
        if pod.node in hosts and not pod.finished:
            hosts[pod.node].pods.append(pod)
    return replay.faults + objections(list(hosts.values()), replay.order, snapshot.namespaces)
