"""The shapes of what the sandbox's own paths take and give."""

from __future__ import annotations

from collections.abc import Mapping

from controller.sandbox.cloud.schemas import (
    COUNT,
    CURRENCY,
    FLAG,
    INSTANCE,
    NUMBER,
    STAMP,
    TEXT,
    UUID,
    Schema,
    many,
    maybe,
    ref,
    shape,
)

OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
KNOWN_INSTANCE: Schema = {
    **INSTANCE,
    "properties": {
        **INSTANCE["properties"],
        "script": maybe(TEXT),
        "running_at": maybe(NUMBER),
        "boot_at": maybe(NUMBER),
        "discontinued_at": maybe(NUMBER),
        "cost": NUMBER,
    },
}
OWN: Mapping[str, Schema] = {
    "SandboxInstance": KNOWN_INSTANCE,
    "Stock": many(
        shape({"instance_type": TEXT, "location": TEXT, "market": TEXT, "count": COUNT}),
    ),
    "State": shape(
        {
            "instances": many(ref("SandboxInstance")),
            "volumes": many(ref("Volume")),
            "trash": many(ref("Volume")),
            "scripts": many(ref("Script")),
            "ssh_keys": many(ref("SshKey")),
            "deleted_instances": many(ref("SandboxInstance")),
            "deleted_volumes": many(ref("Volume")),
            "creates": COUNT,
            "meter": shape({"instances": NUMBER, "volumes": NUMBER, "total": NUMBER, "currency": CURRENCY}),
            "balance": NUMBER,
            "stock": ref("Stock"),
            "now": NUMBER,
        }
    ),
    "BillSum": shape({"instances": NUMBER, "volumes": NUMBER, "total": NUMBER, "per_hour": NUMBER}),
    "BillRow": shape(
        {
            "kind": {"enum": ["instance", "volume"]},
            "id": UUID,
            "name": TEXT,
            "type": TEXT,
            "market": maybe({"enum": ["spot", "on-demand"]}),
            "location": TEXT,
            "status": TEXT,
            "description": TEXT,
            "tags": TEXTS,
            "cluster": maybe(TEXT),
            "instance_id": maybe(UUID),
            "owed_on_restore": NUMBER,
            "running": FLAG,
            "since": maybe(STAMP),
            "until": maybe(STAMP),
            "seconds": NUMBER,
            "increments": COUNT,
            "per_hour": NUMBER,
            "cost": NUMBER,
        }
    ),
    "Bill": shape(
        {
            "project": TEXT,
            "now": STAMP,
            "currency": CURRENCY,
            "billing": TEXT,
            "increment_s": NUMBER,
            "paid_in": NUMBER,
            "total": NUMBER,
            "balance": NUMBER,
            "per_hour": NUMBER,
            "clusters": {"type": "object", "additionalProperties": ref("BillSum")},
            "rest": ref("BillSum"),
            "rows": many(ref("BillRow")),
        }
    ),
    "Projects": many(shape({"project": TEXT, "creates": COUNT, "balance": NUMBER})),
    "Visits": many(shape({"at": NUMBER, "method": TEXT, "path": TEXT, "status": COUNT})),
    "Knobs": shape({"settings": OBJECT, "explained": TEXTS}),
    "Outcomes": shape({"outcomes": COUNT}),
    "Scenario": shape(
        {
            "passed_s": NUMBER,
            "entries": many(OBJECT),
            "done": many(shape({"at_s": NUMBER, "what": TEXT, "result": OBJECT})),
        }
    ),
    "Faults": shape({"faults": many(OBJECT)}),
    "Happened": OBJECT,
    "Description": OBJECT,
}
