"""Which dialect a configuration is written in: by its shape and its variables, unless somebody says.

Two configurations at once are an error: nobody could say which one counts. Variables of single groups and of single
settings are no configuration; they combine with every dialect.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass

from controller.config.dialects import ca_verda, datacrunch, verdacloud, webhook
from controller.config.dialects.dotenv import read_dotenv
from controller.config.dialects.draft import Draft
from controller.config.dialects.flags import PROVIDERS, Flags
from controller.config.dialects.jsontext import parse_json
from controller.config.errors import ConfigError, Places, Problem
from controller.config.reading import read_text
from controller.config.sources import Tree
from controller.config.yamltext import parse_yaml

AUTO, NATIVE, CA_VERDA, DATACRUNCH, VERDACLOUD, WEBHOOK = (
    "auto", "native", "ca-verda", "datacrunch", "verdacloud", "webhook",
)  # fmt: skip
DIALECTS = (AUTO, NATIVE, CA_VERDA, DATACRUNCH, VERDACLOUD, WEBHOOK)
_DATACRUNCH = (
    "DATACRUNCH_CLUSTER_CONFIG_JSON",
    "DATACRUNCH_CLUSTER_CONFIG",
    "DATACRUNCH_CLUSTER_CONFIG_FILE",
)
_VERDACLOUD = ("VERDA_CLUSTER_CONFIG", "VERDA_CLUSTER_CONFIG_FILE")
# Keys that only one kind of file has.
_SHAPES = {
    "node_groups": CA_VERDA,
    "node_configs": DATACRUNCH,
    "sshKeyIDs": VERDACLOUD,
    "startupScript": VERDACLOUD,
    "availableLocations": VERDACLOUD,
    "nodeGroups": WEBHOOK,
}
# Where a configuration of each comes from.
_WHERE = {
    CA_VERDA: "--config FILE with node_groups",
    DATACRUNCH: f"one of {', '.join(_DATACRUNCH)}",
    VERDACLOUD: f"{_VERDACLOUD[0]}, {_VERDACLOUD[1]} or --cloud-config=FILE",
}
CONFIGURATIONS = (*_DATACRUNCH, *_VERDACLOUD)
_NATIVE = ("pools", "machines", "join", "limits", "scale_down", "scale_up", "verda")


@dataclass
class Source:
    """A configuration as it was found, before anybody knows what it is."""

    where: str  # the name of the variable, or of the file
    text: str
    json: bool = False
    file: bool = False  # its text was read from there


def translate(
    file: str | None, text: str | None, environ: Mapping[str, str], flags: Flags, dialect: str
) -> Draft:
    """The draft of whatever configuration there is; what is wrong stands in its problems, or is raised."""
    if dialect not in DIALECTS:
        raise ConfigError([Problem("--dialect", dialect, f"one of {', '.join(DIALECTS)}", "command line")])
    if flags.provider not in ("", *PROVIDERS):
        raise ConfigError(flags.problems)
    found = _sources(file, text, environ, flags)
    if len(found) > 1:
        places = " and ".join(source.where for source in found)
        expected = f"one configuration: {places} are given, and nobody can say which one counts"
        raise ConfigError([Problem("", None, expected, places)])
    source = found[0] if found else None
    tree, problems, warnings = _read(source)
    chosen = _chosen(dialect, source, tree, flags)
    _no_flags_of_another(chosen, source, tree, flags)
    draft = Draft(chosen, problems=problems, warnings=warnings, fills_min=flags.fills_min)
    if source is not None:
        draft.files = [source.where] if source.file else []
        draft.empty = "" if tree.data else source.where
    if chosen == NATIVE:
        draft.tree = tree
        return draft
    if source is None and chosen in _WHERE:
        expected = f"{_WHERE[chosen]}, because that is how {chosen} is configured"
        raise ConfigError([Problem("", None, expected, "command line and environment")])
    draft.tree = Tree(places=Places(source.where if source is not None else "default"))
    match _shape(tree) or chosen:
        case "ca-verda":
            ca_verda.translate(draft, tree)
            read_dotenv(draft, environ, source.where if source is not None else "")
        case "webhook" if source is not None:
            webhook.translate(draft, tree)
        case "webhook":
            pass
        case "datacrunch":
            datacrunch.translate(draft, tree, flags.nodes, environ)
        case _:
            verdacloud.translate(draft, tree, flags.nodes, environ)
    return draft


def _sources(file: str | None, text: str | None, environ: Mapping[str, str], flags: Flags) -> list[Source]:
    found: list[Source] = []
    if file == "":
        raise ConfigError([Problem("--config", '""', "the name of a file", "command line")])
    if file is not None or text is not None:
        name = file or "config.yaml"
        found.append(Source(name, read_text(name) if text is None else text, file=text is None))
    named = [name for name in CONFIGURATIONS if environ.get(name, "").strip()]
    for name in named:
        value = environ[name].strip()
        if name.endswith("_FILE"):
            if file is None or not _same(file, value):
                found.append(Source(value, read_text(value, name), json=True, file=True))
        elif name.endswith("_JSON"):
            found.append(Source(name, value, json=True))
        else:
            found.append(Source(name, _unpacked(name, value), json=True))
    if flags.cloud_config and not any(_same(source.where, flags.cloud_config) for source in found):
        read = read_text(flags.cloud_config, "--cloud-config")
        found.append(Source(flags.cloud_config, read, json=True, file=True))
    return found


def _same(one: str, other: str) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a name with a NUL in it; reading it tells that
        return False


def _unpacked(name: str, value: str) -> str:
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        raise ConfigError([Problem("", None, "JSON in base64", name)]) from None


def _read(source: Source | None) -> tuple[Tree, list[Problem], list[str]]:
    if source is None:
        return Tree(), [], []
    if source.json or (source.text.lstrip("\ufeff \t\r\n").startswith("{") and _is_foreign_json(source.text)):
        data, places, problems, warnings = parse_json(source.text, source.where)
        return Tree(data, places), problems, warnings
    data, places, problems = parse_yaml(source.text, source.where)
    return Tree(data, places), problems, []


def _is_foreign_json(text: str) -> bool:
    return any(f'"{key}"' in text for key, kind in _SHAPES.items() if kind in (DATACRUNCH, VERDACLOUD))


def _shape(tree: Tree) -> str:
    """The dialect whose keys the file has, or "". Raises where it has those of two."""
    shapes = list(dict.fromkeys(_SHAPES[key] for key in tree.data if key in _SHAPES))
    native = [key for key in _NATIVE if key in tree.data]
    if len(shapes) > 1 or (shapes and native):
        keys = [key for key in tree.data if key in _SHAPES or key in native]
        expected = f"the keys of one dialect: {', '.join(keys)} are those of {', '.join([*shapes, *([NATIVE] if native else [])])}"
        raise ConfigError([Problem(keys[0], None, expected, tree.places.of((keys[0],)))])
    return shapes[0] if shapes else ""


def _chosen(dialect: str, source: Source | None, tree: Tree, flags: Flags) -> str:
    shape = _shape(tree)
    if flags.provider and dialect not in (AUTO, flags.provider):
        expected = (
            f"--cloud-provider={dialect}, or no --dialect"
            if dialect in (DATACRUNCH, VERDACLOUD)
            else "no --dialect beside it"
        )
        raise ConfigError([Problem("--cloud-provider", flags.provider, expected, "command line")])
    if dialect == AUTO:
        wanted = flags.provider
        if not wanted and source is not None:
            if source.where.startswith("DATACRUNCH_") or source.json:
                wanted = shape or DATACRUNCH
            else:
                wanted = shape or NATIVE
        return wanted or shape or (DATACRUNCH if flags.nodes else NATIVE)
    if source is not None and shape and shape != dialect and not _related(shape, dialect):
        expected = f"a configuration of {dialect}; its keys are those of {shape} (--dialect auto finds that by itself)"
        raise ConfigError([Problem("", None, expected, source.where)])
    if source is not None and dialect == NATIVE and source.json:
        raise ConfigError([Problem("", None, "no such variable beside --dialect native", source.where)])
    if (
        source is not None
        and not shape
        and dialect in (CA_VERDA, WEBHOOK)
        and any(key in tree.data for key in _NATIVE)
    ):
        expected = f"a configuration of {dialect}; its keys are those of native (--dialect auto finds that by itself)"
        raise ConfigError([Problem("", None, expected, source.where)])
    return dialect


def _no_flags_of_another(chosen: str, source: Source | None, tree: Tree, flags: Flags) -> None:
    """Groups of a command line that would be left out, because the configuration has bounds of its own."""
    kind = _shape(tree) or chosen
    if kind in (DATACRUNCH, VERDACLOUD):
        return
    where = source.where if source is not None else "environment"
    if flags.provider:
        expected = f"a configuration of {flags.provider}; its keys are those of {kind}"
        raise ConfigError([Problem("", None, expected, where)])
    if flags.nodes:
        expected = f"no such flag beside a configuration of {kind}, which has the bounds of its groups itself"
        raise ConfigError([Problem("--nodes", flags.nodes[0], expected, "command line")])


def _related(shape: str, dialect: str) -> bool:
    """Verda's own provider was called datacrunch first, and kept its configuration."""
    return {shape, dialect} == {VERDACLOUD, DATACRUNCH} and dialect == DATACRUNCH
