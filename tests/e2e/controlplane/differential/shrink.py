"""From a case to the smallest one of which the same can be said: by leaving out whatever may be left out."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.e2e.controlplane.differential.worlds import CASE, Case, Json, World

Fails = Callable[[Case], bool]
Path = tuple[str | int, ...]
KEPT = {"kind", "name", "namespace", "image", "nodeName", "provisioner", CASE}


def smallest(case: Case, fails: Fails, *, seconds: float) -> Case:
    """Greedily, until nothing more can go or the time is over."""
    end = time.monotonic() + seconds

    def holds(smaller: Case) -> bool:
        return time.monotonic() < end and fails(smaller)

    while time.monotonic() < end:
        before = case
        case = _plainer_pod(case, holds)
        case = _fewer_nodes(case, holds)
        case = _fewer_pods(case, holds)
        case = _fewer_objects(case, holds)
        case = _plainer_world(case, holds)
        if case == before:
            break
    return case


def _fewer_pods(case: Case, holds: Fails) -> Case:
    def made(pods: tuple[Json, ...]) -> Case:
        return replace(case, world=replace(case.world, pods=pods))

    return made(_fewer(case.world.pods, lambda pods: holds(made(pods))))


def _fewer_nodes(case: Case, holds: Fails) -> Case:
    def made(nodes: tuple[Json, ...]) -> Case:
        names = {node["metadata"]["name"] for node in nodes}
        pods = tuple(pod for pod in case.world.pods if pod["spec"]["nodeName"] in names)
        return replace(case, world=World(nodes, pods, case.world.objects))

    return made(_fewer(case.world.nodes, lambda nodes: holds(made(nodes)), least=1))


def _fewer_objects(case: Case, holds: Fails) -> Case:
    def made(objects: tuple[Json, ...]) -> Case:
        return replace(case, world=replace(case.world, objects=objects))

    case = made(_fewer(case.world.objects, lambda objects: holds(made(objects))))
    own = _fewer(case.objects, lambda objects: holds(replace(case, objects=objects)))
    return replace(case, objects=own)


def _fewer(
    things: tuple[Json, ...], holds: Callable[[tuple[Json, ...]], bool], least: int = 0
) -> tuple[Json, ...]:
    """Large parts first, then smaller ones."""
    size = max(1, len(things))
    while size >= 1:
        at = 0
        while at < len(things):
            left = things[:at] + things[at + size :]
            if len(left) >= least and holds(left):
                things = left
            else:
                at += size
        size //= 2
    return things


def _plainer_pod(case: Case, holds: Fails) -> Case:
    pod = _plainer(case.pod, lambda smaller: holds(case.with_pod(smaller)))
    return case.with_pod(pod)


def _plainer_world(case: Case, holds: Fails) -> Case:
    for field in ("nodes", "pods"):
        for number in range(len(getattr(case.world, field))):

            def made(one: Json, field: str = field, number: int = number, case: Case = case) -> Case:
                every = list(getattr(case.world, field))
                every[number] = one
                return replace(case, world=replace(case.world, **{field: tuple(every)}))

            one = getattr(case.world, field)[number]
            case = made(_plainer(one, lambda smaller, made=made: holds(made(smaller))))  # type: ignore[misc]
    return case


def _plainer(manifest: Json, holds: Callable[[Json], bool]) -> Json:
    """Without each part that is not needed, the large ones first."""
    tried: set[Path] = set()
    while True:
        for path in sorted(parts(manifest), key=lambda it: (len(it), str(it))):
            if path in tried:
                continue
            tried.add(path)
            smaller = _without(manifest, path)
            if holds(smaller):
                manifest = smaller
                # Positions in a list have changed; what was tried there is another thing now.
                tried = {
                    each for each in tried if each[: len(path) - 1] != path[:-1] or isinstance(path[-1], str)
                }
                break
        else:
            return manifest


def parts(thing: object, above: Path = ()) -> Iterator[Path]:
    """Every key and every element in it that may go."""
    inside: Sequence[tuple[str | int, object]] = ()
    if isinstance(thing, dict):
        inside = list(thing.items())
    elif isinstance(thing, list):
        inside = list(enumerate(thing))
    for key, below in inside:
        path = (*above, key)
        kept = key in KEPT or path in (("metadata",), ("spec",), ("spec", "containers"))
        if not kept and not (isinstance(below, dict) and CASE in below):
            yield path
        yield from parts(below, path)


def _without(manifest: Json, path: Path) -> Json:
    made = copy.deepcopy(manifest)
    at: object = made
    for key in path[:-1]:
        at = at[key]  # type: ignore[index]
    del at[path[-1]]  # type: ignore[attr-defined]
    return made
