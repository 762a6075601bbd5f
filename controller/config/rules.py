"""What concerns more than one key: minimum and maximum, names that refer to each other, orders of delays.

The rules read the merged settings before the model does and skip what they cannot read, so that one
wrong value hides nothing else that is wrong; the model reports the value itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from controller.config.errors import Problem
from controller.config.kubernetes_names import parse_taint_text
from controller.config.paths import shape_at, show_path, suggestion
from controller.config.settings import Settings
from controller.config.sources import Tree
from controller.config.urls import as_sent
from controller.config.values import Path, attempt, parse_duration, parse_whole, show_duration

T = TypeVar("T")
_TO_BUY = ("instance_types", "gpu_models", "min_gpu_memory_gb")
_OWN_SCRIPT = ("startup_script_id", "script", "script_file", "script_url")


def fill_in_join(tree: Tree) -> None:
    """A pool that names no way to join has the only one there is."""
    entries, pools = tree.get(("join",)), tree.get(("pools",))
    if isinstance(entries, dict) and len(entries) == 1 and isinstance(pools, list):
        for n, pool in enumerate(pools):
            if isinstance(pool, dict) and pool.get("join") is None:
                tree.put(("pools", n, "join"), next(iter(entries)), tree.places.of(("pools", n)))


def fill_in_webhook(tree: Tree) -> None:
    """A machine that names no way to be called has the only one there is."""
    entries, machines = tree.get(("webhooks",)), tree.get(("machines",))
    if isinstance(entries, dict) and len(entries) == 1 and isinstance(machines, list):
        for n, machine in enumerate(machines):
            if isinstance(machine, dict) and machine.get("webhook") is None:
                tree.put(("machines", n, "webhook"), next(iter(entries)), tree.places.of(("machines", n)))


def check(tree: Tree, join_required: bool) -> list[Problem]:
    found = [
        *_pools(tree),
        *_pool_names(tree),
        *_headroom(tree),
        *_priorities(tree),
        *_joins(tree),
        *_orders(tree),
    ]
    found += [*_machines(tree), *_webhooks(tree)]
    return found + list(_pool_joins(tree, join_required))


def _entries(tree: Tree, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    found = tree.get(path)
    pairs: list[tuple[Any, Any]] = []
    if isinstance(found, list):
        pairs = list(enumerate(found))
    elif isinstance(found, dict):
        pairs = list(found.items())
    for key, entry in pairs:
        if isinstance(entry, dict):
            yield (*path, key), entry


def _missing(tree: Tree, path: Path, expected: str) -> Problem:
    return Problem(show_path(path), None, expected, tree.places.of(path))


def _pools(tree: Tree) -> Iterator[Problem]:
    for path, pool in _entries(tree, ("pools",)):
        if not any(pool.get(key) not in (None, 0, "0", []) for key in _TO_BUY):
            yield _missing(tree, path, f"what it may buy: {', '.join(_TO_BUY[:2])} or {_TO_BUY[2]}")
        least = attempt(parse_whole, pool.get("min") or 0)
        most = attempt(parse_whole, pool.get("max"))
        if least is not None and most is not None and least > most:
            yield tree.places.problem((*path, "min"), pool.get("min"), f"at most max ({most})")
        yield from _taints(tree, (*path, "taints"))


def _taints(tree: Tree, path: Path) -> Iterator[Problem]:
    """Kubernetes refuses a node with two taints of one key and effect."""
    found = tree.get(path)
    seen: dict[tuple[str, str], int] = {}
    for n, taint in enumerate(found if isinstance(found, list) else []):
        parts = attempt(parse_taint_text, taint) if isinstance(taint, str) else taint
        if not isinstance(parts, dict):
            continue
        mark = (str(parts.get("key")), str(parts.get("effect")))
        if mark in seen:
            yield _missing(
                tree, (*path, n), f"a key and effect once per pool; taints[{seen[mark]}] has them already"
            )
        seen.setdefault(mark, n)


def _pool_names(tree: Tree) -> Iterator[Problem]:
    for top in ("pools", "machines"):
        seen: dict[str, Path] = {}
        for path, entry in _entries(tree, (top,)):
            name = entry.get("name")
            if not isinstance(name, str):
                continue
            if name in seen:
                expected = _taken(tree, seen[name])
                yield tree.places.problem((*path, "name"), name, expected)
            seen.setdefault(name, path)


def _taken(tree: Tree, by: Path) -> str:
    return f"a name of its own; {show_path(by)} ({tree.places.of((*by, 'name'))}) has it already"


def _pool_joins(tree: Tree, required: bool) -> Iterator[Problem]:
    entries = tree.get(("join",))
    names = list(entries) if isinstance(entries, dict) else []
    for path, pool in _entries(tree, ("pools",)):
        wanted = pool.get("join")
        if wanted is None:
            if names:
                yield _missing(tree, (*path, "join"), f"the name of an entry under join: {', '.join(names)}")
            elif required:
                yield _missing(
                    tree,
                    (*path, "join"),
                    "an entry under join, because its machines could not join the cluster",
                )
        elif isinstance(wanted, str) and wanted not in names and (names or required):
            listed = ", ".join(names) if names else "there is none"
            expected = f"the name of an entry under join ({listed}){suggestion(wanted, names)}"
            yield tree.places.problem((*path, "join"), wanted, expected)


def _headroom(tree: Tree) -> Iterator[Problem]:
    names = [str(pool.get("name")) for _, pool in _entries(tree, ("pools",))]
    for path, entry in _entries(tree, ("headroom",)):
        if isinstance(entry.get("pool"), str) and entry["pool"] not in names:
            expected = f"the name of a pool{suggestion(entry['pool'], names)}"
            yield tree.places.problem((*path, "pool"), entry["pool"], expected)


def _priorities(tree: Tree) -> Iterator[Problem]:
    names = [str(one.get("name")) for top in ("pools", "machines") for _, one in _entries(tree, (top,))]
    given = tree.get(("scale_up", "priorities"))
    for number, name in enumerate(given if isinstance(given, list | tuple) else ()):
        if isinstance(name, str) and name not in names:
            path = ("scale_up", "priorities", number)
            expected = f"the name of a pool or of a machine to switch{suggestion(name, names)}"
            yield tree.places.problem(path, name, expected)


def _joins(tree: Tree) -> Iterator[Problem]:
    for path, entry in _entries(tree, ("join",)):
        if not str(path[-1]).isprintable() or not path[-1]:
            yield _missing(tree, path, "a name that is not empty, on one line")
        given = {key for key, value in entry.items() if value is not None}
        own = [key for key in _OWN_SCRIPT if key in given]
        if own:
            for key in sorted(given & {"template", "server", "token_from", "version", "ca_hash"}) + own[1:]:
                yield _missing(
                    tree, (*path, key), f"no such key beside {own[0]}: that script is used as it is"
                )
            if "startup_script_id" in given and entry.get("delete_script") == "after_create":
                expected = "after_join, because a script of your own (startup_script_id) is never deleted"
                yield tree.places.problem((*path, "delete_script"), "after_create", expected)
            if "startup_script_id" in given and entry.get("variables"):
                expected = "no such key beside startup_script_id: that script is used as it is"
                yield _missing(tree, (*path, "variables"), expected)
        elif "template" not in given:
            yield _missing(
                tree, path, "template (k3s or kubeadm), startup_script_id, or a script of your own"
            )
        else:
            for key in ("server", "token_from"):
                if key not in given:
                    yield _missing(tree, (*path, key), "a value, because the template needs it")


def _machines(tree: Tree) -> Iterator[Problem]:
    """Switched machines: whose webhook is not known, and those that share a name with a pool or an endpoint."""
    pools = {str(pool.get("name")): path for path, pool in _entries(tree, ("pools",))}
    entries = tree.get(("webhooks",))
    names = list(entries) if isinstance(entries, dict) else []
    switches_off: dict[str, Path] = {}
    for path, machine in _entries(tree, ("machines",)):
        name, wanted = machine.get("name"), machine.get("webhook")
        if isinstance(name, str) and name in pools:
            expected = _taken(tree, pools[name])
            yield tree.places.problem((*path, "name"), name, expected)
        if isinstance(wanted, str) and wanted not in names:
            listed = ", ".join(names) if names else "there is none"
            expected = f"the name of an entry under webhooks ({listed}){suggestion(wanted, names)}"
            yield tree.places.problem((*path, "webhook"), wanted, expected)
        elif wanted is None and len(names) > 1:
            expected = f"the name of an entry under webhooks: {', '.join(names)}"
            yield _missing(tree, (*path, "webhook"), expected)
        yield from _taints(tree, (*path, "taints"))
        pair = [as_sent(machine.get(f"scale_{way}_endpoint")) for way in ("up", "down")]
        entry = entries.get(wanted) if isinstance(entries, dict) and isinstance(wanted, str) else None
        says = _said(entry)
        if isinstance(pair[0], str) and pair[0] == pair[1] and "${action}" not in says:
            expected = (
                "another endpoint than scale_up_endpoint, or a webhook whose body or headers have ${action}: one that "
                "only changes over would switch a machine off that is on, because calls are repeated"
            )
            yield tree.places.problem((*path, "scale_down_endpoint"), pair[1], expected)
        if isinstance(pair[1], str) and "${machine}" not in says:
            # Entries of their own may say which machine is meant in so many words.
            call = f"{pair[1]} {json.dumps(entry, sort_keys=True, default=str)}"
            first = switches_off.setdefault(call, path)
            # One that is idle would take the power from the other.
            if first != path and tree.get((*first, "name")) != name:
                expected = (
                    f"another endpoint than that of {show_path(first)} ({tree.places.of(first)}), or a webhook whose "
                    "body or headers have ${machine}"
                )
                yield tree.places.problem((*path, "scale_down_endpoint"), pair[1], expected)


def _said(entry: Any) -> str:
    """What a call to a machine's endpoint says beside its address."""
    if not isinstance(entry, dict):
        return ""
    body = "" if entry.get("method") == "GET" else entry.get("body")  # which has none
    return f"{body} {entry.get('headers')}"


