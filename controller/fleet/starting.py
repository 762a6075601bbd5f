"""How machines start now, as a short text that is another one when that changes.

Settings decide it, and the join tokens. A token is told apart by the version of its Secret and by nothing
made from the token itself, because the text is stored in a ConfigMap, which more people may read.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

from controller.cluster.protocol import ClusterError, Writer

log = logging.getLogger("gpu_autoscaler.fleet")


async def starting_now(writer: Writer, settings: str, secrets: Sequence[str], before: str) -> str:
    """`settings`: a digest of theirs; `secrets`: names; `before`: the last such text, whose second half
    goes on being said while a Secret cannot be read."""
    if not settings or not secrets:
        return settings
    versions = []
    for name in secrets:
        try:
            versions.append(f"{name} {await writer.secret_version(name)}")
        except ClusterError as error:
            log.info(
                "it cannot be told whether a join token changed",
                extra={"secret": name, "error": error.message},
            )
            return f"{settings}.{before.partition('.')[2]}"
    return f"{settings}.{hashlib.sha256(chr(10).join(versions).encode()).hexdigest()[:8]}"
