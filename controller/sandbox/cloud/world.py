"""The sandbox cloud as one core: a request in, an answer out, and time in between.

Routing, tokens, limits and the version prefix live here; what a path means lives in the module of its
noun. Order of the checks, as the real API shows it: public path, token, limits, then the path itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.sandbox.cloud import control, instances, lifecycle, market, scripts, tags, volumes
from controller.sandbox.cloud.answers import Refusal, page_answer
from controller.sandbox.cloud.auth import Tokens
from controller.sandbox.cloud.limits import RateLimits, too_many
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.visits import Visits
from controller.sandbox.faults import without_version
from controller.sandbox.wire import Request, Response

Params = Mapping[str, str]
Endpoint = Callable[[State, Request, Params], Response]


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    parts: tuple[str, ...]
    endpoint: Endpoint

    def match(self, method: str, parts: tuple[str, ...]) -> Params | None:
        if method != self.method or len(parts) != len(self.parts):
            return None
        pairs = list(zip(self.parts, parts, strict=True))
        if any(want != have for want, have in pairs if not want.startswith("{")):
            return None
        return {want[1:-1]: have for want, have in pairs if want.startswith("{")}


def _routes(table: Mapping[str, Endpoint]) -> list[_Route]:
    """Routes by "METHOD /path/{name}", in the order of the table."""
    found = []
    for line, endpoint in table.items():
        method, path = line.split(" ")
        found.append(_Route(method, _parts(path), endpoint))
    return found


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


PUBLIC = _routes(
    {
        "GET /instance-types": lambda s, r, p: market.list_types(s, r),
        "GET /instances/types": lambda s, r, p: market.list_types(s, r),
        "GET /volume-types": lambda s, r, p: volumes.types(s),
    }
)
CONTROL = _routes(
    {
        "GET /_sandbox/state": lambda s, r, p: control.show_state(s),
        "GET /_sandbox/settings": lambda s, r, p: control.show_settings(s),
        "PUT /_sandbox/settings": lambda s, r, p: control.put_settings(s, r),
        "PUT /_sandbox/stock": lambda s, r, p: control.put_stock(s, r),
        "PUT /_sandbox/outcomes": lambda s, r, p: control.put_outcomes(s, r),
        "POST /_sandbox/evict": lambda s, r, p: control.evict(s, r),
        "POST /_sandbox/instances": lambda s, r, p: control.put_instance(s, r),
    }
)
PROTECTED = _routes(
    {
        "GET /instance-availability": lambda s, r, p: market.availability(s, r),
        "GET /instance-availability/{type}": lambda s, r, p: market.availability_of(s, r, p["type"]),
        "GET /instances/availability/{type}": lambda s, r, p: market.availability_of(s, r, p["type"]),
        "GET /locations": lambda s, r, p: market.locations(s),
        "GET /images": lambda s, r, p: market.images(s, r),
        "GET /images/cluster": lambda s, r, p: market.cluster_images(s),
        "GET /balance": lambda s, r, p: market.balance(s),
        "POST /instances": lambda s, r, p: instances.create(s, r),
        "GET /instances": lambda s, r, p: instances.list_all(s, r),
        "PUT /instances": lambda s, r, p: instances.act(s, r),
        "POST /instances/action": lambda s, r, p: instances.act(s, r),
        "GET /instances/{id}": lambda s, r, p: instances.read(s, p["id"]),
        "GET /journal/compute": lambda s, r, p: page_answer(r, instances.journal(s, None)),
        "GET /journal/compute/{id}": lambda s, r, p: page_answer(r, instances.journal(s, p["id"])),
        "GET /volumes": lambda s, r, p: volumes.list_all(s, r),
        "POST /volumes": lambda s, r, p: volumes.create(s, r),
        "PUT /volumes": lambda s, r, p: volumes.act(s, r),
        "GET /volumes/trash": lambda s, r, p: volumes.list_trash(s),
        "GET /volumes/{id}": lambda s, r, p: volumes.read(s, p["id"]),
        "DELETE /volumes/{id}": lambda s, r, p: volumes.delete(s, r, p["id"]),
        "GET /{kind}/{id}/tags": lambda s, r, p: tags.list_tags(s, p["kind"], p["id"]),
        "POST /{kind}/{id}/tags": lambda s, r, p: tags.link(s, r, p["kind"], p["id"]),
        "DELETE /{kind}/{id}/tags/{tag}": lambda s, r, p: tags.unlink(s, p["kind"], p["id"], p["tag"]),
        "GET /scripts": lambda s, r, p: scripts.list_scripts(s, r),
        "POST /scripts": lambda s, r, p: scripts.create_script(s, r),
        "DELETE /scripts": lambda s, r, p: scripts.delete_scripts(s, r),
        "GET /scripts/{id}": lambda s, r, p: scripts.read_script(s, p["id"]),
        "DELETE /scripts/{id}": lambda s, r, p: scripts.delete_script(s, p["id"]),
    }
    | {
        line.format(keys=keys): endpoint
        for keys in ("ssh-keys", "sshkeys")
        for line, endpoint in {
            "GET /{keys}": lambda s, r, p: scripts.list_keys(s),
            "POST /{keys}": lambda s, r, p: scripts.create_key(s, r),
            "DELETE /{keys}": lambda s, r, p: scripts.delete_keys(s, r),
            "GET /{keys}/{{id}}": lambda s, r, p: scripts.read_key(s, p["id"]),
            "DELETE /{keys}/{{id}}": lambda s, r, p: scripts.delete_key(s, p["id"]),
        }.items()
    }
)


class CloudWorld:
    """The cloud. `clock` gives epoch seconds; the same seed and the same requests give the same world."""

    def __init__(
        self, clock: Callable[[], float], rng: random.Random, settings: Settings | None = None
    ) -> None:
        self.state = State(settings or Settings(), clock, rng)
        self.state.on_empty = lambda: lifecycle.run_out(self.state)
        self.tokens = Tokens(random.Random(rng.getrandbits(64)))  # log-ins must not change the weather
        self.limits = RateLimits()
        self.visits = Visits()

    def tick(self) -> float | None:
        """Fire what is due; real seconds until the next timer, None when there is none."""
        self.state.advance()
        moment = self.state.next_moment()
        return None if moment is None else max(0.0, moment - self.state.now)

    def handle(self, request: Request) -> Response:
        arrived = self.state.clock()
        self.state.advance()
        parts = _parts(without_version(request.path))
        ours = parts[:1] == ("_sandbox",)
        try:
            response = self._control(request, parts) if ours else self._answer(request, parts)
        except Refusal as refusal:
            response = refusal.response(as_list=self.state.settings.error_message_as_list)
        if not ours:
            self.visits.note(arrived, request.method, "/" + "/".join(parts), response.status)
        return response

    def _answer(self, request: Request, parts: tuple[str, ...]) -> Response:
        state, settings = self.state, self.state.settings
        if settings.strict_user_agent and not request.headers.get("user-agent"):
            raise Refusal(400, "user-agent header is required")
        if parts == ("oauth2", "token") and request.method == "POST":
            return self.tokens.issue(request, settings, state.now)
        public = _find(PUBLIC, request.method, parts)
        if public is not None:
            return public[0](state, request, public[1])
        self.tokens.check(request, state.now)
        if not settings.rate_limits:
            return self._protected(request, parts)
        standing = self.limits.count(request.method, "/" + "/".join(parts), settings, state.now)
        if standing.retry_after is not None:
            return too_many(standing, settings)
        try:
            response = self._protected(request, parts)
        except Refusal as refusal:
            refusal.headers |= standing.headers
            raise
        return Response(response.status, response.body, {**response.headers, **standing.headers})

    def _protected(self, request: Request, parts: tuple[str, ...]) -> Response:
        found = _find(PROTECTED, request.method, parts)
        if found is None:
            raise Refusal(404, "Resource not found")
        return found[0](self.state, request, found[1])

    def _control(self, request: Request, parts: tuple[str, ...]) -> Response:
        if request.method == "POST" and parts == ("_sandbox", "revoke-tokens"):
            self.tokens.revoke_all()
            return Response(204)
        if request.method == "GET" and parts == ("_sandbox", "requests"):
            return Response.of_json(200, self.visits.shown(request))
        found = _find(CONTROL, request.method, parts)
        if found is None:
            raise Refusal(404, f"the sandbox has no {request.method} {request.path}")
        return found[0](self.state, request, found[1])


def _find(routes: list[_Route], method: str, parts: tuple[str, ...]) -> tuple[Endpoint, Params] | None:
    for route in routes:
        params = route.match(method, parts)
        if params is not None:
            return route.endpoint, params
    return None
