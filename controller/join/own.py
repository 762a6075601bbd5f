"""A startup script of the user's own, made ready for one machine: marked as ours, and told who it makes.

It is used as it is, but for two comment lines after the first and the variables that it is given. Where it says
`{{ .NAME }}` for one of them the value stands there instead, as in the scripts of predecessors; any other text in
double braces is the script's own business. INSTANCE_ID is the hostname: a provider ID made from it is found again,
and the cloud's own id is not known before the machine exists.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from controller.domain import names
from controller.domain.startup_scripts import CLOUD_CONFIG, fill_in, is_shell
from controller.join import variables
from controller.join.protocol import JoinError, Joining

_SHELL = "#!/bin/bash"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LARGEST = 200_000


def given(joining: Joining, more: Mapping[str, str]) -> dict[str, str]:
    """The variables of a script; those of the settings cannot replace ours."""
    labels = variables.own_labels(joining)
    return {
        **more,
        "NODE_NAME": joining.name,
        "PROVIDER_ID": joining.provider_id,
        "INSTANCE_ID": joining.name,
        "LABELS": ",".join(f"{key}={value}" for key, value in labels.items()),
        "TAINTS": ",".join(str(taint) for taint in joining.taints),
        "GPUS": str(joining.gpus),
        "SCRIPT_NAME": names.script_name(joining.cluster_id, joining.intent),
    }


def own_script(joining: Joining, text: str, more: Mapping[str, str]) -> str:
    """Pure. Raises JoinError, whose message holds nothing of the script."""
    variables.check_taints(joining.taints)
    if not text.strip() or "\x00" in text or len(text) > LARGEST:
        raise JoinError("the startup script is empty, or no text of a sensible size")
    values = given(joining, more)
    text = fill_in(text.replace("\r\n", "\n"), values)
    first, _, rest = text.lstrip("\ufeff").partition("\n")
    head = [first]
    if not first.startswith(("#!", CLOUD_CONFIG)):
        head, rest = [_SHELL], text
    marks = variables.comments(joining)
    lines = [*head, marks["MARK"], marks["JOIN"]]
    if is_shell(head[0]):
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(values.items())]
    return "\n".join([*lines, rest]).rstrip("\n") + "\n"


def uploaded_id(answer: str) -> str:
    """The id of a script that a script server uploaded itself, or "": then the answer is the script."""
    text = answer.strip().strip('"').lower()
    if text.startswith("{"):
        try:
            found = json.loads(answer)
        except ValueError:
            return ""
        text = str(found.get("id") or "").lower() if isinstance(found, dict) else ""
    return text if _UUID.fullmatch(text) else ""
