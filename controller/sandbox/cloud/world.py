"""The sandbox cloud as one core: a request in, an answer out, and time in between.

Tokens, limits, projects and the version prefix live here; what a path means lives in the module of its
noun. Order of the checks, as the real API shows it: public path, token, limits, then the path itself.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable

from controller.sandbox.cloud import control, lifecycle
from controller.sandbox.cloud.answers import Refusal, unknown_path
from controller.sandbox.cloud.api import PROTECTED, PUBLIC
from controller.sandbox.cloud.auth import Tokens
from controller.sandbox.cloud.ground import Ground
from controller.sandbox.cloud.limits import RateLimits, Standing, too_many
from controller.sandbox.cloud.routes import find, split, table
from controller.sandbox.cloud.scenario import Scenario
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import FIRST_PROJECT, State
from controller.sandbox.cloud.visits import Visits
from controller.sandbox.faults import Faults, without_version
from controller.sandbox.wire import Request, Response

NOBODY = ""  # whom requests without a token count for
CACHED = ("/instances", "/volumes")
_PUBLIC, _PROTECTED = table(PUBLIC), table(PROTECTED)


class CloudWorld:
    """The cloud. `clock` gives epoch seconds; the same seed and the same requests give the same world."""

    def __init__(
        self, clock: Callable[[], float], rng: random.Random, settings: Settings | None = None
    ) -> None:
        self._ground = Ground(settings or Settings(), clock, rng)
        self.projects: dict[str, State] = {}
        self.state = self.project(FIRST_PROJECT)
        self.tokens = Tokens(random.Random(rng.getrandbits(64)))  # log-ins must not change the weather
        self.limits: defaultdict[str, RateLimits] = defaultdict(RateLimits)
        self.visits = Visits()
        self.faults = Faults()  # of the carrier, for scenarios
        self.scenario = Scenario(self)
        self._cached: dict[tuple[str, ...], tuple[float, Response]] = {}

    def project(self, name: str) -> State:
        """A project, which begins with the first look at it."""
        if name not in self.projects:
            state = self.projects[name] = State(self._ground, name)
            state.on_empty = lambda: lifecycle.run_out(state)
        return self.projects[name]

    def tick(self) -> float | None:
        """Fire what is due; real seconds until the next timer, None when there is none."""
        self._ground.advance()
        moment = self._ground.next_moment()
        return None if moment is None else max(0.0, moment - self._ground.now)

    def handle(self, request: Request) -> Response:
        arrived = self._ground.clock()
        self._ground.advance()
        parts = split(without_version(request.path))
        ours = parts[:1] == ("_sandbox",)
        try:
            if ours:
                response = control.handle(self, request, "/".join(parts[1:]))
            else:
                response = self._answer(request, parts)
        except Refusal as refusal:
            response = refusal.response(as_list=self._ground.settings.error_message_as_list)
        if not ours:
            self.visits.note(arrived, request.method, "/" + "/".join(parts), response.status)
        return response

    def _answer(self, request: Request, parts: tuple[str, ...]) -> Response:
        settings, now = self._ground.settings, self._ground.now
        if settings.strict_user_agent and not request.headers.get("user-agent"):
            raise Refusal(400, "user-agent header is required")
        if parts == ("oauth2", "token") and request.method == "POST":
            return self._open(request, parts, lambda: self.tokens.issue(request, settings, now))
        public = find(_PUBLIC, request.method, parts)
        if public is not None:
            route, params = public
            return self._open(request, parts, lambda: route.endpoint(self.state, request, params))
        project = self.tokens.check(request, now)
        return self._limited(request, parts, project, lambda: self._protected(request, parts, project))

    def _open(self, request: Request, parts: tuple[str, ...], answer: Callable[[], Response]) -> Response:
        """Without a token; whether such requests are limited at all nobody knows."""
        if not self._ground.settings.limit_public:
            return answer()
        return self._limited(request, parts, NOBODY, answer)

    def _limited(
        self, request: Request, parts: tuple[str, ...], project: str, answer: Callable[[], Response]
    ) -> Response:
        settings = self._ground.settings
        if not settings.rate_limits:
            return answer()
        standing = self._count(request, parts, project)
        if standing.retry_after is not None:
            return too_many(standing, settings)
        try:
            response = answer()
        except Refusal as refusal:
            refusal.headers |= standing.headers
            raise
        return Response(response.status, response.body, {**response.headers, **standing.headers})

    def _count(self, request: Request, parts: tuple[str, ...], project: str) -> Standing:
        query = json.dumps(request.query, sort_keys=True) if request.query else ""
        path, settings = "/" + "/".join(parts), self._ground.settings
        return self.limits[project].count(request.method, path, settings, self._ground.now, query=query)

    def _protected(self, request: Request, parts: tuple[str, ...], project: str) -> Response:
        found = find(_PROTECTED, request.method, parts)
        if found is None:
            raise unknown_path(self._ground.settings)
        route, params = found
        state, stale = self.project(project), self._ground.settings.list_cache_s
        if stale <= 0 or request.method != "GET" or route.path not in CACHED:
            return route.endpoint(state, request, params)
        key = (project, route.path, json.dumps(request.query, sort_keys=True))
        when, kept = self._cached.get(key, (0.0, Response(500)))
        if self._ground.now - when >= stale:
            kept = route.endpoint(state, request, params)
            self._cached[key] = (self._ground.now, kept)
        return kept
