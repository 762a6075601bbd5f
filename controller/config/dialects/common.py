"""What several dialects have in common: agreed prices, machines without GPUs, words that are told by all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.config.dialects.draft import Draft, Given
from controller.config.values import attempt, parse_money, parse_whole
from controller.domain.names import gpu_slug

DYNAMIC = "dynamic pricing no longer exists at the cloud: the fixed price is paid; take the setting out"
_PRICE = (
    "was the price of the group: what is paid for the type, in every pool; limits and budgets count with it"
)


def agreed_price(draft: Draft, given: Given, key: str, kind: Any, market: str) -> None:
    """The price of a group becomes the price of its type; of two that differ the higher one counts."""
    value, where, theirs = given.get(key), given.where(key), given.theirs(key)
    if not isinstance(kind, str):
        return
    amount = attempt(parse_money, value)  # also of a number in quotes
    if amount == 0:
        draft.warn(where, theirs, "0 is no price; the list price counts")
        return
    # Case and punctuation of a type's name do not count.
    spelt = next(
        (name for name in draft.tree.get(("prices",)) or {} if gpu_slug(name) == gpu_slug(kind)), kind
    )
    path = ("prices", spelt, "spot_price_per_hour" if market == "spot_only" else "price_per_hour")
    known = draft.tree.get(path)
    if known is None:
        draft.put(path, value, where, theirs, _PRICE)
        return
    before = attempt(parse_money, known)
    if before is None:
        return  # which is told already
    if amount is None or amount > before:
        draft.put(path, value, where, theirs, _PRICE)
    if amount is not None and amount != before:
        draft.warn(where, theirs, f"another group pays {known} for {kind}; the higher price counts for both")


def is_cpu(kind: Any) -> bool:
    return isinstance(kind, str) and kind.upper().startswith("CPU.")


def about_min(draft: Draft, least: Any, where: str, theirs: str, *, served: bool = False) -> None:
    """`served`: cluster-autoscaler may go on deciding, through the same command."""
    count = attempt(parse_whole, least)
    if count and not draft.fills_min:
        draft.warn(
            where,
            theirs,
            f"{count} machines are kept from the start on, also without pods, and paid for: cluster-autoscaler fills a "
            "minimum only with --enforce-node-group-min-size; with 0 none is kept"
            + ("; where it is served (driver externalgrpc) it decides as before" if served else ""),
        )


def about_cpu(draft: Draft, given: Given, kind: Any, labels: Any) -> None:
    if not is_cpu(kind):
        return
    draft.warn(
        given.where(),
        given.theirs(),
        f"{kind} has no GPUs, and only machines with GPUs are bought: take the group out",
    )
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        if "gpu" in str(key).lower() and str(value).lower() not in ("false", "no", "0", "none", ""):
            draft.warn(
                given.where("labels"),
                f"{given.theirs('labels')}: {key}",
                "a GPU label on machines without GPUs attracts pods that can never run there: take it out",
            )


def without_times(taints: Any) -> Any:
    """Taints as Kubernetes shows them have a `timeAdded`, which says nothing of a machine to come."""
    if not isinstance(taints, list):
        return taints
    return [
        {key: value for key, value in taint.items() if key != "timeAdded"}
        if isinstance(taint, Mapping)
        else taint
        for taint in taints
    ]
