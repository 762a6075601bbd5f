"""Who a machine will be, decided before it exists, and whose an instance is, read back from its marks."""

from __future__ import annotations

import random
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from msgspec.structs import replace

from controller.cloud.protocol import Order
from controller.domain import names
from controller.domain.cloudthings import Catalogue, Instance, InstanceType
from controller.domain.images import image_for
from controller.domain.machine import Machine, Phase
from controller.domain.making import made_with
from controller.domain.plan import Launch
from controller.domain.policy import Policy, Pool
from controller.domain.prices import price_paid
from controller.domain.reason import Reason


def new_intent(rng: random.Random, taken: Iterable[str]) -> str:
    known = set(taken)
    while True:
        intent = "".join(rng.choice(names.INTENT_ALPHABET) for _ in range(names.INTENT_LENGTH))
        if intent not in known:
            return intent


def intend(policy: Policy, launch: Launch, intent: str, now: float) -> Machine:
    """The record that is written before anything is bought."""
    kind, pool = launch.offer.type, policy.pool(launch.pool)
    return Machine(
        intent=intent,
        name=names.hostname(policy.cluster_id, launch.pool, intent),
        pool=launch.pool,
        instance_type=kind.name,
        location=launch.offer.location,
        market=launch.offer.market,
        phase=Phase.INTENDED,
        price=launch.offer.price,
        gpus=kind.gpus,
        vcpus=kind.vcpus,
        memory_gib=kind.memory_gib,
        model=kind.model,
        pods=launch.pods,
        made_with=made_with(pool) if pool is not None else {},
        intended_at=now,
    )


def order_for(policy: Policy, pool: Pool, machine: Machine, kind: InstanceType, script_id: str) -> Order:
    return Order(
        hostname=machine.name,
        description=names.description(policy.cluster_id, machine.intent),
        tags=(
            (names.TAG_CLUSTER, policy.cluster_id),
            (names.TAG_POOL, machine.pool),
            (names.TAG_INTENT, machine.intent),
        ),
        instance_type=machine.instance_type,
        location=machine.location,
        market=machine.market,
        image=image_for(pool.images, kind),
        disk_gb=pool.disk_gb,
        ssh_key_ids=pool.ssh_key_ids,
        script_id=script_id,
    )


def intent_of(cluster_id: str, instance: Instance) -> str:
    """The intent of an instance that is provably ours, or ""."""
    return _owned_intent(cluster_id, instance.hostname, instance.description, instance.tags)


_owned_intent = lru_cache(maxsize=1000)(names.owned_intent)  # asked for every machine in every pass


def carries_marks(cluster_id: str, machine: Machine, instance: Instance) -> bool:
    """Whether the instance still says that it is this record's. One that was taken over says so by its tags alone;
    its other mark is the record, with its id."""
    if not machine.adopted:
        return intent_of(cluster_id, instance) == machine.intent
    tags = dict(instance.tags)
    return (
        instance.id == machine.instance_id
        and tags.get(names.TAG_CLUSTER) == cluster_id
        and tags.get(names.TAG_INTENT) == machine.intent
    )


def price_of(policy: Policy, catalogue: Catalogue, instance: Instance) -> Decimal:
    """What is paid for an instance that was found, in the currency of the limits, which is the catalogue's.

    It is listed with its price in the project's currency, and mostly without saying which one that is.
    """
    kind = catalogue.type_named(instance.instance_type)
    listed = kind.price_in(instance.market) if kind else Decimal(0)
    if instance.currency == catalogue.currency or not listed:
        listed = instance.price
    model = kind.model if kind else ""
    return price_paid(policy.prices, instance.instance_type, model, instance.market, listed)


def adopt(policy: Policy, catalogue: Catalogue, instance: Instance, intent: str, now: float) -> Machine:
    """The record of a machine that is ours by its marks and that the ledger does not know.

    Where the catalogue no longer knows its type, what the machine says of itself is believed.
    Its script is not taken over: it may be one that the user keeps. Ours are found by their own marks.
    """
    found = names.parse_hostname(policy.cluster_id, instance.hostname)
    pool = found[0] if found else dict(instance.tags).get(names.TAG_POOL, "")
    return record(policy, catalogue, instance, intent, now, name=instance.hostname, pool=pool)


def second(policy: Policy, catalogue: Catalogue, machine: Machine, extra: Instance) -> Machine:
    """A second instance of the machine's order, as it counts against limits: as a machine of its own.

    It is called by its id, for it may share the name of the first, and the pods there are counted once.
    """
    found = record(
        policy, catalogue, extra, machine.intent, extra.created_at, name=extra.id, pool=machine.pool
    )
    return replace(found, pods=machine.pods[:1], surplus=True, reason=Reason.SURPLUS)


def record(
    policy: Policy, catalogue: Catalogue, instance: Instance, intent: str, now: float, *, name: str, pool: str
) -> Machine:
    """An instance that exists already, as the ledger keeps it."""
    kind = catalogue.type_named(instance.instance_type)
    return Machine(
        intent=intent,
        name=name,
        pool=pool,
        instance_type=instance.instance_type,
        location=instance.location,
        market=instance.market,
        phase=Phase.ORDERED,
        price=price_of(policy, catalogue, instance),
        gpus=kind.gpus if kind else instance.gpus,
        vcpus=kind.vcpus if kind else instance.vcpus,
        memory_gib=kind.memory_gib if kind else instance.memory_gib,
        model=kind.model if kind else "",
        intended_at=instance.created_at,
        ordered_at=now,
        instance_id=instance.id,
        disks=instance.disks,
    )


def offer_of(machine: Machine) -> str:
    """The key of the offer that it was bought from."""
    return f"{machine.instance_type}/{machine.location}/{machine.market}"
