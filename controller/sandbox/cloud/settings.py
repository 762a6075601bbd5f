"""The knobs of the sandbox cloud, each with its default, its kind and a word of explanation.

The real API leaves many points open (is an unknown id a 400 or a 404, does the list lag, is an id
quoted); every such point is a knob here, so that a client can be tried against either answer.
Durations ending in `_s` that are pairs are (shortest, longest) in *machine seconds*: they are divided
by `speed`. Single `_s` values are real seconds unless their text says otherwise.
"""

# ruff: noqa: RUF009  `_knob` returns a dataclass field, which the rule cannot see.

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import Any


class BadSetting(ValueError):
    """A value that cannot be taken, naming the key, the value and what was expected."""

    def __init__(self, key: str, value: Any, expected: str) -> None:
        super().__init__(f"{key}: got {json.dumps(value, default=str)}, expected {expected}")


def _knob(kind: str, default: Any, text: str, **more: Any) -> Any:
    meta = {"kind": kind, "text": text, **more}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


def _span(low: float, high: float, text: str) -> Any:
    return _knob("span", (low, high), text)


def _choice(default: Any, options: tuple[Any, ...], text: str) -> Any:
    return _knob("choice", default, text, options=options)


@dataclass(slots=True)
class Settings:
    speed: float = _knob("positive", 40.0, "machine seconds that pass in one real second")

    ordered_s: tuple[float, float] = _span(5, 30, "from acceptance to provisioning")
    provisioning_s: tuple[float, float] = _span(60, 180, "from provisioning to running")
    validating_s: tuple[float, float] = _span(0, 0, "in validating, before running; 0 leaves it out")
    boot_s: tuple[float, float] = _span(60, 120, "from running to a booted system (boot_at in the state)")
    shutdown_s: tuple[float, float] = _span(5, 20, "from running to offline")
    start_s: tuple[float, float] = _span(20, 60, "from offline to running")
    delete_s: tuple[float, float] = _span(30, 120, "from deleting to discontinued")
    volume_gone_s: tuple[float, float] = _span(60, 180, "from discontinued to its disks being gone")
    volume_delete_s: tuple[float, float] = _span(5, 30, "from deleting a detached disk to its being gone")
    trash_hours: float = _knob("positive", 96.0, "machine hours in the trash before a disk is purged")

    list_lag_s: float = _knob("number", 0.0, "real seconds until a new instance appears in the list")
    discontinued_listed_s: float = _knob("number", 0.0, "machine seconds a discontinued one stays listed")
    discontinued_readable_s: float | None = _knob(
        "number?", None, "machine seconds a discontinued one can be read by id; null = for ever"
    )
    hide_from_list: list[str] = _knob("texts", [], "ids or hostnames that the list leaves out")
    stale_volume_instance_id: bool = _knob("flag", False, "a detached disk still names its old instance")
    status_alias: dict[str, str] = _knob("texts_by_text", {}, "statuses shown under another name")
    extra_fields: dict[str, Any] = _knob("object", {}, "fields added to every instance shown")
    public_ip: bool = _knob("flag", True, "running instances get an ip; otherwise it stays null")

    id_body: str = _choice("plain", ("plain", "quoted", "newline"), "how a new id is written")
    unknown_id_status: int = _choice(404, (400, 404), "answer to an unknown instance id")
    by_id_as_array: bool = _knob("flag", True, "scripts and keys by id come as an array of one")
    undeletable_statuses: list[str] = _knob("texts", ["provisioning"], "statuses that refuse a delete")
    action_refused_status: int = _choice(403, (400, 403), "answer to an action the status forbids")
    delete_discontinued_status: int = _choice(204, (204, 403), "answer to deleting a deleted instance")
    repeated_permanent_delete_status: int = _choice(204, (204, 400), "the same, for a destroyed disk")
    omitted_volume_ids: str = _choice(
        "delete_os", ("delete_os", "keep_all"), "what a delete without volume_ids does to the OS disk"
    )
    error_message_as_list: bool = _knob("flag", False, "validation messages come as a list of texts")
    strict_user_agent: bool = _knob("flag", False, "requests without a User-Agent are refused")

    credentials: str | None = _knob("text?", None, "the only `id:secret` accepted; null = any")
    token_ttl_s: float = _knob("positive", 3600.0, "life of an access token, real seconds")
    refresh_ttl_s: float = _knob("positive", 86400.0, "life of a refresh token, real seconds")

    rate_limits: bool = _knob("flag", True, "count requests, send the headers, answer 429")
    project_limit: int = _knob("count", 500, "requests in a window, all together")
    endpoint_limit: int = _knob("count", 60, "requests in a window to one method and path")
    list_limit: int = _knob("count", 120, "the same, for the lists of instances and volumes")
    rate_window_s: float = _knob("positive", 60.0, "length of a window, real seconds")
    rate_limit_body: str = _choice("json", ("json", "text"), "body of a 429; text has 11 bytes")

    tags: bool = _knob("flag", True, "tags exist; otherwise they are ignored, as before September 2026")
    any_ssh_key: bool = _knob("flag", True, "any ssh key id is accepted in a create")
    require_ssh_key: bool = _knob("flag", False, "a create without ssh keys is refused")
    null_on_spot_discontinue: bool = _knob("flag", True, "its explicit null is accepted off the spot market")
    unique_hostnames: bool = _knob("flag", False, "a hostname in use is refused")
    hostname_max: int | None = _knob("count?", None, "longest hostname; null = any")
    description_max: int = _knob("count", 60, "longest description")
    os_volume_default_gb: int = _knob("count", 50, "size of an OS disk when none is given")
    os_volume_min_gb: int = _knob("count", 50, "smallest OS disk")
    volume_max_gb: int = _knob("count", 10240, "largest disk")

    gpu_quota: int | None = _knob("count?", None, "GPUs at once")
    instance_quota: int | None = _knob("count?", None, "instances at once")
    storage_quota_gb: int | None = _knob("count?", None, "storage, trash included")
    volume_quota: int | None = _knob("count?", None, "disks, trash included")
    script_quota: int = _knob("count", 100, "startup scripts")

    stock_taken: str = _choice("acceptance", ("acceptance", "provisioning"), "when a create takes stock")
    balance: Decimal = _knob("money", Decimal(10000), "money there is now")
    currency: str = _choice("usd", ("usd", "eur"), "currency of the project")
    euro_rate: Decimal = _knob("money", Decimal("0.86"), "euros for a dollar, for prices asked in euros")
    billing_increment_s: float = _knob("positive", 600.0, "machine seconds paid in advance")
    refund_unused: bool = _knob("flag", True, "the rest of an increment is paid back on delete")
    bill_while_deleting: bool = _knob("flag", False, "the meter runs until discontinued, not until deleting")
    bill_no_capacity: bool = _knob("flag", False, "an instance in no_capacity goes on costing")
    volume_gb_month: Decimal = _knob("money", Decimal("0.20"), "price of a GB of NVMe for a month")

    prices: dict[str, Any] = _knob(
        "prices", {}, "prices that differ: {type: {price_per_hour, spot_price}}; new instances pay them"
    )
    removed_types: list[str] = _knob("texts", [], "types that left the catalogue")
    renamed_types: dict[str, str] = _knob("texts_by_text", {}, "types sold under another name: {old: new}")

    def changed(self, values: Any) -> Settings:
        """A copy with some knobs changed; raises `BadSetting` and changes nothing on a bad one."""
        return _build(self, values)

    def shown(self) -> dict[str, Any]:
        return {key: _plain(value) for key, value in asdict(self).items()}

    @classmethod
    def explained(cls) -> dict[str, str]:
        return {knob.name: knob.metadata["text"] for knob in fields(cls)}


