"""Verda's own provider inside cluster-autoscaler, and its forerunner under the name datacrunch.

One JSON object with defaults and `groups` that override them; types and bounds stand in `--nodes`. Pods select its
nodes by the label `verda.com/node-group`, so the nodes carry it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.config.dialects.common import about_cpu, is_cpu, without_times
from controller.config.dialects.datacrunch import bounds
from controller.config.dialects.draft import Draft, Given
from controller.config.dialects.nodes import Nodes, parse_all
from controller.config.dialects.verdacloud_script import JOIN, script
from controller.config.sources import Tree
from controller.config.values import Path

NODE_GROUP = "verda.com/node-group"
_MARKETS = {"PAY_AS_YOU_GO": "on_demand_only", "SPOT": "spot_only", "LONG_TERM": "", "": "on_demand_only"}
_TOP = (
    "image", "sshKeyIDs", "billingConfig", "availableLocations", "osVolumeSize", "labels", "taints", "startupScript",
    "startupScriptEnv", "groups", "debug", "reapOrphanNodes", "reapOrphanNodesAfterCycles", "additionalVolumes",
)  # fmt: skip
_GROUP = ("labels", "taints", "billingConfig", "osVolumeSize", "availableLocations", "additionalVolumes")
_SMALLEST = 50


def translate(draft: Draft, tree: Tree, nodes: tuple[str, ...], environ: Mapping[str, str]) -> None:
    top = Given(draft, tree.data, tree.places)
    groups = top.part("groups", "a map of groups by name")
    images = top.part("image", "a map with gpu and cpu")
    script(draft, top, environ)
    if top.get("sshKeyIDs") in (None, []):
        _required(draft, top, "sshKeyIDs", "a list of at least one key")
    named = groups.data if groups is not None else {}
    used = set()
    for n, flag in enumerate(parse_all(draft, nodes, region=False, groups=named)):
        used.add(flag.group)
        _pool(draft, n, flag, top, groups.part(flag.group) if groups is not None else None, images)
    for group in groups.data if groups is not None and nodes else ():
        if group not in used and groups is not None:
            draft.warn(
                groups.where(group), groups.theirs(group), "no --nodes names it, so nothing is bought for it"
            )
    for key in ("reapOrphanNodes", "reapOrphanNodesAfterCycles"):
        if top.has(key):
            draft.warn(
                top.where(key),
                key,
                "has no effect: Nodes of machines that are proven gone are always deleted",
            )
    for key in _TOP:
        top.get(key)  # what every group overrides has an effect nowhere, and is none the worse for that
    top.leftover(_TOP)


def _pool(draft: Draft, n: int, flag: Nodes, top: Given, group: Given | None, images: Given | None) -> None:
    at: Path = ("pools", n)
    bounds(draft, n, flag)
    if flag.prefix:
        others = draft.prefixes.get(flag.prefix, ())
        draft.prefixes[flag.prefix] = (*others, flag.group)
        if others:
            draft.warn(
                "command line", f"--nodes={flag.text}",
                f"group {others[0]} has the same hostname prefix: their machines of before are told apart by their descriptions",
            )  # fmt: skip
    cpu = is_cpu(flag.kind)
    if images is not None:
        images.move("cpu" if cpu else "gpu", (*at, "image"))
        images.get("gpu" if cpu else "cpu")
    if draft.tree.get((*at, "image")) is None and (images is not None or not top.has("image")):
        draft.wrong(f"image.{'cpu' if cpu else 'gpu'}", None, "an image, because it is required", top.where())
    top.move("sshKeyIDs", (*at, "ssh_key_ids"))
    _over(draft, "availableLocations", (*at, "locations"), top, group)
    if flag.region:
        draft.put((*at, "locations"), [flag.region], "command line", f"--nodes={flag.text}: region")
        draft.spelled[f"pools[{n}].locations[0]"] = f"--nodes={flag.text}: region"
    elif draft.tree.get((*at, "locations")) in (None, []):
        _required(draft, top, "availableLocations", "a list of at least one location")
    _disk(draft, at, top, group)
    _market(draft, at, top, group)
    _labels(draft, at, flag, top, group)
    _taints(draft, at, top, group)
    draft.put((*at, "join"), JOIN, top.where("startupScript"), "startupScript")
    for given in (top, group):
        if given is not None and given.get("additionalVolumes"):
            draft.warn(
                given.where("additionalVolumes"), given.theirs("additionalVolumes"),
                "has no counterpart: machines have a system disk (disk_gb) and no other",
            )  # fmt: skip
    if group is not None:
        about_cpu(draft, group, flag.kind, draft.tree.get((*at, "labels")))
        group.leftover(_GROUP)
    else:
        about_cpu(draft, top, flag.kind, draft.tree.get((*at, "labels")))


def _required(draft: Draft, top: Given, key: str, what: str) -> None:
    """To us both may be empty and mean any or none; who comes from there has never had such a configuration."""
    value, where = ("[]", top.where(key)) if top.get(key) == [] else (None, top.where())
    draft.wrong(key, value, f"{what}, because it is required", where)


def _over(draft: Draft, key: str, to: Path, top: Given, group: Given | None) -> None:
    """The group's value, or the one for all."""
    given = group if group is not None and group.get(key) not in (None, []) else top
    given.move(key, to)


