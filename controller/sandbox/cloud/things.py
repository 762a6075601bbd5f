"""The paths of what belongs to instances and outlives them: disks, tags, startup scripts, SSH keys."""

from __future__ import annotations

from controller.sandbox.cloud import scripts, tags, volumes
from controller.sandbox.cloud.routes import EMPTY, ID, JSON, PAGED, TAG_FILTER, Route, ok, route
from controller.sandbox.cloud.schemas import FLAG, TEXT, Schema, many, ref

BULK_SCRIPTS: Schema = {"type": "object", "required": ["scripts"]}
BULK_KEYS: Schema = {"type": "object", "required": ["keys"]}
IS_PERMANENT: Schema = {"type": "object", "properties": {"is_permanent": FLAG}}


def _by_id(name: str) -> Schema:
    """An object says the document; an array of one say both SDKs."""
    return {"anyOf": [many(ref(name)) | {"minItems": 1, "maxItems": 1}, ref(name)]}


VOLUMES = (
    route(
        "GET /volumes",
        "All that are not deleted, or those of one status",
        lambda s, r, p: volumes.list_all(s, r),
        ok(many(ref("Volume"))),
        query={"status": TEXT, **TAG_FILTER},
    ),
    route(
        "POST /volumes",
        "Make a disk",
        lambda s, r, p: volumes.create(s, r),
        {202: ID},
        402,
        403,
        body=ref("VolumeOrder"),
    ),
    route(
        "PUT /volumes",
        "Act on one disk or several",
        lambda s, r, p: volumes.act(s, r),
        {
            202: {
                "": {},
                JSON: {"anyOf": [many(ref("Id")), {"type": "object", "required": ["id"]}]},
            },
            204: EMPTY,
        },
        402,
        403,
        404,
        body=ref("VolumeAction"),
    ),
    route(
        "GET /volumes/trash",
        "Disks that can be restored",
        lambda s, r, p: volumes.list_trash(s),
        ok(many(ref("Volume"))),
    ),
    route(
        "GET /volumes/{id}",
        "One disk, also when it is deleted",
        lambda s, r, p: volumes.read(s, p["id"]),
        ok(ref("Volume")),
        404,
    ),
    route(
        "DELETE /volumes/{id}",
        "Into the trash, or for good",
        lambda s, r, p: volumes.delete(s, r, p["id"]),
        {202: EMPTY, 204: EMPTY},
        403,
        404,
        body=IS_PERMANENT,
    ),
)


def _tags(kind: str) -> tuple[Route, ...]:
    return (
        route(
            f"GET /{kind}/{{id}}/tags",
            "Its tags",
            lambda s, r, p: tags.list_tags(s, kind, p["id"]),
            ok(many(ref("Tag"))),
            403,
            404,
        ),
        route(
            f"POST /{kind}/{{id}}/tags",
            "Link a tag",
            lambda s, r, p: tags.link(s, r, kind, p["id"]),
            {201: {JSON: ref("Tag")}},
            403,
            404,
            409,
            body=ref("TagGiven"),
        ),
        route(
            f"DELETE /{kind}/{{id}}/tags/{{tag}}",
            "Unlink a tag, by its id or its key",
            lambda s, r, p: tags.unlink(s, kind, p["id"], p["tag"]),
            {204: EMPTY},
            403,
            404,
        ),
    )


TAGS = _tags("instances") + _tags("volumes")

SCRIPTS = (
    route(
        "GET /scripts",
        "Startup scripts, newest first",
        lambda s, r, p: scripts.list_scripts(s, r),
        ok(many(ref("Script"))),
        query=PAGED | {"name": TEXT, "orderBy": TEXT, "orderDirection": TEXT},
    ),
    route(
        "POST /scripts",
        "Make one",
        lambda s, r, p: scripts.create_script(s, r),
        {201: ID},
        body=ref("ScriptGiven"),
    ),
    route(
        "DELETE /scripts",
        "Delete several",
        lambda s, r, p: scripts.delete_scripts(s, r),
        {200: EMPTY},
        body=BULK_SCRIPTS,
    ),
    route(
        "GET /scripts/{id}", "One", lambda s, r, p: scripts.read_script(s, p["id"]), ok(_by_id("Script")), 404
    ),
    route(
        "DELETE /scripts/{id}",
        "Delete one",
        lambda s, r, p: scripts.delete_script(s, p["id"]),
        {200: EMPTY},
        404,
    ),
)

KEYS = tuple(
    made
    for keys in ("ssh-keys", "sshkeys")
    for made in (
        route(f"GET /{keys}", "SSH keys", lambda s, r, p: scripts.list_keys(s), ok(many(ref("SshKey")))),
        route(
            f"POST /{keys}",
            "Make one",
            lambda s, r, p: scripts.create_key(s, r),
            {201: ID},
            body=ref("SshKeyGiven"),
        ),
        route(
            f"DELETE /{keys}",
            "Delete several",
            lambda s, r, p: scripts.delete_keys(s, r),
            {200: EMPTY},
            body=BULK_KEYS,
        ),
        route(
            f"GET /{keys}/{{id}}", "One", lambda s, r, p: scripts.read_key(s, p["id"]), ok(_by_id("SshKey"))
        ),
        route(
            f"DELETE /{keys}/{{id}}",
            "Delete one",
            lambda s, r, p: scripts.delete_key(s, p["id"]),
            {200: EMPTY},
        ),
    )
)
