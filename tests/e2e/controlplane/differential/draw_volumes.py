"""Volumes of every condition: bound, waiting, missing, lost, shared, limited, pinned by class or by disk.

What a pod of the case uses is made for it alone, so that one case changes nothing for the next; what
pods of the world use is there for cases to share.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.draw_rules import HOST, ZONE, ZONES
from tests.e2e.controlplane.differential.worlds import HELD, STATE, TERMINATING, Json

DRIVER, OTHER_DRIVER = "disk.example.com", "other.example.com"
SIZE = "10Gi"
Made = tuple[list[Json], list[Json], bool]  # volumes of the pod, objects, whether binding would change them


def classes() -> list[Json]:
    """For the life of a world. Some let a claim wait for its pod."""
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["za", "zb"]}]}]
    hosts = [
        {
            "matchLabelExpressions": [
                {"key": ZONE, "values": ["zc"]},
                {"key": "disk", "values": ["ssd", "hdd"]},
            ]
        },
        {"matchLabelExpressions": [{"key": HOST, "values": ["n0", "n1", "n2"]}]},
    ]
    wait, at_once = "WaitForFirstConsumer", "Immediate"
    return [
        _class("waits", wait, DRIVER), _class("waits-in-zones", wait, DRIVER, zones),
        _class("waits-on-hosts", wait, DRIVER, hosts), _class("at-once", at_once, DRIVER),
        _class("by-hand", wait, "kubernetes.io/no-provisioner"),
    ]  # fmt: skip


def _class(name: str, mode: str, provisioner: str, allowed: list[Json] | None = None) -> Json:
    made: Json = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
    return made | {"volumeBindingMode": mode} | ({"allowedTopologies": allowed} if allowed else {})


def disk(
    chance: Chance, name: str, *, claim: tuple[str, str] | None, hosts: list[str], storage_class: str = ""
) -> Json:
    """A PersistentVolume; `claim` is namespace and name of whom it is kept for."""
    spec: Json = {
        "capacity": {"storage": chance.choice([SIZE, SIZE, "20Gi", "5Gi"] if claim is None else [SIZE])},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if chance.of(0.6):
        driver = chance.choice([DRIVER, DRIVER, OTHER_DRIVER])
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    else:
        spec["hostPath"] = {"path": "/data"}
    if chance.of(0.7) or storage_class:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": _reach(chance, hosts)}}
    if claim is not None:
        spec["claimRef"] = {"namespace": claim[0], "name": claim[1]}
    meta: Json = {"name": name}
    if chance.of(0.2):
        meta["labels"] = {ZONE: chance.choice([*ZONES, "za__zb"])}
    return {"kind": "PersistentVolume", "metadata": meta, "spec": spec}


def _reach(chance: Chance, hosts: list[str]) -> list[Json]:
    """Where a disk can be used."""
    terms = []
    for _ in range(chance.choice([1, 1, 2])):
        key = chance.choice([ZONE, ZONE, HOST, "disk"])
        values = {ZONE: sorted(ZONES), HOST: hosts, "disk": ["ssd", "hdd"]}[key]
        operator = chance.choice(["In", "In", "In", "NotIn", "Exists"])
        one: Json = {"key": key, "operator": operator}
        if operator != "Exists":
            one["values"] = chance.some(values, 3)
        terms.append({"matchExpressions": [one]})
    return terms


def claim(
    space: str, name: str, storage_class: str | None = "", volume: str = "", mode: str = "ReadWriteOnce"
) -> Json:
    spec: Json = {"accessModes": [mode], "resources": {"requests": {"storage": SIZE}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if volume:
        spec["volumeName"] = volume
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": space}, "spec": spec}


def bound(chance: Chance, space: str, name: str, hosts: list[str], mode: str = "ReadWriteOnce") -> list[Json]:
    made = disk(chance, f"{space}-{name}", claim=(space, name), hosts=hosts)
    made["spec"]["accessModes"] = [mode]
    return [made, claim(space, name, volume=made["metadata"]["name"], mode=mode)]


def used(name: str, of: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": of}}


def volumes(chance: Chance, space: str, tag: str, hosts: list[str], shared: list[str]) -> Made:
    """One or two volumes of a pod of this namespace. `shared`: claims of the world there."""
    mounts: list[Json] = []
    objects: list[Json] = []
    changes = False
    for number in range(chance.choice([1, 1, 1, 2])):
        way = chance.choices(list(_WAYS), weights=[weight for weight, _ in _WAYS.values()])[0]
        volume, made, changed = _WAYS[way][1](chance, space, f"{tag}-{number}", hosts, shared)
        mounts.append({**volume, "name": f"v{number}"})
        objects += made
        changes |= changed
    return mounts, objects, changes


One = tuple[Json, list[Json], bool]


def _bound(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    mode = chance.choice(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
    return used("", name), bound(chance, space, name, hosts, mode), False


def _shared(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    return used("", chance.choice(shared) if shared else "no-such-claim"), [], False


def _missing(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    return used("", "no-such-claim"), [], False


def _leaving(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    made = bound(chance, space, name, hosts)
    made[1]["metadata"] |= {"finalizers": [HELD], "annotations": {STATE: TERMINATING}}
    return used("", name), made, False


def _lost(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    return used("", name), [claim(space, name, volume="no-such-volume")], False


def _waits(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    """A disk can be made where the class allows, or one that exists is taken."""
    kind = chance.choice(["waits", "waits-in-zones", "waits-in-zones", "waits-on-hosts"])
    made = [claim(space, name, kind)]
    if chance.of(0.3):
        made.append(disk(chance, f"{space}-{name}", claim=None, hosts=hosts, storage_class=kind))
    return used("", name), made, True


def _at_once(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    return used("", name), [claim(space, name, chance.choice(["at-once", "no-such-class", ""]))], False


def _by_hand(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    """Disks that exist; the pod's place decides which of them the claim gets."""
    made = [claim(space, name, "by-hand")]
    for number in range(chance.randint(0, 2)):
        made.append(
            disk(chance, f"{space}-{name}-{number}", claim=None, hosts=hosts, storage_class="by-hand")
        )
    if chance.of(0.2):
        made[0]["spec"]["selector"] = {"matchLabels": {ZONE: "za"}}
    return used("", name), made, True


def _made_for_it(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    kind = chance.choice(["waits", "waits-in-zones", "at-once"])
    spec = claim(space, name, kind)["spec"]
    return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}, [], True


def _no_claim(chance: Chance, space: str, name: str, hosts: list[str], shared: list[str]) -> One:
    return {"emptyDir": {}}, [], False


_WAYS: dict[str, tuple[int, Callable[..., One]]] = {
    "bound": (8, _bound), "shared": (6, _shared), "missing": (1, _missing), "lost": (1, _lost), "leaving": (1, _leaving), "waits": (5, _waits),
    "at once": (2, _at_once), "by hand": (4, _by_hand), "made for it": (3, _made_for_it), "no claim": (1, _no_claim),
}  # fmt: skip