def _disk(draft: Draft, at: Path, top: Given, group: Given | None) -> None:
    for given in (group, top):
        size = given.get("osVolumeSize") if given is not None else None
        if given is None or size is None:
            continue
        if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _SMALLEST:
            draft.warn(
                given.where("osVolumeSize"),
                given.theirs("osVolumeSize"),
                f"the smallest disk has {_SMALLEST} GB",
            )
            continue
        given.move("osVolumeSize", (*at, "disk_gb"))
        return
    draft.put((*at, "disk_gb"), _SMALLEST, top.where("osVolumeSize"), "osVolumeSize", "the default there")


def _market(draft: Draft, at: Path, top: Given, group: Given | None) -> None:
    billing = group.part("billingConfig") if group is not None else None
    if billing is None:
        billing = top.part("billingConfig")
    if billing is None:
        return
    market = billing.choice("contract", _MARKETS, "on_demand_only")
    if not market:
        expected = "PAY_AS_YOU_GO or SPOT: machines are bought by the hour, LONG_TERM contracts are refused"
        found = billing.places.problem((*billing.path, "contract"), billing.get("contract"), expected)
        draft.problems.append(found)
        market = "on_demand_only"
    draft.put((*at, "market"), market, billing.where("contract"), billing.theirs("contract"))
    if billing.has("price") and billing.get("price") not in ("FIXED_PRICE", ""):
        draft.warn(
            billing.where("price"), billing.theirs("price"), "only fixed prices exist: take the setting out"
        )
    billing.leftover(("price", "contract"))


def _labels(draft: Draft, at: Path, flag: Nodes, top: Given, group: Given | None) -> None:
    """Theirs are a list of `k=v`; those of the group win. What is no pair is left out there, and told here.

    A revision of the forerunner had two maps, for machines with GPUs and for those without.
    """
    found: dict[str, Any] = {NODE_GROUP: flag.group}
    stands: dict[str, tuple[Given, Path]] = {}
    for given in (top, group):
        rows = given.get("labels") if given is not None else None
        if given is None or rows is None:
            continue
        if isinstance(rows, Mapping):
            below: Path = ("labels",)
            if (
                rows
                and set(rows) <= {"gpu", "cpu"}
                and all(isinstance(part, Mapping) for part in rows.values())
            ):
                kind = "cpu" if is_cpu(flag.kind) else "gpu"
                below, rows = (*below, kind), rows.get(kind, {})
            found |= rows
            stands |= {key: (given, (*below, key)) for key in rows}
            continue
        if not isinstance(rows, list):
            draft.problems.append(
                given.places.problem((*given.path, "labels"), rows, 'a list of "key=value"')
            )
            continue
        for n, row in enumerate(rows):
            key, sign, value = row.partition("=") if isinstance(row, str) else ("", "", "")
            if sign:
                found[key] = value
                stands[key] = given, ("labels", n)
            else:
                where, theirs = given.stands(("labels", n))
                draft.warn(where, theirs, "is not key=value and is left out")
    given = group if group is not None and group.get("labels") else top
    note = f"{NODE_GROUP} is what pods select the nodes of this provider by"
    draft.put((*at, "labels"), found, given.where("labels"), given.theirs("labels"), note)
    for key, (given, below) in stands.items():
        where, theirs = given.stands(below)
        draft.stands((*at, "labels", key), where, theirs if key in below else f"{theirs} ({key})")


def _taints(draft: Draft, at: Path, top: Given, group: Given | None) -> None:
    """Of two with one key that of the group wins; one list may have a key twice, with two effects."""
    found: list[tuple[Any, tuple[str, str]]] = []
    last = top
    for given in (top, group):
        rows = given.get("taints") if given is not None else None
        if given is None or rows is None:
            continue
        if not isinstance(rows, list):
            draft.problems.append(given.places.problem((*given.path, "taints"), rows, "a list of taints"))
            continue
        last = given if rows else last
        keys = [row["key"] for row in rows if isinstance(row, Mapping) and "key" in row]
        found = [pair for pair in found if not isinstance(pair[0], Mapping) or pair[0].get("key") not in keys]
        found += [(row, given.stands(("taints", n))) for n, row in enumerate(without_times(rows))]
    if found:
        draft.put((*at, "taints"), [row for row, _ in found], last.where("taints"), last.theirs("taints"))
    for n, (_, stands) in enumerate(found):
        draft.stands((*at, "taints", n), *stands)
