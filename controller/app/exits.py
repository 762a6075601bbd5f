"""How the program ends: exit codes, and errors that carry one clear line for a person.

0 done · 1 failed · 2 configuration · 3 unreachable or no rights.
"""

from __future__ import annotations

DONE = 0
FAILED = 1
CONFIGURATION = 2
UNREACHABLE = 3


class Ends(Exception):
    """The program ends with this code; every line says what to do."""

    def __init__(self, code: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines
