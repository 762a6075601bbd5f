"""Groups in the environment: `P_NAME`, `P_GPU_COUNT`, … for any prefix P, any number of them.

`P_GPU_COUNT` makes a machine that is switched, as the small webhook controller reads it; `P_INSTANCE_TYPES` a pool
at the cloud. Every setting of either has its variable, so the names come from the settings model itself. Half a
group is an error that names its variables: the original leaves such a machine out, and nobody notices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from controller.config.dialects.strangers import of_group, of_machine, of_pool
from controller.config.errors import Problem
from controller.config.paths import PREFIX, fields, shape_at
from controller.config.pools import PoolSetting
from controller.config.settings import Settings
from controller.config.sources import Tree, from_text
from controller.config.switching import SwitchedMachine
from controller.config.values import Path

_ZEROS = re.compile(r"^\+?0+(?=[0-9])")
MACHINE, POOL = "GPU_COUNT", "INSTANCE_TYPES"
_KINDS: dict[str, tuple[str, type[BaseModel]]] = {
    MACHINE: ("machines", SwitchedMachine),
    POOL: ("pools", PoolSetting),
}
_BUYING = ("GPU_MODELS", "MIN_GPU_MEMORY_GB")
_TELLING = ("SCALE_UP_ENDPOINT", "SCALE_DOWN_ENDPOINT")  # no other program's variables end so by chance


def suffix(path: Path) -> str:
    """`("resources",)` -> RESOURCES, deeper keys with two underscores, as everywhere."""
    return "__".join(str(part).upper() for part in path)


def variables_of(model: type[BaseModel]) -> dict[str, Path]:
    """Every variable of a group, without its prefix; keys within free names or lists come as JSON of the whole."""
    return {suffix(path): path for path, _ in fields(model) if not {"*", "<name>"} & set(path)}


_WORDS = {MACHINE: "machines that are switched", POOL: "pools at the cloud"}
# Variables of the one kind that the other has not.
_OTHERS = {
    name: _WORDS[kind]
    for kind, other in ((MACHINE, POOL), (POOL, MACHINE))
    for name in set(variables_of(_KINDS[kind][1])) - set(variables_of(_KINDS[other][1]))
}


def _required(model: type[BaseModel]) -> list[str]:
    return [name.upper() for name, field in model.model_fields.items() if field.is_required()]


def apply_groups(tree: Tree, environ: Mapping[str, str], warnings: list[str]) -> list[Problem]:
    """Groups are added to the lists that other sources gave."""
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    problems: list[Problem] = []
    prefixes = {kind: sorted(_prefixes(given, kind)) for kind in _KINDS}
    everyone = {prefix for found in prefixes.values() for prefix in found}
    for prefix in sorted(set(prefixes[MACHINE]) & set(prefixes[POOL])):
        names = f"{prefix}_{MACHINE} and {prefix}_{POOL}"
        expected = f"one of {names}: a machine that is switched, or a pool at the cloud"
        problems.append(Problem("", None, expected, names))
    for kind, (top, model) in _KINDS.items():
        for prefix in prefixes[kind]:
            if prefix in prefixes[MACHINE] and prefix in prefixes[POOL]:
                continue
            problems += _group(tree, given, prefix, kind, top, model, everyone, warnings)
    problems += _without_count(given, set(prefixes[MACHINE]), warnings)
    problems += _with_empty_types(given, environ, everyone)
    warnings += _without_types(given, everyone)
    return problems


def _prefixes(given: Mapping[str, str], kind: str) -> Iterator[str]:
    for name in given:
        prefix = name.removesuffix(f"_{kind}")
        if prefix != name and prefix and not name.startswith(PREFIX):
            yield prefix


def _group(
    tree: Tree,
    given: Mapping[str, str],
    prefix: str,
    kind: str,
    top: str,
    model: type[BaseModel],
    everyone: set[str],
    warnings: list[str],
) -> list[Problem]:
    known = variables_of(model)
    found = {suffix: given[f"{prefix}_{suffix}"] for suffix in known if f"{prefix}_{suffix}" in given}
    if len(found) == 1:
        required = ", ".join(f"{prefix}_{name}" for name in _required(model) if name != kind)
        warnings.append(
            f"{prefix}_{kind}: is no group by itself and has no effect; one would have {required} too"
        )
        return []
    missing = [f"{prefix}_{name}" for name in _required(model) if name not in found]
    if missing:
        there = ", ".join(f"{prefix}_{name}" for name in found)
        values = "a value" if len(missing) == 1 else "a value of each"
        expected = f"{values}, because {there} are there: half a group is none"
        return [Problem("", None, expected, " and ".join(missing))]
    problems = list(_strangers(given, prefix, kind, known, everyone, warnings))
    spot = tree.get((top,))
    if spot is not None and not isinstance(spot, list):
        return problems  # and this is one of its own
    number = len(spot or [])
    at: Path = (top, number)
    tree.places.where[at] = f"{prefix}_{kind}"  # of what is missing
    needed = {kind, *_required(model)}
    whole = True
    for name, text in sorted(found.items(), key=lambda pair: pair[0].count("__")):
        path: Path = (*at, *known[name])
        what = shape_at(Settings, path)
        if what is None:
            continue
        try:
            # As the original reads it; in a file a number like 010 means eight to some and ten to others.
            value = from_text(_ZEROS.sub("", text) if name == MACHINE else text, what)
        except ValueError as error:
            shown = tree.places.problem(path, text, str(error))
            problems.append(Problem(shown.key, shown.value, shown.expected, f"{prefix}_{name}"))
            whole = whole and name not in needed
            continue
        problem = tree.put(path, value, f"{prefix}_{name}")
        if problem:
            problems.append(Problem("", None, problem, f"{prefix}_{name}"))
    made = tree.get((top,))
    if not whole and isinstance(made, list) and len(made) > number:
        made.pop()  # half of it would only give more problems of the same cause
        tree.places.forget(at)
    return problems


def _strangers(
    given: Mapping[str, str],
    prefix: str,
    kind: str,
    known: Mapping[str, Path],
    everyone: set[str],
    warnings: list[str],
) -> Iterator[Problem]:
    """Variables with the group's prefix that are none of it."""
    for name, rest in of_group(given, prefix, known, everyone):
        if kind == POOL:
            told: Problem | str = of_pool(given, prefix, rest, known)
        else:
            told = of_machine(name, prefix, rest, known)
        if isinstance(told, Problem):
            yield told
        elif rest in _OTHERS:
            warnings.append(
                f"{name}: has no effect beside {prefix}_{kind}: it is a variable of {_OTHERS[rest]} only"
            )
        elif told:
            warnings.append(told)


def _without_count(given: Mapping[str, str], machines: set[str], warnings: list[str]) -> list[Problem]:
    """Endpoints that nobody would call: without P_GPU_COUNT there is no group."""
    problems: list[Problem] = []
    ends = {
        prefix
        for name in given
        for end in _TELLING
        if (prefix := name.removesuffix(f"_{end}")) not in (name, "") and not name.startswith(PREFIX)
    }
    for prefix in sorted(ends - machines):
        there = [f"{prefix}_{name}" for name in ("NAME", *_TELLING) if f"{prefix}_{name}" in given]
        if len(there) > 1:
            expected = f"a number of GPUs, because {' and '.join(there)} are there: half a group is none"
            problems.append(Problem("", None, expected, f"{prefix}_{MACHINE}"))
        else:
            warnings.append(f"{there[0]}: is no group without {prefix}_{MACHINE} and has no effect")
    return problems


def _with_empty_types(
    given: Mapping[str, str], environ: Mapping[str, str], everyone: set[str]
) -> Iterator[Problem]:
    """Half a pool: somebody meant to say what it may buy, and says nothing."""
    known = variables_of(PoolSetting)
    for name in sorted(environ):
        prefix = name.removesuffix(f"_{POOL}")
        if prefix in (name, "") or prefix in everyone or name.startswith(PREFIX):
            continue
        there = [f"{prefix}_{suffix}" for suffix in known if f"{prefix}_{suffix}" in given]
        if f"{prefix}_NAME" in there and len(there) > 1:
            expected = f"instance types, because {', '.join(there)} are there: half a group is none"
            yield Problem("", None, expected, name)


def _without_types(given: Mapping[str, str], everyone: set[str]) -> Iterator[str]:
    """What else says what a pool may buy makes no group by itself; nor does a pool that does not say it at all."""
    for name in sorted(given):
        for end in (*_BUYING, "MAX"):
            prefix = name.removesuffix(f"_{end}")
            if prefix in (name, "") or prefix in everyone or name.startswith(PREFIX):
                continue
            if end == "MAX":
                buys = any(f"{prefix}_{key}" in given for key in _BUYING)
                if f"{prefix}_NAME" in given and not buys:
                    yield f"{prefix}_NAME, {name}: are no group without {prefix}_{POOL} and have no effect"
            elif any(f"{prefix}_{key}" in given for key in ("NAME", "MAX")):
                yield f"{name}: is no group without {prefix}_{POOL} and has no effect; pools without types come from a file"
