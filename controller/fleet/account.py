"""Whether the account that answers is the one where our machines are.

Credentials may be replaced by those of another project: every answer is then complete and well formed, and
knows nothing of ours. So the ledger remembers the account in which our machines were seen last. While another
one answers and shows none of them, its lists prove nothing, nothing is changed there, and nothing is ordered.
That ends when one of them is seen, or when none of their Nodes was Ready for a long time: then they are gone,
and the account was changed on purpose.

In our own account, too, answers may be wrong. A machine whose Node is Ready runs; where none of those is known
any more, nothing is ordered before that contradiction is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from controller.domain.cloudthings import Inventory
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Plan, Retire
from controller.domain.reason import Reason
from controller.fleet.ledger import Ledger
from controller.fleet.life import Seen

log = logging.getLogger("gpu_autoscaler.fleet")

BELIEVED_AFTER = 1800.0  # longer than a cluster is without its nodes in most troubles of its own
STALE = 180.0  # a list is of now, as far as slow answers and a short outage allow


class Account:
    def __init__(self, ledger: Ledger, trust: Callable[[str], None]) -> None:
        """`trust` hears from which account on answers count."""
        self._ledger = ledger
        self._trust = trust
        self._alone_since = 0.0  # since when no Node of theirs is Ready while a strange account answers
        self.strange = False  # the account that answered last is none that our machines are known to be in
        self.doubt = ""  # why nothing is ordered

    def known(self) -> None:
        """What the ledger tells was read."""
        self._alone_since = 0.0
        self._trust(self._ledger.account)

    def judge(self, inventory: Inventory, judged: Sequence[tuple[Machine, Seen]], now: float) -> None:
        """By the last list, the account that it came from, and what is seen of the machines in the ledger.

        What merely carries our marks does not count: another project may have machines of the same cluster id.
        """
        at_stake = [(machine, seen) for machine, seen in judged if _at_stake(machine)]
        ours = inventory.account == self._ledger.account
        listed = {instance.id for instance in inventory.instances}
        # Credentials may change between a list and the questions about what it lacks.
        known = not at_stake or any(
            seen.instance is not None and (ours or seen.instance.id in listed) for _, seen in at_stake
        )
        self.strange = not ours and not known and self._still_there(at_stake, inventory.at, now)
        if self.strange:
            names = sorted(machine.name for machine, _ in at_stake)
            self._tell(
                f"the account that answers now knows none of our machines ({_few(names)}): nothing is ordered or "
                f"removed before it does, or none of their Nodes was Ready for {BELIEVED_AFTER / 60:.0f} minutes; are "
                "the credentials those of another project?"
            )
            return
        self._alone_since = 0.0
        before = self._ledger.account
        self._ledger.found_in(inventory.account, with_all=known and bool(at_stake))
        if before and not (ours or known):
            log.warning(
                "machines of the last account are given up, and with them whatever they have there",
                extra={
                    "account": before,
                    "machines": ", ".join(sorted(machine.name for machine, _ in at_stake)),
                    "disks": ", ".join(sorted(disk for machine, _ in at_stake for disk in machine.disks)),
                },
            )
        self._trust(inventory.account)
        ready = sorted(m.name for m, seen in at_stake if _is_ready(seen) and not _told_to_end(m))
        self._tell(
            f"the cloud knows none of the machines whose Nodes are Ready ({_few(ready)}): nothing is ordered "
            "before it does, or these Nodes are not Ready any more"
            if ready and not known
            else ""
        )

    def without_removals(self, plan: Plan, own: Collection[str] = ()) -> Plan:
        """While a strange account answers nothing is retired, and so nobody is told that it is; `own` are in none."""
        kept = [a for a in plan.actions if isinstance(a, Retire) and a.machine not in own]
        retired = [action.machine for action in kept]
        if not (self.strange and retired):
            return plan
        why = Explanation(Reason.VANISHED, self.doubt)
        return replace(
            plan,
            actions=tuple(action for action in plan.actions if action not in kept),
            machines={**plan.machines, **dict.fromkeys(retired, why)},
        )

    def _still_there(self, at_stake: Sequence[tuple[Machine, Seen]], listed_at: float, now: float) -> bool:
        """As far as their Nodes tell; one that cannot be believed may be it. A clock that jumped back begins anew.

        So does a list that is old, or older than such a jump: by now the credentials may be right, and the cloud away.
        """
        ready = any(_is_ready(seen) or seen.doubt for _, seen in at_stake)
        if not (ready or self._ledger.account or any(_certain(machine) for machine, _ in at_stake)):
            return False  # no other account was ever known
        if ready or not 0 <= now - listed_at <= STALE or not 0 < self._alone_since <= now:
            self._alone_since = now
        return now - self._alone_since < BELIEVED_AFTER

    def _tell(self, doubt: str) -> None:
        if doubt != self.doubt:
            log.warning(doubt) if doubt else log.info("the cloud's answers are about our machines again")
        self.doubt = doubt


def _at_stake(machine: Machine) -> bool:
    """It may be there, or come: the end that was asked for, or that the cloud told of, is not proven.

    So may one that lists merely did not show, whatever was answered since.
    """
    if machine.phase is Phase.TOMBSTONE:
        return False
    return not (_told_to_end(machine) and machine.gone_at)


def _told_to_end(machine: Machine) -> bool:
    """By us, or the cloud itself told that it ends."""
    vanished = machine.phase is Phase.DELETING and machine.reason is Reason.VANISHED
    return machine.delete_at > 0 or (vanished and not machine.absent_lists)


def _certain(machine: Machine) -> bool:
    """It was there, and nobody asked for its end."""
    return machine.phase is not Phase.INTENDED and not machine.delete_at


def _is_ready(seen: Seen) -> bool:
    return seen.node is not None and seen.node.ready


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
