"""Names, labels, annotations, finalizers and owners, of a new object and of a changed one."""

from __future__ import annotations

from collections.abc import Callable

from controller.sandbox.cluster.errors import Cause, not_allowed_there, required, wrong
from controller.sandbox.cluster.resources import NAMESPACES, SERVICES, Obj, Resource
from controller.sandbox.cluster.rules import names

STANDARD_FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes")
IMMUTABLE = "field is immutable"
FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
NameRule = Callable[[str], tuple[str, ...]]


def name_rule(resource: Resource) -> NameRule:
    if resource is NAMESPACES:
        return names.label_name
    if resource is SERVICES:
        return names.label_name
    if resource.group == "rbac.authorization.k8s.io":
        return names.path_segment
    return names.subdomain


def new_metadata(resource: Resource, obj: Obj) -> list[Cause]:
    meta, causes = obj["metadata"], list[Cause]()
    rule = name_rule(resource)
    if begun := meta.get("generateName"):
        # A prefix may end where a whole name may not.
        trimmed = begun[:-1] + "a" if begun.endswith("-") else begun
        causes += [wrong("metadata.generateName", begun, each) for each in rule(trimmed)]
    name = meta.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [wrong("metadata.name", name, each) for each in rule(name)]
    return causes + _decorations(meta)


def _decorations(meta: Obj) -> list[Cause]:
    causes = labels(meta.get("labels"), "metadata.labels")
    for key in sorted(meta.get("annotations") or ()):
        causes += [wrong("metadata.annotations", key, each) for each in names.qualified(key.lower())]
    for each in meta.get("ownerReferences") or ():
        causes += _owner(each)
    for at, each in enumerate(meta.get("finalizers") or ()):
        causes += [wrong("metadata.finalizers", each, text) for text in names.qualified(each)]
        if not causes and "/" not in each and each not in STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(wrong(f"metadata.finalizers[{at}]", each, text))
    return causes


def labels(held: Obj | None, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in sorted(held or ()):
        causes += [wrong(field, key, each) for each in names.qualified(key)]
        causes += [wrong(field, held[key], each) for each in names.label_value(held[key])]  # type: ignore[index]
    return causes


def _owner(ref: Obj) -> list[Cause]:
    field, causes = "metadata.ownerReferences", list[Cause]()
    if not ref.get("apiVersion"):
        causes.append(wrong(f"{field}.apiVersion", "", "version must not be empty"))
    for key in ("kind", "name", "uid"):
        if not ref.get(key):
            causes.append(wrong(f"{field}.{key}", "", "must not be empty"))
    return causes


def changed_metadata(meta: Obj, old: Obj) -> list[Cause]:
    """What may not change: identity and times; and nobody adds finalizers to what is being deleted."""
    causes: list[Cause] = []
    if old.get("deletionTimestamp"):
        added = [each for each in meta.get("finalizers") or () if each not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{each}"' for each in sorted(added))
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(not_allowed_there("metadata.finalizers", text))
    for key in FIXED:
        if key in meta and meta[key] != old.get(key):
            causes.append(wrong(f"metadata.{key}", meta[key], IMMUTABLE))
    return causes + _decorations(meta)
