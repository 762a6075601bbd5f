"""The command line as a process: what it prints and how it ends, with a bound on its time."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

SECRET = "a-secret-that-must-not-show"


async def cli(
    *words: str, env: Mapping[str, str] | None = None, within: float = 60.0
) -> tuple[int, str, str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("VERDA_", "DATACRUNCH_", "GPU_AUTOSCALER_", "KUBE"))
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller.cli.main", *words,
        env=kept | dict(env or {}), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(within):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    shown, told = out.decode(), err.decode()
    assert SECRET not in shown + told
    assert "Traceback" not in told, told
    return process.returncode, shown, told
