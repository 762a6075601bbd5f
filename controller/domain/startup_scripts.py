"""What startup scripts of users' own have in common: who runs them, and values where they say `{{ .NAME }}`.

Only a shell understands lines that export variables; the first line says whether it is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CLOUD_CONFIG = "#cloud-config"
# Variables that every script gets and that say who its machine is.
IDENTITY = ("NODE_NAME", "PROVIDER_ID", "INSTANCE_ID", "LABELS", "TAINTS")
GIVEN = (*IDENTITY, "GPUS", "SCRIPT_NAME")
_FIELD = re.compile(r"\{\{(?P<left>-?)\s*\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*(?P<right>-?)\}\}")
_SHELL = re.compile(r"\b(?:ba|da|z|k)?sh\b")


def is_shell(script: str) -> bool:
    """A script that says nothing is run by a shell."""
    first = script.lstrip("\ufeff").partition("\n")[0]
    if first.startswith(CLOUD_CONFIG):
        return False
    return not first.startswith("#!") or _SHELL.search(first) is not None


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Values in double braces; a `-` beside them takes the blanks on that side away. Other names stay as they are."""
    made: list[str] = []
    at, trims = 0, False
    for field in _FIELD.finditer(text):
        if field["name"] not in values:
            continue
        before = text[at : field.start()]
        before = before.lstrip() if trims else before
        made += [before.rstrip() if field["left"] else before, values[field["name"]]]
        at, trims = field.end(), bool(field["right"])
    return "".join([*made, text[at:].lstrip() if trims else text[at:]])
