"""The process: it carries out one command line and always ends, with a documented exit code.

0 done, 1 failed, 2 configuration, 3 unreachable or no rights.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import typer

from controller.app.exits import DONE, FAILED, Ends
from controller.cli.verbs import app
from controller.report.logs import mask

_PROVIDERS_OWN = ("--config", "-c", "--port", "-p", "--log-level", "-l")


def main() -> None:
    """The entry point of the process, and of the image.

    The Python provider's manifests give arguments only, and no command: options without a verb are its.
    """
    if len(sys.argv) > 1 and sys.argv[1].partition("=")[0] in _PROVIDERS_OWN:
        from controller.cli.foreign import verda_cloud_provider

        verda_cloud_provider()
    end_with(app)


def end_with(command: Callable[[], object]) -> NoReturn:
    """Carry it out and end the process."""
    _leave(outcome(command))


def outcome(command: Callable[[], object] = app) -> int:
    """Carry out the command line: every expected trouble is one clear line and a documented exit code."""
    code = DONE
    try:
        command()
    except Ends as end:
        for line in end.lines:
            typer.echo(mask(line), err=True)
        code = end.code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED if end.code else DONE
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = FAILED
    except Exception:  # noqa: BLE001  (whatever it is, the process must end)
        typer.echo(mask(traceback.format_exc()), err=True, nl=False)
        code = FAILED
    return code


def _leave(code: int) -> NoReturn:
    """End without waiting for threads that may be stuck in a time-out; nothing depends on them any more."""
    atexit._run_exitfuncs()  # the log is flushed, temporary files with keys are removed
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or FAILED
    os._exit(code)


if __name__ == "__main__":
    main()
