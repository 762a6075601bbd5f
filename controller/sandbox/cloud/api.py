"""The paths of the API, as the contract has them: one table for the world and for its description.

The world looks up here what to do, the description tells it to others. An answer that is not in the
table is a bug of either.
"""

from __future__ import annotations

from controller.sandbox.cloud import actions, instances, market, things, volumes
from controller.sandbox.cloud.answers import page_answer
from controller.sandbox.cloud.routes import EMPTY, ERROR, ID, JSON, PAGED, TAG_FILTER, Content, ok, route
from controller.sandbox.cloud.schemas import FLAG, TEXT, many, ref
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response

BOOLEAN: Content = {JSON: {"anyOf": [FLAG, {"enum": ["true", "false"]}]}}
SPOT = {"is_spot": TEXT, "isSpot": TEXT, "location_code": TEXT, "locationCode": TEXT}


def _journal(state: State, request: Request, instance_id: str | None) -> Response:
    return page_answer(request, instances.journal(state, instance_id), state.settings, smallest=10)


PUBLIC = (
    route(
        "GET /instance-types",
        "Instance types with their prices",
        lambda s, r, p: market.list_types(s, r),
        ok(many(ref("InstanceType"))),
        query={"currency": TEXT},
        public=True,
    ),
    route(
        "GET /instances/types",
        "The same, on the old path",
        lambda s, r, p: market.list_types(s, r),
        ok(many(ref("InstanceType"))),
        query={"currency": TEXT},
        public=True,
    ),
    route(
        "GET /instance-types/price-history",
        "No longer supported",
        lambda s, r, p: market.price_history(),
        {404: ERROR},
        public=True,
    ),
    route(
        "GET /volume-types",
        "Prices of storage",
        lambda s, r, p: volumes.types(s),
        ok(many(ref("VolumeType"))),
        public=True,
    ),
    *(
        route(
            f"GET /{kind}-types",
            "Types of what this cloud does not model: none",
            lambda s, r, p: Response.of_json(200, []),
            ok(many(TEXT)),
            public=True,
        )
        for kind in ("cluster", "container")
    ),
    *(
        route(
            f"GET /long-term/periods{path}",
            "Periods of long-term contracts",
            lambda s, r, p: market.periods(),
            ok(many(ref("Period"))),
            public=True,
        )
        for path in ("", "/instances", "/clusters")
    ),
)

_MARKET = (
    route(
        "GET /instance-availability",
        "What is in stock where, in one market",
        lambda s, r, p: market.availability(s, r),
        ok(many(ref("Availability"))),
        query=SPOT,
    ),
    *(
        route(
            f"GET /{path}/{{type}}",
            "Whether a type is in stock",
            lambda s, r, p: market.availability_of(s, r, p["type"]),
            {200: BOOLEAN},
            404,
            query=SPOT,
        )
        for path in ("instance-availability", "instances/availability")
    ),
    route("GET /locations", "Places", lambda s, r, p: market.locations(s), ok(many(ref("Location")))),
    route(
        "GET /images",
        "Images, of all types or of one",
        lambda s, r, p: market.images(s, r),
        ok(many(ref("Image"))),
        404,
        query={"instance_type": TEXT},
    ),
    route(
        "GET /images/cluster",
        "Cluster images",
        lambda s, r, p: market.cluster_images(s),
        ok(many(ref("Image"))),
    ),
    route("GET /balance", "The project's money", lambda s, r, p: market.balance(s), ok(ref("Balance"))),
)

_INSTANCES = (
    route(
        "POST /instances",
        "Buy an instance",
        lambda s, r, p: instances.create(s, r),
        {202: ID},
        402,
        503,
        body=ref("InstanceOrder"),
    ),
    route(
        "GET /instances",
        "All that are not discontinued, or those of one status",
        lambda s, r, p: instances.list_all(s, r),
        ok(many(ref("Instance"))),
        query={"status": TEXT, **TAG_FILTER, "computeId": TEXT},
    ),
    *(
        route(
            line,
            "Act on one instance or several",
            lambda s, r, p: actions.act(s, r),
            {202: {JSON: many(ref("ActionResult"))}, 204: EMPTY, 207: {JSON: many(ref("ActionResult"))}},
            403,
            404,
            body=ref("InstanceAction"),
        )
        for line in ("PUT /instances", "POST /instances/action")
    ),
    route(
        "GET /instances/{id}",
        "One instance, also when it is gone",
        lambda s, r, p: instances.read(s, p["id"]),
        ok(ref("Instance")),
        404,
    ),
    route(
        "GET /journal/compute",
        "What happened to instances, newest first",
        lambda s, r, p: _journal(s, r, None),
        ok(many(ref("Event"))),
        query=PAGED,
    ),
    route(
        "GET /journal/compute/{id}",
        "What happened to one of them",
        lambda s, r, p: _journal(s, r, p["id"]),
        ok(many(ref("Event"))),
        query=PAGED,
    ),
)

PROTECTED = _MARKET + _INSTANCES + things.VOLUMES + things.TAGS + things.SCRIPTS + things.KEYS
