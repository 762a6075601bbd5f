"""Verda as a `Cloud`: which calls make up each verb.

Quirks dealt with here: a delete without explicit `volume_ids` leaves disks that cost money, one without
`delete_permanently` leaves trash that fills the quota, and one that names a disk which is gone may be
refused altogether; one id in each delete, because several share one answer; tags are younger than some
accounts, and a create refused because of them is the only one that is ever sent again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from controller.cloud.protocol import CloudError, Order
from controller.cloud.verda import orders
from controller.cloud.verda.answers import REFUSALS, Call, classify, is_about_tags, is_about_volumes
from controller.cloud.verda.bodies import error_of
from controller.cloud.verda.calls import Calls, Workers, threads
from controller.cloud.verda.login import Connect, Line, sessions
from controller.cloud.verda.pacing import Urgency
from controller.cloud.verda.reads import Reads
from controller.cloud.verda.uploads import Uploads
from controller.cloud.verda.waits import retry_after
from controller.cloud.verda.wire import Answer, Login, Trouble
from controller.domain import names
from controller.domain.cloudhealth import CloudHealth
from controller.domain.cloudthings import Catalogue, Instance, Inventory, Script, Volumes
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason

log = logging.getLogger("gpu_autoscaler.cloud")

# A delete that is not on the wire this soon after it was asked for is not sent at all: whoever asked has
# looked at the pods of the machine just before, and has to look again.
DELETE_WITHIN = 3.0
# Reads whose "not found" or empty list would say that something of ours is gone.
_ABOUT_OURS = frozenset({"/instances/{id}", "/volumes", "/volumes/trash"})
DEFAULT_BASE_URL = "https://api.verda.com/v1"


class VerdaCloud:
    """One Verda project. Nothing is sent, and the SDK is not imported, before the first call."""

    def __init__(
        self,
        *,
        client_id: str = "",
        client_secret: str = "",
        base_url: str = DEFAULT_BASE_URL,
        login: Callable[[], Login] | None = None,
        clock: Callable[[], float] = time.time,
        connect_timeout: float = 5,
        read_timeout: float = 30,
        call_timeout: float | None = None,
        create_within: float = 10,
        types_ttl: float = 300,
        locations_ttl: float = 3600,
        currency: str = "usd",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        connect: Connect | None = None,
        workers: Workers = threads,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`login`, for credentials that may change, is asked before every call, on a worker thread.
        `call_timeout` ends the wait for a whole call; a create not on the wire after `create_within`
        seconds is never sent, so that no purchase happens long after its decision. `hide` takes out of a
        text what this program keeps secret beside its credentials: a join token is in every script, and an
        error may repeat what it was sent."""
        fixed = Login(client_id=client_id, client_secret=client_secret, base_url=base_url)
        self._clock = clock
        self._monotonic = monotonic
        self._create_within = create_within
        self._without_tags: set[str] = set()  # accounts that refused them
        self._hide = hide
        self._uploads = Uploads()
        self._line = Line(
            login or (lambda: fixed),
            connect or sessions(connect_timeout, read_timeout, monotonic),
            lambda where: self._calls.moved(where),
        )
        self._calls = Calls(
            self._send,
            base_url=self._line.base_url,
            timeout=call_timeout or 2 * (connect_timeout + read_timeout),  # a token call and the call
            clock=clock,
            sleep=sleep,
            monotonic=monotonic,
            rng=rng or random.SystemRandom(),
            workers=workers,
        )
        self._reads = Reads(
            self._calls, clock=clock, types_ttl=types_ttl, locations_ttl=locations_ttl, currency=currency
        )

    def _send(self, method: str, path: str, **words: Any) -> Answer:
        about_ours = method != "GET" or path in _ABOUT_OURS
        answer = self._line.send(method, path, about_ours=about_ours, **words)
        return replace(answer, hide=lambda text: self._hide(answer.hide(self._uploads.hide(text))))

    async def catalogue(self) -> Catalogue:
        return await self._reads.catalogue()

    async def inventory(self) -> Inventory:
        return await self._reads.inventory()

    def trust(self, account: str) -> None:
        self._line.trusted = account

    async def instance(self, instance_id: str) -> Instance | None:
        return await self._reads.instance(instance_id)

    async def volumes(self) -> Volumes:
        return await self._reads.volumes()

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        found = await self._reads.scripts(prefix)
        for script in found:
            if script.name.startswith(names.SCRIPT_PREFIX):
                self._uploads.sent(script.text)  # by another process of ours, perhaps: it holds a token, too
        return found

    def health(self) -> CloudHealth:
        return replace(self._calls.health(), logins=self._line.changes)

    async def create(self, order: Order) -> Outcome:
        until = self._monotonic() + self._create_within
        with_tags = bool(order.tags) and self._line.account not in self._without_tags
        outcome, answer = await self._create(order, until, with_tags=with_tags)
        if with_tags and answer is not None and is_about_tags(answer.status, answer.text):
            # Refused, so nothing was bought; hostname and description are marks enough.
            log.warning("ordered again without tags, which were refused", extra={"machine": order.hostname})
            outcome, _ = await self._create(order, until, with_tags=False)
            if isinstance(outcome, Happened):
                self._without_tags.add(answer.account)
        return outcome

    async def _create(self, order: Order, until: float, *, with_tags: bool) -> tuple[Outcome, Answer | None]:
        body = orders.body(order, with_tags=with_tags)
        left = until - self._monotonic()
        return await self._change(Call.CREATE, "POST", "/instances", json=body, send_within=left)

    async def delete(self, instance_id: str, disks: tuple[str, ...]) -> Outcome:
        until = self._monotonic() + DELETE_WITHIN
        outcome, answer = await self._delete(instance_id, disks, until)
        if answer is None or not is_about_volumes(answer.status, answer.text, instance_id):
            return outcome
        # A disk that is gone already must not keep the machine alive: name only those that it has.
        try:
            seen = await self.instance(instance_id)
        except CloudError:
            return outcome
        if seen is None:
            return Refused(Reason.ALREADY_GONE, f"{Call.DELETE}: {instance_id} is not known any more")
        left = tuple(disk for disk in disks if disk in (seen.os_volume_id, *seen.volume_ids))
        return outcome if left == disks else (await self._delete(instance_id, left, until))[0]

    async def _delete(
        self, instance_id: str, disks: tuple[str, ...], until: float
    ) -> tuple[Outcome, Answer | None]:
        body = {"action": "delete", "id": instance_id, "volume_ids": list(disks), "delete_permanently": True}
        return await self._change(
            Call.DELETE,
            "PUT",
            "/instances",
            json=body,
            target=instance_id,
            send_within=max(0.0, until - self._monotonic()),
        )

    async def delete_volume(self, volume_id: str) -> Outcome:
        body = {"is_permanent": True}
        outcome, _ = await self._change(
            Call.DELETE_VOLUME, "DELETE", "/volumes/{id}", json=body, target=volume_id
        )
        return outcome

    async def tag(self, instance_id: str, key: str, value: str) -> Outcome:
        """Write one tag; a pair that is there already is written."""
        try:
            answer = await self._calls.change(
                "POST",
                "/instances/{id}/tags",
                urgency=Urgency.REMOVE,
                path_params={"id": instance_id},
                json={"key": key, "value": value},
            )
        except Trouble as trouble:
            if trouble.kind == "not_sent":
                return Refused(trouble.reason, trouble.message, trouble.retry_after)
            return Unknown(trouble.message)
        if 200 <= answer.status < 300 or answer.status == 409:
            return Happened(instance_id)
        told = f"tag: answered {answer.status}: {answer.hide(error_of(answer.text)[1])[:200]}"
        reason = REFUSALS.get(answer.status)
        return Refused(reason, told) if reason is not None else Unknown(told)

    async def create_script(self, name: str, text: str) -> Outcome:
        self._uploads.sent(text)
        body = {"name": name, "script": text}
        outcome, _ = await self._change(Call.CREATE_SCRIPT, "POST", "/scripts", json=body)
        return outcome

    async def delete_script(self, script_id: str) -> Outcome:
        outcome, _ = await self._change(Call.DELETE_SCRIPT, "DELETE", "/scripts/{id}", target=script_id)
        return outcome

    async def _change(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        json: Any = None,
        target: str = "",
        send_within: float | None = None,
    ) -> tuple[Outcome, Answer | None]:
        path_params = {"id": target} if "{id}" in path else None
        urgency = Urgency.CREATE if call in (Call.CREATE, Call.CREATE_SCRIPT) else Urgency.REMOVE
        try:
            answer = await self._calls.change(
                method, path, urgency=urgency, path_params=path_params, json=json, send_within=send_within
            )
        except Trouble as trouble:
            if trouble.kind == "not_sent":
                return Refused(trouble.reason, trouble.message, trouble.retry_after), None
            return Unknown(trouble.message), None
        wait = retry_after(answer, self._clock())
        outcome = classify(
            answer.status, answer.text, call, retry_after=wait, target=target, hide=answer.hide
        )
        return outcome, answer

    async def close(self) -> None:
        await self._calls.close()
        self._line.close()
