"""The controller as users start it, in a process of its own, beside a stage in this one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from controller.sandbox.demo.stage import QUICK, Stage, merged

START_WITHIN = 60.0


class Started:
    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.pid = process.pid
        self.url = url


@contextlib.asynccontextmanager
async def controller(stage: Stage, settings: Mapping[str, Any]) -> AsyncIterator[Started]:
    """Started and in step; ended with SIGTERM."""
    with TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
        config, port = Path(folder) / "config.yaml", await _free_port()
        await asyncio.to_thread(config.write_text, json.dumps(merged(QUICK, settings)))
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("VERDA_", "DATACRUNCH_", "GPU_AUTOSCALER_"))
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "controller.cli.main", "run", "--config", str(config),
            "--kubeconfig", stage.kubeconfig, "--listen", f"127.0.0.1:{port}", "--log-level", "error",
            env=kept | {
                "VERDA_CLIENT_ID": "bench", "VERDA_CLIENT_SECRET": "bench-key", "VERDA_BASE_URL": stage.cloud_url + "/v1",
            },
            stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            await _in_step(process, url)
            yield Started(process, url)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                await process.wait()


async def _free_port() -> int:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def _in_step(process: asyncio.subprocess.Process, url: str) -> None:
    """Until it is ready, leads, and has read ledger and inventory."""
    async with asyncio.timeout(START_WITHIN), aiohttp.ClientSession() as http:
        while process.returncode is None:
            with contextlib.suppress(aiohttp.ClientError):
                async with http.get(f"{url}/readyz") as ready, http.get(f"{url}/status") as status:
                    if ready.status == 200 and (await status.json())["leader"]:
                        return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"the controller ended with code {process.returncode}")
