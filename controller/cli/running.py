"""Commands that go on for a while: the controller, the demo, the sandboxes."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable

from controller.app.exits import CONFIGURATION, FAILED, Ends
from controller.app.process import identity, load_settings, run_until_told, serve, set_up_logs, until_told
from controller.app.program import Program
from controller.report.logs import set_up

__all__ = ["identity", "load_settings", "run_controller", "until_told"]


def run_controller(
    *,
    config: str | None,
    kubeconfig: str,
    listen: str,
    dry_run: bool,
    once: bool,
    log_level: str,
    log_format: str,
) -> None:
    set_up_logs(log_level, log_format)
    loaded = load_settings(config)

    async def run(program: Program) -> None:
        await (_once(program) if once else program.run(listen))

    run_until_told(serve(loaded, kubeconfig, run, dry_run=dry_run))


def run_served(
    *,
    config: str | None,
    kubeconfig: str,
    listen: str,
    insecure: bool,
    log_level: str,
    log_format: str,
) -> None:
    """With somebody else at the wheel. The module that serves it is optional, and so is asked for by name."""
    try:
        served = importlib.import_module("compat_grpc.running")
    except ImportError as error:
        raise Ends(
            CONFIGURATION,
            f"--driver externalgrpc: {error.name or 'grpc'} is not installed; install the extra grpc: "
            "pip install 'verda-gpu-autoscaler[grpc]'",
        ) from error
    served.run(
        config=config,
        kubeconfig=kubeconfig,
        listen=listen,
        insecure=insecure,
        log_level=log_level,
        log_format=log_format,
    )


async def _once(program: Program) -> None:
    from controller.report.plan_json import plan_lines

    await program.once()
    for line in plan_lines(program.loop.plan, program.fleet.catalogue.currency):
        print(line)


def run_sandbox(serve: Callable[[], Awaitable[None]]) -> None:
    set_up("info", "text")
    try:
        asyncio.run(_await(serve))
    except (ValueError, OverflowError) as error:
        raise Ends(CONFIGURATION, " ".join(str(error).split())) from error
    except OSError as error:
        raise Ends(FAILED, f"the sandbox cannot be started: {error}") from error


async def _await(serve: Callable[[], Awaitable[None]]) -> None:
    await serve()


def run_demo(*, as_json: bool, seed: int) -> None:
    from controller.sandbox.demo.story import tell

    set_up("error", "text")
    if not asyncio.run(tell(as_json=as_json, seed=seed)):
        raise Ends(FAILED, "the story did not go as it should; the summary says what differs")
