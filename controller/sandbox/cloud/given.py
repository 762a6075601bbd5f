"""The shapes of what the API takes, as JSON Schemas for its description.

Explicit nulls are in them, because the SDK sends them for everything. A body may say more than its
shape does: unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.sandbox.cloud import actions, disk_orders, model, volumes
from controller.sandbox.cloud.schemas import COUNT, FLAG, TEXT, UUID, Schema, many, maybe, ref, shape
from controller.sandbox.cloud.tags import LONGEST_KEY, LONGEST_VALUE, MOST

ONE_OR_MANY: Schema = {"anyOf": [UUID, {"type": "array", "items": TEXT, "minItems": 1}]}
TAG_GIVEN = shape(
    {"key": TEXT | {"minLength": 1, "maxLength": LONGEST_KEY}},
    {"value": maybe(TEXT | {"maxLength": LONGEST_VALUE})},
)
TAGS_GIVEN: Schema = maybe(many(TAG_GIVEN) | {"maxItems": MOST})
FATE: Schema = {"enum": [*model.FATES, None]}
GIVEN: Mapping[str, Schema] = {
    "TokenRequest": shape(
        {"grant_type": {"enum": ["client_credentials", "refresh_token"]}},
        {"client_id": TEXT, "client_secret": TEXT, "refresh_token": TEXT},
    ),
    "OsVolumeGiven": shape({"name": TEXT, "size": COUNT}, {"on_spot_discontinue": FATE, "tags": TAGS_GIVEN}),
    "VolumeGiven": shape(
        {"name": TEXT, "size": COUNT}, {"type": maybe(TEXT), "on_spot_discontinue": FATE, "tags": TAGS_GIVEN}
    ),
    "InstanceOrder": shape(
        {"instance_type": TEXT, "image": TEXT, "hostname": TEXT, "location_code": TEXT},
        {
            "description": maybe(TEXT),
            "ssh_key_ids": maybe({"anyOf": [TEXT, many(TEXT)]}),
            "startup_script_id": maybe(UUID),
            "tags": TAGS_GIVEN,
            "os_volume": maybe(ref("OsVolumeGiven")),
            "volumes": maybe(many(ref("VolumeGiven"))),
            "existing_volumes": maybe(many(UUID)),
            "is_spot": maybe(FLAG),
            "contract": {"enum": ["PAY_AS_YOU_GO", "SPOT", None]},
            "pricing": {"enum": ["FIXED_PRICE", None]},
            "coupon": maybe(TEXT),
        },
    ),
    "InstanceAction": shape(
        {"action": {"enum": list(actions.ACTIONS)}, "id": ONE_OR_MANY},
        {"volume_ids": maybe(many(TEXT)), "delete_permanently": maybe(FLAG)},
    ),
    "VolumeOrder": shape(
        {"name": TEXT, "size": COUNT, "location_code": TEXT},
        {
            "type": maybe({"enum": list(disk_orders.VOLUME_TYPES)}),
            "instance_id": maybe({"anyOf": [TEXT, many(TEXT)]}),
            "instance_ids": maybe({"anyOf": [TEXT, many(TEXT)]}),
            "tags": TAGS_GIVEN,
        },
    ),
    "VolumeAction": shape(
        {"action": {"enum": list(volumes.ACTIONS)}},
        {
            "id": ONE_OR_MANY,
            "ids": ONE_OR_MANY,
            "instance_id": TEXT,
            "name": maybe(TEXT),
            "size": COUNT,
            "type": maybe(TEXT),
            "is_permanent": FLAG,
        },
    ),
    "ScriptGiven": shape({"name": TEXT, "script": TEXT}),
    "SshKeyGiven": shape({"name": TEXT, "key": TEXT}),
    "TagGiven": TAG_GIVEN,
}
