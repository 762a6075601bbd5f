"""YAML with the line of every value, and without YAML's surprises.

The tree is composed by PyYAML and read here: keys are always text (YAML 1.1 reads `on:` as the key
true), numbers are what people mean by a number (not 1:30 for ninety or 010 for eight), dates stay
text, a key given twice is an error, and an alias cannot grow the file beyond a bound.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from controller.config.errors import ConfigError, Places, Problem
from controller.config.paths import show_path
from controller.config.values import Path

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]{1,2})?")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_TOKEN = re.compile(r"<[a-z ]+>")
_TAG = "tag:yaml.org,2002:"
_MOST_NODES = 100_000
_DEEPEST = 50


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.places = Places(name)
        self.problems: list[Problem] = []
        self.count = 0

    def at(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"

    def stop(self, node: yaml.Node, expected: str) -> ConfigError:
        return ConfigError([Problem("", None, expected, self.at(node))])

    def value(self, node: yaml.Node, path: Path, where: str) -> Any:
        self.count += 1
        if self.count > _MOST_NODES or len(path) > _DEEPEST:
            raise self.stop(node, "settings of a sensible size; an alias here repeats too much, or itself")
        self.places.where[path] = where
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*path, n), self.at(item)) for n, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag.startswith(_TAG):
            return self.scalar(node, path)
        raise self.stop(
            node, "plain YAML without tags (! before a value; put the value in quotes if it is meant)"
        )

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = str(node.value)
        match node.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool" if node.style is None:
                self.places.raw[path] = text
                return text.lower() in ("true", "on", "yes", "y")
            case "int" if _INT.fullmatch(text) and len(text) < 20:
                return int(text)
            case "float" if _FLOAT.fullmatch(text) and len(text) < 40:
                return float(text)
        return text

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.stop(key_node, "a text as key")
            if key_node.tag == _TAG + "merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in lines:
                expected = f"every key once; it is on line {lines[key]} already"
                self.problems.append(Problem(show_path((*path, key)), None, expected, f"{self.name}:{line}"))
                continue
            lines[key] = line
            made[key] = self.value(value_node, (*path, key), f"{self.name}:{line}")
        for other in merged:
            if not isinstance(other, yaml.MappingNode):
                raise self.stop(other, "a map after <<")
            aside = self.places
            self.places = Places(self.name)
            extra = self.value(other, path, self.at(other))
            inside, self.places = self.places, aside
            for key in [key for key in extra if key not in made]:
                made[key] = extra[key]
                start = (*path, key)
                self.places.where.update({p: w for p, w in inside.where.items() if p[: len(start)] == start})
                self.places.raw.update({p: w for p, w in inside.raw.items() if p[: len(start)] == start})
        return made


def parse_yaml(text: str, name: str) -> tuple[dict[str, Any], Places, list[Problem]]:
    """The settings of one document, the place of each, and keys given twice. Raises if it is no YAML."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError([Problem("", None, "text without control characters", f"{name}:{line}")]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise ConfigError([Problem("", None, _explain(error), where)]) from None
    except RecursionError:
        raise ConfigError([Problem("", None, "settings of a sensible size", name)]) from None
    if node is None:
        return {}, Places(name), []
    reader = _Reader(name)
    if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null":
        return {}, reader.places, []
    if not isinstance(node, yaml.MappingNode):
        raise reader.stop(node, "a map of settings, such as `pools:` on a line of its own")
    data = reader.value(node, (), name)
    return data, reader.places, reader.problems


def _unless_a_token(quoted: re.Match[str]) -> str:
    return quoted[0] if len(quoted[1]) < 3 or _TOKEN.fullmatch(quoted[1]) else "…"


def _explain(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's words without its excerpt, which may hold a secret, and so may a quoted word."""
    problem = _QUOTED.sub(_unless_a_token, error.problem or "")
    if "another document" in problem:
        return "one YAML document, and not a second one after ---"
    if "'\\t'" in problem or "\t" in problem:
        return "valid YAML: tabs cannot indent, use spaces"
    return f"valid YAML: {problem or 'it cannot be read'}"
