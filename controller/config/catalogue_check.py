"""The settings against what the cloud sells now: names that it does not know, pools that match nothing.

Pure, and about names and prices only: an offer that is sold out just now is no mistake. The catalogue
has no list of locations or images of its own, so what its offers mention is what exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from controller.config.errors import Problem
from controller.config.paths import suggestion
from controller.domain.cloudthings import Catalogue, InstanceType, Offer
from controller.domain.images import AUTO, image_for, why_none
from controller.domain.money import at_least
from controller.domain.names import gpu_slug
from controller.domain.policy import Policy, Pool
from controller.domain.prices import ANY, priced

_FEW = 3


def check_against(
    policy: Policy, catalogue: Catalogue, origins: Mapping[str, str] | None = None
) -> list[Problem]:
    """Every pool's problems; `origins` of `Loaded` adds where each setting stands. No offers: nothing to say."""
    if not catalogue.offers:
        return []
    paid = {offer.type.name: priced(policy.prices, offer.type) for offer in catalogue.offers}
    offers = tuple(replace(offer, type=paid[offer.type.name]) for offer in catalogue.offers)
    catalogue = replace(catalogue, offers=offers)
    found = [
        problem
        for n, pool in enumerate(policy.pools)
        for problem in _Check(n, pool, catalogue, origins or {}).problems()
    ]
    for section, keys in (("prices", policy.prices), ("gpu_labels", policy.gpu_labels)):
        found += _strangers(section, keys, catalogue, origins or {})
    return found


def _strangers(
    section: str, keys: Iterable[str], catalogue: Catalogue, origins: Mapping[str, str]
) -> Iterator[Problem]:
    """Keys of a table by type or model that are neither."""
    known = {gpu_slug(name): name for o in catalogue.offers for name in (o.type.name, o.type.model)}
    spelt = {gpu_slug(path.removeprefix(section)): path for path in origins if path.startswith(section)}
    for key in keys:
        if key not in known and key != ANY:
            path = spelt.get(key, f"{section}.{key}")
            close = difflib.get_close_matches(key, known, n=_FEW, cutoff=0.6)
            hint = f"; did you mean {' or '.join(known[name] for name in close)}?" if close else ""
            expected = f"an instance type or a GPU model of the cloud{hint}"
            yield Problem(path, None, expected, origins.get(path, origins.get(section, "")))


def _names(found: Iterable[str], count: int = _FEW) -> str:
    names = list(found)
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


