"""What a startup script is written in, as its first line says: only a shell understands lines that export variables."""

from __future__ import annotations

import re

CLOUD_CONFIG = "#cloud-config"
# Variables that every script gets and that say who its machine is.
IDENTITY = ("NODE_NAME", "PROVIDER_ID", "INSTANCE_ID", "LABELS", "TAINTS")
_SHELL = re.compile(r"\b(?:ba|da|z|k)?sh\b")


def is_shell(script: str) -> bool:
    """A script that says nothing is run by a shell."""
    first = script.lstrip("\ufeff").partition("\n")[0]
    if first.startswith(CLOUD_CONFIG):
        return False
    return not first.startswith("#!") or _SHELL.search(first) is not None
