"""Taking over a machine that somebody else made: tags on it, and then a record in the ledger.

Without tags it stays foreign: they are its mark from then on, beside the record with its id. The tag of the cluster is
written last, so what is half done says nothing; doing it again goes on with the intent that the tags name.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from controller.cloud.protocol import CloudError
from controller.domain import names
from controller.domain.cloudthings import Catalogue, Instance
from controller.domain.machine import Machine
from controller.domain.outcome import Happened, Outcome
from controller.domain.policy import Policy
from controller.fleet import marks
from controller.fleet.ledger import Ledger
from controller.fleet.predecessors import Found


class Tagging(Protocol):
    async def tag(self, instance_id: str, key: str, value: str) -> Outcome:
        """Write one tag. Safe to repeat."""

    async def instance(self, instance_id: str) -> Instance | None: ...


def with_gpus(catalogue: Catalogue, found: Found) -> Found:
    """A machine without GPUs is never in use by our rules: taken over, it would be emptied and deleted."""
    kind = catalogue.type_named(found.instance.instance_type)
    if found.because or found.known or (kind.gpus if kind else found.instance.gpus):
        return found
    return replace(found, because="it has no GPUs, so it would pass for idle whatever runs there")


def record(policy: Policy, catalogue: Catalogue, found: Found, intent: str, now: float) -> Machine:
    made = marks.record(policy, catalogue, found.instance, intent, now, name=found.node, pool=found.pool)
    return replace(made, adopted=True)


def known_by(ledger: Ledger, instance_id: str) -> Machine | None:
    return next((m for m in ledger.machines.values() if m.instance_id == instance_id), None)


async def mark(
    cloud: Tagging, policy: Policy, found: Found, taken: Mapping[str, Machine], rng: random.Random
) -> tuple[str, str]:
    """The intent that the machine's tags name by now, or "" and why it has none. Read back, not believed."""
    before = dict(found.instance.tags)
    intent = before.get(names.TAG_INTENT, "")
    if not names.INTENT_FORM.fullmatch(intent) or intent in taken:
        intent = marks.new_intent(rng, taken)
    wanted = {names.TAG_INTENT: intent, names.TAG_POOL: found.pool, names.TAG_CLUSTER: policy.cluster_id}
    for key, value in wanted.items():
        if before.get(key) == value:
            continue
        outcome = await cloud.tag(found.instance.id, key, value)
        if not isinstance(outcome, Happened):
            return "", f"its tags cannot be written, and without tags it stays foreign: {outcome.message}"
    try:
        seen = await cloud.instance(found.instance.id)
    except CloudError as error:
        return "", f"its tags cannot be read back: {error.message}"
    tags = dict(seen.tags) if seen is not None else {}
    if any(tags.get(key) != value for key, value in wanted.items()):
        return "", "its tags do not stay as they were written, and without tags it stays foreign"
    return intent, ""
