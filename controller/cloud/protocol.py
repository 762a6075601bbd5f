"""What the rest of the program asks of a cloud. Changing calls end in an `Outcome`; reads may raise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from controller.domain.cloudhealth import CloudHealth
from controller.domain.cloudthings import Catalogue, Instance, Inventory, Script, Volumes
from controller.domain.outcome import Outcome
from controller.domain.reason import Reason

Send = Callable[[str], Awaitable[Outcome]]  # with a key that is the same in each repetition


class CloudError(Exception):
    """A read did not succeed. The message is safe to show: it never carries a secret or a body."""

    def __init__(self, reason: Reason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a create call says. The marks are in it, so that a lost answer can be found."""

    hostname: str
    description: str
    tags: tuple[tuple[str, str], ...]
    instance_type: str
    location: str
    market: str
    image: str
    disk_gb: int
    ssh_key_ids: tuple[str, ...] = ()
    script_id: str = ""


class Cloud(Protocol):
    async def catalogue(self) -> Catalogue:
        """Types, prices and what is available where, now."""

    async def inventory(self) -> Inventory:
        """Every instance of the account, ours or not; `complete` is false if the list is known to be cut."""

    def trust(self, account: str) -> None:
        """Our machines are in this account (see `Inventory.account`). With credentials of another one nothing is
        changed, and what it knows nothing of is an error instead of an answer. Before the first call of this
        any account is good."""

    async def instance(self, instance_id: str) -> Instance | None:
        """One instance, read by id; None if the cloud does not know it (any more)."""

    async def create(self, order: Order) -> Outcome:
        """Order a machine. `Happened.id` is the instance id; `Unknown` must be reconciled by listing."""

    async def delete(self, instance_id: str, disks: tuple[str, ...]) -> Outcome:
        """Delete one machine and these disks, permanently. Safe to repeat; what is gone is `already_gone`."""

    async def volumes(self) -> Volumes:
        """Every disk that costs money or quota, those in the trash included (status `deleted`)."""

    async def delete_volume(self, volume_id: str) -> Outcome:
        """Delete one disk permanently. Safe to repeat."""

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        """Every startup script whose name begins with the prefix, through all pages. Only the list of all,
        with no prefix, is known to be whole: what one with a prefix lacks may still be there."""

    async def create_script(self, name: str, text: str) -> Outcome: ...

    async def delete_script(self, script_id: str) -> Outcome:
        """Delete one script. Safe to repeat."""

    def health(self) -> CloudHealth:
        """What is known without asking anybody."""

    async def close(self) -> None: ...


class Endpoints(Protocol):
    """What switches machines that are there already. An acknowledgement is `Happened`, and no proof."""

    async def prepare(self, machine: str, on: bool) -> Send:
        """All that a call takes, credentials too: nothing slow stands between a last look and the call itself.

        Sent, it is one call, without repetition. `Refused` only where it certainly had no effect, with `UNAVAILABLE`
        or `RATE_LIMITED` where it may be tried again; `Unknown` where it may have had one."""

    async def ask(self, machine: str) -> str:
        """on | off, as its status endpoint says; "" where there is none, or it does not know."""
