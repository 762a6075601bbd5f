"""The tables of docs/sandbox-cloud.md, written from the code. `python -m controller.sandbox.cloud.page`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

from controller.sandbox.cloud.settings import Settings
from controller.sandbox.fault_rules import FAULTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "sandbox-cloud.md"
QUESTIONS: Mapping[int, str] = {
    1: "Is an unknown instance id a 400 or a 404?",
    2: "How is the id of a new thing written, and what is its content type?",
    3: "Is a script or a key by id an object or an array of one?",
    4: "What becomes of the OS disk when a delete names no `volume_ids`?",
    5: "Can an instance be deleted before it runs?",
    6: "Is a create without SSH keys accepted; how long may a hostname and a description be?",
    7: "How long can a discontinued instance be read, and is it in the list?",
    8: "What is the body of a 429, and does a query string make another path?",
    9: "How long does a refresh token live, what are the quotas, how long does a boot take?",
    10: "May two instances have one hostname?",
    11: "Where does `validating` stand, and does `pending` still occur?",
}


def knobs() -> str:
    shown, expected = Settings().shown(), Settings.expected()
    rows = [
        f"| `{each.name}` | `{_written(shown[each.name])}` | {expected[each.name]} | {each.metadata['text']} |"
        for each in fields(Settings)
    ]
    return "\n".join(["| knob | default | takes | meaning |", "|---|---|---|---|", *rows])


def questions() -> str:
    shown = Settings().shown()
    rows = []
    for number, question in QUESTIONS.items():
        answers = [
            f"`{each.name}` (`{_written(shown[each.name])}`)"
            for each in fields(Settings)
            if each.metadata["question"] == number
        ]
        rows.append(f"| {number} | {question} | {', '.join(answers)} |")
    return "\n".join(["| | open question | answered by (default) |", "|---|---|---|", *rows])


def faults() -> str:
    rows = [
        f"| `{name}` | {'yes' if fault.commits else 'no'} | {fault.text} |" for name, fault in FAULTS.items()
    ]
    return "\n".join(["| fault | the request counts | what the client sees |", "|---|---|---|", *rows])


def _written(value: object) -> str:
    return json.dumps(value).replace("|", "\\|")


BLOCKS: Mapping[str, Callable[[], str]] = {"knobs": knobs, "questions": questions, "faults": faults}


def render(page: str) -> str:
    """The page with its tables as the code has them now."""
    for name, block in BLOCKS.items():
        before, mark, rest = page.partition(f"<!-- {name}: written from the code -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not mark or not end:
            raise ValueError(f"the page has no place for the table of {name}")
        page = f"{before}{mark}\n{block()}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
