"""Verda as a `Cloud`: which calls make up each verb.

Quirks dealt with here: a delete without explicit `volume_ids` leaves disks that cost money, one without
`delete_permanently` leaves trash that fills the quota, and one that names a disk which is gone may be
refused altogether; one id in each delete, because several share one answer; tags are younger than some
accounts, and a create refused because of them is the only one that is ever sent again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from controller.cloud.protocol import CloudError, Order
from controller.cloud.verda import orders
from controller.cloud.verda.answers import Call, classify, retry_after
from controller.cloud.verda.calls import Calls
from controller.cloud.verda.reads import Reads
from controller.cloud.verda.wire import Trouble
from controller.domain.cloudthings import Catalogue, Instance, Inventory, Script, Volume
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason

if TYPE_CHECKING:
    from controller.cloud.verda.sdk import Session

log = logging.getLogger(__name__)

# A delete that is not on the wire this soon after it was asked for is not sent at all: whoever asked has
# looked at the pods of the machine just before, and has to look again.
DELETE_WITHIN = 3.0
DEFAULT_BASE_URL = "https://api.verda.com/v1"


class VerdaCloud:
    """One Verda project. Nothing is sent, and the SDK is not imported, before the first call."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str,
        base_url: str = DEFAULT_BASE_URL,
        clock: Callable[[], float] = time.time,
        connect_timeout: float = 5,
        read_timeout: float = 30,
        call_timeout: float | None = None,
        create_within: float = 10,
        types_ttl: float = 300,
        locations_ttl: float = 3600,
        currency: str = "usd",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`call_timeout` ends the wait for a whole call; a create not on the wire after
        `create_within` seconds is never sent, so that no purchase happens long after its decision."""
        self._clock = clock
        self._create_within = create_within
        self._login = (client_id, client_secret, base_url, connect_timeout, read_timeout)
        self._session: Session | None = None
        self._connecting = threading.Lock()
        self._takes_tags = True
        self._calls = Calls(
            self._connect,
            base_url=base_url,
            timeout=call_timeout or 2 * (connect_timeout + read_timeout),  # a token call and the call
            clock=clock,
            sleep=sleep,
        )
        self._reads = Reads(
            self._calls, clock=clock, types_ttl=types_ttl, locations_ttl=locations_ttl, currency=currency
        )

    def _connect(self) -> Session:
        """On a worker thread: importing the SDK takes longer than the event loop should stand still."""
        with self._connecting:
            if self._session is None:
                from controller.cloud.verda.sdk import Session

                client_id, client_secret, base_url, connect_timeout, read_timeout = self._login
                self._session = Session(
                    client_id=client_id,
                    client_secret=client_secret,
                    base_url=base_url,
                    connect_timeout=connect_timeout,
                    read_timeout=read_timeout,
                )
            return self._session

    async def catalogue(self) -> Catalogue:
        return await self._reads.catalogue()

    async def inventory(self) -> Inventory:
        return await self._reads.inventory()

    async def instance(self, instance_id: str) -> Instance | None:
        return await self._reads.instance(instance_id)

    async def volumes(self) -> tuple[Volume, ...]:
        return await self._reads.volumes()

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        return await self._reads.scripts(prefix)

    async def create(self, order: Order) -> Outcome:
        with_tags = self._takes_tags and bool(order.tags)
        outcome = await self._create(order, with_tags=with_tags)
        if with_tags and _is_refused_because_of(outcome, "tag"):
            # Refused, so nothing was bought.
            log.warning("%s: ordered again without tags, which were refused", order.hostname)
            outcome = await self._create(order, with_tags=False)
            if isinstance(outcome, Happened):
                self._takes_tags = False
        return outcome

    async def _create(self, order: Order, *, with_tags: bool) -> Outcome:
        body = orders.body(order, with_tags=with_tags)
        return await self._change(
            Call.CREATE, "POST", "/instances", json=body, send_within=self._create_within
        )

    async def delete(self, instance_id: str, disks: tuple[str, ...]) -> Outcome:
        until = time.monotonic() + DELETE_WITHIN
        outcome = await self._delete(instance_id, disks, until)
        if not _is_refused_because_of(outcome, "volume"):
            return outcome
        # A disk that is gone already must not keep the machine alive: name only those that it has.
        try:
            seen = await self.instance(instance_id)
        except CloudError:
            return outcome
        if seen is None:
            return Happened(instance_id)
        left = tuple(disk for disk in disks if disk in (seen.os_volume_id, *seen.volume_ids))
        return outcome if left == disks else await self._delete(instance_id, left, until)

    async def _delete(self, instance_id: str, disks: tuple[str, ...], until: float) -> Outcome:
        body = {"action": "delete", "id": instance_id, "volume_ids": list(disks), "delete_permanently": True}
        return await self._change(
            Call.DELETE,
            "PUT",
            "/instances",
            json=body,
            target=instance_id,
            send_within=max(0.0, until - time.monotonic()),
        )

    async def delete_volume(self, volume_id: str) -> Outcome:
        body = {"is_permanent": True}
        return await self._change(Call.DELETE_VOLUME, "DELETE", "/volumes/{id}", json=body, target=volume_id)

    async def create_script(self, name: str, text: str) -> Outcome:
        body = {"name": name, "script": text}
        return await self._change(Call.CREATE_SCRIPT, "POST", "/scripts", json=body)

    async def delete_script(self, script_id: str) -> Outcome:
        return await self._change(Call.DELETE_SCRIPT, "DELETE", "/scripts/{id}", target=script_id)

    async def _change(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        json: Any = None,
        target: str = "",
        send_within: float | None = None,
    ) -> Outcome:
        path_params = {"id": target} if "{id}" in path else None
        try:
            answer = await self._calls.change(
                method, path, path_params=path_params, json=json, send_within=send_within
            )
        except Trouble as trouble:
            if trouble.kind == "not_sent":
                return Refused(trouble.reason, trouble.message, trouble.retry_after)
            return Unknown(trouble.message)
        wait = retry_after(answer.header("Retry-After"), self._clock())
        return classify(answer.status, answer.text, call, retry_after=wait, target=target)

    async def close(self) -> None:
        await self._calls.close()
        if self._session is not None:
            self._session.close()


def _is_refused_because_of(outcome: Outcome, word: str) -> bool:
    return (
        isinstance(outcome, Refused)
        and outcome.reason is Reason.BAD_REQUEST
        and word in outcome.message.lower()
    )
