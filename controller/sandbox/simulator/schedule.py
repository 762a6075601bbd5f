"""Trouble as a list of events, each at its time: drawn from a seed, or read from a file; and what they may be.

An entry is an object with `at_s` (seconds from the beginning), `for_s` where it lasts, and one of:

* `cloud_fault`, `cluster_fault`: a rule as `/_sandbox/faults` takes it, for `for_s` or as often as it says (a
  pattern among `rows`: one of the controller's machines);
* `cloud_event`: an event as `/_sandbox/events` takes it (`shut_down` with `for_s`: started again then; `balance`: paid in again after `for_s`; `settings`, `catalogue`, `revoke_tokens` with credentials: as before after `for_s`; no `plant`); `cloud_knobs`, `cluster_knobs`: settings, for `for_s`;
* `late`: `{method, path, seconds, times}`: calls that are sent and arrive so much later;
* `cluster`: disconnect, compact, lag, forget_node, flap, reregister, taint, restart_kubelet;
* `controller`: die (`awaits` steps later), stand_still (`seconds`), clock (`seconds`), second (for `for_s`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from controller.sandbox.cloud.events import read_event
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.settings import Settings as CloudSettings
from controller.sandbox.cluster.join import read_yaml
from controller.sandbox.cluster.settings import Settings as ClusterSettings
from controller.sandbox.faults import BadRule, parse_rule
from controller.sandbox.simulator.workload import YEAR

Entry = dict[str, Any]
LEVELS = ("none", "calm", "harsh")
CLUSTER_DEEDS = (
    "disconnect", "compact", "lag", "forget_node", "flap", "reregister", "taint", "restart_kubelet",
)  # fmt: skip
CONTROLLER_DEEDS = ("die", "stand_still", "clock", "second")
KINDS = (
    "cloud_fault", "cloud_event", "cloud_knobs", "late", "cluster_fault", "cluster_knobs", "cluster",
    "controller",
)  # fmt: skip
# Knobs that would turn what a simulation stands on.
_CLOCK = "its clock is virtual"
CLOUD_IS_ONE = {
    "speed": _CLOCK,
    "projects": "it has one account",
    "project_per_client": "it has one account",
}
CLUSTER_IS_ONE = {
    "speed": _CLOCK,
    "require_token": "nobody in it has a token",
    "tokens": "nobody in it has a token",
}
METHODS = ("*", "GET", "POST", "PUT", "PATCH", "DELETE")
OURS = "{cluster}-*"  # hostnames of the controller's machines

_CREATE = {"method": "POST", "path": "/instances"}
_HTML = "<html>away</html>"


def _rules() -> list[Entry]:
    found: list[Entry] = [
        *({**_CREATE, "fault": fault} for fault in ("lose_before", "lose_after", "hang", "hang_after", "quoted", "newline", "cut_answer", "empty", "twice")),
        *({**_CREATE, "fault": "answer_after", "status": status, "body": _HTML} for status in (500, 502, 504)),
        {**_CREATE, "fault": "answer_after", "status": 202, "body": {"code": "server_error", "message": "x"}},
        {**_CREATE, "fault": "answer", "status": 503, "body": _HTML},
        {**_CREATE, "fault": "answer", "status": 402, "body": {"code": "insufficient_funds", "message": "Insufficient funds"}},
        {**_CREATE, "fault": "answer", "status": 400, "body": {"code": "invalid_request", "message": ["Storage limit exceeded"]}},
        {"path": "*", "fault": "answer", "status": 429, "body": "Rate limits", "headers": {"Retry-After": "7"}, "times": 3},
        {"path": "*", "fault": "answer", "status": 500, "body": "", "times": 4},
        {"path": "*", "fault": "lose_before", "times": 5},
        {"method": "GET", "path": "*", "fault": "lose_after", "times": 4},
        {"method": "PUT", "path": "/instances", "fault": "lose_before"},
        {"method": "PUT", "path": "/instances", "fault": "lose_after"},
        {"method": "PUT", "path": "/instances", "fault": "twice"},
        {"method": "PUT", "path": "/instances", "fault": "answer", "status": 204, "body": ""},
        {"method": "PUT", "path": "/instances", "fault": "answer", "status": 200, "body": _HTML, "times": 2},
        {"method": "PUT", "path": "/instances", "fault": "answer", "status": 404, "body": "404 page not found", "times": 2},
        {"method": "POST", "path": "/scripts", "fault": "lose_after"},
        {"method": "POST", "path": "/scripts", "fault": "answer", "status": 400, "body": {"code": "invalid_request", "message": "Startup script limit exceeded"}},
        {"method": "DELETE", "path": "/scripts/*", "fault": "lose_after"},
        {"method": "DELETE", "path": "/scripts/*", "fault": "answer", "status": 404, "body": "404 page not found"},
        {"method": "DELETE", "path": "/volumes/*", "fault": "answer", "status": 500, "body": "", "times": 3},
        {"method": "GET", "path": "/instances", "fault": "answer", "status": 200, "body": []},
        {"method": "GET", "path": "/instances", "fault": "answer", "status": 200, "body": [], "headers": {"X-Total-Count": "9"}, "times": 2},
        {"method": "GET", "path": "/instances", "fault": "leave_out", "times": 2},
        *({"method": "GET", "path": "/instances", "fault": "leave_out", "rows": [OURS], "times": times} for times in (2, 6)),
        {"method": "GET", "path": "/instances", "fault": "total_above", "times": 3},
        {"method": "GET", "path": "/instances/*", "fault": "answer", "status": 404, "body": {"code": "not_found", "message": "Instance not found"}},
        {"method": "GET", "path": "/instances/*", "fault": "answer", "status": 500, "body": "", "times": 6},
        {"method": "GET", "path": "/volumes", "fault": "answer", "status": 200, "body": []},
        {"method": "GET", "path": "/scripts", "fault": "answer", "status": 200, "body": [], "times": 2},
        {"method": "GET", "path": "/instance-availability", "fault": "answer", "status": 200, "body": [], "times": 2},
        {"method": "GET", "path": "/instance-types", "fault": "answer", "status": 200, "body": []},
    ]  # fmt: skip
    return found


CLOUD_RULES = _rules()
CLUSTER_RULES: list[Entry] = [
    {"path": "*", "fault": "answer", "status": 500, "body": "", "times": 5},
    {"path": "*", "fault": "lose_before", "times": 6},
    {"path": "*", "fault": "lose_after", "times": 4},
    {"method": "PUT", "path": "*/configmaps/*", "fault": "lose_after", "times": 2},
    {"method": "PUT", "path": "*/configmaps/*", "fault": "answer", "status": 409, "body": "", "times": 3},
    {"method": "PUT", "path": "*/configmaps/*", "fault": "delay_answer", "seconds": 12, "times": 2},
    {"method": "PUT", "path": "*/leases/*", "fault": "lose_after", "times": 3},
    {"method": "PUT", "path": "*/leases/*", "fault": "answer", "status": 500, "body": "", "times": 6},
    {"method": "PATCH", "path": "*/nodes/*", "fault": "lose_after", "times": 2},
    {"method": "PATCH", "path": "*/nodes/*", "fault": "answer", "status": 409, "body": "", "times": 2},
    {"method": "PATCH", "path": "*/nodes/*", "fault": "delay_answer", "seconds": 20, "times": 2},
    {"method": "DELETE", "path": "*/nodes/*", "fault": "lose_after"},
    {"method": "POST", "path": "*/eviction", "fault": "answer", "status": 429, "body": "", "times": 4},
    {"method": "GET", "path": "*/pods", "fault": "hang", "times": 2},
    {"method": "GET", "path": "*/secrets/*", "fault": "answer", "status": 403, "body": "", "times": 3},
]  # fmt: skip
KNOBS: list[Entry] = [
    {"list_lag_s": 8}, {"list_lag_s": 45}, {"discontinued_listed_s": 60}, {"discontinued_readable_s": 5},
    {"unknown_id_status": 400}, {"delete_discontinued_status": 403}, {"action_refused_status": 400},
    {"status_alias": {"provisioning": "dreaming"}}, {"id_body": "quoted"}, {"list_cache_s": 20},
    {"undeletable_statuses": ["provisioning", "ordered"]}, {"error_message_as_list": True}, {"public_ip": False},
    {"stock_taken": "provisioning"}, {"stale_volume_instance_id": True}, {"extra_fields": {"colour": "green"}},
    {"by_id_as_array": False}, {"delete_s": 600}, {"tags_refused": False}, {"gpu_quota": 6}, {"provisioning_s": 900},
    {"script_quota": 9}, {"removed_types": ["1A100.22V", "1L40S.20V"]}, {"project_limit": 60},
]  # fmt: skip
CLUSTER_KNOBS: list[Entry] = [
    {"never_join": ["*"]}, {"never_ready": ["*"]}, {"gpus_never": ["*"]}, {"boot": [600, 1200]}, {"gpu": [300, 900]},
    {"gone_as_http": True}, {"history": 5}, {"pod_start": [60, 120]},
    {"gpus_lost": {"*": 1}}, {"gpus_fewer": {"*": 1}}, {"gpus_sliced": {"*": 2}},
]  # fmt: skip


def _die(rng: random.Random) -> Entry:
    return {"controller": "die", "awaits": rng.choice((1, 5, 20, 60, rng.randrange(1, 400)))}


def _event(rng: random.Random) -> Entry:
    host = {"hostname": OURS, "count": 1}
    return {"cloud_event": rng.choice((
        {"event": "outcomes", "rows": [{"outcome": rng.choice(("no_capacity", "installation_failed", "error", "stuck")), "after_s": rng.choice((None, 5, 30, 150)), "times": rng.choice((1, 1, 3))}]},
        {"event": "evict", **host},
        {"event": "delete", **host, "disks": rng.choice(("keep", "trash", "destroy"))},
        {"event": "fail", **host, "into": rng.choice(("error", "dreaming"))},
        {"event": "stock", "rows": [{"instance_type": "*", "count": 0}]},
        {"event": "revoke_tokens"},
    ))}  # fmt: skip


def _shut_down(rng: random.Random) -> Entry:
    """For good, or until somebody starts it again."""
    event = {"event": "shut_down", "hostname": OURS, "count": 1}
    return {"cloud_event": event, "for_s": rng.choice((0, 120, 400, 1500))}


_HARSH: list[tuple[float, Callable[[random.Random], Entry]]] = [
    (26, lambda rng: {"cloud_fault": {"nth": rng.choice((1, 1, 2, 3)), **rng.choice(CLOUD_RULES)}}),
    (12, lambda rng: {"cluster_fault": rng.choice(CLUSTER_RULES)}),
    (8, lambda rng: {"cloud_knobs": rng.choice(KNOBS), "for_s": rng.choice((120, 900, 2700))}),
    (4, lambda rng: {"cluster_knobs": rng.choice(CLUSTER_KNOBS), "for_s": rng.choice((60, 300, 900))}),
    (9, _event),
    (2, _shut_down),
    (0.5, lambda rng: {"cloud_event": {"event": "balance", "amount": "0"}, "for_s": rng.choice((120, 900, 3600))}),
    (4, lambda rng: {"late": {"method": rng.choice(("POST", "PUT", "*")), "path": "/instances", "seconds": rng.choice((5, 20, 90, 400)), "times": 1}}),
    (10, lambda rng: {"cluster": rng.choice(CLUSTER_DEEDS), "seconds": rng.choice((5, 60, 300))}),
    (12, _die),
    (5, lambda rng: {"controller": "stand_still", "seconds": rng.choice((3, 15, 70, 400))}),
    (2, lambda rng: {"controller": "clock", "seconds": rng.choice((-400, -30, 30, 400)), "for_s": rng.choice((60, 1200))}),
    (4, lambda rng: {"controller": "second", "for_s": rng.choice((300, 1800))}),
    (2, lambda rng: {"cluster_fault": {"path": "*", "fault": rng.choice(("lose_before", "hang")), "times": 0}, "for_s": rng.choice((20, 90, 300))}),
    (2, lambda rng: {"cloud_fault": {"path": "*", "fault": "lose_before", "times": 0}, "for_s": rng.choice((20, 300, 1200))}),
]  # fmt: skip
_CALM: list[tuple[float, Callable[[random.Random], Entry]]] = [
    (4, lambda rng: {"cloud_fault": rng.choice(({"path": "*", "fault": "answer", "status": 500, "body": "", "times": 2}, {**_CREATE, "fault": "lose_after"}, {"method": "GET", "path": "*", "fault": "lose_after", "times": 3}))}),
    (3, lambda rng: {"cluster": rng.choice(("disconnect", "compact", "lag")), "seconds": 10}),
    (2, lambda rng: {"cloud_event": {"event": "outcomes", "rows": [{"outcome": rng.choice(("no_capacity", "installation_failed")), "times": 1}]}}),
    (2, _die),
    (1, lambda rng: {"cloud_knobs": {"list_lag_s": 8}, "for_s": 900}),
]  # fmt: skip
EVERY = {"calm": 7200.0, "harsh": 700.0}  # seconds between two, in the mean


def drawn(level: str, seed: int, hours: float, cluster_id: str) -> list[Entry]:
    if level == "none":
        return []
    rng = random.Random(f"{seed}-trouble")
    table = _HARSH if level == "harsh" else _CALM
    found, at = [], 0.0
    while (at := at + rng.expovariate(1 / EVERY[level])) < hours * 3600:
        make = rng.choices([make for _, make in table], weights=[often for often, _ in table])[0]
        found.append({"at_s": round(at, 1), **_named(make(rng), cluster_id)})
    return found


def _named(entry: Entry, cluster_id: str) -> Entry:
    ours, event, rule = OURS.format(cluster=cluster_id), entry.get("cloud_event"), entry.get("cloud_fault")
    if event and event.get("hostname") == OURS:
        return {**entry, "cloud_event": {**event, "hostname": ours}}
    if rule and rule.get("rows") == [OURS]:
        return {**entry, "cloud_fault": {**rule, "rows": [ours]}}
    return entry


# -- from a file


class BadSchedule(ValueError):
    """Names the entry, the value and what was expected."""


def read(path: str) -> list[Entry]:
    try:
        raw = read_yaml(path, "faults")
    except ValueError as problem:
        raise BadSchedule(str(problem)) from None
    if isinstance(raw, dict) and set(raw) == {"faults"}:
        raw = raw["faults"]
    if not isinstance(raw, list):
        raise BadSchedule(f"{path}: expected a list of entries")
    return [checked(f"{path}[{number}]", entry) for number, entry in enumerate(raw)]


def checked(at: str, raw: Any) -> Entry:
    if not isinstance(raw, dict):
        raise BadSchedule(f"{at}: got {raw!r}, expected an object")
    kinds = [kind for kind in KINDS if kind in raw]
    if len(kinds) != 1:
        raise BadSchedule(
            f"{at}: got {', '.join(map(str, raw))}; expected at_s and one of {', '.join(KINDS)}"
        )
    kind, value = kinds[0], raw[kinds[0]]
    for key in raw:
        if key not in ("at_s", "for_s", "seconds", "awaits", kind):
            raise BadSchedule(f"{at}.{key}: no such key")
    for key in ("at_s", "for_s"):
        _moment(f"{at}.{key}", raw.get(key, 0))
    ahead = kind == "controller" and value == "clock"  # a clock may also go back
    _moment(f"{at}.seconds", raw.get("seconds", 0), least=-YEAR if ahead else 0.0)
    _count(f"{at}.awaits", raw.get("awaits", 1))
    try:
        if kind in ("cloud_fault", "cluster_fault"):
            parse_rule(f"{at}.{kind}", value)
        elif kind == "cloud_event":
            _event_of_file(f"{at}.{kind}", value)
        elif kind in ("cloud_knobs", "cluster_knobs"):
            _knobs_of_file(f"{at}.{kind}", kind, value)
        elif kind == "late":
            _late(f"{at}.late", value)
        elif value not in (CLUSTER_DEEDS if kind == "cluster" else CONTROLLER_DEEDS):
            deeds = CLUSTER_DEEDS if kind == "cluster" else CONTROLLER_DEEDS
            raise BadSchedule(f"{at}.{kind}: got {value!r}, expected one of {', '.join(deeds)}")
    except (BadRule, BadSetting, ValueError, TypeError) as problem:
        raise BadSchedule(str(problem)) from None
    return dict(raw)


def _event_of_file(at: str, value: Any) -> None:
    read_event(Fields(at, value))
    if value["event"] == "plant":
        expected = "another event: strangers' machines, disks and scripts are there from the beginning"
        raise BadSchedule(f"{at}.event: got 'plant', expected {expected}")
    if value["event"] == "settings":
        _simulated(f"{at}.values", CLOUD_IS_ONE, value.get("values") or {})


def _knobs_of_file(at: str, kind: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise BadSchedule(f"{at}: got {value!r}, expected an object of knobs")
    try:
        if kind == "cloud_knobs":
            CloudSettings().changed(value)
        else:
            ClusterSettings().change(value)
    except ValueError as problem:
        raise BadSchedule(f"{at}.{problem}") from None
    _simulated(at, CLOUD_IS_ONE if kind == "cloud_knobs" else CLUSTER_IS_ONE, value)


def _simulated(at: str, never: Mapping[str, str], values: Mapping[str, Any]) -> None:
    for key, why in never.items():
        if key in values:
            raise BadSchedule(f"{at}.{key}: got {values[key]!r}, expected none in a simulation: {why}")


def _late(at: str, value: Any) -> None:
    fields = Fields(at, value)
    method, path = fields.any("method", "*"), fields.any("path", "")
    if method not in METHODS:
        raise fields.bad("method", f"one of {', '.join(METHODS)}")
    if not isinstance(path, str):
        raise fields.bad("path", "what the path of the calls ends with")
    if path == "*":
        raise fields.bad("path", "what the path of the calls ends with; leave it out for all")
    _moment(f"{at}.seconds", fields.any("seconds", 60.0))
    _count(f"{at}.times", fields.any("times", 1))
    fields.done()


def _moment(at: str, number: Any, *, least: float = 0.0) -> None:
    """NaN is neither less nor more than anything: a timer that waits for it waits for ever."""
    good = isinstance(number, int | float) and not isinstance(number, bool)
    if not good or not math.isfinite(number) or not least <= number <= YEAR:
        raise BadSchedule(
            f"{at}: got {number!r}, expected a number of seconds from {least:.0f} to {YEAR:.0f}"
        )


def _count(at: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise BadSchedule(f"{at}: got {number!r}, expected a whole number of 1 or more")
