"""The shapes of what the API gives, as JSON Schemas for its description; what it takes is in `given`.

Where the code has a table (statuses, actions, volume types, error codes), the schema is made
from it. Statuses are open: a client must expect new ones, so they are examples and no enum. Shapes of
answers name every field; in the description they stay open, because the API promises that fields are
added, and a test closes them to see that nothing undescribed comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.sandbox.cloud import actions, disk_orders, instances, volumes
from controller.sandbox.cloud.answers import CODES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
UUID: Schema = {"type": "string", "format": "uuid"}
STAMP: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
PRICE: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?$", "description": "for the whole machine"}
CURRENCY: Schema = {"enum": ["usd", "eur"]}
ANY: Schema = {}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def known(values: tuple[str, ...]) -> Schema:
    return {"type": "string", "examples": list(values), "description": "open: expect values not named here"}


def shape(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required)}


SIZED = shape({"description": TEXT}, {"size_in_gigabytes": COUNT})
HARDWARE: Mapping[str, Schema] = {
    "cpu": shape({"description": TEXT, "number_of_cores": COUNT}),
    "gpu": shape({"description": TEXT, "number_of_gpus": COUNT}),
    "gpu_memory": SIZED,
    "memory": SIZED,
    "storage": SIZED,
}
VOLUME = shape(
    {
        "id": UUID,
        "name": TEXT,
        "size": COUNT,
        "type": known(disk_orders.VOLUME_TYPES),
        "status": known(volumes.STATUSES),
        "is_os_volume": FLAG,
        "location": TEXT,
        "instance_id": maybe(UUID),
        "instances": many(shape({"id": UUID, "hostname": TEXT})),
        "target": maybe(TEXT),
        "ssh_key_ids": many(TEXT),
        "created_at": STAMP,
        "contract": TEXT,
        "base_hourly_cost": NUMBER,
        "monthly_price": NUMBER,
        "currency": CURRENCY,
        "long_term": {"type": "null"},
    },
    {
        "tags": many(ref("Tag")),
        "deleted_at": STAMP,
        "is_permanently_deleted": FLAG,
        "pseudo_path": TEXT,
        "mount_command": TEXT,
        "create_directory_command": TEXT,
        "filesystem_to_fstab_command": TEXT,
    },
)
INSTANCE = shape(
    {
        "id": UUID,
        "status": known(instances.STATUSES),
        "ip": maybe(TEXT),
        "created_at": STAMP,
        "created_by_user_id": UUID,
        "hostname": TEXT,
        "description": TEXT,
        "location": TEXT,
        "instance_type": TEXT,
        "image": TEXT,
        "os_name": TEXT,
        "price_per_hour": NUMBER,
        "is_spot": FLAG,
        "contract": {"enum": ["PAY_AS_YOU_GO", "SPOT"]},
        "pricing": {"const": "FIXED_PRICE"},
        **HARDWARE,
        "ssh_key_ids": many(TEXT),
        "startup_script_id": maybe(UUID),
        "os_volume_id": maybe(UUID),
        "volume_ids": many(UUID),
        "jupyter_token": maybe(TEXT),
    },
    {"tags": many(ref("Tag"))},
)
COMPONENTS: Mapping[str, Schema] = {
    "Error": shape({"code": {"enum": sorted(CODES.values())}, "message": {"anyOf": [TEXT, many(TEXT)]}}),
    "Id": UUID,
    "Tag": shape({"id": {"type": "string", "pattern": "^tag_"}, "key": TEXT, "value": TEXT}),
    "Token": shape(
        {
            "access_token": TEXT,
            "refresh_token": TEXT,
            "token_type": {"const": "Bearer"},
            "expires_in": COUNT,
            "scope": TEXT,
        }
    ),
    "InstanceType": shape(
        {
            "id": UUID,
            "instance_type": TEXT,
            "model": TEXT,
            "name": TEXT,
            "display_name": maybe(TEXT),
            "manufacturer": TEXT,
            "description": TEXT,
            "best_for": many(TEXT),
            **HARDWARE,
            "p2p": maybe(TEXT),
            "price_per_hour": PRICE,
            "spot_price": PRICE,
            "dynamic_price": PRICE,
            "max_dynamic_price": PRICE,
            "serverless_price": PRICE,
            "serverless_spot_price": PRICE,
            "currency": CURRENCY,
            "deploy_warning": maybe(TEXT),
            "supported_os": many(TEXT),
        }
    ),
    "VolumeType": shape(
        {
            "type": known(disk_orders.VOLUME_TYPES),
            "price": shape({"price_per_month_per_gb": NUMBER, "cps_per_gb": NUMBER, "currency": CURRENCY}),
            "is_shared_fs": FLAG,
        }
    ),
    "Period": shape(
        {
            "code": TEXT,
            "name": TEXT,
            "is_enabled": FLAG,
            "unit_name": TEXT,
            "unit_value": NUMBER,
            "discount_percentage": NUMBER,
        }
    ),
    "Availability": shape({"location_code": TEXT, "availabilities": many(TEXT)}),
    "Location": shape({"code": TEXT, "name": TEXT, "country_code": TEXT}),
    "Image": shape(
        {
            "id": UUID,
            "image_type": TEXT,
            "name": TEXT,
            "is_default": FLAG,
            "is_cluster": FLAG,
            "details": many(TEXT),
            "category": TEXT,
        }
    ),
    "Balance": shape({"amount": NUMBER, "currency": CURRENCY}),
    "Instance": INSTANCE,
    "ActionResult": shape(
        {
            "instanceId": TEXT,
            "action": {"enum": list(actions.ACTIONS)},
            "status": {"enum": ["success", "error"]},
        },
        {"error": TEXT, "statusCode": COUNT},
    ),
    "Event": shape(
        {
            "id": UUID,
            "created_at": STAMP,
            "instance_id": UUID,
            "action_code": TEXT,
            "actor_id": maybe(UUID),
            "request_origin": TEXT,
            "error_message": maybe(TEXT),
            "properties": {"type": "object", "properties": {"delete_reason": TEXT}},
        }
    ),
    "Volume": VOLUME,
    "Script": shape({"id": UUID, "name": TEXT, "script": TEXT, "created_at": STAMP}),
    "SshKey": shape(
        {"id": UUID, "name": TEXT, "key": TEXT, "fingerprint": maybe(TEXT), "created_by_user_id": UUID}
    ),
}
