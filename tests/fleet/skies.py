"""The sandbox cloud in memory, behind the real adapter, on the virtual clock; and hands that reach into it.

No sockets and no threads: the adapter's session is replaced by one that hands each request to the
cloud's core, with the same rules for faults as the server has. Every call of a controller takes a while
on the virtual clock, before it counts and after, so that calls overlap and a kill may fall in between.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from controller.cloud.protocol import Order
from controller.cloud.verda import parsing
from controller.cloud.verda.provider import DEFAULT_BASE_URL, VerdaCloud
from controller.cloud.verda.wire import Answer, Login, Trouble
from controller.domain.cloudhealth import CloudHealth
from controller.domain.cloudthings import Catalogue, Instance, Inventory, Script, Volumes
from controller.domain.outcome import Outcome
from controller.sandbox.cloud.settings import KEPT, PER_SECOND, REFUNDED, Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.faults import Faults
from controller.sandbox.wire import Request, Response
from tests.cloud.in_memory import Inline
from tests.fleet.clockwork import Time
from tests.fleet.fakes import Account, Hands, Town

T = TypeVar("T")
KNOBS = {
    "speed": 1, "ordered_s": [2, 10], "provisioning_s": [10, 40], "delete_s": [3, 20], "volume_gone_s": [3, 40],
    "volume_delete_s": [2, 10], "rate_limits": False,
}  # fmt: skip


class Sky:
    """The cloud and its faults; lives on when controllers die."""

    def __init__(self, time: Time, rng: random.Random) -> None:
        self.faults = Faults()
        self._knobs = KNOBS | {"billing": rng.choice((PER_SECOND, REFUNDED, KEPT))}
        self.world = CloudWorld(time.clock, rng, Settings().changed(self._knobs))
        self.state = self.world.state
        self.ordered: set[str] = set()  # hostnames of all orders that came here, whatever became of them

    def set(self, **knobs: Any) -> None:
        self.state.change(self.state.settings.changed(knobs))

    def calm(self) -> None:
        """No fault and no odd answer any more."""
        self.faults.replace([])
        self.state.change(Settings().changed(self._knobs))
        self.state.outcomes = []
        self.state.stock.replace([{"count": None}])


class Skies:
    """Several projects or addresses, each a cloud of its own, and the credentials that are mounted now."""

    def __init__(self, home: Sky) -> None:
        self.home = home
        self._by_login: dict[Login, Sky] = {}
        self.login = self.add(home, client="me")

    def add(self, sky: Sky, *, client: str, base_url: str = DEFAULT_BASE_URL) -> Login:
        login = Login(client_id=client, client_secret="mine", base_url=base_url)
        self._by_login[login] = sky
        return login

    def connect(self, login: Login) -> _Session:
        return _Session(self._by_login[login])


class _Session:
    def __init__(self, sky: Sky) -> None:
        self._sky = sky
        self._token = ""

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        path_params: Mapping[str, str] | None = None,
        not_after: float | None = None,
        **_: Any,
    ) -> Answer:
        target = path.format(**{key: quote(value, safe="") for key, value in (path_params or {}).items()})
        target += f"?{urlencode(params)}" if params else ""
        answer = self._send(method, target, json)
        if answer.status == 401:
            grant = {"grant_type": "client_credentials", "client_id": "me", "client_secret": "mine"}
            got = self._sky.world.handle(Request.of("POST", "/v1/oauth2/token", grant))
            self._token = got.json()["access_token"]
            answer = self._send(method, target, json)
        return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.body.decode())

    def _send(self, method: str, target: str, json: Any) -> Response:
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": "test"}
        request = Request.of(method, f"/v1{target}", b"" if json is None else json, headers)
        if (method, target) == ("POST", "/instances"):
            self._sky.ordered.add(str(json["hostname"]))
        rule = self._sky.faults.choose(request)
        if rule is None:
            return self._sky.world.handle(request)
        response = self._sky.world.handle(request) if rule.commits else None
        if rule.cuts:
            raise Trouble("unknown", f"{method} {target}: the connection was closed")
        return rule.answer(response)

    def close(self) -> None:
        pass


def adapter(skies: Skies, time: Time, rng: random.Random) -> VerdaCloud:
    """The real adapter, with a session that needs no network and no threads."""
    return VerdaCloud(
        login=lambda: skies.login,
        clock=time.clock,
        monotonic=time.clock,
        sleep=time.sleep,
        rng=rng,
        types_ttl=60,
        connect=skies.connect,
        workers=lambda most, name: Inline(),
    )


class Mirror(Account):
    """What the sandbox cloud holds, in the form in which the fake cluster looks at it."""

    sky: Sky

    def step(self) -> None:
        self.sky.world.tick()
        for one in self.sky.state.instances.values():
            shown = parsing.instance({**one.shown(self.sky.state.settings), "price_per_hour": 1})
            self.instances[one.id] = replace(shown, status=one.status)
            if one.discontinued_at is not None:
                self.ended.setdefault(one.id, one.discontinued_at)


class CloudHands(Hands):
    """One controller's hands, whose cloud verbs go through the adapter."""

    def __init__(self, skies: Skies, account: Account, town: Town, time: Time, rng: random.Random) -> None:
        super().__init__(account, town)
        self._cloud = adapter(skies, time, rng)
        self._time = time
        self._rng = rng

    async def _through(self, verb: str, target: str, call: Callable[[], Awaitable[T]]) -> T:
        self._live()
        self.count += 1
        number = self.count
        self.calls.append((verb, target))
        await self._time.sleep(self._rng.choice((0.0, 0.1, 0.5, 3.0)))
        self._live()
        if self.kill == (number, "before"):
            self._die()
        result = await call()
        if self.kill == (number, "after"):
            self._die()
        await self._time.sleep(self._rng.choice((0.0, 0.1, 0.5, 3.0)))
        self._live()
        return result

    def trust(self, account: str) -> None:
        self._cloud.trust(account)

    def health(self) -> CloudHealth:
        return self._cloud.health()

    async def catalogue(self) -> Catalogue:
        return await self._through("catalogue", "", self._cloud.catalogue)

    async def inventory(self) -> Inventory:
        return await self._through("inventory", "", self._cloud.inventory)

    async def instance(self, instance_id: str) -> Instance | None:
        return await self._through("instance", instance_id, lambda: self._cloud.instance(instance_id))

    async def create(self, order: Order) -> Outcome:
        return await self._through("create", order.hostname, lambda: self._cloud.create(order))

    async def delete(self, instance_id: str, disks: tuple[str, ...]) -> Outcome:
        return await self._through("delete", instance_id, lambda: self._cloud.delete(instance_id, disks))

    async def volumes(self) -> Volumes:
        return await self._through("volumes", "", self._cloud.volumes)

    async def delete_volume(self, volume_id: str) -> Outcome:
        return await self._through("delete_volume", volume_id, lambda: self._cloud.delete_volume(volume_id))

    async def scripts(self, prefix: str) -> tuple[Script, ...]:
        return await self._through("scripts", prefix, lambda: self._cloud.scripts(prefix))

    async def create_script(self, name: str, text: str) -> Outcome:
        return await self._through("create_script", name, lambda: self._cloud.create_script(name, text))

    async def delete_script(self, script_id: str) -> Outcome:
        return await self._through("delete_script", script_id, lambda: self._cloud.delete_script(script_id))
