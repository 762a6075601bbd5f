"""The sandboxes and the demo as processes.

Nothing of the controller is imported here: a sandbox is up in a third of the time without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.app.exits import CONFIGURATION, FAILED, Ends
from controller.report.logs import set_up


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
