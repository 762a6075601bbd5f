"""What is told of an answer that repeats a script: all up to the first of its lines, and at once."""

from __future__ import annotations

import random
import time

from controller.cloud.verda.uploads import HEAD, Uploads

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def test_words_end_where_the_first_line_of_a_script_begins() -> None:
    uploads = Uploads()
    uploads.sent("export JOIN=hunter2-hunter2\n  curl -k https://u:pw@x\nshort\n")
    first, second = "export JOIN=hunter2", "curl -k https://u:pw@x"
    assert uploads.hide(f"bad:\n{second} {first}") == "bad: ***"
    assert uploads.hide(first[:HEAD]) == "***"
    assert uploads.hide(f"a  {first[: HEAD - 1]} short") == f"a  {first[: HEAD - 1]} short"
    assert uploads.hide("") == ""


def test_a_long_answer_takes_no_time_however_many_lines_are_known() -> None:
    rng = random.Random(1)
    uploads = Uploads()
    uploads.sent("\n".join("".join(rng.choices(LETTERS, k=30)) for _ in range(20_000)))
    words = "".join(rng.choices(LETTERS, k=200_000))
    began = time.process_time()
    assert uploads.hide(words) == words
    assert time.process_time() - began < 0.4  # it was longer than a second, with the loop standing still
