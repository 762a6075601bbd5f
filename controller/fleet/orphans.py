"""What is left in the cloud account of a cluster: found by its marks, with its cost and what would become of it.

Pure. A cluster may be dead, so the marks are all there is; what its ledger knows as living, if it can
be asked, is no orphan. What a machine that stays may still need stays too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal

import msgspec

from controller.domain.cloudthings import Instance, Inventory, Script, Volume
from controller.fleet import ownership
from controller.fleet.ownership import Claim
from controller.fleet.removal import LOOSE

MACHINE, DISK, TRASH, SCRIPT = "instance", "volume", "trash", "script"
ORDER = (MACHINE, DISK, TRASH, SCRIPT)  # also the order of removal


class Found(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    id: str
    name: str
    cluster_id: str
    marks: tuple[str, ...]
    intent: str = ""
    what: str = ""  # in words: type, size, place
    status: str = ""
    since: float = 0.0
    price_per_hour: Decimal = Decimal(0)
    cost_so_far: Decimal = Decimal(0)
    currency: str = ""  # of both; "": nothing in the account tells
    ours: bool = False  # proven by two marks that agree
    removes: bool = False  # whether it would be removed
    why: str = ""  # what would be done, or why it is left alone
    machine: str = ""  # the instance that a disk goes with
    disks: tuple[str, ...] = ()  # that go with an instance

    @property
    def may_be_in_use(self) -> bool:
        """A machine that is to go, or a disk that is attached to one that nobody knows: it bears that one's name."""
        alone = self.kind == DISK and self.status not in LOOSE and not self.machine
        return self.removes and (self.kind == MACHINE or alone)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The whole account as read, and what living things said about doubtful disks."""

    inventory: Inventory
    volumes: tuple[Volume, ...] = ()
    scripts: tuple[Script, ...] = ()
    asked: Mapping[str, Instance | None] = {}  # by id: machines that disks name and the list does not show


class Living(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster itself says, where it could be asked."""

    cluster_id: str = ""
    intents: Mapping[str, str] = {}  # known to its ledger, with their phase
    busy: Mapping[str, str] = {}  # by hostname: why the machine must stay


def doubtful(account: Account) -> tuple[str, ...]:
    """Ids of machines to ask for: disks name them and the list does not show them, or lists lag behind."""
    listed = {instance.id for instance in account.inventory.instances}
    return tuple(
        {v.instance_id: None for v in account.volumes if v.instance_id and v.instance_id not in listed}
    )


def survey(account: Account, now: float, wanted: str = "", living: Living | None = None) -> tuple[Found, ...]:
    """Everything with a mark of the wanted cluster, or of any; in the order of removal."""
    return _Survey(account, now, wanted, living or Living()).found()