_TOLD = ("content_type", "auth.bearer", "auth.basic")  # headers of these names are an error by themselves


def _header_names(entry: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What else is sent with a call, and the key that names it."""
    if entry.get("method") != "GET":  # which says nothing of a body
        yield "content_type", "Content-Type"
    auth = entry["auth"] if isinstance(entry.get("auth"), dict) else {}
    hmac, key = auth.get("hmac"), auth.get("header")
    proof = next((name for name in ("bearer", "basic") if auth.get(name)), "")  # both are an error already
    if proof:
        yield f"auth.{proof}", "Authorization"
    yield "idempotency_header", entry.get("idempotency_header") or "Idempotency-Key"
    if isinstance(hmac, dict):
        yield "auth.hmac.header", hmac.get("header") or "X-Signature-256"
        yield "auth.hmac.timestamp_header", hmac.get("timestamp_header")
    if isinstance(key, dict):
        yield "auth.header.name", key.get("name")


def _headers(tree: Tree, path: Path, entry: dict[str, Any]) -> Iterator[Problem]:
    """Two of one name would both be sent, or one of them be left out: case does not count in them."""
    headers = entry.get("headers")
    taken: dict[str, str] = {}
    for key, name in _header_names(entry):
        form = str(name).lower()
        if name and form in taken:
            expected = f"another header: {taken[form]} is sent under that name"
            yield tree.places.problem((*path, *key.split(".")), name, expected)
        elif name:
            taken[form] = key
    seen: set[str] = set()
    for name, text in headers.items() if isinstance(headers, dict) else ():
        form = str(name).lower()
        at = (*path, "headers", str(name))
        if form in taken and taken[form] not in _TOLD:
            expected = f"another header: {taken[form]} is sent under that name"
            yield tree.places.problem(at, text, expected)
        elif form in seen:
            yield tree.places.problem(at, text, "every header once; case does not count")
        seen.add(form)


def _webhooks(tree: Tree) -> Iterator[Problem]:
    for path, entry in _entries(tree, ("webhooks",)):
        yield from _headers(tree, path, entry)
        auth, tls = entry.get("auth"), entry.get("tls")
        if isinstance(auth, dict) and auth.get("bearer") and auth.get("basic"):
            yield _missing(
                tree, (*path, "auth", "basic"), "nothing beside bearer: a call has one Authorization"
            )
        if isinstance(tls, dict) and (tls.get("certificate") is None) != (tls.get("key") is None):
            there, absent = ("certificate", "key")[:: 1 if tls.get("certificate") is not None else -1]
            yield _missing(tree, (*path, "tls", absent), f"a value, because {there} is given")


def _orders(tree: Tree) -> Iterator[Problem]:
    for low, high, strict in (
        (("deadlines", "backoff", "first"), ("deadlines", "backoff", "most"), False),
        (("timing", "quiet"), ("timing", "longest"), False),
        (("lease", "renew"), ("lease", "spend_within"), True),
        (("lease", "spend_within"), ("lease", "duration"), True),
    ):
        small, large = _read(tree, low, parse_duration), _read(tree, high, parse_duration)
        if small is None or large is None or small < large or (small == large and not strict):
            continue
        # Blame the one that was set; the other is then a default that nobody chose.
        limit = "less than" if strict else "at most"
        if tree.get(low) is not None:
            yield tree.places.problem(low, tree.get(low), f"{limit} {high[-1]} ({show_duration(large)})")
        else:
            limit = "more than" if strict else "at least"
            yield tree.places.problem(high, tree.get(high), f"{limit} {low[-1]} ({show_duration(small)})")


def _read(tree: Tree, path: tuple[str, ...], parse: Callable[[Any], T]) -> T | None:
    given = tree.get(path)
    if given is None:
        section = shape_at(Settings, path[:-1])
        if section is None or section.model is None:
            return None
        given = section.model.model_fields[path[-1]].default
    return attempt(parse, given)
