"""Which image a machine boots: `auto`, a slug, or an ordered list of both, resolved for each type.

A type tells the slugs that it accepts and nothing about them, and slugs are open strings. `auto` takes
what is known to work: Ubuntu with NVIDIA's driver in it, because the join installs the container toolkit
and no driver; the newest CUDA, because older containers run on it and newer ones do not run on less. It
leaves out images whose own kubelet or notebooks would be in the way, prefers those without Docker, and
heeds what the catalogue does not say: Blackwell needs the open drivers of CUDA 12.8 or later, Volta takes
neither open drivers nor CUDA 13. A plain Ubuntu comes after all these, for clusters whose GPU operator
brings the driver; last what is not believed to work, because the list is the cloud's own word after all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from controller.domain.cloudthings import InstanceType
from controller.domain.gpu_labels import LOOKS
from controller.domain.names import gpu_slug

AUTO = "auto"
# Offers written by hand may leave the images out; the cloud's own never do.
ANY_IMAGE = "*"

_FORM = re.compile(
    r"(?:ubuntu-)?(?P<system>\d\d\.\d\d)(?:[-.]cuda[-.]?(?P<cuda>\d+\.\d+))?(?P<open>-open)?(?P<docker>-docker)?"
)
_TRIED = ("22.04", "24.04")  # the releases that the join scripts are written for

Version = tuple[int, ...]
Rank = tuple[bool, bool, bool, bool, Version, str]
_BLACKWELL_FROM: Version = (12, 8)
_VOLTA_BELOW: Version = (13, 0)


def image_for(wanted: Sequence[str], kind: InstanceType) -> str:
    """The first image of the list that the type accepts; "" if there is none. An empty list is `auto`."""
    for image in wanted or (AUTO,):
        if image == AUTO:
            found = automatic(kind)
        else:
            found = image if image in kind.images or ANY_IMAGE in kind.images else ""
        if found:
            return found
    return ""


def automatic(kind: InstanceType) -> str:
    """What `auto` means for this type, or ""."""
    return ANY_IMAGE if ANY_IMAGE in kind.images else _best(tuple(kind.images), kind.model)


@lru_cache(maxsize=1000)  # asked for every offer of every plan
def _best(images: tuple[str, ...], model: str) -> str:
    ranked = [(rank, slug) for slug in images if (rank := _rank(model, slug)) is not None]
    return max(ranked)[1] if ranked else ""


def _rank(model: str, slug: str) -> Rank | None:
    """How good an image is for the type, or None if it is not to be taken by itself."""
    form = _FORM.fullmatch(slug)
    if form is None:
        return None
    cuda, is_open = _version(form["cuda"] or "0.0"), form["open"] is not None
    if form["cuda"] is None and (is_open or form["docker"]):
        return None
    has_cuda = form["cuda"] is not None
    fits = not has_cuda or _driver_fits(_family(model), cuda, is_open)
    return (fits, has_cuda, form["docker"] is None, form["system"] in _TRIED, cuda, form["system"])


def _driver_fits(family: str, cuda: Version, is_open: bool) -> bool:
    if family == "blackwell":
        return is_open and cuda >= _BLACKWELL_FROM
    if family == "volta":
        return not is_open and cuda < _VOLTA_BELOW
    return True


def _family(model: str) -> str:
    look = LOOKS.get(gpu_slug(model))
    return look.family if look is not None else ""


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def why_none(wanted: Sequence[str], kind: InstanceType) -> str:
    """Why no image of the list will do for the type, in words that follow its name."""
    if not kind.images:
        return "has no image at the cloud"
    if not wanted or tuple(wanted) == (AUTO,):
        few = ", ".join(kind.images[:3]) + (", …" if len(kind.images) > 3 else "")
        return f"accepts none of the images that `auto` takes, only {few}: name one under image"
    return f"accepts none of the images of its pool ({', '.join(wanted)})"
