"""How the process ends tells no secret: neither in the lines of an expected trouble nor in a traceback."""

from __future__ import annotations

import pytest

from controller.app.exits import FAILED, UNREACHABLE, Ends
from controller.cli.main import outcome
from controller.report import logs

KEPT = "kept-from-everybody"


@pytest.mark.parametrize(
    ("error", "code"),
    [(Ends(UNREACHABLE, "fine", f"it said {KEPT}"), UNREACHABLE), (RuntimeError(f"it said {KEPT}"), FAILED)],
)
def test_what_ends_the_process_is_told_without_secrets(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.keep_secret(KEPT)

    def command() -> None:
        try:
            raise KeyError(KEPT)
        except KeyError as cause:
            raise error from cause

    assert outcome(command) == code
    told = capsys.readouterr().err
    assert "it said ***" in told
    assert KEPT not in told
