"""Whether a machine of the account is one that a predecessor of ours made for this cluster, told by its rules.

Pure, and every doubt is a "no": hostname, description and the Node's provider ID must agree, and the Node must be
registered here. Prefixes do not do: in one of these projects a group `gpu` swallowed the machines of `gpu-large`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from controller.domain import names
from controller.domain.cloudthings import Instance
from controller.domain.kube import Node
from controller.domain.policy import Policy
from controller.fleet.identity import CLOCK_SLACK

CA_VERDA, DATACRUNCH, VERDACLOUD = "ca-verda", "datacrunch", "verdacloud"
PROJECTS = (CA_VERDA, DATACRUNCH, VERDACLOUD)
LONG_TERM = "LONG_TERM"
# <group>-<8 hex>; <group>-<hex of a number of 63 bits>; <prefix>-vm-<location>-<8 hex, earlier 2 digits>
_HOSTNAMES = {
    CA_VERDA: re.compile(r"(?P<group>.+)-[0-9a-f]{8}"),
    DATACRUNCH: re.compile(r"(?P<group>.+)-[0-9a-f]{1,16}"),
    VERDACLOUD: re.compile(r"(?P<group>.+)-vm-(?P<location>[a-z]{2,4}-[0-9]{1,3})-(?:[0-9a-f]{8}|[0-9]{2})"),
}
_WORD = r"(?<![A-Za-z0-9._-]){}(?![A-Za-z0-9_-])"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that looks like the project's; `because` says why it is not taken over, "": it can be."""

    instance: Instance
    group: str
    pool: str = ""
    node: str = ""
    because: str = ""
    known: bool = False  # it is ours already


def slug(group: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", group.lower()).strip("-")


def judge(
    project: str,
    instance: Instance,
    nodes: Sequence[Node],
    policy: Policy,
    groups: Mapping[str, str],
    prefixes: Mapping[str, str | tuple[str, ...]],
) -> Found | None:
    """None where not even its hostname is the project's. `groups`: theirs to our pools; `prefixes`: of hostnames,
    where they are not the group's name."""
    form = _HOSTNAMES[project].fullmatch(
        instance.hostname.lower() if project == VERDACLOUD else instance.hostname
    )
    if form is None or instance.state in ("gone", "leaving"):
        return None
    group, why = _group(project, instance, form, groups, prefixes)
    found = Found(instance=instance, group=group)
    if why:
        return msgspec.structs.replace(found, because=why)
    tags = dict(instance.tags)
    if names.TAG_CLUSTER in tags:
        ours = tags[names.TAG_CLUSTER] == policy.cluster_id and names.TAG_INTENT in tags
        because = "" if ours else f"it belongs to cluster {tags[names.TAG_CLUSTER]} by its tags"
        if because:
            return msgspec.structs.replace(found, because=because)
    if instance.contract == LONG_TERM:
        why = f"its contract is {LONG_TERM}: it is paid for in advance, and would be deleted as soon as it is idle"
        return msgspec.structs.replace(found, because=why)
    pool = groups.get(group) or next((p.name for p in policy.pools if p.name in (group, slug(group))), "")
    if not pool or policy.pool(pool) is None:
        return msgspec.structs.replace(found, because=f"no pool is configured for its group {group}")
    node, why = _node(project, instance, nodes)
    return msgspec.structs.replace(found, pool=pool, node=node, because=why)


def _group(
    project: str,
    instance: Instance,
    form: re.Match[str],
    groups: Mapping[str, str],
    prefixes: Mapping[str, str | tuple[str, ...]],
) -> tuple[str, str]:
    """The group that hostname and description agree on, or why they do not."""
    named, text = form["group"], instance.description.strip()
    if project == CA_VERDA:
        if not re.search(_WORD.format(re.escape(named)), text):
            return named, f"its description does not name the group {named} of its hostname"
        return named, ""
    if project == DATACRUNCH:
        return named, "" if text == named else f"its description is not the group {named} of its hostname"
    spelt = {_spelt(group): group for group in (*groups, text)}
    given = {_spelt(prefix): found for prefix, found in prefixes.items()}.get(named, ())
    # Several groups may have one prefix, and it may be another group's name: the description tells them apart.
    might = [*([given] if isinstance(given, str) else given), *([spelt[named]] if named in spelt else ())]
    group = next((one for one in might if one.lower() == text.lower()), (might or [named])[0])
    if text.lower() != group.lower():
        return group, f"its description is not the group {group} of its hostname"
    if form["location"] != instance.location.lower():
        return group, f"its hostname says {form['location'].upper()} and it is in {instance.location}"
    return text, ""


def _spelt(word: str) -> str:
    """As a part of a hostname."""
    return word.lower().replace(".", "-")


def _node(project: str, instance: Instance, nodes: Sequence[Node]) -> tuple[str, str]:
    """The Node that is this machine, or why none is."""
    wanted = _provider_ids(project, instance)
    claiming = [node for node in nodes if node.provider_id.lower() in wanted]
    if len(claiming) > 1:
        return "", f"nodes {', '.join(sorted(node.name for node in claiming))} all claim it"
    if not claiming:
        named = next((node for node in nodes if node.name == instance.hostname.lower()), None)
        if named is None:
            return "", "no Node of this cluster is it"
        return (
            "",
            f"Node {named.name} has provider ID {named.provider_id or 'none'}, and not {sorted(wanted)[0]}",
        )
    node = claiming[0]
    if node.name != instance.hostname.lower():
        return "", f"Node {node.name} claims it under another name than {instance.hostname}"
    if node.created and instance.created_at and node.created < instance.created_at - CLOCK_SLACK:
        return "", f"Node {node.name} is older than the machine"
    return node.name, ""


def _provider_ids(project: str, instance: Instance) -> set[str]:
    by_id, host = instance.id.lower(), instance.hostname.lower()
    location = instance.location.lower()
    return {
        CA_VERDA: {f"verda://{by_id}"},
        DATACRUNCH: {f"datacrunch://{by_id}"},
        VERDACLOUD: {f"verdacloud://{location}/{host}", f"datacrunch://{location}/{host}"},
    }[project]
