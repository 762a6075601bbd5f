"""Whether the account that answers is the one where our machines are.

Credentials may be replaced by those of another project: every answer is then complete and well formed, and
knows nothing of ours. So the ledger remembers the account in which our machines were seen last. While another
one answers and shows none of them, its lists prove nothing, nothing is changed there, and nothing is ordered.
That ends when one of them is seen, or when none of their Nodes was Ready for a long time, or somebody deleted
those Nodes: then they are gone, and the account was changed on purpose.

In our own account, too, answers may be wrong. A machine whose Node is Ready runs; where none of those is known
any more, nothing is ordered before that contradiction is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from controller.fleet.ledger import Ledger
from controller.fleet.life import Seen

log = logging.getLogger("gpu_autoscaler.fleet")

BELIEVED_AFTER = 1800.0  # longer than a cluster is without its nodes in most troubles of its own
DELETED_AFTER = 120.0  # a Node that was deleted by mistake is registered again before


class Account:
    def __init__(self, ledger: Ledger, trust: Callable[[str], None]) -> None:
        """`trust` hears from which account on answers count."""
        self._ledger = ledger
        self._trust = trust
        self._alone_since = 0.0  # since when no Node of theirs is Ready while a strange account answers
        self.doubt = ""  # why nothing is ordered

    def known(self) -> None:
        """What the ledger tells was read."""
        self._alone_since = 0.0
        self._trust(self._ledger.account)

    def judge(self, account: str, judged: Sequence[tuple[Machine, Seen]], now: float) -> bool:
        """By the last list, and from which account it came. Returns whether that list proves anything."""
        at_stake = [(machine, seen) for machine, seen in judged if _at_stake(machine)]
        known = not at_stake or any(seen.instance is not None for _, seen in at_stake)
        ready = sorted(m.name for m, seen in at_stake if seen.node is not None and seen.node.ready)
        ours = account == self._ledger.account
        if not ours and not known and self._still_there(at_stake, bool(ready), now):
            names = sorted(machine.name for machine, _ in at_stake)
            self._tell(
                f"the account that answers now knows none of our machines ({_few(names)}): nothing is ordered or "
                f"removed before it does, or none of their Nodes was Ready for {BELIEVED_AFTER / 60:.0f} minutes, or "
                "these Nodes are deleted; are the credentials those of another project?"
            )
            return False
        if not ours:
            self._alone_since = 0.0
            self._ledger.found_in(account)
            self._trust(account)
        self._tell(
            f"the cloud knows none of the machines whose Nodes are Ready ({_few(ready)}): nothing is ordered "
            "before it does, or these Nodes are not Ready any more"
            if ready and not known
            else ""
        )
        return True

    def _still_there(self, at_stake: Sequence[tuple[Machine, Seen]], ready: bool, now: float) -> bool:
        """As far as their Nodes tell. A clock that jumped back begins anew."""
        if ready or not 0 < self._alone_since <= now:
            self._alone_since = now
        deleted = all(machine.node_uid and seen.node is None for machine, seen in at_stake)
        return now - self._alone_since < (DELETED_AFTER if deleted else BELIEVED_AFTER)

    def _tell(self, doubt: str) -> None:
        if doubt != self.doubt:
            log.warning(doubt) if doubt else log.info("the cloud's answers are about our machines again")
        self.doubt = doubt


def _at_stake(machine: Machine) -> bool:
    """It may be there, or come: nobody asked for its end, nor did the cloud itself tell it.

    Of those believed to have vanished the ones that lists merely did not show.
    """
    if machine.phase is Phase.TOMBSTONE:
        return False
    if machine.phase is Phase.DELETING:
        return not machine.delete_at and (machine.reason is not Reason.VANISHED or machine.absent_lists > 0)
    return True


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
