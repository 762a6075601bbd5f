"""`config.yaml` of the Python provider for cluster-autoscaler's externalgrpc interface.

Its later revisions join with a script of their own that they render from a section `kubernetes`; a
`startup_script_id` beside that is not used there, and so it is not used here either. Its prices are what people
believe they pay, so they become agreed prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.config.dialects.common import DYNAMIC, about_cpu, about_min, agreed_price
from controller.config.dialects.draft import Draft, Given, name_pool
from controller.config.sources import Tree
from controller.config.values import Path

_CONTRACTS = {"PAY_AS_YOU_GO": "on_demand_only", "SPOT": "spot_only", "LONG_TERM": ""}
_PRICINGS = {"FIXED_PRICE": "", "DYNAMIC_PRICE": DYNAMIC}
_GROUP = (
    "instance_type", "image", "min_size", "max_size", "location", "ssh_key_ids", "startup_script_id", "contract",
    "pricing", "hourly_price", "resources", "labels", "taints", "os_volume_gb",
)  # fmt: skip
_TOP = ("node_groups", "kubernetes")
_ELSEWHERE = {
    "wireguard": "has no counterpart: machines join by their public address, or by what your own startup script sets up",
    "script_template_path": "has no effect: join.<name>.script_file holds a script of your own",
    "mtls": "has no effect here: nobody connects to the standalone controller",
    "kubeconfig": "has no effect: use --kubeconfig or the service account",
    "socks": "has no effect: the controller reaches the cluster from inside",
    "socks_proxy": "has no effect: the controller reaches the cluster from inside",
}
_REPEATED = "was startup_script_id: used as it is for every machine of the group, and never deleted"


def translate(draft: Draft, tree: Tree) -> None:
    top = Given(draft, tree.data, tree.places)
    for key, words in _ELSEWHERE.items():
        if top.has(key):
            draft.warn(top.where(key), key, words)
    joins = _join_template(draft, top)
    groups = top.part("node_groups", "a map of node groups by name")
    if groups is None and not draft.problems:
        draft.wrong("node_groups", None, "a map of node groups by name", top.where())
    for n, (group, given) in enumerate(groups.parts() if groups is not None else ()):
        _group(draft, n, group, given, joins)
    top.leftover(_TOP)


def _join_template(draft: Draft, top: Given) -> str:
    """The name of the way to join that `kubernetes` describes, or ""."""
    kind = str(top.choice("script_template", {"k3s": "k3s", "kubeadm": "kubeadm"}, "kubeadm"))
    section = top.part("kubernetes")
    if section is None:
        return ""
    at: Path = ("join", kind)
    draft.tree.places.where[at] = section.where()  # of what is missing
    for ours, theirs in (("server", "endpoint"), ("token_from", "token"), ("token_from.value", "token")):
        draft.spelled[f"join.{kind}.{ours}"] = section.theirs(theirs)
    draft.put(
        (*at, "template"), kind, section.where(), section.theirs(), "was rendered by the provider itself"
    )
    if section.has("endpoint"):
        endpoint = section.get("endpoint")
        server = f"https://{endpoint}" if isinstance(endpoint, str) and "://" not in endpoint else endpoint
        draft.put((*at, "server"), server, section.where("endpoint"), section.theirs("endpoint"))
    if section.has("token"):
        where, theirs = section.where("token"), section.theirs("token")
        draft.put(
            (*at, "token_from"),
            {"value": section.get("token")},
            where,
            theirs,
            "a token in a file gets copied: put it into a Secret and write {secret: {name, key}}",
        )
        draft.warn(
            where,
            theirs,
            "a join token in the settings gets copied with them: name a Secret under token_from instead",
        )
    if kind == "kubeadm":
        section.move("ca_hash", (*at, "ca_hash"))
    section.leftover(("endpoint", "token", "ca_hash"))
    return kind


def _group(draft: Draft, n: int, group: str, given: Given, join: str) -> None:
    at: Path = ("pools", n)
    name_pool(draft, group, at, given.where(), given.theirs())
    draft.spelled[f"pools[{n}]"] = given.theirs()
    given.move("instance_type", (*at, "instance_types"), as_list=True)
    if not given.has("instance_type"):
        draft.wrong(given.theirs("instance_type"), None, "a value, because it is required", given.where())
    _move_image(draft, at, given)
    given.move("min_size", (*at, "min"))
    about_min(draft, given.get("min_size"), given.where("min_size"), given.theirs("min_size"), served=True)
    given.move("max_size", (*at, "max"))
    draft.spelled[f"pools[{n}].max"] = given.theirs("max_size")
    if given.has("location"):
        given.move("location", (*at, "locations"), as_list=True)
    else:
        draft.put(
            (*at, "locations"), ["FIN-01"], given.where(), given.theirs("location"), "the default there"
        )
    given.move("ssh_key_ids", (*at, "ssh_key_ids"))
    given.move("labels", (*at, "labels"))
    given.move("os_volume_gb", (*at, "disk_gb"))
    _move_taints(draft, at, given)
    _move_money(draft, at, given)
    _move_script(draft, at, given, join)
    about_cpu(draft, given, given.get("instance_type"), given.get("labels"))
    if given.has("resources"):
        draft.warn(
            given.where("resources"),
            given.theirs("resources"),
            "has no effect: the cloud's own catalogue tells",
        )
    given.leftover(_GROUP)


def _move_image(draft: Draft, at: Path, given: Given) -> None:
    given.move("image", (*at, "image"))
    if not given.has("image"):
        draft.wrong(given.theirs("image"), None, "a value, because it is required", given.where())


def _move_taints(draft: Draft, at: Path, given: Given) -> None:
    taints = given.get("taints")
    if isinstance(taints, Mapping):
        found = [_taint(key, value) for key, value in taints.items()]
        draft.put((*at, "taints"), found, given.where("taints"), given.theirs("taints"))
    else:
        given.move("taints", (*at, "taints"))


def _taint(key: str, value: Any) -> Any:
    """`{key: "value:Effect"}`; anything else is left as it is, for the model to complain of."""
    if not isinstance(value, str):
        return value
    text, colon, effect = value.rpartition(":")
    return {"key": key, "value": text if colon else "", "effect": effect}


def _move_money(draft: Draft, at: Path, given: Given) -> None:
    market = given.choice("contract", _CONTRACTS, "on_demand_only")
    if not market:
        expected = "PAY_AS_YOU_GO or SPOT: machines are bought by the hour, LONG_TERM contracts are refused"
        draft.problems.append(
            given.places.problem((*given.path, "contract"), given.get("contract"), expected)
        )
        market = "on_demand_only"
    draft.put((*at, "market"), market, given.where("contract"), given.theirs("contract"))
    if given.choice("pricing", _PRICINGS, "") == DYNAMIC:
        draft.warn(given.where("pricing"), given.theirs("pricing"), DYNAMIC)
    if given.has("hourly_price"):
        agreed_price(draft, given, "hourly_price", given.get("instance_type"), market)


def _move_script(draft: Draft, at: Path, given: Given, join: str) -> None:
    where, theirs = given.where("startup_script_id"), given.theirs("startup_script_id")
    if join:
        draft.put((*at, "join"), join, given.where(), theirs)
        if given.has("startup_script_id"):
            draft.warn(
                where, theirs, "has no effect beside the section kubernetes, as in the provider itself"
            )
        return
    if not given.has("startup_script_id"):
        draft.wrong(
            theirs, None, "the id of a startup script, because its machines could not join", given.where()
        )
        return
    script = given.get("startup_script_id")
    known = draft.tree.get(("join",)) or {}
    name = next((entry for entry, found in known.items() if found.get("startup_script_id") == script), "")
    if not name:
        name = str(draft.tree.get((*at, "name")))
        draft.put(("join", name, "startup_script_id"), script, where, theirs, _REPEATED)
    draft.put((*at, "join"), name, where, theirs)
