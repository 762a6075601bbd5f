"""The process: it carries out one command line and always ends, with a documented exit code.

0 done, 1 failed, 2 configuration, 3 unreachable or no rights.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from typing import NoReturn

import typer

from controller.app.exits import DONE, FAILED, Ends
from controller.cli.verbs import app


def main() -> None:
    """The entry point of the process."""
    _leave(outcome())


def outcome() -> int:
    """Carry out the command line: every expected trouble is one clear line and a documented exit code."""
    code = DONE
    try:
        app()
    except Ends as end:
        for line in end.lines:
            typer.echo(line, err=True)
        code = end.code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED if end.code else DONE
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = FAILED
    except Exception:  # noqa: BLE001  (whatever it is, the process must end)
        traceback.print_exc()
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
