"""Startup scripts that come inside of a configuration: decoded, and looked through for what should not be in them.

What is found is told, once, and never shown. A script is the user's own and is used as it is.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from controller.config.dialects.draft import Draft

_CREDENTIALS = re.compile(
    r"client_secret|DATACRUNCH_CLIENT_SECRET|VERDA_CLIENT_SECRET|/oauth2/token", re.IGNORECASE
)
_LARGEST = 200_000


def decoded(text: object) -> str | None:
    """The text in a base64 value, or None if it is none."""
    if not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
        found = raw.decode()
    except (binascii.Error, ValueError):
        return None
    return found if found.strip() and "\x00" not in found and len(found) <= _LARGEST else None


def look_through(draft: Draft, script: str, where: str, theirs: str, environ: Mapping[str, str]) -> None:
    secrets = [environ.get(name, "").strip() for name in ("DATACRUNCH_CLIENT_SECRET", "VERDA_CLIENT_SECRET")]
    if _CREDENTIALS.search(script) or any(secret and secret in script for secret in secrets):
        draft.warn(
            where,
            theirs,
            "the script uses the account's credentials, so whoever reads a machine's disk or the project's scripts has "
            "the whole account: take them out; the script gets PROVIDER_ID, INSTANCE_ID and NODE_NAME as variables, and "
            "is deleted by the autoscaler (docs/from-datacrunch.md)",
        )
