"""The command line as a process: what it prints and how it ends, with a bound on its time."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests import warm

SECRET = "a-secret-that-must-not-show"


async def cli(
    *words: str, env: Mapping[str, str] | None = None, within: float = 60.0
) -> tuple[int, str, str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("VERDA_", "DATACRUNCH_", "GPU_AUTOSCALER_", "KUBE"))
    }
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = warm.start(*words, env=kept | dict(env or {}), out=out, err=err)
        try:
            async with asyncio.timeout(within):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        shown, told = out.read_text(), err.read_text()
    assert SECRET not in shown + told
    assert "Traceback" not in told, told
    return code, shown, told
