"""Which machines may go: idle means that nothing on them uses an accelerator; the largest goes first.

Pods that wait were placed before this is asked, so a machine that one of them would fit is kept; also one that will be
demand in a moment. A pod that nobody would create again, that belongs to a Job, or that would find no place on another node,
is never evicted: the machine stays. Work that uses GPUs is moved only by a consolidation, and only if asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from controller.domain import names
from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Action, Explanation, MarkIdle, Retire, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import uses_accelerator
from controller.planning import consolidation, lost
from controller.planning.ageing import expires_at, kept_without_pool, outdated
from controller.planning.budget import drains_idle
from controller.planning.choice import clock
from controller.planning.demand import LOOKED_AT_WITHIN
from controller.planning.disruption import Allowance, closed, counts_until, hours_change
from controller.planning.early import kept_for
from controller.planning.elsewhere import Elsewhere
from controller.planning.protection import blockers, in_use, paused
from controller.planning.rights import VOLUME_KINDS, missing_right
from controller.planning.room import Room
from controller.planning.sites import node_of
from controller.planning.steering import Idle, is_avoided, steered
from controller.planning.waits import reasons_to_wait

LATEST = 4102444800.0  # the year 2100


def parse_time(text: str) -> float | None:
    """Seconds since 1970; None for what is no time, and for times that no clock of ours shows."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= LATEST else None


@dataclass(slots=True)
class _Found:
    """What was decided so far."""

    actions: list[Action] = field(default_factory=list)
    told: dict[str, Explanation] = field(default_factory=dict)
    wake: list[float] = field(default_factory=list)
    ripe: list[tuple[Machine, float, Explanation]] = field(
        default_factory=list
    )  # idle since, and why it goes
    busy: list[tuple[Machine, Node]] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    replaced: Collection[str] = ()  # of those that are kept free, outdated ones, one after the other

    def steer(self, asked: Sequence[MarkIdle]) -> None:
        """In place of the marks that were to be written anyway."""
        if not asked:
            return
        new = {action.machine for action in asked}
        self.actions = [a for a in self.actions if not isinstance(a, MarkIdle) or a.machine not in new]
        self.actions += asked