class _Check:
    def __init__(self, number: int, pool: Pool, catalogue: Catalogue, origins: Mapping[str, str]) -> None:
        self.at = f"pools[{number}]"
        self.pool = pool
        self.offers = catalogue.offers
        self.catalogue = catalogue
        self.types = {offer.type.name: offer.type for offer in catalogue.offers}
        self.origins = origins

    def problem(self, key: str, value: str | None, expected: str) -> Problem:
        path = f"{self.at}.{key}" if key else self.at
        spots = (path, path.rpartition("[")[0], self.at, "pools")
        where = next((self.origins[spot] for spot in spots if spot in self.origins), "")
        return Problem(path, value, expected, where)

    def problems(self) -> list[Problem]:
        names = [*self._types(), *self._models(), *self._locations()]
        if names:
            return names  # what a misspelt name leads to needs no line of its own
        matching = [kind for kind in self.types.values() if self._wants(kind)]
        if not matching:
            return [self.problem("", None, self._what_was_asked())]
        images = list(self._images(matching))
        return images or list(self._offers({kind.name for kind in matching}))

    def _types(self) -> Iterator[Problem]:
        for n, name in enumerate(self.pool.instance_types):
            kind = self.catalogue.type_named(name)
            key = f"instance_types[{n}]"
            if kind is None:
                yield self.problem(
                    key, name, f"an instance type of the cloud{suggestion(name, self.types, _FEW)}"
                )
            elif not kind.gpus:
                yield self.problem(key, name, "an instance type with GPUs")
            elif kind.arch == "arm64" and not self.pool.arm64:
                yield self.problem(key, name, "an amd64 type, or arm64: true in this pool")

    def _models(self) -> Iterator[Problem]:
        models = sorted({kind.model for kind in self.types.values() if kind.gpus})
        known = {gpu_slug(model) for model in models}
        for n, name in enumerate(self.pool.gpu_models):
            if gpu_slug(name) not in known:
                longer = [model for model in models if gpu_slug(name) and gpu_slug(name) in gpu_slug(model)]
                hint = (
                    f"; did you mean {' or '.join(longer[:_FEW])}?"
                    if longer
                    else suggestion(name, models, _FEW)
                )
                yield self.problem(f"gpu_models[{n}]", name, f"a GPU model of the cloud{hint}")

    def _locations(self) -> Iterator[Problem]:
        known = sorted({offer.location for offer in self.offers})
        for n, name in enumerate(self.pool.locations):
            if name not in known:
                hint = suggestion(name, known, _FEW) or f" ({_names(known, 8)})"
                yield self.problem(f"locations[{n}]", name, f"a location of the cloud{hint}")

    def _wants(self, kind: InstanceType) -> bool:
        pool = self.pool
        if (
            not kind.gpus
            or (kind.arch == "arm64" and not pool.arm64)
            or (pool.max_gpus and kind.gpus > pool.max_gpus)
        ):
            return False
        if pool.instance_types and kind.name.upper() not in {name.upper() for name in pool.instance_types}:
            return False
        if pool.gpu_models and gpu_slug(kind.model) not in {gpu_slug(name) for name in pool.gpu_models}:
            return False
        return kind.gpu_memory_gib >= pool.min_gpu_memory_gb * kind.gpus

    def _what_was_asked(self) -> str:
        pool, asked = self.pool, list[str]()
        if pool.instance_types:
            asked.append(f"type {_names(pool.instance_types)}")
        if pool.gpu_models:
            asked.append(f"model {_names(pool.gpu_models)}")
        if pool.min_gpu_memory_gb:
            asked.append(f"{pool.min_gpu_memory_gb} GB per GPU at least")
        if pool.max_gpus:
            asked.append(f"{pool.max_gpus} GPUs at most")
        return f"something that the cloud sells, but nothing there is all of: {'; '.join(asked)}"

    def _images(self, matching: list[InstanceType]) -> Iterator[Problem]:
        known = sorted({image for kind in matching for image in kind.images})
        if not known:
            yield self.problem(
                "", None, f"a type with a supported image, and {_names(k.name for k in matching)} has none"
            )
            return
        wanted = ", ".join(self.pool.images)
        for n, image in enumerate(self.pool.images if len(self.pool.images) > 1 else ()):
            if image not in known and image != AUTO:
                yield self.problem(
                    f"image[{n}]",
                    image,
                    f"an image that a type of this pool supports{suggestion(image, known, _FEW)}",
                )
        for kind in matching:
            if not kind.images or image_for(self.pool.images, kind):
                continue
            if AUTO in (self.pool.images or (AUTO,)):
                yield self.problem("image", AUTO, f"an image by its name: {kind.name} {why_none((), kind)}")
            else:
                close = difflib.get_close_matches(self.pool.images[0], kind.images, n=_FEW, cutoff=0.0)
                few = f", such as {', '.join(close)}" if close else ""
                yield self.problem("image", wanted, f"an image that {kind.name} supports{few}")

    def _offers(self, types: set[str]) -> Iterator[Problem]:
        pool = self.pool
        offers = [offer for offer in self.offers if offer.type.name in types]
        there = [offer for offer in offers if not pool.locations or offer.location in pool.locations]
        if not there:
            known = sorted({offer.location for offer in offers})
            yield self.problem(
                "locations",
                ", ".join(pool.locations),
                f"a location where its types are sold ({_names(known, 8)})",
            )
            return
        allowed = [offer for offer in there if offer.market in pool.markets()]
        if not allowed:
            yield self.problem("market", pool.market, "a market in which its types are sold")
            return
        cheapest = min(allowed, key=_price)
        most = pool.max_price_per_hour
        if most is not None and cheapest.price > most:
            name = f"{cheapest.type.name} ({cheapest.market}, {cheapest.location})"
            expected = f"at least {at_least(cheapest.price)} {self.catalogue.currency.upper()}, the price of the cheapest, {name}"
            yield self.problem("max_price_per_hour", str(most), expected)


def _price(offer: Offer) -> tuple[object, str, str, str]:
    return (offer.price, offer.type.name, offer.location, offer.market)
