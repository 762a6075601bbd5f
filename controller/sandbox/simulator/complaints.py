"""What the program tells as an error while it goes on: a bug that it survives is one all the same."""

from __future__ import annotations

import logging

from controller.sandbox.simulator.judge import Judge


class Complaints(logging.Handler):
    def __init__(self, judge: Judge) -> None:
        super().__init__(logging.ERROR)
        self._judge = judge

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._judge.violated(f"the program complains: {record.getMessage()}: {error!r}")
