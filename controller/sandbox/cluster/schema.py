"""What fields the kinds have: names, types, numbers on the wire, how lists merge, what is always written.

`schema.json` says it for every structure that the served kinds reach, read off the Go types of k8s.io/api
and k8s.io/apimachinery 0.36.3; PodGroup has what the three add-ons of that name have in common and apart. An entry is `number:name:type[:flags[:Go name of the type]]`; a type ends
in `[]` for lists and `{}` for maps. Flags: p a pointer in Go, so that zero and absent differ; w written even
when empty; m (with `=key`) merged by strategic merge patches; k its other keys are retained only when
named; i a structure whose fields stand among those of its parent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files

from controller.sandbox.cluster.resources import Resource

SCALARS = ("string", "bool", "int32", "int64", "double", "bytes", "strings")
SPECIAL = (
    "meta.Time",
    "meta.MicroTime",
    "meta.Duration",
    "meta.FieldsV1",
    "resource.Quantity",
    "intstr.IntOrString",
    "runtime.RawExtension",
)
ROOMS = {"rbac.authorization.k8s.io": "rbac", "": "core"}


@dataclass(frozen=True, slots=True)
class Field:
    number: int
    name: str
    kind: str
    shape: str = ""  # "", "[]" or "{}"
    flags: str = ""
    merge_key: str = ""
    go_name: str = ""
    pointer: bool = field(init=False)
    written: bool = field(init=False)
    merges: bool = field(init=False)
    structure: bool = field(init=False)  # its values, or the elements of its list, have fields of their own
    plain: type | None = field(init=False)  # the Python type that needs no second look

    def __post_init__(self) -> None:
        fill = object.__setattr__
        fill(self, "pointer", "p" in self.flags)
        fill(self, "written", "w" in self.flags)
        fill(self, "merges", "m" in self.flags)
        fill(self, "structure", self.kind not in (*SPECIAL, *SCALARS))
        simple = {"string": str, "bool": bool, "int64": int}.get(self.kind)
        fill(self, "plain", None if self.shape else simple)

    @property
    def go_type(self) -> str:
        """As decoding errors name it."""
        bare = f"v1.{self.kind.partition('.')[2]}" if "." in self.kind else self.kind
        if self.go_name:
            return f"[]v1.{self.go_name[2:]}" if self.go_name.startswith("[]") else f"v1.{self.go_name}"
        if self.shape == "{}":
            return f"map[string]{bare}"
        return f"[]{bare}" if self.shape else bare

    @property
    def element_type(self) -> str:
        bare = self.kind.partition(".")[2]
        return f"v1.{bare}" if bare else (f"v1.{self.go_name[2:]}" if self.go_name[:2] == "[]" else self.kind)


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    by_number: dict[int, Field]
    inlined: frozenset[int]
    fields: dict[str, Field] = field(default_factory=dict)  # as they stand in JSON

    @property
    def go_name(self) -> str:
        return self.name.partition(".")[2]


@lru_cache(maxsize=1)
def _raw() -> dict[str, str]:
    found: dict[str, str] = json.loads((files(__package__) / "schema.json").read_text("utf-8"))
    return found


@cache
def message(name: str) -> Message:
    """A structure by its name, as `core.PodSpec`; KeyError where there is none."""
    by_number: dict[int, Field] = {}
    named: dict[str, Field] = {}
    inlined: set[int] = set()
    for text in _raw()[name].split():
        number, json_name, kind, flags, go_name = (*text.split(":"), "", "")[:5]
        flags, _, key = flags.partition("=")
        shape = kind[-2:] if kind.endswith(("[]", "{}")) else ""
        made = Field(int(number), json_name, kind.removesuffix(shape), shape, flags, key, go_name)
        by_number[made.number] = made
        if "i" in flags:
            inlined.add(made.number)
            named |= message(made.kind).fields
        else:
            named[json_name] = made
    return Message(name, by_number, frozenset(inlined), named)


def name_of(group: str, kind: str) -> str:
    """The structure of a kind; KeyError where it is not served."""
    name = f"{ROOMS.get(group, group.partition('.')[0])}.{kind}"
    if name not in _raw():
        raise KeyError(name)
    return name


@cache
def of_resource(resource: Resource) -> Message:
    return message(name_of(resource.group, resource.kind))