class _Survey:
    def __init__(self, account: Account, now: float, wanted: str, living: Living) -> None:
        self._account = account
        self._now = now
        self._wanted = wanted
        self._living = living
        listed = account.inventory.instances
        named = ownership.ids_named(listed, account.volumes, account.scripts)
        self._ids = named | {wanted} if wanted else named
        self._listed = {one.id: one for one in listed}
        self._going: dict[str, Found] = {}  # machines that would be removed
        # An account is billed in one currency. Disks tell which; machines, so far, do not.
        told = ({one.currency for one in listed} | {one.currency for one in account.volumes}) - {""}
        self._currency = told.pop() if len(told) == 1 else ""

    def found(self) -> tuple[Found, ...]:
        there = [one for one in self._listed.values() if one.state != "gone"]
        machines = [f for one in there if (f := self._machine(one)) is not None]
        self._going = {f.id: f for f in machines if f.removes}
        staying = {f.intent for f in machines if f.ours and not f.removes and not self._is_leaving(f)}
        disks = [f for volume in self._account.volumes if (f := self._disk(volume)) is not None]
        scripts = [f for script in self._account.scripts if (f := self._script(script, staying)) is not None]
        everything = [*machines, *disks, *scripts]
        return tuple(sorted(everything, key=lambda f: (f.cluster_id, ORDER.index(f.kind), f.name, f.id)))

    def _is_leaving(self, machine: Found) -> bool:
        return self._listed[machine.id].state == "leaving"

    def _claimed(self, claim: Claim | None) -> Claim | None:
        return claim if claim is not None and (not self._wanted or claim.cluster_id == self._wanted) else None

    def _known(self, claim: Claim) -> str:
        """Why the ledger keeps it, or ""."""
        phase = (
            self._living.intents.get(claim.intent) if claim.cluster_id == self._living.cluster_id else None
        )
        return f"the ledger of its cluster knows its machine ({phase})" if phase else ""

    def _spent(self, price: Decimal, since: float) -> Decimal:
        return price * Decimal(str(max(0.0, self._now - since))) / 3600 if since else Decimal(0)

    def _machine(self, one: Instance) -> Found | None:
        claim = self._claimed(ownership.of_instance(one, self._ids))
        if claim is None:
            return None
        stays = claim.because or self._known(claim) or self._living.busy.get(one.hostname, "")
        if not stays and one.state == "leaving":
            stays = "it is being deleted already"
        disks = tuple(
            v.id for v in self._account.volumes if v.instance_id == one.id and self._goes_with(v, one)
        )
        disks = tuple(dict.fromkeys((*one.disks, *disks)))
        return Found(
            kind=MACHINE,
            id=one.id,
            name=one.hostname,
            cluster_id=claim.cluster_id,
            intent=claim.intent,
            marks=claim.marks,
            what=f"{one.instance_type} in {one.location} ({one.market})",
            status=one.status,
            since=one.created_at,
            price_per_hour=one.price,
            cost_so_far=self._spent(one.price, one.created_at),
            currency=one.currency or self._currency,
            ours=claim.proven,
            removes=not stays,
            why=stays or "deleted with its disks",
            disks=() if stays else disks,
        )

    def _goes_with(self, volume: Volume, one: Instance) -> bool:
        """A disk of ours on a machine of ours; one that somebody else attached stays."""
        claim = ownership.of_volume(volume, self._ids, one)
        return volume.id in one.disks or (claim is not None and claim.proven)

    def _disk(self, volume: Volume) -> Found | None:
        machine = self._listed.get(volume.instance_id) or self._account.asked.get(volume.instance_id)
        claim = self._claimed(ownership.of_volume(volume, self._ids, machine))
        going = self._going.get(volume.instance_id)
        if claim is None and going is None:
            return None
        if claim is None:
            claim = Claim(
                cluster_id=going.cluster_id if going else "",
                because="it is attached to that machine and carries no mark of ours",
            )
        in_trash = volume.status == "deleted"
        stays = "" if going is not None and volume.id in going.disks else self._keeps(volume, claim, machine)
        does = "deleted with its machine" if going is not None and not stays else "deleted permanently"
        if in_trash:
            does += ", so that it no longer counts against the storage quota"
        return Found(
            kind=TRASH if in_trash else DISK,
            id=volume.id,
            name=volume.name,
            cluster_id=claim.cluster_id,
            intent=claim.intent,
            marks=claim.marks,
            what=f"{volume.size_gb} GB in {volume.location}",
            status="in the trash" if in_trash else volume.status,
            since=volume.created_at,
            price_per_hour=Decimal(0) if in_trash else volume.price_per_hour,
            cost_so_far=Decimal(0) if in_trash else self._spent(volume.price_per_hour, volume.created_at),
            currency=volume.currency or self._currency,
            ours=claim.proven,
            removes=not stays,
            why=stays or does,
            machine=volume.instance_id if going is not None and not stays else "",
        )

    def _keeps(self, volume: Volume, claim: Claim, machine: Instance | None) -> str:
        if claim.because:
            return claim.because
        if volume.status == "deleting":
            return "it is being deleted already"
        if machine is not None and machine.state != "gone":
            return f"it is attached to machine {machine.hostname} ({machine.id}), which stays"
        used = self._living.busy.get(volume.name, "") if volume.status not in LOOSE else ""
        return self._known(claim) or used

    def _script(self, script: Script, staying: Collection[str]) -> Found | None:
        claim = self._claimed(ownership.of_script(script, self._ids))
        if claim is None:
            return None
        stays = claim.because or self._known(claim)
        if not stays and claim.intent in staying:
            stays = "its machine stays, and may still have to read it"
        return Found(
            kind=SCRIPT,
            id=script.id,
            name=script.name,
            cluster_id=claim.cluster_id,
            intent=claim.intent,
            marks=claim.marks,
            what="startup script, holds a join token" if claim.proven else "startup script",
            since=script.created_at,
            ours=claim.proven,
            removes=not stays,
            why=stays or "deleted",
        )
