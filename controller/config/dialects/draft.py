"""What a dialect writes: settings in our words, each with the place and the key where it stands in theirs.

Values are moved, not judged: the settings model judges them afterwards, and its complaint names the predecessor's
key and line, because `spelled` remembers which of theirs became which of ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.config.errors import Places, Problem, one_line
from controller.config.paths import show_path, suggestion
from controller.config.sources import Tree
from controller.config.values import Path

LONGEST_NAME = 20
_OURS = re.compile(r"\b(?:pools|machines)\[[0-9]+\]")


@dataclass
class Draft:
    dialect: str
    tree: Tree = field(default_factory=Tree)
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: dict[Path, str] = field(default_factory=dict)  # by our path: what changed its meaning
    spelled: dict[str, str] = field(default_factory=dict)  # our key, as shown -> theirs
    groups: dict[str, str] = field(default_factory=dict)  # the predecessor's groups -> pools
    prefixes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of its hostnames -> its groups
    files: list[str] = field(default_factory=list)  # that were read beside the settings file
    environ: dict[str, str] = field(default_factory=dict)  # what it adds to the environment
    fills_min: bool = False  # as the flags say that it did already
    empty: str = ""  # the configuration that was found and says nothing

    def put(self, path: Path, value: Any, where: str, theirs: str, note: str = "") -> None:
        self.tree.put(path, value, where)
        self.spelled[show_path(path)] = theirs
        if note:
            self.notes[path] = note

    def stands(self, path: Path, where: str, theirs: str) -> None:
        """Where a part of what was put stands in their file, if it was put together of several."""
        self.tree.places.where[path] = where
        self.spelled[show_path(path)] = theirs

    def wrong(self, theirs: str, value: str | None, expected: str, where: str) -> None:
        self.problems.append(Problem(theirs, value, expected, where))

    def warn(self, where: str, theirs: str, what: str) -> None:
        self.warnings.append(one_line(f"{where}: {theirs}: {what}" if theirs else f"{where}: {what}"))

    def theirs(self, problem: Problem) -> Problem:
        """The problem with the key that stands in the predecessor's file."""
        expected = _OURS.sub(lambda found: self._spelled(found[0]), problem.expected)
        return Problem(self._spelled(problem.key), problem.value, expected, problem.where)

    def _spelled(self, key: str) -> str:
        for ours in sorted(self.spelled, key=len, reverse=True):
            rest = key[len(ours) :]
            if key.startswith(ours) and (not rest or rest[0] in ".["):
                return self.spelled[ours] + rest
        return key


class Given:
    """A map of the predecessor's file, read key by key; what nobody asked for is told at the end."""

    def __init__(self, draft: Draft, data: Mapping[str, Any], places: Places, path: Path = ()) -> None:
        self.draft = draft
        self.data = data
        self.places = places
        self.path = path
        self._asked: set[str] = set()

    def has(self, key: str) -> bool:
        self._asked.add(key)
        return self.data.get(key) is not None

    def get(self, key: str) -> Any:
        self._asked.add(key)
        return self.data.get(key)

    def where(self, key: str = "") -> str:
        return self.places.of((*self.path, key) if key else self.path)

    def theirs(self, key: str = "") -> str:
        return show_path((*self.path, key) if key else self.path)

    def stands(self, below: Path) -> tuple[str, str]:
        """The place of a part, and its key as it stands there."""
        path = (*self.path, *below)
        return self.places.of(path), show_path(path)

    def move(self, key: str, to: Path, *, note: str = "", as_list: bool = False) -> None:
        """Their value under our key, as it is; `as_list`: theirs is one, ours are several."""
        if self.has(key):
            value = self.data[key]
            self.draft.put(to, [value] if as_list else value, self.where(key), self.theirs(key), note)
            if as_list:
                self.draft.spelled[show_path((*to, 0))] = self.theirs(key)

    def choice(self, key: str, choices: Mapping[str, Any], default: Any) -> Any:
        """What one of their words means; a word that is none of them is a problem."""
        if not self.has(key):
            return default
        value = self.data[key]
        if isinstance(value, str) and value in choices:
            return choices[value]
        words = ", ".join(word for word in choices if word)
        shown = self.places.problem((*self.path, key), value, f"one of {words}")
        self.draft.problems.append(shown)
        return default

    def part(self, key: str, what: str = "a map of keys and values") -> Given | None:
        """The map below a key."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.draft.problems.append(self.places.problem((*self.path, key), value, what))
            return None
        return Given(self.draft, value, self.places, (*self.path, key))

    def entry(self, key: str) -> Given | None:
        """The map below a key of a map of maps; one that was begun must not be left out unnoticed."""
        what = "a map of keys and values"
        if key in self.data and self.data[key] is None:
            self.draft.problems.append(self.places.problem((*self.path, key), None, what))
        return self.part(key, what)

    def parts(self) -> Iterable[tuple[str, Given]]:
        """Every entry of a map of maps."""
        for key in self.data:
            found = self.entry(key)
            if found is not None:
                yield key, found

    def leftover(self, known: Iterable[str], quiet: str = "_comment") -> None:
        """Keys that nothing was read from: the predecessor ignores them, and so they are no errors."""
        names = list(known)
        for key in self.data:
            if key not in self._asked and not key.startswith(quiet):
                hint = suggestion(key, names)
                self.draft.warn(self.where(key), self.theirs(key), f"not known, has no effect{hint}")


def pool_name(group: str) -> str:
    """A name that fits hostnames: lower case, and of one that is too long the beginning and a mark of the rest."""
    name = re.sub(r"[^a-z0-9]+", "-", group.lower()).strip("-")
    if len(name) > LONGEST_NAME:
        mark = hashlib.sha256(group.encode()).hexdigest()[:4]
        name = f"{name[: LONGEST_NAME - 5].rstrip('-')}-{mark}"
    return name


def name_pool(draft: Draft, group: str, path: Path, where: str, theirs: str) -> None:
    """The pool's name; where it had to differ from the group's this is told."""
    draft.tree.places.where[path] = where  # of what is missing
    name = pool_name(group)
    note = "" if name == group else f"was {group}: part of every hostname, so short and in lower case"
    if not name:
        draft.wrong(theirs, None, "a name with letters or digits (a-z, 0-9) in it", where)
        name = f"nameless-{len(draft.groups)}"  # so that nothing else is wrong with it
    draft.put((*path, "name"), name, where, theirs, note)
    draft.groups[group] = name