def _build(base: Settings, values: Any) -> Settings:
    if not isinstance(values, dict):
        raise BadSetting("settings", values, "an object of knobs")
    known = {knob.name: knob.metadata for knob in fields(Settings)}
    new = {name: getattr(base, name) for name in known}
    for key, value in values.items():
        if key not in known:
            raise BadSetting(key, value, "no such knob; known are " + ", ".join(sorted(known)))
        new[key] = _taken(key, value, known[key])
    return Settings(**new)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return round(float(value), 4)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _taken(key: str, value: Any, meta: Mapping[str, Any]) -> Any:
    kind: str = meta["kind"]
    if kind.endswith("?") and value is None:
        return None
    match kind.rstrip("?"):
        case "flag" if isinstance(value, bool):
            return value
        case "text" if isinstance(value, str) and value:
            return value
        case "count" if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        case "number" if _is_number(value) and value >= 0:
            return float(value)
        case "positive" if _is_number(value) and value > 0:
            return float(value)
        case "choice" if any(value == option and type(value) is type(option) for option in meta["options"]):
            return value
        case "span" if _is_number(value) and value >= 0:
            return (float(value), float(value))
        case "span" if isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)):
            if 0 <= value[0] <= value[1]:
                return (float(value[0]), float(value[1]))
        case "texts" if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return list(value)
        case "texts_by_text" if isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
            return dict(value)
        case "object" if isinstance(value, dict):
            return dict(value)
        case "money":
            return money(key, value)
        case "prices" if isinstance(value, dict):
            return {name: _price_row(f"{key}.{name}", row) for name, row in value.items()}
    raise BadSetting(key, value, _expected(kind, meta))


def _expected(kind: str, meta: Mapping[str, Any]) -> str:
    words = {
        "flag": "true or false",
        "text": "a text",
        "count": "a whole number, 0 or more",
        "number": "a number, 0 or more",
        "positive": "a number above 0",
        "span": "[shortest, longest] in machine seconds, or one number",
        "texts": "a list of texts",
        "texts_by_text": "an object of texts",
        "object": "an object",
        "prices": "{type: {price_per_hour, spot_price}}",
    }
    if kind == "choice":
        return "one of " + ", ".join(str(option) for option in meta["options"])
    return words[kind.rstrip("?")] + (" or null" if kind.endswith("?") else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def money(key: str, value: Any) -> Decimal:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal(-1)
    if isinstance(value, bool) or not amount.is_finite() or amount < 0:
        raise BadSetting(key, value, "an amount of money, 0 or more")
    return amount


def _price_row(key: str, row: Any) -> dict[str, Decimal]:
    if not isinstance(row, dict) or not set(row) <= {"price_per_hour", "spot_price"}:
        raise BadSetting(key, row, "an object with price_per_hour, spot_price or both")
    return {name: money(f"{key}.{name}", value) for name, value in row.items()}
