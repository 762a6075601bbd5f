"""Of which gangs too few pods would get a place, and why a pod would get none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from controller.domain.kube import Pod
from controller.domain.plan import Explanation
from controller.domain.reason import Reason
from controller.planning.companions import Companions
from controller.planning.drafts import Draft
from controller.planning.explain import Question, why_not
from controller.planning.fit import Ask
from controller.planning.gangs import Gang

_IN_DOUBT = "its machines did not become usable lately, and one at a time is tried"


def incomplete(made: Draft, failed: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Gangs of which fewer pods got a place than are of use, the most urgent first, with the first thing that is missing."""
    of_pod = made.found.gangs
    in_turn = (of_pod[pod.key] for pod in made.found.pods if pod.key in of_pod)
    gangs = {gang.key: gang for gang in in_turn if gang.key not in failed}
    if not gangs:
        return {}
    placed = made.served
    count = Counter(gang.key for key, gang in made.found.gangs.items() if key in placed)
    waiting = Counter(gang.key for gang in made.found.gangs.values())
    why: dict[str, Explanation] = {}
    for ask in made.left:
        if ask.gang is not None and ask.pod.key in made.packing.unplaced and ask.gang.key not in why:
            why[ask.gang.key] = why_unplaced(made, ask)
    for key, gang in made.found.gangs.items():
        if gang.key not in why and key not in placed and key in made.told:
            why[gang.key] = made.told[key]
    found = {}
    declared = made.snapshot.policy.wanted_resources
    companions = Companions(gangs.values(), made.sites, made.packing, declared)
    for gang in gangs.values():
        if count[gang.key] >= min(gang.needed, waiting[gang.key]):
            lacking = companions.lacking(gang)
            if count[gang.key] < gang.needed + len(lacking) - gang.spare:
                found[gang.key] = _nothing_beside(gang, lacking)
            continue
        first = why.get(gang.key)
        if first is not None:
            made.short.add(first.code)
        places = made.packing.together.get(gang.key, count[gang.key])
        found[gang.key] = Explanation(
            Reason.GANG_INCOMPLETE,
            f"{gang.name} needs {gang.needed} of its waiting pods at once and only {places} would get a place"
            + (", all in one location" if gang.one_location else "")
            + (f"; the next: {_for_a_gang(made, first)}" if first is not None else ""),
        )
    made.placing.needed = companions.needed | made.placing.needed
    return found


def _nothing_beside(gang: Gang, lacking: Sequence[Pod]) -> Explanation:
    several = f", as {len(lacking) - 1} more do" if len(lacking) > 1 else ""
    return Explanation(
        Reason.GANG_INCOMPLETE,
        f"{gang.name} cannot start without pod {lacking[0].key}, which asks for no GPU{several}: no node that is there or "
        "on its way has room for it, nor has a machine that the others would get",
    )


def _for_a_gang(made: Draft, why: Explanation) -> str:
    if why.code is not Reason.LIMIT_RATE:
        return why.message
    return (
        f"limits.launches_per_minute is {made.snapshot.policy.limits.launches_per_minute}, and all that it needs is ordered "
        "at once: it waits until so many launches are free again, and for ever if it needs more: raise it then"
    )


def of_no_influence(broken: Mapping[str, Explanation], held: Collection[str]) -> dict[str, Explanation]:
    """The first gang that fails and held places, without which others may come together. Where none held any, all of
    them: what failed without a place stood in nobody's way."""
    first = next((key for key in broken if key in held), None)
    return {first: broken[first]} if first is not None else dict(broken)


def why_unplaced(made: Draft, ask: Ask) -> Explanation:
    shop, packing, options = made.packer.shop, made.packing, made.options
    stages, apart = shop.stages, {}
    before = made.narrowed.profiles.get(ask.profile)
    if before is not None and ask.pod.key in made.narrowed.without:
        ask = Ask(ask.pod, ask.kind, before, ask.needs, ask.size, ask.scarce, ask.gang)
    elif before is not None:
        # The others are not for it now.
        out = made.board.profiles[before].offers & ~made.board.profiles[ask.profile].offers
        apart = {c.pool.name: _IN_DOUBT for c in options if out >> shop.number[id(c)] & 1}
        options, stages = [c for c in options if not out >> shop.number[id(c)] & 1], {}
    claims = made.board.profiles[ask.profile].held.contested
    users = packing.users_of(claims, made.board) if claims else ()
    question = Question(made.snapshot, ask, shop.template, made.board, packing.tally, users, stages, apart)
    return why_not(question, options, packing.unplaced[ask.pod.key])
