"""The knobs of the sandbox cloud.

The real API leaves many points open (is an unknown id a 400 or a 404, does the list lag, is an id
quoted); every such point is a knob here, so that a client can be tried against either answer.
Durations called "machine seconds" are divided by `speed` and may be distributions (`spread`); all
others are real seconds, because a client keeps its own clock.
"""

# ruff: noqa: RUF009  `knob` returns a dataclass field, which the rule cannot see.

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud.knobs import BadSetting, choice, expected, knob, plain, span, taken
from controller.sandbox.cloud.spread import Spread

STAGES = ("new", "pending", "ordered", "provisioning", "validating")  # before running, in some order
PER_SECOND, REFUNDED, KEPT = "per_second", "prepaid_refunded", "prepaid_kept"


@dataclass(slots=True)
class Settings:
    speed: float = knob("positive", 40.0, "machine seconds that pass in one real second")

    status_order: list[str] = knob(
        "texts",
        list(STAGES),
        "the way to running; stages whose time is 0 are left out",
        question=11,
        among=STAGES,
        needed=("ordered", "provisioning"),
    )
    new_s: Spread = span(0, 0, "in new")
    pending_s: Spread = span(
        0, 0, "in pending, which older clients know as waiting for capacity", question=11
    )
    ordered_s: Spread = span(5, 30, "in ordered, the status of an accepted create", question=9)
    provisioning_s: Spread = span(60, 180, "in provisioning", question=9)
    validating_s: Spread = span(0, 0, "in validating", question=11)
    ip_s: Spread = span(0, 0, "from running to having an ip")
    boot_s: Spread = span(60, 120, "from running to a booted system (boot_at in the state)", question=9)
    shutdown_s: Spread = span(5, 20, "from running to offline")
    start_s: Spread = span(20, 60, "from offline to running")
    delete_s: Spread = span(30, 120, "from deleting to discontinued")
    volume_detach_s: Spread = span(0, 0, "from discontinued to its kept disks being detached")
    volume_gone_s: Spread = span(60, 180, "from discontinued to its condemned disks being gone")
    volume_delete_s: Spread = span(5, 30, "from deleting a detached disk to its being gone")
    volume_change_s: Spread = span(0, 0, "making, attaching, detaching, cloning or restoring a disk")
    trash_hours: float = knob("positive", 96.0, "machine hours in the trash before a disk is purged")

    list_lag_s: float = knob("number", 0.0, "real seconds until a new instance appears in the list")
    list_cache_s: float = knob("number", 0.0, "real seconds for which a list of instances or disks is stale")
    list_total_extra: int | None = knob(
        "count?", None, "how far X-Total-Count is above what came; null = only pages have one, and true"
    )
    discontinued_listed_s: float = knob(
        "number", 0.0, "machine seconds a discontinued one stays listed", question=7
    )
    discontinued_readable_s: float | None = knob(
        "number?", None, "machine seconds a discontinued one can be read by id; null = for ever", question=7
    )
    hide_from_list: list[str] = knob("texts", [], "ids or hostnames that the list leaves out")
    stale_volume_instance_id: bool = knob("flag", False, "a detached disk still names its old instance")
    status_alias: dict[str, str] = knob("texts_by_text", {}, "statuses shown under another name")
    extra_fields: dict[str, Any] = knob("object", {}, "fields added to every instance and disk shown")
    public_ip: bool = knob("flag", True, "running instances get an ip; otherwise it stays null")
    jupyter_token: bool = knob("flag", False, "instances carry a jupyter token, which is a secret")
    evictions_in_journal: bool = knob("flag", True, "the journal tells that an eviction was one")
    empty_locations: str = choice("listed", ("listed", "omitted"), "availability of a place without stock")
    availability_as: str = choice(
        "boolean", ("boolean", "text"), "how the availability of one type is written"
    )

    id_body: str = choice(
        "plain",
        ("plain", "quoted", "newline", "spaces", "object", "empty"),
        "how a new id is written",
        question=2,
    )
    id_content_type: str = choice(
        "text/plain", ("text/plain", "application/json"), "what a plain id is called", question=2
    )
    clone_answer: str = choice(
        "array", ("array", "object"), "a clone answers [id], or {id} as the newer text"
    )
    unknown_id_status: int = choice(404, (400, 404), "answer to an unknown instance id", question=1)
    unknown_path_status: int = choice(403, (403, 404), "answer to a path that is not documented")
    by_id_as_array: bool = knob("flag", True, "scripts and keys by id come as an array of one", question=3)
    undeletable_statuses: list[str] = knob(
        "texts", ["provisioning"], "statuses that refuse a delete", question=5
    )
    action_refused_status: int = choice(403, (400, 403), "answer to an action the status forbids", question=5)
    refusals_as_207: bool = knob("flag", False, "an action refused for a single id is told in a 207 too")
    all_refused_status: int = choice(207, (207, 400), "answer to an action refused for each of several ids")
    hibernate_running: bool = knob("flag", True, "hibernate also from running, not only from offline")
    delete_discontinued_status: int = choice(204, (204, 403), "answer to deleting a deleted instance")
    repeated_permanent_delete_status: int = choice(204, (204, 400), "the same, for a destroyed disk")
    omitted_volume_ids: str = choice(
        "delete_os",
        ("delete_os", "keep_all"),
        "what a delete without volume_ids does to the OS disk",
        question=4,
    )
    permanent_without_ids: bool = knob("flag", False, "delete_permanently also counts without volume_ids")
    error_message_as_list: bool = knob("flag", False, "validation messages come as a list of texts")
    strict_user_agent: bool = knob("flag", False, "requests without a User-Agent are refused")

    credentials: str | None = knob("text?", None, "the only `id:secret` accepted; null = any")
    projects: dict[str, str] = knob(
        "texts_by_text", {}, "projects beside the first one, each with its credentials: {name: id:secret}"
    )
    project_per_client: bool = knob("flag", False, "any other client id is a project of its own")
    token_ttl_s: float = knob("positive", 3600.0, "life of an access token, real seconds")
    refresh_ttl_s: float = knob("positive", 86400.0, "life of a refresh token, real seconds", question=9)
    refresh_refused_status: int = choice(401, (400, 401), "answer to a refresh token that is stale")

    rate_limits: bool = knob("flag", True, "count requests, send the headers, answer 429")
    project_limit: int = knob("count", 500, "requests in a window, all together")
    endpoint_limit: int = knob("count", 60, "requests in a window to one method and path")
    list_limit: int = knob("count", 120, "the same, for the lists of instances and volumes")
    rate_window_s: float = knob("positive", 60.0, "length of a window, real seconds")
    rate_limit_body: str = choice("json", ("json", "text"), "body of a 429; text has 11 bytes", question=8)
    limit_ignores_query: bool = knob("flag", True, "a query string does not make another path", question=8)
    limit_public: bool = knob("flag", False, "tokens and public paths are limited too, all clients together")

    tags: bool = knob("flag", True, "tags exist; otherwise they are ignored, as before September 2026")
    tags_refused: bool = knob("flag", False, "a request that carries tags is a 400, as if they did not exist")
    nested_tags: bool = knob("flag", True, "disks made with an instance may carry tags; otherwise ignored")
    any_ssh_key: bool = knob("flag", True, "any ssh key id is accepted in a create")
    require_ssh_key: bool = knob("flag", False, "a create without ssh keys is refused", question=6)
    null_on_spot_discontinue: bool = knob("flag", True, "its explicit null is accepted off the spot market")
    unique_hostnames: bool = knob("flag", False, "a hostname in use is refused", question=10)
    hostname_max: int | None = knob("count?", None, "longest hostname; null = any", question=6)
    description_max: int = knob("count", 60, "longest description", question=6)
    os_volume_default_gb: int = knob("count", 50, "size of an OS disk when none is given")
    os_volume_min_gb: int = knob("count", 50, "smallest OS disk")
    volume_max_gb: int = knob("count", 10240, "largest disk")

    gpu_quota: int | None = knob("count?", None, "GPUs at once", question=9)
    vcpu_quota: int | None = knob("count?", None, "vCPUs at once", question=9)
    instance_quota: int | None = knob("count?", None, "instances at once", question=9)
    storage_quota_gb: int | None = knob("count?", None, "storage, trash included", question=9)
    volume_quota: int | None = knob("count?", None, "disks, trash included", question=9)
    script_quota: int = knob("count", 100, "startup scripts")

    stock_taken: str = choice("acceptance", ("acceptance", "provisioning"), "when a create takes stock")
    balance: Decimal = knob("money", Decimal(10000), "money there is now; a new project begins with it")
    currency: str = choice("usd", ("usd", "eur"), "currency of the project")
    euro_rate: Decimal = knob("money", Decimal("0.86"), "euros for a dollar, for prices asked in euros")
    billing: str = choice(
        PER_SECOND, (PER_SECOND, REFUNDED, KEPT), "by the second, or by increments paid when they begin"
    )
    billing_increment_s: float = knob("positive", 600.0, "machine seconds paid in advance")
    bill_trash: str = choice(
        "on_restore", ("on_restore", "always", "never"), "when the time in the trash is charged"
    )
    bill_while_deleting: bool = knob("flag", False, "the meter runs until discontinued, not until deleting")
    bill_no_capacity: bool = knob("flag", False, "an instance in no_capacity goes on costing")
    run_out_disks: str = choice("trash", ("trash", "destroy"), "where disks go when the balance is empty")
    volume_gb_month: Decimal = knob("money", Decimal("0.20"), "price of a GB of NVMe for a month")

    prices: dict[str, Any] = knob(
        "prices", {}, "prices that differ: {type: {price_per_hour, spot_price}}; new instances pay them"
    )
    removed_types: list[str] = knob("texts", [], "types that left the catalogue")
    renamed_types: dict[str, str] = knob("texts_by_text", {}, "types sold under another name: {old: new}")
    added_types: dict[str, str] = knob(
        "texts_by_text", {}, "types that appeared: {new: the known one it is like, stock included}"
    )
    supported_os: dict[str, list[str]] = knob(
        "lists_by_text", {}, "images that a type supports, where they differ: {type: [slugs]}"
    )

    def changed(self, values: Any) -> Settings:
        """A copy with some knobs changed; raises `BadSetting` and changes nothing on a bad one."""
        if not isinstance(values, dict):
            raise BadSetting("settings", values, "an object of knobs")
        known = {each.name: each.metadata for each in fields(Settings)}
        new = {name: getattr(self, name) for name in known}
        for key, value in values.items():
            if key not in known:
                raise BadSetting(key, value, "no such knob; known are " + ", ".join(sorted(known)))
            new[key] = taken(key, value, known[key])
        return Settings(**new)

    def shown(self) -> dict[str, Any]:
        return {each.name: plain(getattr(self, each.name)) for each in fields(self)}

    @property
    def has_tags(self) -> bool:
        return self.tags and not self.tags_refused

    @classmethod
    def explained(cls) -> dict[str, str]:
        return {each.name: each.metadata["text"] for each in fields(cls)}

    @classmethod
    def expected(cls) -> dict[str, str]:
        return {each.name: expected(each.metadata) for each in fields(cls)}
