"""Whose a thing in the cloud account is, told by its marks alone: for which cluster, which intent, and why.

Two marks that agree prove it, one is only a resemblance: a look-alike is left alone, and told why. Only
tags, descriptions and scripts name the cluster by themselves; a hostname does so for those who know
what to look for, since both ids and pool names may hold hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from controller.domain import names
from controller.domain.cloudthings import Instance, Script, Volume

_SAYS = re.compile(r"gpuas (\S+) (\S+)")
_SCRIPT_MARK = re.compile(r"# gpuas (\S+) (\S+)")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What the marks of a thing say. `proven` when two of them agree and none contradicts."""

    cluster_id: str
    intent: str = ""
    marks: tuple[str, ...] = ()
    proven: bool = False
    because: str = ""  # why it is not proven


class _Mark(msgspec.Struct, frozen=True):
    words: str
    cluster_id: str
    intent: str


def _judge(marks: list[_Mark]) -> Claim | None:
    if not marks:
        return None
    said = tuple(mark.words for mark in marks)
    whole = [mark for mark in marks if mark.intent]
    agree = len({mark.cluster_id for mark in marks}) == 1 and len({mark.intent for mark in whole}) <= 1
    because = ""
    if not agree:
        because = f"its marks contradict each other ({'; '.join(said)})"
    elif len(whole) < 2:
        because = f"only one mark says so ({said[0]}); two that agree are needed"
    return Claim(
        cluster_id=marks[0].cluster_id,
        intent=whole[0].intent if whole and agree else "",
        marks=said,
        proven=not because,
        because=because,
    )


def _named(name: str, known: Iterable[str]) -> list[_Mark]:
    """The hostname's mark, for the cluster ids that are looked for; the longest id that fits is meant."""
    for cluster_id in sorted(known, key=len, reverse=True):
        found = names.parse_hostname(cluster_id, name)
        if found is not None:
            return [_Mark(f"name {name}", cluster_id, found[1])]
    return []


def _tagged(tags: tuple[tuple[str, str], ...]) -> list[_Mark]:
    found = dict(tags)
    cluster_id, intent = found.get(names.TAG_CLUSTER, ""), found.get(names.TAG_INTENT, "")
    if not cluster_id:
        return []
    words = f"tags {names.TAG_CLUSTER}={cluster_id}" + (f" {names.TAG_INTENT}={intent}" if intent else "")
    return [_Mark(words, cluster_id, intent)]


def ids_named(
    instances: Iterable[Instance], volumes: Iterable[Volume], scripts: Iterable[Script]
) -> frozenset[str]:
    """Every cluster id that some mark names by itself."""
    machines = tuple(instances)
    tags = [*(one.tags for one in machines), *(one.tags for one in volumes)]
    found = {mark.cluster_id for pairs in tags for mark in _tagged(pairs)}
    found |= {mark[0] for one in machines if (mark := _description(one.description))}
    found |= {mark[0] for one in scripts if (mark := _second_line(one.text))}
    return frozenset(cluster_id for cluster_id in found if names.NAME_FORM.fullmatch(cluster_id))


def _description(text: str) -> tuple[str, str] | None:
    found = _SAYS.fullmatch(text.strip())
    return (found[1], found[2]) if found and names.INTENT_FORM.fullmatch(found[2]) else None


def _second_line(text: str) -> tuple[str, str] | None:
    lines = text.split("\n", 2)
    found = _SCRIPT_MARK.fullmatch(lines[1].strip()) if len(lines) > 1 else None
    return (found[1], found[2]) if found else None


def of_instance(instance: Instance, known: Iterable[str]) -> Claim | None:
    said = _description(instance.description)
    marks = _tagged(instance.tags)
    if said is not None:
        marks.append(_Mark(f"description {instance.description.strip()!r}", *said))
    told = {mark.cluster_id for mark in marks}
    marks = [*_named(instance.hostname, told or known), *marks]
    claim = _judge(marks)
    if claim is not None and claim.proven:
        # The rule that the controller itself lives by has the last word.
        text = (instance.hostname, instance.description, instance.tags)
        if names.owned_intent(claim.cluster_id, *text) != claim.intent:
            return msgspec.structs.replace(claim, proven=False, because="its marks are not complete")
    return claim


def of_volume(volume: Volume, known: Iterable[str], machine: Instance | None = None) -> Claim | None:
    """`machine` is the one that it was made with, read by id, where its tags do not tell."""
    marks = _tagged(volume.tags)
    marks = [*_named(volume.name, {mark.cluster_id for mark in marks} or known), *marks]
    if machine is not None and machine.hostname == volume.name and volume.id in machine.disks:
        owner = of_instance(machine, known)
        if owner is not None and owner.proven:
            words = f"system disk of machine {machine.id}"
            marks.append(_Mark(words, owner.cluster_id, owner.intent))
    return _judge(marks)


def of_script(script: Script, known: Iterable[str]) -> Claim | None:
    said = _second_line(script.text)
    marks = [_Mark(f"second line '# gpuas {said[0]} {said[1]}'", *said)] if said else []
    for cluster_id in (said[0],) if said else sorted(known, key=len, reverse=True):
        prefix = names.script_name(cluster_id, "")
        intent = script.name[len(prefix) :] if script.name.startswith(prefix) else ""
        if names.INTENT_FORM.fullmatch(intent):
            marks = [_Mark(f"name {script.name}", cluster_id, intent), *marks]
            break
    claim = _judge(marks)
    if claim is not None and claim.proven:
        owned = names.owned_script(claim.cluster_id, script.name, script.text) == claim.intent
        return (
            claim if owned else msgspec.structs.replace(claim, proven=False, because="its marks are broken")
        )
    return claim