def decide(
    snapshot: Snapshot,
    needed: Mapping[str, str],
    demand: Sequence[Pod] = (),
    rooms: Callable[[], Sequence[Room]] = tuple,
    kept: Mapping[str, Explanation] | None = None,
    *,
    replaced: Collection[str] = (),
    buying: Collection[str] = (),
    bound: Mapping[str, Sequence[Pod]] | None = None,
    placed: Collection[str] = (),
    early: Sequence[Pod] = (),
) -> tuple[list[Action], dict[str, Explanation], float | None]:
    """Idle marks and removals. `needed` names the machines that waiting pods fit, and one such pod.

    `rooms` are the Ready nodes with what is left on them; `kept` are machines that hold what is to be free, and
    those of them that are `replaced` go one after the other; `buying`: pools that this plan orders from.
    Whoever knows that no pod waits may tell which are `bound` to our machines. Pods that are `placed` are on a node in
    this picture and not bound yet, so what is promised to them stays. Those that are `early` wait for time only.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    expected: Mapping[str, str] = {}
    if bound is None:
        bound, expected = by_node(snapshot.pods), _expected(snapshot, demand, placed)
    shut = closed(snapshot)
    found = _Found(replaced=replaced)
    stays: dict[str, Explanation] = dict(kept or {})
    for machine in snapshot.machines:
        keys = (machine.name, *machine.pods) if expected else ()
        waiting = next((key for key in keys if key in expected), None)
        if machine.name in needed:
            stays[machine.name] = Explanation(Reason.NEEDED, f"pod {needed[machine.name]} fits it")
        elif waiting is not None:
            stays[machine.name] = Explanation(Reason.PROMISED, f"it is kept for pod {expected[waiting]}")
        node = node_of(machine, nodes)
        pods = bound.get(machine.name, [])
        if machine.phase is not Phase.READY:
            if (change := counts_until(snapshot, machine)) is not None and change > snapshot.now:
                found.wake.append(change)
            continue
        if (change := lost.changes_at(snapshot, machine, node)) is not None:
            found.wake.append(change)
        if (said := lost.told(snapshot, machine, node, pods)) is not None:
            found.told[machine.name] = said
        elif node is not None:
            _judge(snapshot, machine, node, pods, stays.get(machine.name), shut, found, placed)
    if found.ripe and early:
        _keep_for_early(snapshot, found, rooms(), early)
    going = [machine.name for machine, _, _ in found.ripe]
    elsewhere = Elsewhere(snapshot, rooms(), bound, going) if going else None
    alive = [m for m in snapshot.machines if m.phase is not Phase.TOMBSTONE and not m.gone_at]
    allowance = Allowance(snapshot, alive, nodes)
    # Of those that are Ready by the record; one that still boots may fail.
    lasting = {
        m.name
        for m in alive
        if m.phase is Phase.READY and not lost.is_for_good(snapshot, m, nodes.get(m.name))
    }
    if elsewhere is not None:
        _take_in_order(snapshot, found, allowance, elsewhere, alive, lasting, buying)
    calm = not (found.ripe or buying or expected or shut) and consolidation.is_calm(snapshot, demand)
    if calm:
        busy = sorted(found.busy, key=lambda b: _first(snapshot, b[0], b[0].ready_at))
        open_to_it = [(m, node) for m, node in busy if not paused(snapshot, node, "scale-down", m.pool)]
        # Work that moved to an idle machine would keep that one, which goes by itself: maybe the dearer one.
        idle = {one.machine.name for one in found.idle}
        action = consolidation.empty_one(snapshot, open_to_it, bound, rooms(), idle | stays.keys())
        if action is not None:
            _empty(found, allowance, action)
    pools = Counter(m.pool for m in alive if m.name in lasting)
    found.steer(steered(snapshot, found.idle, found.told, pools))
    if shut is not None and (change := hours_change(snapshot)) is not None:
        found.wake.append(change)
    return found.actions, found.told, min(found.wake, default=None)


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node:
            found.setdefault(pod.node, []).append(pod)
    return found


def _judge(
    snapshot: Snapshot,
    machine: Machine,
    node: Node,
    pods: Sequence[Pod],
    stays: Explanation | None,
    shut: Explanation | None,
    found: _Found,
    placed: Collection[str],
) -> None:
    """One Ready machine: busy, kept, waiting for something, or ripe."""
    old, told = outdated(snapshot, machine), found.told
    if (busy := in_use(snapshot, pods)) is not None:
        if placed and stays and in_use(snapshot, [pod for pod in pods if pod.key not in placed]) is None:
            busy = stays  # nothing runs on its GPUs yet
        words = f"{busy.message}; {old.message}, so it goes as soon as it is idle" if old else busy.message
        told[machine.name] = Explanation(busy.code, words)
        found.busy.append((machine, node))
        if names.NODE_IDLE_SINCE in node.annotations or is_avoided(node):
            found.actions.append(MarkIdle(machine=machine.name, since=None))
        return
    since = parse_time(node.annotations.get(names.NODE_IDLE_SINCE, ""))
    if since is None or since > snapshot.now:
        since = snapshot.now
        found.actions.append(MarkIdle(machine=machine.name, since=since))
    found.idle.append(Idle(machine, node, since, paused(snapshot, node, "scale-down", machine.pool)))
    # It cannot be idle for longer than it is ready.
    since = min(snapshot.now, max(since, machine.ready_at))
    if stays is not None and stays.code is not Reason.HEADROOM:
        told[machine.name] = stays
        return
    if kept_without_pool(snapshot, machine):
        words = f"idle; pool {machine.pool} is no longer in the settings, and it is kept (scale_down.removed_pools)"
        told[machine.name] = Explanation(Reason.POOL_REMOVED, words)
        return
    if machine.name in found.replaced:
        stays = None  # another one is kept free in its place
    if (blocked := blockers(snapshot, node, pods)) is not None or (blocked := stays) is not None:
        told[machine.name] = blocked
        if (end := expires_at(snapshot, machine)) is not None and end > snapshot.now:
            found.wake.append(end)
        return
    at_once = machine.surplus or old is not None
    waits = reasons_to_wait(snapshot, machine, since, at_once=at_once or drains_idle(snapshot))
    if waits:
        told[machine.name] = waits[0][1]
        found.wake.append(waits[0][0])
        if (end := expires_at(snapshot, machine)) is not None and end > snapshot.now:
            found.wake.append(end)
    elif paused(snapshot, node, "scale-down", machine.pool):
        told[machine.name] = Explanation(Reason.PAUSED, "scale-down is paused")
    elif shut is not None:
        told[machine.name] = shut
    else:
        found.ripe.append((machine, since, _why(snapshot, machine, since, old)))


def _why(snapshot: Snapshot, machine: Machine, since: float, old: Explanation | None) -> Explanation:
    if old is not None:
        return Explanation(old.code, f"idle, and {old.message}")
    idle, cooldown = f"idle since {clock(since)}", snapshot.policy.cooldown
    if _has_cooled_down(snapshot, since):
        return Explanation(Reason.IDLE, f"{idle}, longer than scale_down.cooldown ({cooldown:g} s)")
    if machine.surplus:
        return Explanation(Reason.IDLE, f"{idle}, and no promise needs it (surplus)")
    return Explanation(Reason.IDLE, f"{idle}, and the month's budget is used up (billing.on_exhausted)")


def _has_cooled_down(snapshot: Snapshot, since: float) -> bool:
    return snapshot.now >= since + snapshot.policy.cooldown


def _expected(snapshot: Snapshot, demand: Sequence[Pod], placed: Collection[str]) -> dict[str, str]:
    """Waiting pods that are no demand at the moment, by their own key and by the node they are promised.

    One that is demand and did not fit the machine bought for it does not keep that machine.
    """
    asking = {pod.key for pod in demand}
    declared = snapshot.policy.gpu_resources
    found: dict[str, str] = {}
    for pod in snapshot.pods:
        if (pod.node and pod.key not in placed) or pod.finished or pod.deleting_at is not None:
            continue
        if pod.key in asking:
            continue
        if uses_accelerator(pod.shape.requests, declared):
            found[pod.key] = pod.key
            if pod.nominated:
                found.setdefault(pod.nominated, pod.key)
    return found


def _keep_for_early(snapshot: Snapshot, found: _Found, rooms: Sequence[Room], early: Sequence[Pod]) -> None:
    kept = kept_for(snapshot, rooms, early)
    for machine, _, _ in found.ripe:
        if (pod := kept.get(machine.name)) is not None:
            words = f"pod {pod.key} fits it, and only time keeps it from being demand"
            found.told[machine.name] = Explanation(Reason.NEEDED, words)
            if (until := pod.created + LOOKED_AT_WITHIN) > snapshot.now:
                found.wake.append(until)
    found.ripe = [one for one in found.ripe if one[0].name not in kept]


def _first(snapshot: Snapshot, machine: Machine, since: float) -> tuple[object, ...]:
    size, cost = -machine.gpus, -machine.price
    return (*((cost, size) if snapshot.policy.order == "dearest" else (size, cost)), since, machine.name)


def _take_in_order(
    snapshot: Snapshot,
    found: _Found,
    allowance: Allowance,
    elsewhere: Elsewhere,
    alive: Sequence[Machine],
    lasting: Collection[str],
    buying: Collection[str],
) -> None:
    # A machine that is lost for good does not stand in for one of the minimum; it goes itself where there are more.
    staying = Counter(m.pool for m in alive if m.name in lasting)
    with_lost = Counter(m.pool for m in alive if m.phase is Phase.READY)
    told = found.told
    not_ready = {*buying, *(m.pool for m in alive if m.phase is not Phase.READY)}
    for machine, since, why in sorted(found.ripe, key=lambda r: _first(snapshot, r[0], r[1])):
        counted = staying if machine.name in lasting else with_lost
        if machine.name not in found.replaced and _has_cooled_down(snapshot, since):
            # The budget of another reason keeps none that is idle for long.
            idle = _why(snapshot, machine, since, None)
            spare = _below_minimum(snapshot, machine, idle, counted, not_ready) is None
            if spare and allowance.refuses(why.code, machine.name):
                why = idle
        if (least := _below_minimum(snapshot, machine, why, counted, not_ready)) is not None:
            told[machine.name] = least
        elif machine.name in found.replaced and machine.pool in not_ready:
            words = f"it is kept free until the others of pool {machine.pool} are Ready; then: {why.message}"
            told[machine.name] = Explanation(Reason.HEADROOM, words)
        elif refused := allowance.refuses(why.code, machine.name):
            told[machine.name] = Explanation(Reason.BUDGET, f"idle; waits because {refused}")
        elif (stranded := elsewhere.leave(machine.name)) is not None:
            unreadable = missing_right(snapshot, *VOLUME_KINDS) if stranded.shape.volumes else ""
            told[machine.name] = Explanation(
                Reason.IN_USE,
                f"idle; pod {stranded.key} on it would find no place on another node"
                + (f", as far as is known: {unreadable}" if unreadable else ""),
            )
        else:
            allowance.take(why.code, machine.name)
            not_ready.add(machine.pool)
            staying[machine.pool] -= machine.name in lasting
            with_lost[machine.pool] -= 1
            told[machine.name] = why
            found.actions.append(Retire(machine=machine.name, reason=why.code, message=why.message))


def _below_minimum(
    snapshot: Snapshot,
    machine: Machine,
    why: Explanation,
    staying: Mapping[str, int],
    not_ready: Collection[str],
) -> Explanation | None:
    """An outdated machine of the minimum is replaced, one after the other, and only while that can be done.

    `not_ready`: pools of which some machine is on its way or goes, be it by this plan.
    """
    pool = snapshot.policy.pool(machine.pool)
    if pool is None or staying[pool.name] > pool.min:
        return None
    words = f"pool {pool.name} keeps min: {pool.min}"
    if why.code not in (Reason.EXPIRED, Reason.DRIFTED):
        return Explanation(Reason.MIN_SIZE, words)
    others = pool.name in not_ready or staying[pool.name] < pool.min
    if others or paused(snapshot, None, "scale-up", pool.name):
        return Explanation(Reason.MIN_SIZE, f"{words}, and others of it are not Ready; then: {why.message}")
    return None


def _empty(found: _Found, allowance: Allowance, action: Retire) -> None:
    if refused := allowance.refuses(action.reason, action.machine):
        words = f"half empty; waits because {refused}"
        found.told[action.machine] = Explanation(Reason.BUDGET, words)
        return
    found.told[action.machine] = Explanation(action.reason, action.message)
    found.actions.append(action)
