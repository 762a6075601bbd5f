"""A packing made cheaper where no rule stands in the way, for not too many pods.

Cheaper is what the strategy asks for: less money, or with `smallest` fewer GPUs, and of as many less money.

Only machines that are bought take part, and whose pods are neither bound by rules about other pods nor counted
by any that bind, have no ports, no volumes and no location to share: where each of them goes is then nobody else's
business. All pods that had a place keep one, existing nodes are not touched, and if a limit objects to the result, the
packing stays as it was. What a limit forbade before may be allowed then, and is tried again.

Pods that are spread do not mind either: their places were taken as if a host, or any location that is sold, could
be added at any time. Only where that could not be kept up the machines stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from controller.domain.resources import subtract, total
from controller.planning.board import Board, Profile
from controller.planning.cheapening import cheapened
from controller.planning.choice import Candidate
from controller.planning.emerging import harmless
from controller.planning.fit import Ask, enough
from controller.planning.goals import Goal
from controller.planning.limits import Tally
from controller.planning.own import is_own
from controller.planning.packing import Packer, Packing
from controller.planning.puzzle import Kind
from controller.planning.shop import Shop
from controller.planning.workshop import bits

MOST = 250  # pods; the more there are, the less is found in the same time
KINDS = 60  # of machines, of which none is beaten by another


def bargain(
    packing: Packing, packer: Packer, tally: Tally, board: Board, left: Sequence[Ask]
) -> Packing | None:
    """The same pods of `left` for less, and then maybe more of them; or None.

    The tally is that of what is there without this packing.
    """
    unbound = _unbound(board)
    forbidden = [ask for ask in left if packing.unplaced.get(ask.pod.key) is not None]
    if any(ask.gang is not None or not _free(ask, unbound) for ask in forbidden):
        return None
    made: Packing | None = None
    for goal in packer.goals:
        made = _cheaper(made or packing, packer, goal, tally, board, unbound) or made
    if made is None or not forbidden:
        return made
    forbidden = _joined(made, forbidden, packer.shop, board, unbound)
    more = packer.best(forbidden, made.tally, board)
    made.order += [(ask, len(made.rooms) + number) for ask, number in more.order]
    made.rooms += more.rooms
    made.chosen += more.chosen
    made.inside += more.inside
    made.tally = more.tally
    made.unplaced |= more.unplaced
    return made


def _joined(
    made: Packing, pods: Sequence[Ask], shop: Shop, board: Board, unbound: frozenset[int]
) -> list[Ask]:
    """Pods to machines that have room for them now; the others are returned, and out of `unplaced` for now."""
    profiles, number = board.profiles, shop.number
    free = []
    for candidate, inside in zip(made.chosen, made.inside, strict=True):
        loose = all(_free(ask, unbound) for ask in inside)
        free.append(subtract(shop.template(candidate).free, total(a.needs for a in inside)) if loose else {})
    others = []
    made.unplaced = dict(made.unplaced)
    for ask in pods:
        del made.unplaced[ask.pod.key]
        for at, candidate in enumerate(made.chosen):
            if (
                enough(ask.needs, free[at])
                and profiles[ask.profile].offers >> number[id(candidate)] & 1
                and made.tally.objection_to_join(candidate, made.inside[at], ask) is None
            ):
                made.tally.join(candidate, made.inside[at], ask)
                free[at] = subtract(free[at], ask.needs)
                made.inside[at].append(ask)
                made.rooms[at].pods.append(ask.pod)
                made.order.append((ask, at))
                break
        else:
            others.append(ask)
    return others


def _cheaper(
    packing: Packing, packer: Packer, goal: Goal, tally: Tally, board: Board, unbound: frozenset[int]
) -> Packing | None:
    profiles, shop = board.profiles, packer.shop
    if packing.bound:
        return None
    groups = [
        inside
        for inside, candidate in zip(packing.inside, packing.chosen, strict=True)
        if goal.offers >> shop.number[id(candidate)] & 1
        and not is_own(candidate.offer)
        and all(_free(ask, unbound) for ask in inside)
    ]
    pods = [ask for inside in groups for ask in inside]
    if not 1 < len(pods) <= MOST:
        return None
    sold = (
        shop.buyable
        & goal.offers
        & ~shop.own
        & harmless(board, [shop.number[id(candidate)] for candidate in packing.chosen])
    )
    kinds = _kinds(goal, sold, [profiles[number].offers for number in sorted({ask.profile for ask in pods})])
    if len(kinds) > KINDS:
        return None
    found = _found(packer, goal, pods, groups, kinds, profiles)
    if found is None:
        return None
    made = _repacked(
        packing, [[pods[pod] for pod in group] for group in found], packer, sold, tally, profiles
    )
    return made if made is not None and goal.saves(made, packing) else None


def _found(
    packer: Packer,
    goal: Goal,
    pods: Sequence[Ask],
    groups: Sequence[Sequence[Ask]],
    kinds: Sequence[tuple[int, int]],
    profiles: dict[int, Profile],
) -> list[list[int]] | None:
    """The pods of each machine, as numbers; what was found for the plan before where it is asked for the same.

    That is so wherever a plan is not carried out (a dry run, a ledger that cannot be written), pass after pass, and to
    look for half a second each time would hold up all else.
    """
    shop = packer.shop
    place = {id(ask): number for number, ask in enumerate(pods)}
    numbers = [[place[id(ask)] for ask in inside] for inside in groups]
    needs = [ask.needs for ask in pods]
    offers = [profiles[ask.profile].offers for ask in pods]
    asked = (goal.work, packer.overshoot, needs, offers, numbers, kinds)
    for known, answer in shop.bargains:
        if known == asked:
            return answer
    found = cheapened(
        needs,
        [Kind(price, shop.free[offer]) for offer, price in kinds],
        numbers,
        [sum((of >> offer & 1) << number for number, (offer, _) in enumerate(kinds)) for of in offers],
        work=goal.work,
        fine=_not_too_large(pods, kinds, packer, profiles) if shop.possible & ~shop.buyable else None,
    )
    shop.bargains.append((asked, found))
    return found


def _unbound(board: Board) -> frozenset[int]:
    """Profiles of pods that may go anywhere, as far as other pods are concerned.

    Who would merely rather be on another host than others is among them: nothing dearer is bought for that.
    """
    profiles = board.profiles.values()
    heeded = {
        census
        for profile in profiles
        for census in (*profile.anti, *profile.affinity, *(spreading.census for spreading in profile.spreads))
    }
    return frozenset(
        number
        for number, profile in board.profiles.items()
        if not (profile.ruled or profile.special or profile.shape.host_ports)
        and all(census.by_host and census not in heeded for census in profile.feeds)
        and all(spreading.census.by_host for spreading in profile.soft_spreads)
    )


def _free(ask: Ask, unbound: frozenset[int]) -> bool:
    return ask.profile in unbound and (ask.gang is None or not (ask.gang.one_location or ask.gang.location))


def _not_too_large(
    pods: Sequence[Ask], kinds: Sequence[tuple[int, int]], packer: Packer, profiles: dict[int, Profile]
) -> Callable[[Sequence[int], int], bool]:
    """Where something is sold out: whether these pods may have a machine of that kind for it."""
    shop = packer.shop

    def fine(inside: Sequence[int], kind: int) -> bool:
        offers = shop.possible
        for pod in inside:
            offers &= profiles[pods[pod].profile].offers
        needs = total(pods[pod].needs for pod in inside)
        return bool(shop.not_too_large(offers, needs, packer.overshoot) >> kinds[kind][0] & 1)

    return fine


def _kinds(goal: Goal, sold: int, admitted: Sequence[int]) -> list[tuple[int, int]]:
    """Offers that nothing beats which comes before them, with the price that they come at.

    Spot offers come after those that a pool prefers, and count as no cheaper.
    """
    shop = goal.shop
    found: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    price = 0
    left = sold
    while left and len(found) <= KINDS:
        bit = left & -left
        left ^= bit
        offer = bit.bit_length() - 1
        price = max(price, goal.cost(offer))
        free = shop.free[offer]
        admits = sum((of >> offer & 1) << number for number, of in enumerate(admitted))
        if not admits or (id(free), admits) in seen:
            continue
        seen.add((id(free), admits))
        if not any(
            all(of >> other & 1 or not of & bit for of in admitted) and enough(free, shop.free[other])
            for other, _ in found
        ):
            found.append((offer, price))
    return found


def _repacked(
    packing: Packing,
    groups: list[list[Ask]],
    packer: Packer,
    sold: int,
    tally: Tally,
    profiles: dict[int, Profile],
) -> Packing | None:
    """Machines are listed by their first pod, and pods as they were."""
    shop = packer.shop
    group_of = {id(ask): number for number, group in enumerate(groups) for ask in group}
    made = Packing(tally.copy(), unplaced=packing.unplaced, together=packing.together)
    at: dict[tuple[bool, int], int] = {}
    for ask, was in packing.order:
        new = id(ask) in group_of
        key = (new, group_of[id(ask)] if new else was)
        if key not in at:
            at[key] = len(made.inside)
            made.inside.append([])
        made.inside[at[key]].append(ask)
        made.order.append((ask, at[key]))
    there: Counter[tuple[str, str]] | None = None
    if packer.elsewhere is not None:
        kept = (packing.chosen[number] for new, number in at if not new)
        there = packer.elsewhere + Counter(map(_where, kept))
    for (new, number), place in at.items():
        inside = made.inside[place]
        if new:
            candidate = shop.offers[_offer(inside, shop, sold, profiles, there)]
            room = shop.template(candidate).copy()
            room.pods.extend(ask.pod for ask in inside)
        else:
            candidate, room = packing.chosen[number], packing.rooms[number]
        if made.tally.objection(candidate, inside) is not None:
            return None
        made.tally.add(candidate, inside)
        made.chosen.append(candidate)
        made.rooms.append(room)
    return made


def _where(candidate: Candidate) -> tuple[str, str]:
    return (candidate.pool.name, candidate.offer.location)


def _offer(
    inside: Sequence[Ask],
    shop: Shop,
    sold: int,
    profiles: dict[int, Profile],
    there: Counter[tuple[str, str]] | None,
) -> int:
    """The best for these pods; their preferences decide among what costs the same, and then how many are where."""
    used: dict[str, int] = {}
    options = sold
    for ask in inside:
        options &= profiles[ask.profile].offers
        for name, units in ask.needs.items():
            used[name] = used.get(name, 0) + units
    options &= shop.holding(used)
    for number in dict.fromkeys(ask.profile for ask in inside):
        best = shop.best(options)
        for wish in profiles[number].offer_wishes:
            wanted = options & wish
            if wanted:
                offer = shop.best(wanted)
                if shop.gpus[offer] == shop.gpus[best] and shop.price[offer] <= shop.price[best]:
                    options = wanted
                    break
    best = shop.best(options)
    if there is None:
        return best
    counted = there
    best = min(bits(options & shop.alike(best)), key=lambda n: counted[_where(shop.offers[n])])
    there[_where(shop.offers[best])] += 1
    return best
